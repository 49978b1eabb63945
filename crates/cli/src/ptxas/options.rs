//! The command line of ptxas: `--long-name` and `-short`, with the value behind `=` or as the next
//! argument.

use std::path::{Path, PathBuf};

use ptxkit::image::Target;
use ptxkit::ptx::isa::target;

/// What stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The file that ptxas writes to by default.
const OUTPUT: &str = "elf.o";

/// The value of an option.
#[derive(Clone, Copy)]
enum Value {
    None,
    Any,
    Boolean,
    Number,
    Registers,
    OneOf(&'static [&'static str]),
}

/// Long name, short name, value. Those that change only how code for a GPU is generated are read
/// and have no effect.
///
/// [`ptxas_cache`](crate::ptxas_cache) caches command lines with these options, except those that it
/// lists. An option that names a file to read or to write must be added to that list.
const OPTIONS: &[(&str, &str, Value)] = &[
    (
        "Ofast-compile",
        "Ofc",
        Value::OneOf(&["0", "min", "mid", "max"]),
    ),
    (
        "allow-expensive-optimizations",
        "allow-expensive-optimizations",
        Value::Boolean,
    ),
    ("apply-controls", "apply-controls", Value::Any),
    ("check", "check", Value::None),
    ("compile-as-tools-patch", "astoolspatch", Value::None),
    ("compile-only", "c", Value::None),
    ("compiler-annotations", "annotate", Value::None),
    ("def-load-cache", "dlcm", Value::Any),
    ("def-store-cache", "dscm", Value::Any),
    ("device-debug", "g", Value::None),
    (
        "device-function-maxrregcount",
        "func-maxrregcount",
        Value::Registers,
    ),
    (
        "device-stack-protector",
        "device-stack-protector",
        Value::Boolean,
    ),
    (
        "disable-optimizer-constants",
        "disable-optimizer-consts",
        Value::None,
    ),
    ("disable-warnings", "w", Value::None),
    ("dont-merge-basicblocks", "no-bb-merge", Value::None),
    (
        "enable-func-clone-sc",
        "enable-func-clone-sc",
        Value::Boolean,
    ),
    ("entry", "e", Value::Any),
    ("extensible-whole-program", "ewp", Value::None),
    ("fmad", "fmad", Value::Boolean),
    ("force-load-cache", "flcm", Value::Any),
    ("force-store-cache", "fscm", Value::Any),
    (
        "g-tensor-memory-access-check",
        "g-tmem-access-check",
        Value::None,
    ),
    ("generate-line-info", "lineinfo", Value::None),
    (
        "gno-fabric-access-check",
        "gno-fabric-access-check",
        Value::None,
    ),
    (
        "gno-tensor-memory-access-check",
        "gno-tmem-access-check",
        Value::None,
    ),
    ("gpu-name", "arch", Value::Any),
    ("help", "h", Value::None),
    ("input-as-string", "ias", Value::Any),
    ("jobserver", "jobserver", Value::None),
    (
        "legacy-bar-warp-wide-behavior",
        "legacy-bar-warp-wide-behavior",
        Value::None,
    ),
    ("list-arch", "arch-ls", Value::None),
    ("machine", "m", Value::OneOf(&["64"])),
    (
        "make-errors-visible-at-exit",
        "make-errors-visible-at-exit",
        Value::None,
    ),
    ("maxntid", "maxntid", Value::Any),
    ("maxrregcount", "maxrregcount", Value::Registers),
    ("minnctapersm", "minnctapersm", Value::Number),
    ("opt-level", "O", Value::Number),
    ("optimize-float-atomics", "opt-fp-atomics", Value::None),
    ("options-file", "optf", Value::Any),
    ("output-file", "o", Value::Any),
    (
        "override-directive-values",
        "override-directive-values",
        Value::None,
    ),
    ("position-independent-code", "pic", Value::Boolean),
    ("preserve-relocs", "preserve-relocs", Value::None),
    // Not in its help; Triton gives it.
    ("regAllocOptLevel", "regAllocOptLevel", Value::Number),
    ("register-usage-level", "regUsageLevel", Value::Number),
    ("return-at-end", "ret-end", Value::None),
    (
        "sanitize",
        "sanitize",
        Value::OneOf(&["memcheck", "threadsteer"]),
    ),
    ("sp-bounds-check", "sp-bounds-check", Value::None),
    ("split-compile", "split-compile", Value::Number),
    (
        "suppress-async-bulk-multicast-advisory-warning",
        "suppress-async-bulk-multicast-advisory-warning",
        Value::None,
    ),
    ("suppress-debug-info", "suppress-debug-info", Value::None),
    (
        "suppress-double-demote-warning",
        "suppress-double-demote-warning",
        Value::None,
    ),
    (
        "suppress-position-independent-code-warning",
        "suppress-position-independent-code-warning",
        Value::None,
    ),
    (
        "suppress-sparse-mma-advisory-info",
        "suppress-sparse-mma-advisory-info",
        Value::None,
    ),
    (
        "suppress-stack-size-warning",
        "suppress-stack-size-warning",
        Value::None,
    ),
    ("verbose", "v", Value::None),
    ("verbose2", "v2", Value::None),
    ("version", "V", Value::None),
    (
        "warn-on-double-precision-use",
        "warn-double-usage",
        Value::None,
    ),
    ("warn-on-local-memory-usage", "warn-lmem-usage", Value::None),
    ("warn-on-spills", "warn-spills", Value::None),
    ("warning-as-error", "Werror", Value::None),
];

/// Short names that a value may follow without a space: `-O3`, `-m64`.
const STUCK: [&str; 2] = ["O", "m"];

/// The PTX to assemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    File(PathBuf),
    Standard,
    Text(String),
}

/// What is asked for instead of an assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information {
    Help,
    Version,
    Targets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub information: Option<Information>,
    pub inputs: Vec<Input>,
    pub output: PathBuf,
    /// The architecture, sm_75 by default.
    pub target: Target,
    /// Only check: `compute_90`, or `--check`.
    pub check_only: bool,
    /// `--check`: the default warnings of ptxcheck too.
    pub lint: bool,
    /// `-c`: functions may be missing.
    pub relocatable: bool,
    pub entries: Vec<String>,
    pub verbose: bool,
    pub no_warnings: bool,
    pub warnings_are_errors: bool,
}

impl Options {
    /// Reads the arguments. The error is a message of ptxas.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            information: None,
            inputs: Vec::new(),
            output: OUTPUT.into(),
            target: Target::new(75, Default::default()),
            check_only: false,
            lint: false,
            relocatable: false,
            entries: Vec::new(),
            verbose: false,
            no_warnings: false,
            warnings_are_errors: false,
        };
        options.take(arguments, true)?;
        Ok(options)
    }

    fn take(
        &mut self,
        arguments: impl IntoIterator<Item = String>,
        may_name_files: bool,
    ) -> Result<(), String> {
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == STANDARD_INPUT {
                self.inputs.push(Input::Standard);
                continue;
            }
            let Some(name) = argument.strip_prefix('-') else {
                self.inputs.push(Input::File(argument.into()));
                continue;
            };
            let (name, mut value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let found = find(name).or_else(|| {
                let (option, rest) = stuck(name)?;
                value = Some(rest.to_owned());
                Some(option)
            });
            let Some((long, _, kind)) = found else {
                return Err(format!("Unknown option '{name}'"));
            };
            if matches!(kind, Value::None) {
                if value.is_some() {
                    return Err(format!("no argument expected after '-{name}'"));
                }
                self.set(long, "")?;
                continue;
            }
            // A plain -O is taken as it is.
            if value.is_none() && *long == "opt-level" && name == "O" {
                continue;
            }
            let value = value
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("argument expected after '-{name}'"))?;
            check(long, *kind, &value)?;
            if *long != "options-file" {
                self.set(long, &value)?;
                continue;
            }
            let unreadable = || format!("Could not open options file '{value}'");
            // A file of options that names itself would have no end.
            let text = if may_name_files {
                input::read_text(Path::new(&value), input::LARGEST_SETTINGS)
                    .map_err(|_| unreadable())?
            } else {
                return Err(unreadable());
            };
            self.take(text.split_whitespace().map(str::to_owned), false)?;
        }
        Ok(())
    }

    /// Applies an option whose value is valid.
    fn set(&mut self, long: &str, value: &str) -> Result<(), String> {
        match long {
            "check" => (self.lint, self.check_only) = (true, true),
            "compile-only" => self.relocatable = true,
            "disable-warnings" => self.no_warnings = true,
            "entry" => self.entries.extend(value.split(',').map(str::to_owned)),
            "gpu-name" => {
                let undefined = || format!("Value '{value}' is not defined for option 'gpu-name'");
                let known =
                    target::Target::from_text(value).filter(|known| known.since().is_some());
                self.target = known.ok_or_else(undefined)?.into();
                self.check_only |= value.starts_with("compute_");
            }
            "help" => self.information = Some(Information::Help),
            "input-as-string" => self.inputs.push(Input::Text(value.to_owned())),
            "list-arch" => self.information = Some(Information::Targets),
            "output-file" => self.output = value.into(),
            "verbose" | "verbose2" => self.verbose = true,
            "version" => self.information = Some(Information::Version),
            "warning-as-error" => self.warnings_are_errors = true,
            _ => {}
        }
        Ok(())
    }
}

/// The option with this name, which begins with a second `-` if it is a long one.
fn find(name: &str) -> Option<&'static (&'static str, &'static str, Value)> {
    OPTIONS.iter().find(|(long, short, _)| {
        *short == name || name.strip_prefix('-').is_some_and(|name| name == *long)
    })
}

/// The option of `O3` or `m64`, and its value.
fn stuck(name: &str) -> Option<(&'static (&'static str, &'static str, Value), &str)> {
    let (short, value) = STUCK
        .into_iter()
        .find_map(|short| Some((short, name.strip_prefix(short)?)))?;
    value
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some(())?;
    Some((find(short)?, value))
}

/// Checks a value.
fn check(long: &str, kind: Value, value: &str) -> Result<(), String> {
    let is_number = value.parse::<u32>().is_ok();
    match kind {
        Value::Boolean if !matches!(value, "true" | "false") => {
            Err(format!("'{value}': expected true or false"))
        }
        Value::Number if !is_number => Err(format!("'{value}': expected a number")),
        Value::Registers if !is_number && !matches!(value, "archmax" | "archmin") => {
            Err(format!("Invalid value '{value}' for option '{long}'"))
        }
        Value::OneOf(values) if !values.contains(&value) => Err(format!(
            "Value '{value}' is not defined for option '{long}'"
        )),
        _ => Ok(()),
    }
}

/// An option on a command line, before its value.
#[derive(Debug)]
pub struct Named<'a> {
    pub long: &'static str,
    /// Its name as it is written, with a second `-` if it is the long one.
    pub name: &'a str,
    pub takes_value: bool,
    /// The value in the same word: `3` of `-O3`.
    pub stuck: Option<&'a str>,
}

/// The option that a word names, without its first `-` and without `=VALUE`.
pub fn named(word: &str) -> Option<Named<'_>> {
    let (option, name, stuck) = match (find(word), stuck(word)) {
        (Some(option), _) => (option, word, None),
        (None, Some((option, value))) => (option, option.1, Some(value)),
        (None, None) => return None,
    };
    let (long, _, value) = option;
    Some(Named {
        long,
        name,
        takes_value: !matches!(value, Value::None),
        stuck,
    })
}

/// The names of all options, for the help.
pub fn names() -> impl Iterator<Item = String> {
    OPTIONS.iter().map(|(long, short, value)| {
        let value = match value {
            Value::None => String::new(),
            Value::Any => " <value>".to_owned(),
            Value::Boolean => " <true|false>".to_owned(),
            Value::Number => " <N>".to_owned(),
            Value::Registers => " <archmax/archmin/N>".to_owned(),
            Value::OneOf(values) => format!(" <{}>", values.join("|")),
        };
        format!("--{long}{value} (-{short})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn triton_nvcc_and_clang_are_understood() {
        let triton = read(
            "-lineinfo --fmad=false -v --regAllocOptLevel=2 --gpu-name=sm_90a /tmp/x.ptx -o /tmp/x.ptx.o",
        );
        let triton = triton.unwrap();
        assert_eq!(triton.inputs, [Input::File("/tmp/x.ptx".into())]);
        assert_eq!(triton.output, PathBuf::from("/tmp/x.ptx.o"));
        assert_eq!(triton.target.to_string(), "sm_90a");
        assert!(triton.verbose && !triton.check_only);
        let nvcc = read("-arch=sm_80 -m64 -v --generate-line-info x.ptx -o t.cubin").unwrap();
        assert_eq!(nvcc.target.to_string(), "sm_80");
        let clang = read("-m64 -O3 --gpu-name sm_80 --output-file x.cubin x.s -c").unwrap();
        assert!(clang.relocatable);
        assert_eq!(clang.output, PathBuf::from("x.cubin"));
        assert_eq!(read("x.ptx").unwrap().output, PathBuf::from("elf.o"));
        assert!(read("-arch=compute_90 x.ptx").unwrap().check_only);
        let given = Options::read(["-ias".to_owned(), ".version 8.0".to_owned()]).unwrap();
        assert_eq!(given.inputs, [Input::Text(".version 8.0".to_owned())]);
    }

    #[test]
    fn errors_are_those_of_ptxas() {
        let errors = [
            ("--nonsense", "Unknown option '-nonsense'"),
            ("-x", "Unknown option 'x'"),
            ("-gpu-name sm_80", "Unknown option 'gpu-name'"),
            ("--O=3", "Unknown option '-O'"),
            ("-arch", "argument expected after '-arch'"),
            (
                "-arch=sm_7",
                "Value 'sm_7' is not defined for option 'gpu-name'",
            ),
            ("-lineinfo=true", "no argument expected after '-lineinfo'"),
            ("--verbose=true", "no argument expected after '--verbose'"),
            ("-m 32", "Value '32' is not defined for option 'machine'"),
            ("--fmad=maybe", "'maybe': expected true or false"),
            ("-split-compile=x", "'x': expected a number"),
            (
                "--maxrregcount=foo",
                "Invalid value 'foo' for option 'maxrregcount'",
            ),
            ("-optf none", "Could not open options file 'none'"),
        ];
        for (line, expected) in errors {
            assert_eq!(read(line).unwrap_err(), expected, "{line}");
        }
    }

    #[test]
    fn a_file_of_options_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        std::fs::write(file.path(), "-arch=sm_80\n-v").unwrap();
        let options = read(&format!("-optf {path} k.ptx")).unwrap();
        assert!(options.verbose && options.target.number == 80);
        std::fs::write(file.path(), format!("-optf {path}")).unwrap();
        assert!(read(&format!("-optf {path} k.ptx")).is_err());
    }
}
