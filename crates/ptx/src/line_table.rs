//! Line tables: from which line of which file a compiler made a line of PTX, by `.loc` and
//! `.file` (PTX ISA, "Debugging Directives").

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::ast::{Body, Directive, DirectiveKind, Item, Module, Span, Statement};

/// A line of the source that was compiled to PTX, or that of an inlined function. Shown as
/// `kernel.cu:7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The name in the `.file` directive.
    pub file: Arc<str>,
    /// From 1; 0 for code that comes from no line.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
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
    /// The index of the file and the line in it; `None` behind the end of a function.
    pub source: Option<(u32, u32)>,
}

impl LineTable {
    /// The table of a module, which was read from `text`. Empty without `.file` directives.
    pub fn new(module: &Module<'_>, text: &str) -> LineTable {
        let mut names = HashMap::new();
        let bodies = || module.items.iter().filter_map(body);
        for item in &module.items {
            match item {
                Item::Directive(directive) => names.extend(file_name(directive)),
                item => names.extend(body(item).into_iter().flat_map(files_in)),
            }
        }
        let mut table = LineTable::default();
        if names.is_empty() {
            return table;
        }
        let mut lines = Lines::new(text);
        let mut indices = HashMap::new();
        for body in bodies() {
            for statement in &body.statements {
                let Statement::Location(location) = statement else {
                    continue;
                };
                let place = location.place;
                let index = names.get(&place.file).map(|name| {
                    *indices.entry(place.file).or_insert_with(|| {
                        table.files.push(Arc::from(*name));
                        table.files.len() as u32 - 1
                    })
                });
                let source = index.map(|index| (index, place.line));
                table.add(lines.of(location.span), source);
            }
            let end = Span {
                start: body.span.end,
                ..body.span
            };
            table.add(lines.of(end) + 1, None);
        }
        table
    }

    /// Of two places in one line the last counts, also if a function ends in between.
    fn add(&mut self, line: u32, source: Option<(u32, u32)>) {
        while self.rows.last().is_some_and(|last| last.line >= line) {
            self.rows.pop();
        }
        if self.rows.last().and_then(|last| last.source) != source {
            self.rows.push(Row { line, source });
        }
    }

    /// The source of a line of the PTX.
    pub fn source(&self, line: u32) -> Option<SourceLine> {
        let count = self.rows.partition_point(|row| row.line <= line);
        let (file, line) = self.rows.get(count.checked_sub(1)?)?.source?;
        let file = Arc::clone(self.files.get(file as usize)?);
        Some(SourceLine { file, line })
    }
}

fn body<'m, 'a>(item: &'m Item<'a>) -> Option<&'m Body<'a>> {
    match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    }
}

fn files_in<'a>(body: &Body<'a>) -> impl Iterator<Item = (u32, &'a str)> {
    body.statements
        .iter()
        .filter_map(|statement| match statement {
            Statement::Directive(directive) => file_name(directive),
            _ => None,
        })
}

/// The number and the name of a `.file` directive.
///
/// ```
/// use ptxkit_ptx::ast::Item;
/// use ptxkit_ptx::line_table::file_name;
///
/// let module = ptxkit_ptx::read(".version 8.0\n.target sm_80\n.file 1 \"kernel.cu\"").module;
/// let Item::Directive(file) = &module.items[0] else {
///     unreachable!()
/// };
/// assert_eq!(file_name(file), Some((1, "kernel.cu")));
/// ```
pub fn file_name<'a>(directive: &Directive<'a>) -> Option<(u32, &'a str)> {
    let DirectiveKind::File { index, .. } = directive.kind else {
        return None;
    };
    Some((index, directive.text.split('"').nth(1)?))
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
    fn what_does_not_change_has_no_row() {
        let table = LineTable::new(&crate::read(TEXT).module, TEXT);
        let lines: Vec<u32> = table.rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, [6, 12, 13, 16, 20, 23, 26]);
        let none = TEXT.replace(".file", "//");
        let table = LineTable::new(&crate::read(&none).module, &none);
        assert_eq!(table, LineTable::default());
    }
}
