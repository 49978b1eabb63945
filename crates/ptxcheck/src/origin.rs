//! What PTX was compiled from: the kernel under its name in the source, and by `.file` and
//! `.loc` the line of CUDA or Python.

use std::collections::HashMap;
use std::fmt;

use demangle::demangled;
use lint::Finding;
use ptx::ast::{Body, Directive, DirectiveKind, Function, FunctionKind, Item, Module, Place};
use ptx::line_table::{InlinedCalls, file_name, locations};
use terminal::output::Escaped;

/// Functions of a text, and what they were compiled from.
#[derive(Debug, Default)]
pub struct Origins {
    /// In the order of the text.
    functions: Vec<FunctionLines>,
    /// By the number of `.file`.
    files: HashMap<u32, String>,
}

#[derive(Debug)]
struct FunctionLines {
    start: u32,
    end: u32,
    kernel: bool,
    name: String,
    demangled: Option<String>,
    /// Each `.loc`: where it stands, what it says, and where that was inlined.
    lines: Vec<(u32, Place, Option<Place>)>,
    calls: InlinedCalls,
}

/// What the PTX at a place was compiled from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    pub kernel: bool,
    /// As the PTX has it.
    pub name: &'o str,
    /// As the source has it, where that is another one.
    pub demangled: Option<&'o str>,
    pub line: Option<SourceLine<'o>>,
    /// The line of the function that `line` was inlined into, if it was.
    pub inlined_at: Option<SourceLine<'o>>,
}

/// A line of CUDA or Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine<'o> {
    pub file: &'o str,
    pub line: u32,
    /// From 1; 0 where unknown.
    pub column: u32,
}

impl Origins {
    /// Those of the functions of `text` that `findings` lie in.
    pub fn new(module: &Module<'_>, text: &str, findings: &[Finding]) -> Origins {
        let mut places: Vec<u32> = findings.iter().map(|finding| finding.span.start).collect();
        places.sort_unstable();
        Origins::chosen(module, text, |function| {
            let next = places.partition_point(|place| *place < function.span.start);
            places.get(next).is_some_and(|at| *at < function.span.end)
        })
    }

    /// Those of no function yet.
    pub fn of_files(module: &Module<'_>) -> Origins {
        Origins::chosen(module, "", |_| false)
    }

    /// Adds those of a function, behind those before it in the text.
    pub fn add(&mut self, function: &Function<'_>, body: Option<&Body<'_>>, text: &str) {
        self.functions
            .push(FunctionLines::new(function, body, text));
    }

    fn chosen(module: &Module<'_>, text: &str, wanted: impl Fn(&Function<'_>) -> bool) -> Origins {
        let mut origins = Origins::default();
        for item in &module.items {
            match item {
                Item::Directive(Directive {
                    kind: DirectiveKind::File { index, name, .. },
                    ..
                }) => {
                    origins.files.insert(*index, file_name(name));
                }
                Item::Function(function) if wanted(function) => {
                    origins.add(function, function.body.as_ref(), text);
                }
                _ => {}
            }
        }
        origins
    }

    /// Those of all functions.
    pub fn of_module(module: &Module<'_>, text: &str) -> Origins {
        Origins::chosen(module, text, |_| true)
    }

    /// Each `.loc` that names a line: where it stands, what it says, and where that was inlined.
    pub fn lines(&self) -> impl Iterator<Item = (u32, SourceLine<'_>, Option<SourceLine<'_>>)> {
        self.functions.iter().flat_map(move |function| {
            let lines = function.lines.iter();
            lines.filter_map(move |(offset, place, call)| {
                let call = call.and_then(|call| self.line(function.calls.outermost(call)));
                Some((*offset, self.line(*place)?, call))
            })
        })
    }

    /// What the PTX at a byte was compiled from; `None` outside of functions.
    pub fn at(&self, offset: u32) -> Option<Origin<'_>> {
        let next = self
            .functions
            .partition_point(|function| function.start <= offset);
        let function = self.functions.get(next.checked_sub(1)?)?;
        if offset >= function.end {
            return None;
        }
        let (place, call) = function.place(offset).unzip();
        Some(Origin {
            kernel: function.kernel,
            name: &function.name,
            demangled: function.demangled.as_deref(),
            line: place.and_then(|place| self.line(place)),
            inlined_at: call
                .flatten()
                .and_then(|call| self.line(function.calls.outermost(call))),
        })
    }

    fn line(&self, place: Place) -> Option<SourceLine<'_>> {
        // Line 0 is code that the compiler added.
        let file = self.files.get(&place.file).filter(|_| place.line > 0)?;
        Some(SourceLine {
            file,
            line: place.line,
            column: place.column,
        })
    }
}

impl FunctionLines {
    fn new(function: &Function<'_>, body: Option<&Body<'_>>, text: &str) -> FunctionLines {
        let locations = body.into_iter().flat_map(|body| locations(body, text));
        let lines = locations.map(|location| {
            let call = location.inlined.as_ref().map(|inlined| inlined.at);
            (location.span.start, location.place, call)
        });
        let name = function.name.text;
        FunctionLines {
            start: function.span.start,
            end: function.span.end,
            kernel: function.kind == FunctionKind::Entry,
            demangled: demangled(name),
            name: name.to_owned(),
            lines: lines.collect(),
            calls: body.map(InlinedCalls::of).unwrap_or_default(),
        }
    }

    /// What the last `.loc` before a byte says, and where that was inlined.
    fn place(&self, offset: u32) -> Option<(Place, Option<Place>)> {
        let next = self.lines.partition_point(|(start, ..)| *start <= offset);
        let (_, place, call) = *self.lines.get(next.checked_sub(1)?)?;
        Some((place, call))
    }
}

impl Origin<'_> {
    /// The name of the function, for people.
    pub fn readable_name(&self) -> &str {
        self.demangled.unwrap_or(self.name)
    }
}

/// ``kernel `scale`, from scale.cu:12:3``
impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kernel { "kernel" } else { "function" };
        write!(f, "{kind} `{}`", self.readable_name())?;
        if let Some(line) = self.line {
            write!(f, ", from {line}")?;
        }
        if let Some(line) = self.inlined_at {
            write!(f, ", inlined at {line}")?;
        }
        Ok(())
    }
}

/// `scale.cu:12:3`
impl fmt::Display for SourceLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Escaped::new(self.file), self.line)?;
        match self.column {
            0 => Ok(()),
            column => write!(f, ":{column}"),
        }
    }
}
