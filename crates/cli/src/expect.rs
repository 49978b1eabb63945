//! Expected results of a launch, and the comparison of actual results with them.

use std::fmt;

use super::element::{Element, Value};

/// The number of mismatches that a [`Verdict`] lists; all are counted.
const MAX_SHOWN: usize = 5;

/// The allowed difference between a result and the expected value.
///
/// A result passes if one of the three limits allows it. The default, all zero, means equality.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tolerance {
    /// Maximum absolute difference.
    pub absolute: f64,
    /// Maximum difference relative to the expected number.
    pub relative: f64,
    /// Maximum difference in units in the last place of the expected number, in the type of the buffer.
    /// No effect on integers.
    pub ulp: f64,
    /// NaNs are equal only if their bits are.
    pub nan_bits: bool,
}

/// The expected elements of a buffer after the launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The elements in the type of the buffer.
    pub bytes: Vec<u8>,
    pub tolerance: Tolerance,
}

/// The expected error of the launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedError {
    /// The CUDA name, such as `CUDA_ERROR_ASSERT`.
    pub code: String,
    /// Expected text on standard error.
    pub stderr_contains: Option<String>,
}

/// Expected text of the kernel on standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedOutput {
    pub text: String,
    /// The order of lines is free, as is the order of blocks and warps.
    pub unordered_lines: bool,
}

/// An element that differs from the expected one.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The argument or module variable.
    pub name: String,
    pub index: usize,
    /// The type of both values.
    pub element: Element,
    pub expected: Value,
    pub got: Value,
}

/// The result of the verification of a launch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Whether everything matches.
    pub verified: bool,
    /// The number of elements that differ, and missing errors or texts.
    pub mismatches: u64,
    /// The first elements that differ.
    pub first: Vec<Mismatch>,
    /// Messages for other differences.
    pub remarks: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch {
            name,
            index,
            element,
            expected,
            got,
        } = self;
        let (expected, got) = (element.show(*expected), element.show(*got));
        write!(f, "{name}[{index}]: expected {expected}, got {got}")
    }
}

impl Tolerance {
    /// Whether `got` matches `expected` within the tolerance, in a buffer of `element`.
    #[must_use]
    pub fn allows(&self, element: Element, expected: Value, got: Value) -> bool {
        match (expected, got) {
            (Value::Int(expected), Value::Int(got)) => {
                let difference = expected.abs_diff(got) as f64;
                expected == got
                    || difference <= self.absolute
                    || difference <= self.relative * (expected as f64).abs()
            }
            (Value::Float(expected), Value::Float(got)) => {
                if expected == got || expected.is_nan() && got.is_nan() {
                    return true;
                }
                if !expected.is_finite() || !got.is_finite() {
                    return false;
                }
                let difference = (expected - got).abs();
                difference <= self.absolute
                    || difference <= self.relative * expected.abs()
                    || difference <= self.ulp * unit_in_last_place(element, expected)
            }
            _ => false,
        }
    }
}

/// The distance from `number` to the next larger magnitude in `element`.
fn unit_in_last_place(element: Element, number: f64) -> f64 {
    let exponent = if number == 0.0 {
        element.min_exponent()
    } else {
        // The computed exponent of subnormal doubles is too low; `max` corrects it.
        let stored = (number.to_bits() >> 52) & 0x7ff;
        (stored as i32 - 1023).max(element.min_exponent())
    };
    2f64.powi(exponent - element.fraction_bits())
}

impl Verdict {
    /// A verdict without differences.
    #[must_use]
    pub fn good() -> Self {
        Verdict {
            verified: true,
            ..Verdict::default()
        }
    }

    /// Compares the bytes of a buffer with the expected ones.
    pub fn compare(&mut self, name: &str, element: Element, expected: &Expected, bytes: &[u8]) {
        let size = element.size();
        let expected_count = expected.bytes.len() / size;
        let found = bytes.len() / size;
        if found != expected_count {
            self.remark(format!(
                "{name}: {found} elements came back, not {expected_count}"
            ));
            return;
        }
        let pairs = expected
            .bytes
            .chunks_exact(size)
            .zip(bytes.chunks_exact(size));
        for (index, (one, other)) in pairs.enumerate() {
            let (Some(expected_value), Some(got)) = (element.decode(one), element.decode(other))
            else {
                continue;
            };
            let is_nan = matches!(expected_value, Value::Float(number) if number.is_nan());
            if expected.tolerance.allows(element, expected_value, got)
                && !(expected.tolerance.nan_bits && is_nan && one != other)
            {
                continue;
            }
            self.verified = false;
            self.mismatches += 1;
            if self.first.len() < MAX_SHOWN {
                self.first.push(Mismatch {
                    name: name.to_owned(),
                    index,
                    element,
                    expected: expected_value,
                    got,
                });
            }
        }
    }

    /// Compares the error of the launch with the expected one, if any.
    pub fn compare_error(
        &mut self,
        expected: Option<&ExpectedError>,
        code: Option<&str>,
        stderr: &str,
    ) {
        match (expected, code) {
            (None, None) => {}
            (None, Some(code)) => self.remark(format!("the launch failed with {code}")),
            (Some(error), None) => self.remark(format!(
                "the launch succeeded, expected it to fail with {}",
                error.code
            )),
            (Some(error), Some(code)) if error.code != code => self.remark(format!(
                "the launch failed with {code}, not with {}",
                error.code
            )),
            (Some(error), Some(_)) => {
                if let Some(text) = &error.stderr_contains
                    && !stderr.contains(text)
                {
                    self.remark(format!("standard error does not contain `{text}`"));
                }
            }
        }
    }

    /// Compares the output of the kernel with the expected output.
    pub fn compare_output(&mut self, expected: &ExpectedOutput, stdout: &str) {
        let mut expected_lines: Vec<&str> = expected.text.lines().collect();
        let mut printed: Vec<&str> = stdout.lines().collect();
        if expected.unordered_lines {
            expected_lines.sort_unstable();
            printed.sort_unstable();
        }
        if expected_lines == printed {
            return;
        }
        let differing = expected_lines.iter().zip(&printed).find(|(a, b)| a != b);
        self.remark(match differing {
            Some((expected_lines, printed)) => {
                format!("the kernel printed `{printed}`, expected `{expected_lines}`")
            }
            None => format!(
                "the kernel printed {} lines, expected are {}",
                printed.len(),
                expected_lines.len()
            ),
        });
    }

    fn remark(&mut self, text: String) {
        self.verified = false;
        self.mismatches += 1;
        self.remarks.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulp(ulp: f64) -> Tolerance {
        Tolerance {
            ulp,
            ..Tolerance::default()
        }
    }

    fn allows(tolerance: Tolerance, expected: f64, got: f64) -> bool {
        tolerance.allows(Element::F32, Value::Float(expected), Value::Float(got))
    }

    #[test]
    fn units_are_those_of_the_type() {
        let next = f64::from(f32::from_bits(1f32.to_bits() + 1));
        assert!(!allows(ulp(0.0), 1.0, next));
        assert!(!allows(ulp(0.5), 1.0, next));
        assert!(allows(ulp(1.0), 1.0, next));
        let tiny = f64::from(f32::from_bits(3));
        assert!(allows(ulp(3.0), 0.0, tiny));
        assert!(!allows(ulp(2.0), 0.0, tiny));
        let half = |got| ulp(1.0).allows(Element::F16, Value::Float(1.0), Value::Float(got));
        assert!(half(1.0 + 1.0 / 1024.0));
        assert!(!half(1.0 + 2.0 / 1024.0));
    }

    #[test]
    fn any_tolerance_that_allows_is_enough() {
        let absolute = Tolerance {
            absolute: 0.1,
            ..Tolerance::default()
        };
        let relative = Tolerance {
            relative: 0.1,
            ..Tolerance::default()
        };
        assert!(allows(absolute, 0.0, 0.1) && !allows(absolute, 100.0, 101.0));
        assert!(!allows(relative, 0.0, 0.1) && allows(relative, 100.0, 101.0));
        assert!(allows(Tolerance::default(), f64::NAN, f64::NAN));
        assert!(!allows(absolute, f64::NAN, 1.0));
        assert!(!allows(absolute, f64::INFINITY, 1.0));
        assert!(allows(absolute, 0.0, -0.0));
        let int = |a, b| absolute.allows(Element::U64, Value::Int(a), Value::Int(b));
        assert!(int(i64::MIN, i64::MIN) && !int(i64::MIN, i64::MAX));
    }

    #[test]
    fn mismatches_are_counted_and_the_first_shown() {
        let expected = Expected {
            bytes: (0..100).collect(),
            tolerance: Tolerance::default(),
        };
        let bytes: Vec<u8> = (0..100).map(|i| if i % 2 == 0 { i } else { 200 }).collect();
        let mut verdict = Verdict::good();
        verdict.compare("c", Element::U8, &expected, &bytes);
        assert!(!verdict.verified);
        assert_eq!(verdict.mismatches, 50);
        assert_eq!(verdict.first.len(), MAX_SHOWN);
        assert_eq!(verdict.first[1].to_string(), "c[3]: expected 3, got 200");

        let mut short = Verdict::good();
        short.compare("c", Element::U8, &expected, &bytes[..99]);
        assert_eq!(short.remarks, ["c: 99 elements came back, not 100"]);
    }

    #[test]
    fn numbers_are_shown_as_their_type_has_them() {
        let rendered = |element, expected, got| {
            let mismatch = Mismatch {
                name: "c".to_owned(),
                index: 0,
                element,
                expected,
                got,
            };
            mismatch.to_string()
        };
        assert_eq!(
            rendered(
                Element::F32,
                Value::Float(f64::from(0.1f32)),
                Value::Float(-0.0)
            ),
            "c[0]: expected 0.1, got -0"
        );
        assert_eq!(
            rendered(Element::F64, Value::Float(1e300), Value::Float(f64::NAN)),
            "c[0]: expected 1e300, got NaN"
        );
        assert_eq!(
            rendered(Element::U64, Value::Int(-1), Value::Int(1)),
            "c[0]: expected 18446744073709551615, got 1"
        );
    }

    #[test]
    fn an_expected_error_must_come() {
        let error = ExpectedError {
            code: "CUDA_ERROR_ASSERT".to_owned(),
            stderr_contains: Some("Assertion".to_owned()),
        };
        let verified = |expected, code, stderr| {
            let mut verdict = Verdict::good();
            verdict.compare_error(expected, code, stderr);
            verdict.verified
        };
        let text = "f.cu:3: Assertion `x` failed.";
        assert!(verified(Some(&error), Some("CUDA_ERROR_ASSERT"), text));
        assert!(!verified(Some(&error), Some("CUDA_ERROR_ASSERT"), ""));
        assert!(!verified(
            Some(&error),
            Some("CUDA_ERROR_LAUNCH_FAILED"),
            text
        ));
        assert!(!verified(Some(&error), None, text));
        assert!(!verified(None, Some("CUDA_ERROR_ASSERT"), text));
        assert!(verified(None, None, ""));
    }

    #[test]
    fn printed_lines_may_be_unordered() {
        let verified = |unordered_lines, stdout| {
            let expected = ExpectedOutput {
                text: "a\nb\n".to_owned(),
                unordered_lines,
            };
            let mut verdict = Verdict::good();
            verdict.compare_output(&expected, stdout);
            verdict.verified
        };
        assert!(verified(false, "a\nb\n"));
        assert!(!verified(false, "b\na\n"));
        assert!(verified(true, "b\na\n"));
        assert!(!verified(true, "b\n"));
        assert!(!verified(true, "b\na\na\n"));
    }
}
