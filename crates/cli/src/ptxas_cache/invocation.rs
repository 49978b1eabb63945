//! A command line whose results are cached: one input file, and options that are understood.

use std::ffi::OsString;
use std::path::Path;

use crate::ptxas::options;
use input::ShowName as _;

/// The file that ptxas writes to by default.
const OUTPUT: &str = "elf.o";

/// The target of a key without `-arch`: it depends on the ptxas, which is in the key too.
const DEFAULT_TARGET: &str = "default";

/// Options whose command lines are not cached.
const NOT_CACHED: [&str; 9] = [
    // Of ptxkit's own ptxas.
    "check",
    // The cubin contains the names on the command line.
    "device-debug",
    // These have no output file.
    "help",
    "list-arch",
    "version",
    // They name files whose content would have to be in the key.
    "apply-controls",
    "options-file",
    // make says how many threads there are.
    "jobserver",
    // The PTX is on the command line.
    "input-as-string",
];

/// A word of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The name of the input file.
    Input,
    /// The name of the output file, behind this much of an option: `-o=`, or nothing.
    Output(&'static str),
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    words: Vec<Word>,
    input: String,
    output: Option<String>,
    target: Option<String>,
    /// The names of the other options as they are written, and their values, in order.
    options: Vec<(String, Option<String>)>,
}

impl Invocation {
    /// Reads a command line. The error is the reason why it is not cached.
    pub fn read(arguments: &[OsString]) -> Result<Invocation, String> {
        let mut invocation = Invocation {
            words: Vec::new(),
            input: String::new(),
            output: None,
            target: None,
            options: Vec::new(),
        };
        let mut arguments = arguments.iter().map(|word| {
            let text = word.to_str();
            text.ok_or_else(|| format!("{} is not UTF-8", Path::new(word).shown()))
        });
        while let Some(word) = arguments.next() {
            let word = word?;
            let Some(option) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
                invocation.set_input(word)?;
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let Some(found) = options::named(name) else {
                return Err(format!("the option {word} is not known"));
            };
            if NOT_CACHED.contains(&found.long) {
                return Err(format!("{word} is not cached"));
            }
            // `-O3` is whole; a plain `-O` takes no value from the next word.
            let value = match (found.takes_value, found.stuck, value) {
                (false, _, Some(_)) => return Err(format!("{word} has a value")),
                (false, _, None) => None,
                (true, Some(_), Some(_)) => return Err(format!("{word} has two values")),
                (true, Some(stuck), None) => Some((stuck, true)),
                (true, None, Some(value)) => Some((value, true)),
                (true, None, None) if found.long == "opt-level" => {
                    return Err(format!("{word} has no value"));
                }
                (true, None, None) => match arguments.next().transpose()? {
                    Some(value) if !value.starts_with('-') => Some((value, false)),
                    _ => return Err(format!("{word} has no value")),
                },
            };
            invocation.set_option(word, &found, value)?;
        }
        if invocation.input.is_empty() {
            return Err("there is no input file".into());
        }
        if !invocation.target().starts_with("sm_") && invocation.target.is_some() {
            return Err(format!("{} makes no cubin", invocation.target()));
        }
        Ok(invocation)
    }

    fn set_input(&mut self, word: &str) -> Result<(), String> {
        if !self.input.is_empty() {
            return Err("there are several input files".into());
        }
        if !is_plain(word) {
            return Err(format!(
                "the input {} is no plain file name",
                Path::new(word).shown()
            ));
        }
        self.input = word.to_owned();
        self.words.push(Word::Input);
        Ok(())
    }

    /// Adds an option, which is written `word`, with its value and whether that is in the word.
    fn set_option(
        &mut self,
        word: &str,
        found: &options::Named<'_>,
        value: Option<(&str, bool)>,
    ) -> Result<(), String> {
        if found.long == "output-file" {
            let Some((value, is_in_word)) = value.filter(|_| self.output.is_none()) else {
                return Err("there are several output files".into());
            };
            if !is_plain(value) {
                return Err(format!(
                    "the output {} is no plain file name",
                    Path::new(value).shown()
                ));
            }
            self.output = Some(value.to_owned());
            if is_in_word {
                let is_short = found.name == "o";
                let start = if is_short { "-o=" } else { "--output-file=" };
                self.words.push(Word::Output(start));
            } else {
                self.words.push(Word::Other(word.to_owned()));
                self.words.push(Word::Output(""));
            }
            return Ok(());
        }
        if found.long == "gpu-name" {
            // ptxas uses the last.
            self.target = value.map(|(value, _)| value.to_owned());
        }
        self.words.push(Word::Other(word.to_owned()));
        if let Some((value, false)) = value {
            self.words.push(Word::Other(value.to_owned()));
        }
        self.options.push((
            found.name.to_owned(),
            value.map(|(value, _)| value.to_owned()),
        ));
        Ok(())
    }

    pub fn input(&self) -> &Path {
        Path::new(&self.input)
    }

    pub fn output(&self) -> &Path {
        Path::new(self.output.as_deref().unwrap_or(OUTPUT))
    }

    /// The architecture as it is written.
    pub fn target(&self) -> &str {
        self.target.as_deref().unwrap_or(DEFAULT_TARGET)
    }

    /// The bytes of the input file. The error is the reason why the real ptxas is run.
    pub fn read_input(&self) -> Result<Vec<u8>, String> {
        let path = self.input();
        let failed = |error| format!("{} cannot be read: {error}", path.shown());
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(format!("{} is not a regular file", path.shown()));
        }
        input::read(path).map_err(failed)
    }

    /// All options but the output file, in order. `-arch=sm_90` and `-arch sm_90` are the same,
    /// as are `-O3` and `-O=3`.
    pub fn key_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in &self.options {
            bytes.extend_from_slice(name.as_bytes());
            if let Some(value) = value {
                bytes.push(b'=');
                bytes.extend_from_slice(value.as_bytes());
            }
            // No word of a command line contains it.
            bytes.push(0);
        }
        bytes
    }

    /// The same command line for other files.
    pub fn arguments(&self, input: &Path, output: &Path) -> Vec<OsString> {
        let with = |start: &str, path: &Path| {
            let mut word = OsString::from(start);
            word.push(path);
            word
        };
        let words = self.words.iter().map(|word| match word {
            Word::Input => input.into(),
            Word::Output(start) => with(start, output),
            Word::Other(word) => word.into(),
        });
        let mut words: Vec<OsString> = words.collect();
        if self.output.is_none() {
            words.push(with("-o=", output));
        }
        words
    }
}

/// Whether ptxas certainly takes a word for the name of one file: `,` separates files, `@` and `-`
/// start other things, and quotes and backslashes might be taken off.
fn is_plain(word: &str) -> bool {
    let is_odd = |c: char| matches!(c, ',' | '"' | '\'' | '\\') || c.is_control();
    !word.is_empty() && !word.starts_with(['-', '@']) && !word.contains(is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Invocation, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Invocation::read(&words)
    }

    fn replaced(line: &str) -> String {
        let words = read(line).unwrap();
        let words = words.arguments(Path::new("IN"), Path::new("OUT"));
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn triton_xla_and_nvcc_are_cached() {
        let triton = read("-lineinfo -v --gpu-name=sm_90a /tmp/x.ptx -o /tmp/x.ptx.o").unwrap();
        assert_eq!(triton.input(), Path::new("/tmp/x.ptx"));
        assert_eq!(triton.output(), Path::new("/tmp/x.ptx.o"));
        assert_eq!(triton.target(), "sm_90a");
        assert_eq!(triton.key_bytes(), b"lineinfo\0v\0-gpu-name=sm_90a\0");
        let xla = read("/tmp/x.ptx -o /tmp/x.cubin -arch=sm_90 --warn-on-spills -O2").unwrap();
        assert_eq!(xla.key_bytes(), b"arch=sm_90\0-warn-on-spills\0O=2\0");
        let nvcc = read("-arch=sm_80 -m64 x.ptx -o x.cubin").unwrap();
        assert_eq!(nvcc.key_bytes(), b"arch=sm_80\0m=64\0");
        let plain = read("x.ptx").unwrap();
        assert_eq!(plain.output(), Path::new("elf.o"));
        assert_eq!(plain.target(), "default");
    }

    #[test]
    fn the_files_are_replaced_where_they_are() {
        for (line, expected) in [
            ("-v a.ptx -o b -O3", "-v IN -o OUT -O3"),
            ("-o=b -arch sm_80 a.ptx", "-o=OUT -arch sm_80 IN"),
            ("--output-file=b a.ptx", "--output-file=OUT IN"),
            ("--output-file b a.ptx", "--output-file OUT IN"),
            ("a.ptx -v", "IN -v -o=OUT"),
        ] {
            assert_eq!(replaced(line), expected);
        }
    }

    #[test]
    fn the_form_of_an_option_does_not_matter_and_all_else_does() {
        let key = |line: &str| read(line).unwrap().key_bytes();
        assert_eq!(key("-arch=sm_80 a"), key("b -arch sm_80 -o c"));
        assert_eq!(key("-O3 a"), key("-O=3 a"));
        let different = [
            "-v -w a",
            "-w -v a",
            "-v a",
            "-v -v a",
            "-maxntid=1 a",
            "-maxntid=2 a",
        ];
        let keys: std::collections::BTreeSet<_> = different.map(key).into_iter().collect();
        assert_eq!(keys.len(), different.len());
    }

    #[test]
    fn what_is_not_understood_is_not_cached() {
        for (line, why) in [
            ("", "there is no input file"),
            ("-v", "there is no input file"),
            ("a.ptx b.ptx", "there are several input files"),
            ("a.ptx,b.ptx", "the input a.ptx,b.ptx is no plain file name"),
            ("-", "the input - is no plain file name"),
            ("@options", "the input @options is no plain file name"),
            ("a.ptx -o b -o c", "there are several output files"),
            ("a.ptx -o b,c", "the output b,c is no plain file name"),
            ("a.ptx -o -v", "-o has no value"),
            ("a.ptx -o", "-o has no value"),
            ("a.ptx --new", "the option --new is not known"),
            ("a.ptx -jobserver", "-jobserver is not cached"),
            ("a.ptx --version", "--version is not cached"),
            ("a.ptx -g", "-g is not cached"),
            ("-ias x", "-ias is not cached"),
            ("-optf x", "-optf is not cached"),
            ("a.ptx -v=1", "-v=1 has a value"),
            ("a.ptx -O", "-O has no value"),
            ("a.ptx -arch=compute_90", "compute_90 makes no cubin"),
            ("a.ptx -arch=lto_90", "lto_90 makes no cubin"),
        ] {
            assert_eq!(read(line).unwrap_err(), why, "{line}");
        }
    }
}
