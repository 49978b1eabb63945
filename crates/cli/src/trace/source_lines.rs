//! The lines that PTX was compiled from, by its `.loc` directives.

use std::collections::HashMap;

use ptxkit::ptx::ast::{Directive, DirectiveKind, Item, Module, Place, Statement};
use ptxkit::ptx::diagnostic::LineIndex;

/// Where lines of PTX come from.
#[derive(Debug, Default)]
pub struct SourceLines {
    files: HashMap<u32, String>,
    functions: Vec<Lines>,
}

/// The lines of a function.
#[derive(Debug)]
struct Lines {
    first: u32,
    last: u32,
    /// Its `.loc` directives, by line.
    locations: Vec<(u32, Place)>,
}

impl SourceLines {
    pub fn new(module: &Module<'_>, index: &LineIndex<'_>) -> SourceLines {
        let mut found = SourceLines::default();
        let line = |offset| index.locate(offset).line;
        for item in &module.items {
            match item {
                Item::Directive(directive) => found.add_file(directive),
                Item::Function(function) => {
                    let Some(body) = &function.body else { continue };
                    let mut locations = Vec::new();
                    for statement in &body.statements {
                        match statement {
                            Statement::Location(location) => {
                                locations.push((line(location.span.start), location.place));
                            }
                            Statement::Directive(directive) => found.add_file(directive),
                            _ => {}
                        }
                    }
                    found.functions.push(Lines {
                        first: line(body.span.start),
                        last: line(body.span.end),
                        locations,
                    });
                }
                Item::Variable(_) => {}
            }
        }
        found
    }

    /// `.file 1 "a.cu"`
    fn add_file(&mut self, directive: &Directive<'_>) {
        if let DirectiveKind::File { index, .. } = directive.kind
            && let Some(name) = directive.text.split('"').nth(1)
        {
            self.files.insert(index, name.to_owned());
        }
    }

    /// The file and the line that a line of the PTX comes from.
    pub fn of(&self, line: u32) -> Option<(&str, u32)> {
        let within = |function: &&Lines| (function.first..=function.last).contains(&line);
        let locations = &self.functions.iter().find(within)?.locations;
        let count = locations.partition_point(|(at, _)| *at <= line);
        let (_, place) = locations.get(count.checked_sub(1)?)?;
        Some((self.files.get(&place.file)?, place.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxkit::ptx;

    #[test]
    fn a_line_has_the_location_before_it_in_its_function() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .entry one() {\n\
            .reg .b32 %r<3>;\n\
            .loc 1 7 3\n\
            mov.u32 %r1, 1;\n\
            mov.u32 %r2, 2;\n\
            .loc 2 9 1\n\
            ret;\n}\n\
            .visible .entry two() {\nret;\n}\n\
            .file 1 \"dir/a.cu\"\n.file 2 \"b.h\"\n";
        let reading = ptx::read(text);
        let lines = SourceLines::new(&reading.module, &LineIndex::new(text));
        assert_eq!(lines.of(5), None);
        assert_eq!(lines.of(7), Some(("dir/a.cu", 7)));
        assert_eq!(lines.of(8), Some(("dir/a.cu", 7)));
        assert_eq!(lines.of(10), Some(("b.h", 9)));
        assert_eq!(lines.of(13), None);
        assert_eq!(lines.of(0), None);
    }
}
