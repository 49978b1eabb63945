//! Converts a sample file to a sample: validates it, and evaluates patterns and formulas.

use std::path::{Path, PathBuf};

use super::file::{
    ArgText, Content, Count, Extent, FieldText, File, GlobalText, Numbers, TensorText,
};
use super::{Arg, ArgKind, Buffer, Global, Sample, SampleError, Tensor, UNWRITTEN};
use crate::element::{Element, Value};
use crate::expect::{Expected, ExpectedError, ExpectedOutput, Tolerance};
use crate::formula::{Calculator, Limit, Shape};
use crate::pattern::{self, PatternError};
use ptxkit::driver::TensorSwizzle;

/// The largest sample file, in bytes.
const LARGEST: u64 = 64 << 20;

impl Sample {
    /// Reads a sample file, and evaluates its buffers and expectations.
    ///
    /// # Errors
    /// The file cannot be read, is not a sample, or is inconsistent.
    pub fn load(path: &Path) -> Result<Sample, SampleError> {
        let text = input::read_text(path, LARGEST).map_err(|source| SampleError::Read {
            path: path.to_owned(),
            source,
        })?;
        Sample::parse(&text, path)
    }

    /// Parses the text of a sample file; other files are relative to `path`.
    ///
    /// # Errors
    /// As [`Sample::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Sample, SampleError> {
        let file: File = toml::from_str(text).map_err(|source| SampleError::Toml {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Reader::new(path).sample(file)
    }
}

/// Converts a file to a sample. Has the path for messages.
pub(super) struct Reader<'a> {
    path: &'a Path,
    folder: &'a Path,
    calculator: Calculator,
}

/// The expectation for an argument or module variable, evaluated when all names are known.
struct PendingExpectation {
    content: Content,
    tolerance: Tolerance,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Reader {
            path,
            folder: path.parent().unwrap_or(Path::new("")),
            calculator: Calculator::new(),
        }
    }

    pub(super) fn sample(mut self, file: File) -> Result<Sample, SampleError> {
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
        let mut expectations = Vec::new();
        for text in file.args {
            let place = format!("argument `{}`", text.name);
            if args.iter().any(|arg| arg.name == text.name) {
                return Err(self.invalid(&place, "duplicate name"));
            }
            let (arg, expectation) = self.argument(text, &args, &place)?;
            args.push(arg);
            expectations.push(expectation);
        }
        let mut globals = Vec::new();
        let mut global_expectations = Vec::new();
        for text in file.globals {
            let (global, shape, expectation) = self.global(text)?;
            globals.push(global);
            global_expectations.push((shape, expectation));
        }

        // An expectation may use any argument, also later ones.
        for (arg, expectation) in args.iter_mut().zip(expectations) {
            if let (ArgKind::Buffer(buffer), Some(expectation)) = (&mut arg.kind, expectation) {
                let place = format!("argument `{}`, expect", arg.name);
                buffer.expected =
                    Some(self.expected(expectation, buffer.element, buffer.shape, &place)?);
            }
        }
        for (global, (shape, expectation)) in globals.iter_mut().zip(global_expectations) {
            if let Some(expectation) = expectation {
                let place = format!("global `{}`, expect", global.name);
                global.expected =
                    Some(self.expected(expectation, global.element, shape, &place)?);
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
    ) -> Result<(Arg, Option<PendingExpectation>), SampleError> {
        let of_buffers = text.count.is_some()
            || text.pitched
            || text.tensor.is_some()
            || text.init.is_some()
            || text.expect.is_some()
            || text.tolerance.is_some();
        if of_buffers && text.buffer.is_none() {
            let problem = "`count`, `pitched`, `tensor`, `init`, `expect` and `tolerance` belong \
                           to a `buffer`";
            return Err(self.invalid(place, problem));
        }
        let name = text.name;
        let mut expectation = None;
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
                if text.pitched && text.tensor.is_some() {
                    return Err(self.invalid(place, "a tensor has no padded rows"));
                }
                let tensor = text.tensor.map(|text| self.tensor(text, shape, place));
                let tensor = tensor.transpose()?;
                let initial = match text.init {
                    Some(content) => {
                        self.content(content, element, shape, &format!("{place}, init"))?
                    }
                    None => {
                        let size = shape.count * element.size();
                        let memory = self.calculator.memory(size);
                        let mut bytes = memory.map_err(|limit| self.beyond(place, limit))?;
                        bytes.resize(size, UNWRITTEN);
                        bytes
                    }
                };
                self.learn(&name, element, &initial, place)?;
                expectation = text.expect.map(|content| PendingExpectation {
                    content,
                    tolerance: text.tolerance.map_or_else(Tolerance::default, Into::into),
                });
                ArgKind::Buffer(Buffer {
                    element,
                    shape,
                    pitched: text.pitched,
                    tensor,
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
                        let problem = format!("no earlier argument is a pitched buffer `{buffer}`");
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
        Ok((Arg { name, kind }, expectation))
    }

    /// The numbers themselves are checked where the map is made.
    fn tensor(&self, text: TensorText, shape: Shape, place: &str) -> Result<Tensor, SampleError> {
        let place = format!("{place}, tensor");
        let sizes = text.sizes.unwrap_or_else(|| match shape.columns {
            Some(columns) => vec![columns as u64, (shape.count / columns.max(1)) as u64],
            None => vec![shape.count as u64],
        });
        let count = sizes
            .iter()
            .try_fold(1_u64, |count, size| count.checked_mul(*size));
        if count != Some(shape.count as u64) {
            let problem = format!("`sizes` are not of {} elements together", shape.count);
            return Err(self.invalid(&place, &problem));
        }
        if text.elements.len() != sizes.len() {
            let problem = format!("`box` has a number for each of {} dimensions", sizes.len());
            return Err(self.invalid(&place, &problem));
        }
        let swizzle = match text.swizzle {
            0 => TensorSwizzle::None,
            32 => TensorSwizzle::Bytes32,
            64 => TensorSwizzle::Bytes64,
            128 => TensorSwizzle::Bytes128,
            _ => return Err(self.invalid(&place, "`swizzle` is 0, 32, 64 or 128")),
        };
        Ok(Tensor {
            sizes,
            elements: text.elements,
            swizzle,
        })
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
                    self.calculator.define_number(name, value);
                }
            }
            Numbers::Many(_) => self.learn(name, element, &bytes, place)?,
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

    fn global(
        &mut self,
        text: GlobalText,
    ) -> Result<(Global, Shape, Option<PendingExpectation>), SampleError> {
        let place = format!("global `{}`", text.name);
        let shape = self.shape(text.count, text.init.as_ref(), text.element, &place)?;
        let initial = match text.init {
            Some(content) => {
                let place = format!("{place}, init");
                let bytes = self.content(content, text.element, shape, &place)?;
                self.learn(&text.name, text.element, &bytes, &place)?;
                Some(bytes)
            }
            None => None,
        };
        let expectation = text.expect.map(|content| PendingExpectation {
            content,
            tolerance: text.tolerance.map_or_else(Tolerance::default, Into::into),
        });
        let global = Global {
            name: text.name,
            element: text.element,
            initial,
            expected: None,
        };
        Ok((global, shape, expectation))
    }

    /// The size from `count`, or else from the length of a list in `init`.
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
        &self,
        content: Content,
        element: Element,
        shape: Shape,
        place: &str,
    ) -> Result<Vec<u8>, SampleError> {
        match content {
            Content::Text(text) => {
                pattern::fill(&text, element, shape, self.folder, &self.calculator)
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

    /// Values rounded to the element type, so that a tolerance of zero means correctly rounded.
    fn expected(
        &self,
        expectation: PendingExpectation,
        element: Element,
        shape: Shape,
        place: &str,
    ) -> Result<Expected, SampleError> {
        Ok(Expected {
            bytes: self.content(expectation.content, element, shape, place)?,
            tolerance: expectation.tolerance,
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

    fn learn(
        &mut self,
        name: &str,
        element: Element,
        bytes: &[u8],
        place: &str,
    ) -> Result<(), SampleError> {
        let learned = self.calculator.define_numbers(name, element, bytes);
        learned.map_err(|limit| self.beyond(place, limit))
    }

    fn beyond(&self, place: &str, limit: Limit) -> SampleError {
        self.bad_pattern(place, limit.into())
    }

    fn bad_pattern(&self, place: &str, source: PatternError) -> SampleError {
        SampleError::Pattern {
            path: self.path.to_owned(),
            place: place.to_owned(),
            source: Box::new(source),
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
