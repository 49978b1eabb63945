//! Sample files: a kernel, what it needs to run, and what it must give.
//!
//! A sample is a TOML file beside its PTX. `ptx` is by default the file's own name with `.ptx`,
//! `kernel` that name without an ending.
//!
//! ```toml
//! grid = 4                  # or [x, y] or [x, y, z]
//! block = 256
//! args = [
//!     { name = "a", buffer = "f32", count = 1000, init = "iota" },
//!     { name = "b", buffer = "f32", count = 1000, init = "random:1" },
//!     { name = "c", buffer = "f32", count = 1000, expect = "a[i] + b[i]" },
//!     { name = "n", scalar = "u32", value = 1000 },
//! ]
//! ```
//!
//! The arguments stand in the order of the kernel's parameters. Each is one of
//!
//! - `buffer = TYPE`: device memory, passed by its address. `count` is a number of elements or
//!   `[rows, columns]`; with `pitched = true` the rows are as far apart as the driver wants.
//!   `init` is a [pattern](super::pattern) or a list of numbers; without it the bytes are
//!   [`UNWRITTEN`], so that what a kernel never wrote cannot pass for a result. `expect` is a
//!   [formula](super::formula) or a list of numbers, `tolerance` a table of `absolute`,
//!   `relative` and `ulp`.
//! - `scalar = TYPE` with `value`, a number, or numbers for a vector.
//! - `pitch_of = BUFFER` with `scalar = TYPE`: the bytes from one row of that buffer to the next.
//! - `fields = [...]`: a parameter struct. Each field is a scalar with a name; it stands at the
//!   next offset that its type allows, or that its own `align` asks for.
//!
//! Module variables are set and read like buffers, by `[[globals]]`. Further keys: `shared`
//! (bytes of dynamic shared memory), `launches` (launches in a row), `expect_error` (a table of
//! `code` and `stderr_contains`), `expect_output` (printed text) with `unordered_lines`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;

use super::element::{Element, Value};
use super::expect::{Expected, ExpectedError, ExpectedOutput, Tolerance, Verdict};
use super::formula::{Calculator, Known, Shape};
use super::pattern::{self, PatternError};

/// The byte that fills buffers without an `init`.
pub const UNWRITTEN: u8 = 0xa5;

/// A kernel, what it needs to run, and what it must give.
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
    /// Launches in a row, with the same arguments and nothing copied between.
    pub launches: u32,
    /// In the order of the kernel's parameters.
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

/// What is passed for a parameter.
#[derive(Debug, Clone)]
pub enum ArgKind {
    /// These bytes: a scalar or a vector of `element`.
    Scalar { element: Element, bytes: Vec<u8> },
    /// These bytes: a parameter struct of this alignment.
    Struct { bytes: Vec<u8>, align: usize },
    /// The address of device memory.
    Buffer(Buffer),
    /// The bytes from one row of the buffer `args[buffer]` to the next, as `element`.
    PitchOf { buffer: usize, element: Element },
}

/// Device memory for the kernel.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub element: Element,
    pub shape: Shape,
    /// Rows are allocated by `cuMemAllocPitch`; the shape has columns then.
    pub pitched: bool,
    /// What it holds before the launch, without padding between rows.
    pub initial: Vec<u8>,
    /// What it must hold after the launch; `None`: anything.
    pub expected: Option<Expected>,
    /// The file that takes what it holds after the launch (`--arg out:…@FILE`).
    pub save: Option<PathBuf>,
}

/// A module-level `.global` or `.const` variable.
#[derive(Debug, Clone)]
pub struct Global {
    pub name: String,
    pub element: Element,
    /// What the host writes to it before the launch; `None`: it keeps what the PTX says.
    pub initial: Option<Vec<u8>>,
    /// What it must hold after the launch; `None`: it need not be read.
    pub expected: Option<Expected>,
}

/// What came of the launches of a sample.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// For each argument what it holds now: rows without padding; empty where it is no buffer.
    pub args: Vec<Vec<u8>>,
    /// For each module variable what it holds now; empty where nothing is expected of it.
    pub globals: Vec<Vec<u8>>,
    /// The CUDA name of the error that ended the launches.
    pub error: Option<String>,
    /// What the kernel printed with `vprintf`.
    pub stdout: String,
    /// What the driver printed on standard error.
    pub stderr: String,
}

/// A sample that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    #[error("{path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Not TOML, or not a sample: the message has the line and the keys that are allowed.
    #[error("{path}: {source}")]
    Toml {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("{path}: {place}: {source}")]
    Pattern {
        path: PathBuf,
        /// Such as ``argument `a`, init``.
        place: String,
        source: PatternError,
    },
    #[error("{path}: {place}: {problem}")]
    Invalid {
        path: PathBuf,
        place: String,
        problem: String,
    },
}

impl Sample {
    /// Reads a sample file and works out its buffers and expectations.
    ///
    /// # Errors
    /// The file cannot be read, is not a sample, or says something that does not fit together.
    pub fn load(path: &Path) -> Result<Sample, SampleError> {
        let text = std::fs::read_to_string(path).map_err(|source| SampleError::Read {
            path: path.to_owned(),
            source,
        })?;
        Sample::parse(&text, path)
    }

    /// Reads the text of a sample file; other files are looked for beside `path`.
    ///
    /// # Errors
    /// As [`Sample::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Sample, SampleError> {
        let file: File = toml::from_str(text).map_err(|source| SampleError::Toml {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Reader {
            path,
            folder: path.parent().unwrap_or(Path::new("")),
            calculator: Calculator::new(),
        }
        .sample(file)
    }

    /// Whether anything is expected, so that there is something to verify.
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

    /// Compares what came with what is expected; `None` where nothing is expected.
    ///
    /// Memory is not compared when an error is expected: a context that failed gives none back.
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
    /// The bytes that the host has for it: the value, or what its buffer holds at first.
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
    /// Bytes of a row, where there are rows.
    #[must_use]
    pub fn row_bytes(&self) -> Option<usize> {
        Some(self.shape.columns? * self.element.size())
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    ptx: Option<PathBuf>,
    kernel: Option<String>,
    grid: Extent,
    block: Extent,
    #[serde(default)]
    shared: u32,
    launches: Option<u32>,
    #[serde(default)]
    args: Vec<ArgText>,
    #[serde(default)]
    globals: Vec<GlobalText>,
    expect_error: Option<ErrorText>,
    expect_output: Option<String>,
    #[serde(default)]
    unordered_lines: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgText {
    name: String,
    buffer: Option<Element>,
    count: Option<Count>,
    #[serde(default)]
    pitched: bool,
    init: Option<Content>,
    expect: Option<Content>,
    tolerance: Option<ToleranceText>,
    scalar: Option<Element>,
    value: Option<Numbers>,
    pitch_of: Option<String>,
    fields: Option<Vec<FieldText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldText {
    name: String,
    scalar: Element,
    value: Numbers,
    align: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GlobalText {
    name: String,
    element: Element,
    count: Option<Count>,
    init: Option<Content>,
    expect: Option<Content>,
    tolerance: Option<ToleranceText>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct ToleranceText {
    #[serde(default)]
    absolute: f64,
    #[serde(default)]
    relative: f64,
    #[serde(default)]
    ulp: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorText {
    code: String,
    stderr_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a whole number, or a list of one to three of them"
)]
enum Extent {
    X(u32),
    Axes(Vec<u32>),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a number of elements, or [rows, columns]")]
enum Count {
    Elements(usize),
    Rows([usize; 2]),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a number")]
enum Number {
    Int(i64),
    Float(f64),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or a list of numbers")]
enum Numbers {
    One(Number),
    Many(Vec<Number>),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a pattern or formula in quotes, or a list of numbers"
)]
enum Content {
    Text(String),
    Numbers(Vec<Number>),
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Int(number) => Value::Int(number),
            Number::Float(number) => Value::Float(number),
        }
    }
}

impl Numbers {
    fn values(&self) -> Vec<Value> {
        match self {
            Numbers::One(number) => vec![(*number).into()],
            Numbers::Many(numbers) => numbers.iter().map(|&number| number.into()).collect(),
        }
    }
}

impl From<ToleranceText> for Tolerance {
    fn from(text: ToleranceText) -> Tolerance {
        Tolerance {
            absolute: text.absolute,
            relative: text.relative,
            ulp: text.ulp,
        }
    }
}

/// Turns the file into a sample, and knows where it stands for messages.
struct Reader<'a> {
    path: &'a Path,
    folder: &'a Path,
    calculator: Calculator,
}

/// What is expected of an argument or module variable, before all names are known.
struct Wanted {
    content: Content,
    tolerance: Tolerance,
}

impl Reader<'_> {
    fn sample(mut self, file: File) -> Result<Sample, SampleError> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let stem = stem.into_owned();
        let ptx = file
            .ptx
            .unwrap_or_else(|| PathBuf::from(format!("{stem}.ptx")));
        let grid = self.extent("grid", &file.grid)?;
        let block = self.extent("block", &file.block)?;
        let launches = file.launches.unwrap_or(1);
        if launches == 0 {
            return Err(self.invalid("launches", "at least 1"));
        }

        let mut args: Vec<Arg> = Vec::new();
        let mut wanted = Vec::new();
        for text in file.args {
            let place = format!("argument `{}`", text.name);
            if args.iter().any(|arg| arg.name == text.name) {
                return Err(self.invalid(&place, "there are two of this name"));
            }
            let (arg, expectation) = self.argument(text, &args, &place)?;
            args.push(arg);
            wanted.push(expectation);
        }
        let mut globals = Vec::new();
        let mut wanted_globals = Vec::new();
        for text in file.globals {
            let (global, shape, expectation) = self.global(text)?;
            globals.push(global);
            wanted_globals.push((shape, expectation));
        }

        // Only now: an expectation may name any argument, also one that comes after it.
        for (arg, wanted) in args.iter_mut().zip(wanted) {
            if let (ArgKind::Buffer(buffer), Some(wanted)) = (&mut arg.kind, wanted) {
                let place = format!("argument `{}`, expect", arg.name);
                buffer.expected =
                    Some(self.expected(wanted, buffer.element, buffer.shape, &place)?);
            }
        }
        for (global, (shape, wanted)) in globals.iter_mut().zip(wanted_globals) {
            if let Some(wanted) = wanted {
                let place = format!("global `{}`, expect", global.name);
                global.expected = Some(self.expected(wanted, global.element, shape, &place)?);
            }
        }

        Ok(Sample {
            ptx: self.folder.join(ptx),
            kernel: file.kernel.unwrap_or(stem),
            grid,
            block,
            shared: file.shared,
            launches,
            args,
            globals,
            expect_error: file.expect_error.map(|error| ExpectedError {
                code: error.code,
                stderr_contains: error.stderr_contains,
            }),
            expect_output: file.expect_output.map(|text| ExpectedOutput {
                text,
                unordered_lines: file.unordered_lines,
            }),
        })
    }

    fn extent(&self, place: &str, extent: &Extent) -> Result<[u32; 3], SampleError> {
        let sizes = match extent {
            Extent::X(x) => std::slice::from_ref(x),
            Extent::Axes(sizes) => sizes,
        };
        if sizes.is_empty() || sizes.len() > 3 || sizes.contains(&0) {
            return Err(self.invalid(place, "one to three numbers above 0"));
        }
        let mut all = [1; 3];
        all[..sizes.len()].copy_from_slice(sizes);
        Ok(all)
    }

    fn argument(
        &mut self,
        text: ArgText,
        before: &[Arg],
        place: &str,
    ) -> Result<(Arg, Option<Wanted>), SampleError> {
        let of_buffers = text.count.is_some()
            || text.pitched
            || text.init.is_some()
            || text.expect.is_some()
            || text.tolerance.is_some();
        if of_buffers && text.buffer.is_none() {
            let problem =
                "`count`, `pitched`, `init`, `expect` and `tolerance` belong to a `buffer`";
            return Err(self.invalid(place, problem));
        }
        let name = text.name;
        let mut wanted = None;
        let kind = match (
            text.buffer,
            text.scalar,
            text.value,
            text.pitch_of,
            text.fields,
        ) {
            (Some(element), None, None, None, None) => {
                let shape = self.shape(text.count, text.init.as_ref(), element, place)?;
                if text.pitched && shape.columns.is_none() {
                    let problem = "a pitched buffer has `count = [rows, columns]`";
                    return Err(self.invalid(place, problem));
                }
                let initial = match text.init {
                    Some(content) => {
                        self.content(content, element, shape, &format!("{place}, init"))?
                    }
                    None => vec![UNWRITTEN; shape.count * element.size()],
                };
                self.learn(&name, element, &initial);
                wanted = text.expect.map(|content| Wanted {
                    content,
                    tolerance: text.tolerance.map_or_else(Tolerance::default, Into::into),
                });
                ArgKind::Buffer(Buffer {
                    element,
                    shape,
                    pitched: text.pitched,
                    initial,
                    expected: None,
                    save: None,
                })
            }
            (None, Some(element), Some(numbers), None, None) => ArgKind::Scalar {
                element,
                bytes: self.scalar(&name, element, &numbers, place)?,
            },
            (None, Some(element), None, Some(buffer), None) => {
                let pitched = |arg: &Arg| {
                    arg.name == buffer
                        && matches!(&arg.kind, ArgKind::Buffer(buffer) if buffer.pitched)
                };
                match before.iter().position(pitched) {
                    Some(buffer) => ArgKind::PitchOf { buffer, element },
                    None => {
                        let problem = format!("no pitched buffer `{buffer}` stands before it");
                        return Err(self.invalid(place, &problem));
                    }
                }
            }
            (None, None, None, None, Some(fields)) => self.fields(&name, &fields, place)?,
            _ => {
                let problem = "an argument is one of: `buffer`; `scalar` with `value`; `scalar` \
                               with `pitch_of`; `fields`";
                return Err(self.invalid(place, problem));
            }
        };
        Ok((Arg { name, kind }, wanted))
    }

    fn scalar(
        &mut self,
        name: &str,
        element: Element,
        numbers: &Numbers,
        place: &str,
    ) -> Result<Vec<u8>, SampleError> {
        let bytes = self.encode(element, numbers.values(), place)?;
        match numbers {
            Numbers::One(_) => {
                if let Some(value) = element.decode(&bytes) {
                    self.calculator.learn(name, Known::Number(value));
                }
            }
            Numbers::Many(_) => self.learn(name, element, &bytes),
        }
        Ok(bytes)
    }

    fn fields(
        &mut self,
        name: &str,
        fields: &[FieldText],
        place: &str,
    ) -> Result<ArgKind, SampleError> {
        let mut bytes = Vec::new();
        let mut largest = 1;
        for field in fields {
            let place = format!("{place}, field `{}`", field.name);
            let align = field.align.unwrap_or(field.scalar.size());
            if !align.is_power_of_two() || align > 128 {
                return Err(self.invalid(&place, "`align` is a power of two up to 128"));
            }
            bytes.resize(bytes.len().next_multiple_of(align), 0);
            largest = largest.max(align);
            let known = format!("{name}_{}", field.name);
            bytes.extend(self.scalar(&known, field.scalar, &field.value, &place)?);
        }
        bytes.resize(bytes.len().next_multiple_of(largest), 0);
        Ok(ArgKind::Struct {
            bytes,
            align: largest,
        })
    }

    fn global(&mut self, text: GlobalText) -> Result<(Global, Shape, Option<Wanted>), SampleError> {
        let place = format!("global `{}`", text.name);
        let shape = self.shape(text.count, text.init.as_ref(), text.element, &place)?;
        let initial = match text.init {
            Some(content) => {
                let place = format!("{place}, init");
                let bytes = self.content(content, text.element, shape, &place)?;
                self.learn(&text.name, text.element, &bytes);
                Some(bytes)
            }
            None => None,
        };
        let wanted = text.expect.map(|content| Wanted {
            content,
            tolerance: text.tolerance.map_or_else(Tolerance::default, Into::into),
        });
        let global = Global {
            name: text.name,
            element: text.element,
            initial,
            expected: None,
        };
        Ok((global, shape, wanted))
    }

    /// The size that `count` gives, or else the length of a list in `init`.
    fn shape(
        &self,
        count: Option<Count>,
        init: Option<&Content>,
        element: Element,
        place: &str,
    ) -> Result<Shape, SampleError> {
        let (count, columns) = match (count, init) {
            (Some(Count::Elements(count)), _) => (Some(count), None),
            (Some(Count::Rows([rows, columns])), _) => (rows.checked_mul(columns), Some(columns)),
            (None, Some(Content::Numbers(numbers))) => (Some(numbers.len()), None),
            (None, _) => return Err(self.invalid(place, "`count` is missing")),
        };
        match count {
            Some(0) => Err(self.invalid(place, "it has no elements")),
            Some(count) if Shape::fits(count, element) => Ok(Shape { count, columns }),
            _ => Err(self.invalid(place, "it is larger than 4 GiB")),
        }
    }

    fn content(
        &mut self,
        content: Content,
        element: Element,
        shape: Shape,
        place: &str,
    ) -> Result<Vec<u8>, SampleError> {
        match content {
            Content::Text(text) => {
                pattern::fill(&text, element, shape, self.folder, &mut self.calculator)
                    .map_err(|source| self.bad_pattern(place, source))
            }
            Content::Numbers(numbers) if numbers.len() == shape.count => {
                self.encode(element, numbers.into_iter().map(Value::from), place)
            }
            Content::Numbers(numbers) => {
                let problem = format!("{} numbers for {} elements", numbers.len(), shape.count);
                Err(self.invalid(place, &problem))
            }
        }
    }

    /// Values as the element holds them, so that a tolerance of zero means correctly rounded.
    fn expected(
        &mut self,
        wanted: Wanted,
        element: Element,
        shape: Shape,
        place: &str,
    ) -> Result<Expected, SampleError> {
        let bytes = self.content(wanted.content, element, shape, place)?;
        Ok(Expected {
            values: element.decode_all(&bytes),
            tolerance: wanted.tolerance,
        })
    }

    fn encode(
        &self,
        element: Element,
        values: impl IntoIterator<Item = Value>,
        place: &str,
    ) -> Result<Vec<u8>, SampleError> {
        pattern::encode(element, values).map_err(|source| self.bad_pattern(place, source))
    }

    fn learn(&mut self, name: &str, element: Element, bytes: &[u8]) {
        let values = Rc::from(element.decode_all(bytes));
        self.calculator.learn(name, Known::Numbers(values));
    }

    fn bad_pattern(&self, place: &str, source: PatternError) -> SampleError {
        SampleError::Pattern {
            path: self.path.to_owned(),
            place: place.to_owned(),
            source,
        }
    }

    fn invalid(&self, place: &str, problem: &str) -> SampleError {
        SampleError::Invalid {
            path: self.path.to_owned(),
            place: place.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(expected.values, [Value::Int(8)]);
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
                "`a`, init: the formula `b`",
            ),
            (
                r#"{ name = "a", scalar = "u8", pitch_of = "b" }"#,
                "no pitched buffer `b`",
            ),
        ];
        for (argument, message) in arguments {
            let refusal = refusal(&with_args(argument));
            assert!(refusal.contains(message), "{refusal}");
        }
    }
}
