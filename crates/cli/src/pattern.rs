//! Patterns for the initial contents of buffers.
//!
//! | pattern | elements |
//! |---|---|
//! | `zeros`, `ones` | 0 or 1 |
//! | `iota` | 0, 1, 2 … |
//! | `random:SEED` | integers: all bits random; floats: random in [0, 1) (SplitMix64) |
//! | `@FILE` | the bytes of a file, little-endian |
//! | anything else | a [formula](super::formula) in `i`; a number is the simplest |

use std::io::Read;
use std::path::{Path, PathBuf};

use input::{Input, ShowName as _};

use super::element::{Element, Unstorable, Value};
use super::formula::{Calculator, FormulaError, Limit, Shape};
use super::random::{random, uniform};

/// An invalid pattern, or one that does not fit its buffer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    #[error(transparent)]
    Formula(#[from] FormulaError),
    #[error(transparent)]
    Limit(#[from] Limit),
    #[error("element {index}: {source}")]
    Unstorable { index: usize, source: Unstorable },
    #[error("`random:{0}`: the seed is a whole number from 0 to 2^64 - 1")]
    Seed(String),
    #[error("{}: {source}", path.shown())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} has {found} bytes, the buffer {expected}", path.shown())]
    FileLength {
        path: PathBuf,
        found: u64,
        expected: usize,
    },
}

/// The initial bytes of a buffer of `shape` with this `pattern`.
///
/// File names are relative to `folder`.
pub(crate) fn fill(
    pattern: &str,
    element: Element,
    shape: Shape,
    folder: &Path,
    calculator: &Calculator,
) -> Result<Vec<u8>, PatternError> {
    let pattern = pattern.trim();
    let mut bytes = calculator.memory(element.size() * shape.count)?;
    if let Some(file) = pattern.strip_prefix('@') {
        read(&folder.join(file), element.size() * shape.count, &mut bytes)?;
        return Ok(bytes);
    }
    if let Some(seed) = pattern.strip_prefix("random:") {
        let seed = seed
            .parse()
            .map_err(|_| PatternError::Seed(seed.to_owned()))?;
        random_bytes(seed, element, shape.count, &mut bytes);
        return Ok(bytes);
    }
    let number = match pattern {
        "zeros" => Some(Value::Int(0)),
        "ones" => Some(Value::Int(1)),
        _ => pattern.parse().map(Value::Int).ok(),
    };
    if let Some(number) = number {
        encode_into(
            element,
            std::iter::repeat_n(number, shape.count),
            &mut bytes,
        )?;
    } else if pattern == "iota" {
        let numbers = (0..shape.count).map(|i| Value::Int(i as i64));
        encode_into(element, numbers, &mut bytes)?;
    } else {
        for (index, value) in calculator.elements(pattern, shape)?.enumerate() {
            let stored = element.encode(value?, &mut bytes);
            stored.map_err(|source| PatternError::Unstorable { index, source })?;
        }
    }
    Ok(bytes)
}

/// Encodes `values` as elements of this type.
pub(crate) fn encode(
    element: Element,
    values: impl IntoIterator<Item = Value>,
) -> Result<Vec<u8>, PatternError> {
    let mut bytes = Vec::new();
    encode_into(element, values, &mut bytes)?;
    Ok(bytes)
}

fn encode_into(
    element: Element,
    values: impl IntoIterator<Item = Value>,
    bytes: &mut Vec<u8>,
) -> Result<(), PatternError> {
    for (index, value) in values.into_iter().enumerate() {
        element
            .encode(value, bytes)
            .map_err(|source| PatternError::Unstorable { index, source })?;
    }
    Ok(())
}

/// Reads a file of `expected` bytes, and at most one byte more.
fn read(path: &Path, expected: usize, bytes: &mut Vec<u8>) -> Result<(), PatternError> {
    let failed = |source| PatternError::File {
        path: path.to_owned(),
        source,
    };
    let input = Input::open(path).map_err(failed)?;
    let length = input.length();
    let read = input.file().take(expected as u64 + 1).read_to_end(bytes);
    let found = read.map_err(failed)?;
    if found != expected {
        return Err(PatternError::FileLength {
            path: path.to_owned(),
            found: length.max(found as u64),
            expected,
        });
    }
    Ok(())
}

fn random_bytes(seed: u64, element: Element, count: usize, bytes: &mut Vec<u8>) {
    for index in 0..count as u64 {
        let word = random(seed, index);
        let digits = element.fraction_bits() as u32 + 1;
        match element {
            // A multiple of the precision of the type, so the conversion is exact.
            Element::F64 => bytes.extend(uniform(word, digits).to_le_bytes()),
            Element::F32 => bytes.extend((uniform(word, digits) as f32).to_le_bytes()),
            Element::F16 | Element::Bf16 => {
                let stored = element.encode(Value::Float(uniform(word, digits)), bytes);
                debug_assert!(stored.is_ok(), "float elements can store all numbers");
            }
            _ => bytes.extend(&word.to_le_bytes()[..element.size()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pattern: &str, element: Element, count: usize) -> Result<Vec<Value>, PatternError> {
        let shape = Shape {
            count,
            columns: None,
        };
        fill(pattern, element, shape, Path::new("/"), &Calculator::new())
            .map(|bytes| element.decode_all(&bytes))
    }

    #[test]
    fn patterns() {
        use Value::{Float, Int};
        assert_eq!(filled("zeros", Element::U8, 2).unwrap(), [Int(0), Int(0)]);
        assert_eq!(filled("ones", Element::F16, 1).unwrap(), [Float(1.0)]);
        assert_eq!(filled("iota", Element::S16, 3).unwrap(), [0, 1, 2].map(Int));
        assert_eq!(filled("-7", Element::S64, 1).unwrap(), [Int(-7)]);
        assert_eq!(
            filled("i * 0.5", Element::F32, 3).unwrap(),
            [0.0, 0.5, 1.0].map(Float)
        );
    }

    #[test]
    fn random_floats_fill_the_unit_interval() {
        for element in [Element::F16, Element::Bf16, Element::F32, Element::F64] {
            let values = filled("random:7", element, 1000).unwrap();
            let numbers = values.iter().map(|value| match value {
                Value::Float(number) => *number,
                Value::Int(_) => panic!("{element}"),
            });
            let (mut low, mut high) = (1.0, 0.0);
            for number in numbers {
                low = f64::min(low, number);
                high = f64::max(high, number);
            }
            assert!((0.0..0.01).contains(&low), "{element} {low}");
            assert!((0.99..1.0).contains(&high), "{element} {high}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = |pattern, element| filled(pattern, element, 300).unwrap_err().to_string();
        assert!(text("random:x", Element::U8).contains("whole number"));
        assert_eq!(
            text("iota", Element::U8),
            "element 256: 256 does not fit in u8"
        );
        assert!(text("@none.bin", Element::U8).starts_with("/none.bin: "));
    }

    #[test]
    fn a_file_has_the_size_of_its_buffer() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("two.bin"), 7u64.to_le_bytes()).unwrap();
        let read = |element, count| {
            let shape = Shape {
                count,
                columns: None,
            };
            fill(
                "@two.bin",
                element,
                shape,
                folder.path(),
                &Calculator::new(),
            )
        };
        assert_eq!(read(Element::U32, 2).unwrap(), [7, 0, 0, 0, 0, 0, 0, 0]);
        let error = read(Element::U32, 3).unwrap_err().to_string();
        assert!(
            error.ends_with("two.bin has 8 bytes, the buffer 12"),
            "{error}"
        );
    }
}
