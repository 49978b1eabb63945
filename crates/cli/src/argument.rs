//! The arguments of a kernel on the command line, for `run` without a sample file.

use std::path::{Path, PathBuf};

use super::element::{Element, UnknownElement, Value};
use super::formula::{Calculator, Limit, Shape};
use super::pattern::{self, PatternError};
use super::sample::{Arg, ArgKind, Buffer, UNWRITTEN};
use input::ShowName as _;

/// The syntax of `--arg`, for the help of the program.
pub const ARG_HELP: &str = "\
u32:1024  f32:-2.5  f32:1,2,3,4     a number by its type, or a vector of them
buf:f32:64=iota  in:f32:@a.bin      memory: zeros ones iota random:SEED @FILE or a formula in i
out:f32:64@c.bin  out:f32:9=iota@f  memory that is written to a file after the launch";

/// An invalid argument.
#[derive(Debug, thiserror::Error)]
#[error("--arg {text}: {problem}")]
pub struct ArgumentError {
    /// The argument as written.
    pub text: String,
    pub problem: ArgumentProblem,
}

/// The reason why an argument is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentProblem {
    #[error("an argument has one of these forms:\n{ARG_HELP}")]
    Form,
    #[error(transparent)]
    Element(#[from] UnknownElement),
    #[error("`{0}` is not a number")]
    Number(String),
    #[error("`{0}` is not a number of elements: expected an integer from 1, for at most 4 GiB")]
    Count(String),
    #[error("{} has {bytes} bytes, which is not a multiple of the size of {element}", path.shown())]
    FileLength {
        path: PathBuf,
        bytes: u64,
        element: Element,
    },
    #[error("a file is missing after `@`")]
    NoFile,
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Limit(#[from] Limit),
}

/// Parses the arguments of a kernel, in parameter order.
///
/// Their names are `arg0`, `arg1` …, and a formula can use the arguments before its own. File names
/// are relative to the current folder.
///
/// # Errors
/// The first invalid argument.
pub fn parse(texts: &[String]) -> Result<Vec<Arg>, ArgumentError> {
    let mut calculator = Calculator::new();
    let mut args = Vec::with_capacity(texts.len());
    for (position, text) in texts.iter().enumerate() {
        let name = format!("arg{position}");
        let kind = argument(text, &calculator)
            .and_then(|kind| {
                learn(&mut calculator, &name, &kind)?;
                Ok(kind)
            })
            .map_err(|problem| ArgumentError {
                text: text.clone(),
                problem,
            })?;
        args.push(Arg { name, kind });
    }
    Ok(args)
}

fn learn(calculator: &mut Calculator, name: &str, kind: &ArgKind) -> Result<(), Limit> {
    match kind {
        ArgKind::Scalar { element, bytes } => match element.decode_all(bytes)[..] {
            [value] => calculator.define_number(name, value),
            _ => calculator.define_numbers(name, *element, bytes)?,
        },
        ArgKind::Buffer(buffer) => {
            calculator.define_numbers(name, buffer.element, &buffer.initial)?;
        }
        ArgKind::Struct { .. } | ArgKind::PitchOf { .. } => {}
    }
    Ok(())
}

fn argument(text: &str, calculator: &Calculator) -> Result<ArgKind, ArgumentProblem> {
    let (word, rest) = text.split_once(':').ok_or(ArgumentProblem::Form)?;
    if !matches!(word, "buf" | "in" | "out") {
        return scalar(word.parse()?, rest);
    }
    let (element, rest) = rest.split_once(':').ok_or(ArgumentProblem::Form)?;
    let element: Element = element.parse()?;
    let buffer = match word {
        "buf" => memory(element, rest, None, calculator)?,
        "in" => {
            let file = rest.strip_prefix('@').ok_or(ArgumentProblem::Form)?;
            let count = elements_of_file(element, file)?.to_string();
            memory(element, &format!("{count}={rest}"), None, calculator)?
        }
        // Split at the last `@`, as the pattern itself may be a file.
        _ => match rest.rsplit_once('@').ok_or(ArgumentProblem::Form)? {
            (_, "") => return Err(ArgumentProblem::NoFile),
            (rest, file) => memory(element, rest, Some(PathBuf::from(file)), calculator)?,
        },
    };
    Ok(ArgKind::Buffer(buffer))
}

fn scalar(element: Element, numbers: &str) -> Result<ArgKind, ArgumentProblem> {
    let values = numbers
        .split(',')
        .map(|word| number(element, word))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ArgKind::Scalar {
        element,
        bytes: pattern::encode(element, values)?,
    })
}

fn number(element: Element, word: &str) -> Result<Value, ArgumentProblem> {
    let not_a_number = || ArgumentProblem::Number(word.to_owned());
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .map(|bits| Value::Int(bits as i64))
            .map_err(|_| not_a_number());
    }
    if let Ok(number) = word.parse() {
        return Ok(Value::Int(number));
    }
    if element == Element::U64
        && let Ok(number) = word.parse::<u64>()
    {
        return Ok(Value::Int(number as i64));
    }
    word.parse().map(Value::Float).map_err(|_| not_a_number())
}

/// `COUNT` or `COUNT=PATTERN`.
fn memory(
    element: Element,
    text: &str,
    save: Option<PathBuf>,
    calculator: &Calculator,
) -> Result<Buffer, ArgumentProblem> {
    let (count, pattern) = match text.split_once('=') {
        Some((count, pattern)) => (count, Some(pattern)),
        None => (text, None),
    };
    let shape = Shape {
        count: count
            .parse()
            .ok()
            .filter(|&count| Shape::fits(count, element))
            .ok_or_else(|| ArgumentProblem::Count(count.to_owned()))?,
        columns: None,
    };
    let initial = match pattern {
        Some(pattern) => pattern::fill(pattern, element, shape, Path::new(""), calculator)?,
        None => {
            let size = shape.count * element.size();
            let mut bytes = calculator.memory(size)?;
            bytes.resize(size, UNWRITTEN);
            bytes
        }
    };
    Ok(Buffer {
        element,
        shape,
        pitched: false,
        tensor: None,
        initial,
        expected: None,
        save,
    })
}

fn elements_of_file(element: Element, file: &str) -> Result<u64, ArgumentProblem> {
    if file.is_empty() {
        return Err(ArgumentProblem::NoFile);
    }
    let path = PathBuf::from(file);
    let size = element.size() as u64;
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.len() % size == 0 => Ok(metadata.len() / size),
        Ok(metadata) => Err(ArgumentProblem::FileLength {
            path,
            bytes: metadata.len(),
            element,
        }),
        Err(source) => Err(PatternError::File { path, source }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Arg {
        match parse(&[text.to_owned()]) {
            Ok(mut args) => args.remove(0),
            Err(error) => panic!("{error}"),
        }
    }

    fn refusal(text: &str) -> String {
        parse(&[text.to_owned()]).unwrap_err().to_string()
    }

    #[test]
    fn numbers_by_their_type() {
        assert_eq!(one("u32:1024").host_bytes(), 1024u32.to_le_bytes());
        assert_eq!(one("s16:-2").host_bytes(), (-2i16).to_le_bytes());
        assert_eq!(one("u8:0xff").host_bytes(), [255]);
        assert_eq!(one("f32:-2.5").host_bytes(), (-2.5f32).to_le_bytes());
        assert_eq!(
            one("f64:-inf").host_bytes(),
            f64::NEG_INFINITY.to_le_bytes()
        );
        assert_eq!(one("u64:18446744073709551615").host_bytes(), [255; 8]);
        assert_eq!(one("u16:1,2,3").host_bytes(), [1, 0, 2, 0, 3, 0]);
    }

    #[test]
    fn memory_by_its_pattern() {
        let bytes = |text: &str| one(text).host_bytes().to_vec();
        assert_eq!(bytes("buf:u8:3=iota"), [0, 1, 2]);
        assert_eq!(bytes("buf:u8:3"), [UNWRITTEN; 3]);
        assert_eq!(bytes("buf:u8:3=if i == 1 { 7 } else { 0 }"), [0, 7, 0]);
        assert_eq!(bytes("buf:u8:2=random:7").len(), 2);
        let texts = ["u8:3", "buf:u8:2=i * arg0", "buf:u8:2=arg1[i] + 1"].map(str::to_owned);
        assert_eq!(parse(&texts).unwrap()[2].host_bytes(), [1, 4]);
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let path = path.display();
        let ArgKind::Buffer(buffer) = one(&format!("in:u16:@{path}")).kind else {
            panic!("no buffer");
        };
        assert_eq!((buffer.shape.count, buffer.save), (2, None));
        assert_eq!(buffer.initial, [1, 2, 3, 4]);
        let ArgKind::Buffer(buffer) = one(&format!("out:u8:4=@{path}@c.bin")).kind else {
            panic!("no buffer");
        };
        assert_eq!(buffer.initial, [1, 2, 3, 4]);
        assert_eq!(buffer.save, Some(PathBuf::from("c.bin")));
        let text = refusal(&format!("in:u64:@{path}"));
        assert!(text.ends_with("has 4 bytes, which is not a multiple of the size of u64"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("1024", "u32:1024 "),
            ("i32:1", "unknown element type `i32`"),
            ("u32:x", "`x` is not a number"),
            ("u8:300", "300 does not fit in u8"),
            ("u32:", "`` is not a number"),
            ("buf:f32", "u32:1024 "),
            ("buf:f32:0", "`0` is not a number of elements"),
            ("buf:f32:99999999999999", "at most 4 GiB"),
            ("buf:f32:4=x", "there is no `x` here"),
            ("in:f32:4", "u32:1024 "),
            ("in:f32:@", "a file is missing"),
            ("in:f32:@/no/such.bin", "/no/such.bin: "),
            ("out:f32:4", "u32:1024 "),
            ("out:f32:4@", "a file is missing"),
        ];
        for (text, message) in cases {
            let refusal = refusal(text);
            assert!(refusal.starts_with(&format!("--arg {text}: ")), "{refusal}");
            assert!(refusal.contains(message), "{refusal}");
        }
    }

    #[test]
    fn the_help_has_three_lines() {
        assert_eq!(ARG_HELP.lines().count(), 3);
    }
}
