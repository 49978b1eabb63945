//! The element types of buffers and scalars, and the encoding of their values.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The type of an element of device memory, by its PTX name without the dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Element {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

/// One value on the host, wide enough for every element type.
///
/// A `u64` above `i64::MAX` is stored as a negative number with the same bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
}

/// An unknown element type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`: use one of u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64")]
pub struct UnknownElement(String);

impl Element {
    const NAMES: [(Element, &'static str); 12] = [
        (Element::U8, "u8"),
        (Element::U16, "u16"),
        (Element::U32, "u32"),
        (Element::U64, "u64"),
        (Element::S8, "s8"),
        (Element::S16, "s16"),
        (Element::S32, "s32"),
        (Element::S64, "s64"),
        (Element::F16, "f16"),
        (Element::Bf16, "bf16"),
        (Element::F32, "f32"),
        (Element::F64, "f64"),
    ];

    /// The size of one element, which is also its alignment, in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Element::U8 | Element::S8 => 1,
            Element::U16 | Element::S16 | Element::F16 | Element::Bf16 => 2,
            Element::U32 | Element::S32 | Element::F32 => 4,
            Element::U64 | Element::S64 | Element::F64 => 8,
        }
    }

    /// Whether the element is a floating-point number.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Element::F16 | Element::Bf16 | Element::F32 | Element::F64
        )
    }

    /// The name in sample files and in `--arg`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(element, _)| *element == self)
            .map_or("", |(_, name)| name)
    }

    /// Appends the bytes of `value`, rounded to nearest even where the type is narrower.
    ///
    /// # Errors
    /// A fraction for an integer element, or an integer that the element cannot hold, neither
    /// as a number nor (for unsigned elements) as the bits of a negative number.
    pub fn encode(self, value: Value, bytes: &mut Vec<u8>) -> Result<(), Unstorable> {
        let unstorable = Unstorable {
            value,
            element: self,
        };
        if self.is_float() {
            let number = match value {
                Value::Int(number) => number as f64,
                Value::Float(number) => number,
            };
            match self {
                Element::F16 => bytes.extend((narrow(number, 5, 10) as u16).to_le_bytes()),
                Element::Bf16 => bytes.extend((narrow(number, 8, 7) as u16).to_le_bytes()),
                Element::F32 => bytes.extend((number as f32).to_le_bytes()),
                _ => bytes.extend(number.to_le_bytes()),
            }
            return Ok(());
        }
        let number = match value {
            Value::Int(number) => number,
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9.0e18 => number as i64,
            Value::Float(_) => return Err(unstorable),
        };
        let bits = 8 * self.size() as u32;
        if bits < 64 {
            // From the lowest signed to the highest unsigned number: -1 may stand for all ones.
            let lowest = -(1i64 << (bits - 1));
            let highest = match self {
                Element::S8 | Element::S16 | Element::S32 => (1i64 << (bits - 1)) - 1,
                _ => (1i64 << bits) - 1,
            };
            if number < lowest || number > highest {
                return Err(unstorable);
            }
        }
        bytes.extend(&number.to_le_bytes()[..self.size()]);
        Ok(())
    }

    /// The value of the first element in `bytes`; `None` if there are too few bytes.
    #[must_use]
    pub fn decode(self, bytes: &[u8]) -> Option<Value> {
        let mut word = [0; 8];
        word[..self.size()].copy_from_slice(bytes.get(..self.size())?);
        let word = u64::from_le_bytes(word);
        Some(match self {
            Element::U8 | Element::U16 | Element::U32 | Element::U64 | Element::S64 => {
                Value::Int(word as i64)
            }
            Element::S8 => Value::Int(i64::from(word as i8)),
            Element::S16 => Value::Int(i64::from(word as i16)),
            Element::S32 => Value::Int(i64::from(word as i32)),
            Element::F16 => Value::Float(widen(word, 5, 10)),
            Element::Bf16 => Value::Float(widen(word, 8, 7)),
            Element::F32 => Value::Float(f64::from(f32::from_bits(word as u32))),
            Element::F64 => Value::Float(f64::from_bits(word)),
        })
    }

    /// Formats `value` with the shortest digits that identify it.
    #[must_use]
    pub fn show(self, value: Value) -> String {
        match (self, value) {
            (Element::U64, Value::Int(number)) => (number as u64).to_string(),
            (_, Value::Int(number)) => number.to_string(),
            (Element::F64, Value::Float(number)) => {
                format!("{number:?}").trim_end_matches(".0").to_owned()
            }
            (_, Value::Float(number)) => format!("{:?}", number as f32)
                .trim_end_matches(".0")
                .to_owned(),
        }
    }

    /// Formats the value of `bytes`; of a NaN also the bits, as NaNs may differ.
    #[must_use]
    pub fn show_bits(self, bytes: &[u8]) -> String {
        match self.decode(bytes) {
            Some(Value::Float(number)) if number.is_nan() => {
                let digits = bytes[..self.size()].iter().rev();
                let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
                format!("NaN (0x{digits})")
            }
            Some(value) => self.show(value),
            None => String::new(),
        }
    }

    /// All values in `bytes`, without an incomplete one at the end.
    #[must_use]
    pub fn decode_all(self, bytes: &[u8]) -> Vec<Value> {
        bytes
            .chunks_exact(self.size())
            .filter_map(|chunk| self.decode(chunk))
            .collect()
    }

    /// `number` rounded to this element type.
    pub(crate) fn round(self, number: f64) -> f64 {
        match self {
            Element::F16 => widen(narrow(number, 5, 10), 5, 10),
            Element::Bf16 => widen(narrow(number, 8, 7), 8, 7),
            Element::F32 => f64::from(number as f32),
            _ => number,
        }
    }

    /// Bits of the fraction of a floating-point element, without the implied one.
    pub(crate) fn fraction_bits(self) -> i32 {
        match self {
            Element::F16 => 10,
            Element::Bf16 => 7,
            Element::F32 => 23,
            _ => 52,
        }
    }

    /// Exponent of the smallest normal number of a floating-point element.
    pub(crate) fn min_exponent(self) -> i32 {
        match self {
            Element::F16 => -14,
            Element::Bf16 | Element::F32 => -126,
            _ => -1022,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = UnknownElement;

    fn from_str(word: &str) -> Result<Self, UnknownElement> {
        Self::NAMES
            .iter()
            .find(|(_, name)| *name == word)
            .map(|(element, _)| *element)
            .ok_or_else(|| UnknownElement(word.to_owned()))
    }
}

impl TryFrom<String> for Element {
    type Error = UnknownElement;

    fn try_from(word: String) -> Result<Self, UnknownElement> {
        word.parse()
    }
}

/// A value that an element type cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{value} does not fit in {element}")]
pub struct Unstorable {
    pub value: Value,
    pub element: Element,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
        }
    }
}

/// Encodes `number` in a format of `exponent` and `fraction` bits, rounded once to nearest even.
fn narrow(number: f64, exponent: u32, fraction: u32) -> u64 {
    let bits = number.to_bits();
    let sign = (bits >> 63) << (exponent + fraction);
    let infinity = ((1u64 << exponent) - 1) << fraction;
    if number.is_nan() {
        // In PTX's canonical NaN all bits but the sign are set.
        return infinity | ((1 << fraction) - 1);
    }
    if number.is_infinite() {
        return sign | infinity;
    }
    let bias = (1i64 << (exponent - 1)) - 1;
    let scale = ((bits >> 52) & 0x7ff) as i64 - 1023 + bias;
    if number == 0.0 || scale < -i64::from(fraction) - 1 {
        return sign;
    }
    let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
    // A subnormal result loses one bit for each step below the lowest exponent.
    let dropped = (52 - fraction) + if scale < 1 { (1 - scale) as u32 } else { 0 };
    let kept = significand >> dropped;
    let rest = significand & ((1 << dropped) - 1);
    let half = 1u64 << (dropped - 1);
    let rounded = kept + u64::from(rest > half || (rest == half && kept & 1 == 1));
    // `kept` holds the implied one, so it counts as one step of the exponent by itself.
    let encoded = rounded + ((scale.max(1) - 1) as u64).saturating_mul(1 << fraction);
    sign | encoded.min(infinity)
}

/// Decodes `bits` in a format of `exponent` and `fraction` bits.
fn widen(bits: u64, exponent: u32, fraction: u32) -> f64 {
    let sign = if bits >> (exponent + fraction) & 1 == 1 {
        -1.0
    } else {
        1.0
    };
    let scale = (bits >> fraction) & ((1 << exponent) - 1);
    let digits = (bits & ((1 << fraction) - 1)) as f64;
    let bias = (1i32 << (exponent - 1)) - 1;
    let unit = 2f64.powi(1 - bias - fraction as i32);
    if scale == (1 << exponent) - 1 {
        return if digits == 0.0 {
            sign * f64::INFINITY
        } else {
            f64::NAN
        };
    }
    if scale == 0 {
        return sign * digits * unit;
    }
    let significand = digits + (1u64 << fraction) as f64;
    sign * significand * unit * 2f64.powi(scale as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(element: Element, value: Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        element.encode(value, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn every_half_comes_back() {
        for element in [Element::F16, Element::Bf16] {
            for bits in 0..=u16::MAX {
                let Some(Value::Float(number)) = element.decode(&bits.to_le_bytes()) else {
                    panic!("{element} {bits:#x}");
                };
                if !number.is_nan() {
                    assert_eq!(
                        bytes(element, Value::Float(number)),
                        bits.to_le_bytes(),
                        "{element} {bits:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn halves_round_once_to_nearest_even() {
        let half = |number: f64| {
            u16::from_le_bytes(
                bytes(Element::F16, Value::Float(number))
                    .try_into()
                    .unwrap(),
            )
        };
        assert_eq!(half(2049.0), half(2048.0));
        assert_eq!(half(2051.0), half(2052.0));
        // Double rounding through f32 would lose the last bit of this one.
        assert_eq!(half(2049.0 + 1e-9), half(2050.0));
        assert_eq!(half(65519.99), 0x7bff);
        assert_eq!(half(65520.0), 0x7c00);
        assert_eq!(half(-(2f64.powi(-25))), 0x8000);
        assert_eq!(half(2f64.powi(-25) * 1.01), 1);
        assert_eq!(half(f64::NAN), 0x7fff);
    }

    #[test]
    fn integers_keep_their_range() {
        assert_eq!(bytes(Element::U32, Value::Int(-1)), [255; 4]);
        assert_eq!(Element::S16.decode(&[0xfe, 0xff]), Some(Value::Int(-2)));
        let mut bytes = Vec::new();
        assert!(Element::U8.encode(Value::Int(256), &mut bytes).is_err());
        assert!(Element::S8.encode(Value::Int(128), &mut bytes).is_err());
        let error = Element::U32.encode(Value::Float(0.5), &mut bytes);
        assert_eq!(error.unwrap_err().to_string(), "0.5 does not fit in u32");
        assert!(bytes.is_empty());
    }

    #[test]
    fn names_are_read_back() {
        for (element, name) in Element::NAMES {
            assert_eq!(name.parse(), Ok(element));
        }
        assert!("i32".parse::<Element>().is_err());
    }
}
