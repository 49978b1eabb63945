//! Sample files: a kernel with its launch configuration, arguments and expected results.
//!
//! A sample is a TOML file next to its PTX; `docs/samples.md` describes the format. A buffer without
//! an `init` is filled with [`UNWRITTEN`], so that unwritten elements do not look like results.

mod file;
mod reader;

use std::path::PathBuf;

use input::ShowName as _;

use super::element::Element;
use super::expect::{Expected, ExpectedError, ExpectedOutput, Verdict};
use super::formula::Shape;
use super::pattern::PatternError;
use ptxkit::driver::TensorSwizzle;

/// The byte that fills buffers without an `init`.
pub const UNWRITTEN: u8 = 0xa5;

/// A kernel with its launch configuration, arguments and expected results.
#[derive(Debug, Clone)]
pub struct Sample {
    pub ptx: PathBuf,
    pub kernel: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// The number of consecutive launches with the same arguments, without copies in between.
    pub launches: u32,
    /// In parameter order.
    pub args: Vec<Arg>,
    pub globals: Vec<Global>,
    pub expect_error: Option<ExpectedError>,
    pub expect_output: Option<ExpectedOutput>,
}

/// One argument of the kernel.
#[derive(Debug, Clone)]
pub struct Arg {
    pub name: String,
    pub kind: ArgKind,
}

/// The value of an argument.
#[derive(Debug, Clone)]
pub enum ArgKind {
    /// These bytes: a scalar or a vector of `element`.
    Scalar { element: Element, bytes: Vec<u8> },
    /// These bytes: a parameter struct of this alignment.
    Struct { bytes: Vec<u8>, align: usize },
    /// The address of device memory.
    Buffer(Buffer),
    /// The row pitch of the buffer `args[buffer]` in bytes, as `element`.
    PitchOf { buffer: usize, element: Element },
}

/// Device memory for the kernel.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub element: Element,
    pub shape: Shape,
    /// Whether rows are allocated by `cuMemAllocPitch`; the shape then has columns.
    pub pitched: bool,
    /// The tensor map that is passed instead of the address, if any.
    pub tensor: Option<Tensor>,
    /// The initial contents, without padding between rows.
    pub initial: Vec<u8>,
    /// The expected contents after the launch, if any.
    pub expected: Option<Expected>,
    /// The file for its contents after the launch (`--arg out:…@FILE`).
    pub save: Option<PathBuf>,
}

/// A buffer as a tensor, whose dimensions begin with the contiguous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Elements of the tensor.
    pub sizes: Vec<u64>,
    /// Elements of a box of it.
    pub elements: Vec<u32>,
    pub swizzle: TensorSwizzle,
}

/// A module-level `.global` or `.const` variable.
#[derive(Debug, Clone)]
pub struct Global {
    pub name: String,
    pub element: Element,
    /// The contents that the host writes before the launch; `None` keeps the initializer of the PTX.
    pub initial: Option<Vec<u8>>,
    /// The expected contents after the launch; `None` if it is not read.
    pub expected: Option<Expected>,
}

/// The result of the launches of a sample.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The contents of each argument: rows without padding; empty if it is not a buffer.
    pub args: Vec<Vec<u8>>,
    /// The contents of each module variable; empty without an expectation.
    pub globals: Vec<Vec<u8>>,
    /// The CUDA name of the error of the launches.
    pub error: Option<String>,
    /// The output of the kernel from `vprintf`.
    pub stdout: String,
    /// The output of the driver on standard error.
    pub stderr: String,
}

/// An invalid sample.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    #[error("{}: {source}", path.shown())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Not TOML, or not a sample: the message has the line and the valid keys.
    #[error("{}: {source}", path.shown())]
    Toml {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("{}: {place}: {source}", path.shown())]
    Pattern {
        path: PathBuf,
        /// Such as ``argument `a`, init``.
        place: String,
        source: Box<PatternError>,
    },
    #[error("{}: {place}: {problem}", path.shown())]
    Invalid {
        path: PathBuf,
        place: String,
        problem: String,
    },
}

impl Sample {
    /// Whether there are expectations to verify.
    #[must_use]
    pub fn expects(&self) -> bool {
        let of_args = self
            .args
            .iter()
            .any(|arg| matches!(&arg.kind, ArgKind::Buffer(buffer) if buffer.expected.is_some()));
        of_args
            || self.globals.iter().any(|global| global.expected.is_some())
            || self.expect_error.is_some()
            || self.expect_output.is_some()
    }

    /// Compares the results with the expectations; `None` without expectations.
    ///
    /// Memory is not compared if an error is expected: a failed context cannot be read.
    #[must_use]
    pub fn check(&self, outcome: &Outcome) -> Option<Verdict> {
        if !self.expects() {
            return None;
        }
        let mut verdict = Verdict::good();
        verdict.compare_error(
            self.expect_error.as_ref(),
            outcome.error.as_deref(),
            &outcome.stderr,
        );
        if let Some(expected) = &self.expect_output {
            verdict.compare_output(expected, &outcome.stdout);
        }
        if self.expect_error.is_some() || outcome.error.is_some() {
            return Some(verdict);
        }
        let nothing = Vec::new();
        for (index, arg) in self.args.iter().enumerate() {
            if let ArgKind::Buffer(buffer) = &arg.kind
                && let Some(expected) = &buffer.expected
            {
                let bytes = outcome.args.get(index).unwrap_or(&nothing);
                verdict.compare(&arg.name, buffer.element, expected, bytes);
            }
        }
        for (index, global) in self.globals.iter().enumerate() {
            if let Some(expected) = &global.expected {
                let bytes = outcome.globals.get(index).unwrap_or(&nothing);
                verdict.compare(&global.name, global.element, expected, bytes);
            }
        }
        Some(verdict)
    }
}

impl Arg {
    /// The bytes on the host: the value, or the initial contents of the buffer.
    #[must_use]
    pub fn host_bytes(&self) -> &[u8] {
        match &self.kind {
            ArgKind::Scalar { bytes, .. } | ArgKind::Struct { bytes, .. } => bytes,
            ArgKind::Buffer(buffer) => &buffer.initial,
            ArgKind::PitchOf { .. } => &[],
        }
    }
}

impl Buffer {
    /// The size of a row in bytes, if there are rows.
    #[must_use]
    pub fn row_bytes(&self) -> Option<usize> {
        Some(self.shape.columns? * self.element.size())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<Sample, SampleError> {
        Sample::parse(text, Path::new("folder/name.toml"))
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    fn with_args(args: &str) -> String {
        format!("grid = 1\nblock = 1\nargs = [{args}]")
    }

    #[test]
    fn what_is_left_out_follows_from_the_name() {
        let sample = parse("grid = [2, 3]\nblock = 32").unwrap();
        assert_eq!(sample.ptx, Path::new("folder/name.ptx"));
        assert_eq!(sample.kernel, "name");
        assert_eq!((sample.grid, sample.block), ([2, 3, 1], [32, 1, 1]));
        assert_eq!((sample.shared, sample.launches), (0, 1));
        assert!(!sample.expects());
        assert_eq!(sample.check(&Outcome::default()), None);
    }

    #[test]
    fn a_result_is_compared_with_what_is_expected() {
        let sample = parse(&with_args(
            r#"{ name = "c", buffer = "u16", count = 3, expect = "a[i] * n" },
               { name = "a", buffer = "u8", init = [1, 2, 3] },
               { name = "n", scalar = "s32", value = 100 }"#,
        ))
        .unwrap();
        assert_eq!(sample.args[0].host_bytes(), [UNWRITTEN; 6]);
        assert_eq!(sample.args[1].host_bytes(), [1, 2, 3]);
        assert_eq!(sample.args[2].host_bytes(), [100, 0, 0, 0]);

        let mut outcome = Outcome {
            args: vec![vec![100, 0, 200, 0, 44, 1], vec![1, 2, 3], vec![]],
            ..Outcome::default()
        };
        assert_eq!(sample.check(&outcome), Some(Verdict::good()));
        outcome.args[0][5] = 0;
        let verdict = sample.check(&outcome).unwrap();
        assert!(!verdict.verified);
        assert_eq!(verdict.first[0].to_string(), "c[2]: expected 300, got 44");
        outcome.args = sample
            .args
            .iter()
            .map(|a| a.host_bytes().to_vec())
            .collect();
        assert_eq!(sample.check(&outcome).unwrap().mismatches, 3);
        outcome.args.clear();
        assert!(!sample.check(&outcome).unwrap().verified);
    }

    #[test]
    fn a_struct_is_laid_out_as_in_c() {
        let sample = parse(&with_args(
            r#"{ name = "p", fields = [
                { name = "flag", scalar = "u8", value = 1 },
                { name = "v", scalar = "f32", value = [1.0, 2.0], align = 8 },
                { name = "h", scalar = "u16", value = 2 },
                { name = "d", scalar = "f64", value = 1.0 },
                { name = "end", scalar = "u8", value = 9 },
            ] }"#,
        ))
        .unwrap();
        let ArgKind::Struct { bytes, align } = &sample.args[0].kind else {
            panic!("{sample:?}");
        };
        assert_eq!((bytes.len(), *align), (40, 8));
        assert_eq!((bytes[0], bytes[11], bytes[16], bytes[32]), (1, 0x3f, 2, 9));
    }

    #[test]
    fn a_pitch_names_its_buffer() {
        let sample = parse(&with_args(
            r#"{ name = "a", buffer = "f32", count = [2, 3], pitched = true, init = "iota" },
               { name = "pitch", scalar = "u64", pitch_of = "a" }"#,
        ))
        .unwrap();
        let ArgKind::Buffer(buffer) = &sample.args[0].kind else {
            panic!("{sample:?}");
        };
        assert_eq!(buffer.row_bytes(), Some(12));
        assert!(matches!(
            sample.args[1].kind,
            ArgKind::PitchOf {
                buffer: 0,
                element: Element::U64
            }
        ));
    }

    #[test]
    fn a_tensor_has_the_shape_of_its_buffer() {
        let tensor = |keys: &str| {
            let text = format!(r#"{{ name = "a", buffer = "f16", {keys} }}"#);
            match parse(&with_args(&text)).unwrap().args.remove(0).kind {
                ArgKind::Buffer(buffer) => buffer.tensor.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        let matrix = tensor("count = [60, 100], tensor = { box = [32, 16], swizzle = 64 }");
        assert_eq!(matrix.sizes, [100, 60]);
        assert_eq!(matrix.elements, [32, 16]);
        assert_eq!(matrix.swizzle, TensorSwizzle::Bytes64);
        assert_eq!(tensor("count = 64, tensor = { box = [8] }").sizes, [64]);
        let volume = tensor("count = 64, tensor = { sizes = [8, 4, 2], box = [8, 1, 1] }");
        assert_eq!(volume.sizes, [8, 4, 2]);
    }

    #[test]
    fn errors_and_globals_are_expected_too() {
        let sample = parse(
            r#"
            grid = 1
            block = 1
            expect_error = { code = "CUDA_ERROR_ASSERT" }
            globals = [{ name = "g", element = "u32", count = 1, init = "7", expect = "g[0] + 1" }]
            "#,
        )
        .unwrap();
        let mut outcome = Outcome::default();
        assert!(!sample.check(&outcome).unwrap().verified);
        outcome.error = Some("CUDA_ERROR_ASSERT".to_owned());
        assert!(sample.check(&outcome).unwrap().verified);
        let expected = sample.globals[0].expected.as_ref().unwrap();
        assert_eq!(expected.bytes, [8, 0, 0, 0]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let cases = [
            ("grid = 1", "missing field `block`"),
            ("grid = 1\nblock = 1\ncolour = 1", "unknown field `colour`"),
            ("grid = 0\nblock = 1", "grid: one to three numbers above 0"),
            ("grid = \"x\"\nblock = 1", "a whole number, or a list"),
        ];
        for (text, message) in cases {
            let refusal = refusal(text);
            assert!(refusal.starts_with("folder/name.toml: "), "{refusal}");
            assert!(refusal.contains(message), "{refusal}");
        }
        let arguments = [
            (
                r#"{ name = "a", buffer = "f31", count = 1 }"#,
                "unknown element type `f31`",
            ),
            (
                r#"{ name = "a", buffer = "f32" }"#,
                "`a`: `count` is missing",
            ),
            (
                r#"{ name = "a", buffer = "f32", count = 0 }"#,
                "`a`: it has no elements",
            ),
            (
                r#"{ name = "a", scalar = "f32" }"#,
                "`a`: an argument is one of",
            ),
            (
                r#"{ name = "a", scalar = "u8", value = 256 }"#,
                "`a`: element 0: 256 does not fit",
            ),
            (
                r#"{ name = "a", scalar = "u8", value = 1, init = "ones" }"#,
                "belong to a `buffer`",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 9999999999 }"#,
                "larger than 4 GiB",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 1, pitched = true }"#,
                "[rows, columns]",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 2, init = [1] }"#,
                "1 numbers for 2 elements",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 2, init = "b" }"#,
                "`a`, init: invalid formula: there is no `b` here",
            ),
            (
                r#"{ name = "a", scalar = "u8", pitch_of = "b" }"#,
                "is a pitched buffer `b`",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 64, tensor = { box = [16, 1] } }"#,
                "`a`, tensor: `box` has a number for each of 1 dimensions",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 64, tensor = { box = [16], sizes = [65] } }"#,
                "`sizes` are not of 64 elements together",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = 64, tensor = { box = [16], swizzle = 96 } }"#,
                "`swizzle` is 0, 32, 64 or 128",
            ),
            (
                r#"{ name = "a", scalar = "u8", value = 1, tensor = { box = [16] } }"#,
                "belong to a `buffer`",
            ),
            (
                r#"{ name = "a", buffer = "u8", count = [4, 16], pitched = true, tensor = { box = [16, 1] } }"#,
                "a tensor has no padded rows",
            ),
        ];
        for (argument, message) in arguments {
            let refusal = refusal(&with_args(argument));
            assert!(refusal.contains(message), "{refusal}");
        }
    }
}
