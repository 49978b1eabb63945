//! Line tables: from which line of which file a compiler made a line of PTX, by `.loc` and
//! `.file` (PTX ISA, "Debugging Directives").

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use memchr::memmem;

use crate::ast::{Body, Directive, DirectiveKind, Item, Location, Module, Place, Span, Statement};

/// A line of the source that was compiled to PTX. Shown as `kernel.cu:7`, one of an inlined
/// function as `reduce.cuh:20, inlined at kernel.cu:7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The name in the `.file` directive.
    pub file: Arc<str>,
    /// From 1; 0 for code that comes from no line.
    pub line: u32,
    /// Where it was inlined: the outermost call that is certain.
    pub inlined_at: Option<Box<SourceLine>>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A message is one line.
        let name = self.file.replace(char::is_control, "\u{fffd}");
        write!(f, "{name}:{}", self.line)?;
        match &self.inlined_at {
            Some(call) => write!(f, ", inlined at {call}"),
            None => Ok(()),
        }
    }
}

/// The line table of a module.
///
/// ```
/// use ptxkit_ptx::line_table::LineTable;
///
/// let text = ".version 8.0\n.target sm_80\n.file 1 \"kernel.cu\"\n\
///     .entry k() {\n.loc 1 7 3\nret;\n}\n";
/// let module = ptxkit_ptx::read(text).module;
/// let table = LineTable::new(&module, text);
/// assert_eq!(table.source(6).unwrap().to_string(), "kernel.cu:7");
/// assert!(table.source(4).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    /// The files that rows refer to by index.
    pub files: Vec<Arc<str>>,
    /// By line.
    pub rows: Vec<Row>,
}

/// A row of a [`LineTable`], which holds until the line of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The line in the PTX, from 1.
    pub line: u32,
    /// `None` behind the end of a function.
    pub source: Option<FileLine>,
    /// Where that was inlined: the outermost call that is certain.
    pub inlined_at: Option<FileLine>,
}

/// A line of a file of a [`LineTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLine {
    /// The index of the file.
    pub file: u32,
    /// From 1; 0 where unknown.
    pub line: u32,
}

impl LineTable {
    /// The table of a module, which was read from `text`. Empty without `.file` directives.
    pub fn new(module: &Module<'_>, text: &str) -> LineTable {
        let mut names = HashMap::new();
        for item in &module.items {
            if let Item::Directive(Directive {
                kind: DirectiveKind::File { index, name, .. },
                ..
            }) = item
            {
                names.insert(*index, *name);
            }
        }
        let mut table = LineTable::default();
        if names.is_empty() {
            return table;
        }
        let mut lines = Lines::new(text);
        let (mut indices, mut several) = (HashMap::new(), 0);
        let bodies = module.items.iter().filter_map(|item| match item {
            Item::Function(function) => function.body.as_ref(),
            _ => None,
        });
        for body in bodies {
            let calls = InlinedCalls::of(body);
            for location in locations(body, text) {
                let mut file_line = |place: Place| {
                    let name = names.get(&place.file).filter(|_| place.line > 0)?;
                    let index = indices.entry(place.file).or_insert_with(|| {
                        table.files.push(Arc::from(file_name(name)));
                        table.files.len() as u32 - 1
                    });
                    let (file, line) = (*index, place.line);
                    Some(FileLine { file, line })
                };
                let call = location.inlined.as_ref();
                let call = call.map(|inlined| calls.outermost(inlined.at));
                let row = Row {
                    line: lines.of(location.span),
                    source: file_line(location.place),
                    inlined_at: call.and_then(file_line),
                };
                table.add(row, &mut several);
            }
            let end = Span {
                start: body.span.end,
                ..body.span
            };
            let end = Row {
                line: lines.of(end) + 1,
                source: None,
                inlined_at: None,
            };
            table.add(end, &mut several);
        }
        table
    }

    /// Lines are in ascending order, but a function may end in the line in which another begins. A
    /// line that comes from several places has none: `several` is the last such line.
    fn add(&mut self, mut row: Row, several: &mut u32) {
        while let Some(last) = self.rows.pop_if(|last| last.line >= row.line) {
            let differs = last.source.is_some() && last.source != row.source;
            if last.line > row.line || differs {
                *several = row.line;
            }
        }
        if *several == row.line {
            (row.source, row.inlined_at) = (None, None);
        }
        let last = self.rows.last();
        let before = last.map_or((None, None), |last| (last.source, last.inlined_at));
        if before != (row.source, row.inlined_at) {
            self.rows.push(row);
        }
    }

    /// The source of a line of the PTX.
    pub fn source(&self, line: u32) -> Option<SourceLine> {
        let count = self.rows.partition_point(|row| row.line <= line);
        let row = self.rows.get(count.checked_sub(1)?)?;
        let source = |at: FileLine| {
            Some(SourceLine {
                file: Arc::clone(self.files.get(at.file as usize)?),
                line: at.line,
                inlined_at: None,
            })
        };
        let call = row.inlined_at.and_then(source);
        Some(SourceLine {
            inlined_at: call.map(Box::new),
            ..source(row.source?)?
        })
    }
}

/// The `.loc` directives of a function of a module that was read from `text`.
///
/// Those in inline assembly are left out. LLVM counts the lines of the assembly there, which are
/// lines of the source only if its string is written so: for Triton they name the next statement.
pub fn locations<'b, 'a>(
    body: &'b Body<'a>,
    text: &'b str,
) -> impl Iterator<Item = &'b Location<'a>> {
    let (mut at, mut in_assembly) = (body.span.start as usize, false);
    let outside = move |location: &&Location<'_>| {
        let start = location.span.start as usize;
        let passed = text.as_bytes().get(at..start).unwrap_or_default();
        at = start;
        if let Some(found) = memmem::rfind(passed, b" inline asm") {
            in_assembly = passed[..found].ends_with(b"// begin");
        }
        !in_assembly
    };
    all_locations(body).filter(outside)
}

fn all_locations<'b, 'a>(body: &'b Body<'a>) -> impl Iterator<Item = &'b Location<'a>> {
    let statements = body.statements.iter();
    statements.filter_map(|statement| match statement {
        Statement::Location(location) if !location.intermediate => Some(&**location),
        _ => None,
    })
}

/// Where the code of a function was inlined, by its places.
///
/// A place says its own call only. That has another one where it was inlined too, which is known if
/// all its places have the same: compilers do not repeat them for copies of the code.
#[derive(Clone, Debug, Default)]
pub struct InlinedCalls(HashMap<Place, Option<Place>>);

/// Calls that are inlined into one another: more are a circle.
const DEEPEST: usize = 100;

impl InlinedCalls {
    /// Those of a function.
    pub fn of(body: &Body<'_>) -> InlinedCalls {
        let mut calls = HashMap::new();
        for location in all_locations(body) {
            if let Some(inlined) = &location.inlined {
                let call = calls.entry(location.place).or_insert(Some(inlined.at));
                *call = call.filter(|call| *call == inlined.at);
            }
        }
        InlinedCalls(calls)
    }

    /// The call that was not inlined itself, from one that may have been: as far as one knows.
    pub fn outermost(&self, call: Place) -> Place {
        let outer = |call: &Place| self.0.get(call).copied().flatten();
        let calls = std::iter::successors(Some(call), outer);
        calls.take(DEEPEST).last().unwrap_or(call)
    }
}

/// A name in a `.file` directive as people read it: nvcc escapes backslashes, and in octal what
/// is not ASCII.
///
/// ```
/// use ptxkit_ptx::line_table::file_name;
///
/// assert_eq!(file_name(r"caf\303\251.cu"), "café.cu");
/// ```
pub fn file_name(written: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), written.as_bytes());
    loop {
        match rest {
            [b'\\', b'\\' | b'"', ..] => {
                bytes.push(rest[1]);
                rest = &rest[2..];
            }
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
            [] => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Counts lines of a text, of places in ascending order.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        Lines {
            text: text.as_bytes(),
            at: 0,
            line: 1,
        }
    }

    fn of(&mut self, span: Span) -> u32 {
        let start = span.start as usize;
        let passed = self.text.get(self.at..start).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = self.at.max(start);
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry one() {\n\
        .reg .b32 %r<3>;\n\
        .loc 1 7 3\n\
        mov.u32 %r1, 1;\n\
        {\n.loc 1 7 9\nmov.u32 %r2, 2;\n}\n\
        .loc 2 9 1\n\
        .loc 2 10 1\n\
        ret;\n}\n\
        .visible .entry two() {\nret;\n.loc 7 1 1\nret;\n.loc 2 3 1\nret;\n}\n\
        .visible .entry three() { .loc 1 8 1\nret;\n}\n\
        .file 1 \"dir/a.cu\"\n.file 2 \"b.h\"\n";

    fn source(line: u32) -> Option<String> {
        let table = LineTable::new(&crate::read(TEXT).module, TEXT);
        table.source(line).map(|source| source.to_string())
    }

    #[test]
    fn a_line_has_the_location_before_it_in_its_function() {
        let found = [0, 5, 7, 8, 10, 11, 14, 15, 16, 17, 19, 21, 22, 24, 25, 26].map(source);
        let a = |line| Some(format!("dir/a.cu:{line}"));
        let b = |line| Some(format!("b.h:{line}"));
        #[rustfmt::skip]
        let expected = [
            None, None, a(7), a(7), a(7), a(7), b(10), b(10),
            None, None, None, b(3), b(3), a(8), a(8), None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_inlined_has_its_outermost_call() {
        let text = ".version 8.0\n.target sm_80\n.file 1 \"add.py\"\n.file 2 \"standard.py\"\n\
            .entry k() {\n\
            .loc 1 7 9\nadd.u32 %r, %r, 1;\n\
            .loc 2 314 12, function_name $L__info_string0, inlined_at 1 7 9\nadd.u32 %r, %r, 2;\n\
            .loc 2 287 12, function_name $L__info_string0, inlined_at 2 314 12\nadd.u32 %r, %r, 3;\n\
            .loc 1 8 1\nret;\n.loc 1 0 1\nret;\n}\n";
        let table = LineTable::new(&crate::read(text).module, text);
        let sources = [7, 9, 11, 13].map(|line| table.source(line).unwrap().to_string());
        let called = |line| format!("standard.py:{line}, inlined at add.py:7");
        assert_eq!(
            sources,
            [
                "add.py:7".into(),
                called(314),
                called(287),
                "add.py:8".into()
            ]
        );
        assert!(table.source(15).is_none());
    }

    #[test]
    fn a_call_that_is_uncertain_is_not_named() {
        // The code of 1 2 was copied with that of its caller, 1 5, which has two callers itself.
        let text = ".version 8.0\n.target sm_80\n.file 1 \"a.cu\"\n.entry k() {\n\
            .loc 1 9 1\n.loc 1 10 1\n\
            .loc 1 5 1, function_name $L__info_string0, inlined_at 1 9 1\n\
            .loc 1 5 1, function_name $L__info_string0, inlined_at 1 10 1\n\
            .loc 1 2 1, function_name $L__info_string0, inlined_at 1 5 1\nret;\n}\n";
        let table = LineTable::new(&crate::read(text).module, text);
        let source = table.source(10).unwrap().to_string();
        assert_eq!(source, "a.cu:2, inlined at a.cu:5");
    }

    #[test]
    fn lines_of_inline_assembly_are_not_counted() {
        // As Triton's loads are compiled.
        let text = ".version 8.0\n.target sm_80\n.file 1 \"a.py\"\n.entry k() {\n\
            .loc 1 6 9\n// begin inline asm\n.loc 1 6 9\nmov.u32 %r1, 0x0;\n.loc 1 7 9\n\
            ld.global.b32 { %r1 }, [ %rd1 + 0 ];\n\n// end inline asm\nst.global.b32 [%rd2], %r1;\n\
            .loc 1 8 9\nret;\n}\n";
        let table = LineTable::new(&crate::read(text).module, text);
        let lines = [8, 10, 13, 15].map(|line| table.source(line).unwrap().line);
        assert_eq!(lines, [6, 6, 6, 8]);
    }

    #[test]
    fn a_line_of_several_places_has_none() {
        let text = ".version 8.0\n.target sm_80\n.file 1 \"a.cu\"\n\
            .entry a() { .loc 1 3 1 trap; .loc 1 4 1 trap; .loc 1 5 1 ret; }\n\
            .entry b() { .loc 1 6 1 ret; } .entry c() { .loc 1 7 1 ret; }\n\
            .entry d() { .loc 1 8 1 ret; }\n";
        let table = LineTable::new(&crate::read(text).module, text);
        let lines = [4, 5, 6].map(|line| table.source(line).map(|source| source.line));
        assert_eq!(lines, [None, None, Some(8)]);
    }

    #[test]
    fn names_of_files_are_decoded() {
        let names = [
            (r"caf\303\251.cu", "café.cu"),
            (r#"a\\new\"b".cu"#, r#"a\new"b".cu"#),
            (r"C:\temp\400", r"C:\temp\400"),
            (r"é\", r"é\"),
        ];
        for (written, name) in names {
            assert_eq!(file_name(written), name);
        }
    }

    #[test]
    fn what_does_not_change_has_no_row() {
        let table = LineTable::new(&crate::read(TEXT).module, TEXT);
        let lines: Vec<u32> = table.rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, [6, 12, 13, 16, 20, 23, 26]);
        let none = TEXT.replace(".file", "//");
        let table = LineTable::new(&crate::read(&none).module, &none);
        assert_eq!(table, LineTable::default());
    }
}
