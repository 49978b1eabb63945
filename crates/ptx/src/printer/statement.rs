//! Prints functions and statements.

use super::declaration::function_directive;
use super::layout::Layout;
use super::operand::{append, displacement};
use crate::ast::*;

impl Layout<'_> {
    pub fn body(&mut self, body: &Body<'_>, module: &Module<'_>) {
        self.close_before(at(body.span.start), 0);
        self.write(0, |out| out.push('{'));
        let mut blocks = 1;
        for statement in &body.statements {
            match statement {
                Statement::Begin(span) => {
                    self.line(*span, blocks, |out| out.push('{'));
                    blocks += 1;
                }
                Statement::End(span) => {
                    blocks = usize::max(blocks, 2) - 1;
                    self.closing(*span, blocks);
                }
                _ => self.statement(statement, blocks, body, module),
            }
        }
        self.closing(at(body.span.end.saturating_sub(1)), 0);
    }

    /// A `}`. Comments before it belong to its block, without a blank line.
    fn closing(&mut self, span: Span, tabs: usize) {
        self.close_before(span, tabs + 1);
        self.write(tabs, |out| out.push('}'));
    }

    fn statement(
        &mut self,
        statement: &Statement<'_>,
        tabs: usize,
        body: &Body<'_>,
        module: &Module<'_>,
    ) {
        match statement {
            Statement::Begin(_) | Statement::End(_) => {}
            Statement::Label(name) => {
                let span = self.source.map_or(Span::default(), |s| name.span(s));
                self.line(span, 0, |out| append(out, format_args!("{}:", name.text)));
            }
            Statement::Instruction(instruction) => {
                self.before(instruction.span, tabs);
                let mut line = String::new();
                if let Some(Guard { predicate, negated }) = body.guard(instruction) {
                    let sign = if negated { "!" } else { "" };
                    append(&mut line, format_args!("@{sign}{} ", predicate.text));
                }
                line.push_str(&module.mnemonic(instruction).text);
                let operands = body.list(instruction.operands);
                if !operands.is_empty() {
                    line.push(' ');
                    self.operands(&mut line, operands, body);
                }
                self.write(tabs, |out| append(out, format_args!("{line};")));
            }
            Statement::Variable(variable) => {
                self.before(variable.span, tabs);
                let declaration = self.declaration(variable);
                self.write(tabs, |out| append(out, format_args!("{declaration};")));
            }
            Statement::Location(location) => {
                self.line(location.span, tabs, |out| write_location(out, location));
            }
            Statement::Targets(targets) => self.line(targets.span, 0, |out| {
                let word = if targets.calls {
                    "calltargets"
                } else {
                    "branchtargets"
                };
                let names: Vec<_> = targets.targets.iter().map(|name| name.text).collect();
                append(
                    out,
                    format_args!("{}: .{word} {};", targets.name.text, names.join(", ")),
                );
            }),
            Statement::Prototype(prototype) => {
                self.before(prototype.span, 0);
                let mut line = format!("{}: .callprototype ", prototype.name.text);
                if !prototype.returns.is_empty() {
                    append(
                        &mut line,
                        format_args!("({}) ", self.parameters(&prototype.returns)),
                    );
                }
                append(
                    &mut line,
                    format_args!("_ ({})", self.parameters(&prototype.params)),
                );
                for directive in &prototype.directives {
                    line.push(' ');
                    function_directive(&mut line, directive);
                }
                self.write(0, |out| append(out, format_args!("{line};")));
            }
            Statement::Directive(directive) => self.directive(directive, tabs),
        }
    }
}

fn at(start: u32) -> Span {
    Span {
        start,
        end: start.saturating_add(1),
    }
}

fn write_location(out: &mut String, location: &Location<'_>) {
    let Place { file, line, column } = location.place;
    let word = if location.intermediate {
        "loc_intermediate"
    } else {
        "loc"
    };
    append(out, format_args!(".{word} {file} {line} {column}"));
    if let Some(inlined) = &location.inlined {
        append(
            out,
            format_args!(", function_name {}", inlined.function.text),
        );
        displacement(out, inlined.offset);
        let Place { file, line, column } = inlined.at;
        append(out, format_args!(", inlined_at {file} {line} {column}"));
    }
}
