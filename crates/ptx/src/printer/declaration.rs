//! Prints modules, heads of functions, variables and initializers.

use super::layout::Layout;
use super::operand::{append, displacement};
use crate::ast::*;

/// The width above which a list of constants is split into lines.
const WIDTH: usize = 100;

impl Layout<'_> {
    pub fn module(&mut self, module: &Module<'_>) {
        let anywhere = Span::default();
        if let Some((version, span)) = module.version {
            self.line(span, 0, |out| {
                append(out, format_args!(".version {version}"))
            });
        }
        if let Some(first) = module.target.first() {
            let words: Vec<_> = module.target.iter().map(|name| name.text).collect();
            let span = self.source.map_or(anywhere, |source| first.span(source));
            self.line(span, 0, |out| {
                append(out, format_args!(".target {}", words.join(", ")))
            });
        }
        if let Some((size, span)) = module.address_size {
            self.line(span, 0, |out| {
                append(out, format_args!(".address_size {size}"))
            });
        }
        for item in &module.items {
            match item {
                Item::Variable(variable) => {
                    self.before(variable.span, 0);
                    let declaration = self.declaration(variable);
                    self.write(0, |out| append(out, format_args!("{declaration};")));
                }
                Item::Function(function) => self.function(function, module),
                Item::Directive(directive) => self.directive(directive, 0),
            }
        }
    }

    pub fn directive(&mut self, directive: &Directive<'_>, tabs: usize) {
        self.line(directive.span, tabs, |out| match &directive.kind {
            DirectiveKind::Pragma(strings) => pragma(out, strings),
            DirectiveKind::Alias { name, function } => {
                append(
                    out,
                    format_args!(".alias {}, {};", name.text, function.text),
                );
            }
            DirectiveKind::File { .. }
            | DirectiveKind::Section { .. }
            | DirectiveKind::Target(_)
            | DirectiveKind::Dwarf => one_spaced(out, directive.text),
        });
        self.drop_comments_before(directive.span.end);
    }

    fn function(&mut self, function: &Function<'_>, module: &Module<'_>) {
        if self.source.is_none() || function.body.is_some() {
            self.blank_line_before_next();
        }
        let head = Span {
            end: function.span.start,
            ..function.span
        };
        self.before(head, 0);
        let kind = match function.kind {
            FunctionKind::Entry => ".entry",
            FunctionKind::Func => ".func",
        };
        let mut line = format!("{}{kind}", linkage(function.linkage));
        attributes(&mut line, function.attributes);
        line.push(' ');
        if !function.returns.is_empty() {
            append(
                &mut line,
                format_args!("({}) ", self.parameters(&function.returns)),
            );
        }
        append(&mut line, format_args!("{}(", function.name.text));
        match function.params.split_last() {
            None => line.push(')'),
            Some((last, before)) => {
                self.write(0, |out| out.push_str(&line));
                for param in before {
                    self.parameter(param, ",");
                }
                self.parameter(last, "");
                line = ")".to_owned();
            }
        }
        if function.body.is_none() && function.directives.is_empty() {
            line.push(';');
        }
        self.write(0, |out| out.push_str(&line));
        for (index, directive) in function.directives.iter().enumerate() {
            let last = index + 1 == function.directives.len() && function.body.is_none();
            let end = if last { ";" } else { "" };
            self.close_before(directive.span, 0);
            self.write(0, |out| {
                function_directive(out, directive);
                out.push_str(end);
            });
            self.drop_comments_before(directive.span.end);
        }
        if let Some(body) = &function.body {
            self.body(body, module);
        }
        self.printed_to(function.span.end);
    }

    fn parameter(&mut self, param: &Variable<'_>, comma: &str) {
        self.before(param.span, 1);
        let declaration = self.declaration(param);
        self.write(1, |out| append(out, format_args!("{declaration}{comma}")));
    }

    /// Parameters on one line.
    pub fn parameters(&self, variables: &[Variable<'_>]) -> String {
        let declarations: Vec<_> = variables.iter().map(|v| self.declaration(v)).collect();
        declarations.join(", ")
    }

    pub fn declaration(&self, variable: &Variable<'_>) -> String {
        let mut out = format!("{}.{}", linkage(variable.linkage), variable.space.text());
        bank(&mut out, variable.bank);
        attributes(&mut out, variable.attributes);
        if let Some(align) = variable.align {
            append(&mut out, format_args!(" .align {align}"));
        }
        if variable.vector > 1 {
            append(&mut out, format_args!(" .v{}", variable.vector));
        }
        append(&mut out, format_args!(" .{}", variable.ty.text()));
        if let Some(pointer) = variable.pointer {
            out.push_str(" .ptr");
            if let Some(space) = pointer.space {
                append(&mut out, format_args!(" .{}", space.text()));
                bank(&mut out, pointer.bank);
            }
            if let Some(align) = pointer.align {
                append(&mut out, format_args!(" .align {align}"));
            }
        }
        append(&mut out, format_args!(" {}", variable.name.text));
        if let Some(count) = variable.count {
            append(&mut out, format_args!("<{count}>"));
        }
        for dim in &variable.dims {
            match dim {
                Some(size) => append(&mut out, format_args!("[{size}]")),
                None => out.push_str("[]"),
            }
        }
        if let Some(init) = &variable.init {
            out.push_str(" = ");
            self.initializer(&mut out, init, 1);
        }
        out
    }

    fn initializer(&self, out: &mut String, init: &Initializer<'_>, tabs: usize) {
        match init {
            Initializer::Integer(integer) => self.integer(out, *integer),
            Initializer::Float(float) => self.float(out, *float),
            Initializer::Address {
                name,
                generic,
                offset,
                mask,
            } => {
                if let Some(mask) = mask {
                    append(out, format_args!("0x{mask:X}("));
                }
                match generic {
                    true => append(out, format_args!("generic({})", name.text)),
                    false => out.push_str(name.text),
                }
                displacement(out, *offset);
                if mask.is_some() {
                    out.push(')');
                }
            }
            Initializer::List(list) => self.list(out, list, tabs),
            Initializer::Property { name, value } => {
                append(out, format_args!("{} = ", name.text));
                self.initializer(out, value, tabs);
            }
        }
    }

    /// `{1, 2, 3}`, split into lines if it is too wide.
    fn list(&self, out: &mut String, list: &[Initializer<'_>], tabs: usize) {
        let elements: Vec<String> = list
            .iter()
            .map(|element| {
                let mut text = String::new();
                self.initializer(&mut text, element, tabs + 1);
                text
            })
            .collect();
        let width: usize = elements.iter().map(|element| element.len() + 2).sum();
        let line = out.len() - out.rfind('\n').map_or(0, |at| at + 1);
        if line + width <= WIDTH && !elements.iter().any(|element| element.contains('\n')) {
            append(out, format_args!("{{{}}}", elements.join(", ")));
            return;
        }
        out.push('{');
        // The first element begins a line.
        let mut column = WIDTH;
        for (index, element) in elements.iter().enumerate() {
            if column + element.len() > WIDTH {
                out.push('\n');
                out.extend(std::iter::repeat_n('\t', tabs));
                column = 8 * tabs;
            } else {
                out.push(' ');
            }
            out.push_str(element);
            out.push_str(if index + 1 == elements.len() { "" } else { "," });
            column += element.len() + 2;
        }
        out.push('\n');
        out.extend(std::iter::repeat_n('\t', tabs - 1));
        out.push('}');
    }
}

fn bank(out: &mut String, bank: Option<u8>) {
    if let Some(bank) = bank {
        append(out, format_args!("[{bank}]"));
    }
}

fn attributes(out: &mut String, attributes: Attributes) {
    let Attributes { managed, unified } = attributes;
    let managed = managed.then(|| ".managed".to_owned());
    let unified = unified.map(|(high, low)| format!(".unified({high}, {low})"));
    let words: Vec<String> = managed.into_iter().chain(unified).collect();
    if !words.is_empty() {
        append(out, format_args!(" .attribute({})", words.join(", ")));
    }
}

fn pragma(out: &mut String, strings: &[Name<'_>]) {
    let strings: Vec<_> = strings
        .iter()
        .map(|string| format!("\"{}\"", string.text))
        .collect();
    append(out, format_args!(".pragma {};", strings.join(", ")));
}

/// `.maxntid 16, 16`
pub fn function_directive(out: &mut String, directive: &FunctionDirective<'_>) {
    if directive.text.contains(['"', '(']) {
        return one_spaced(out, directive.text);
    }
    let values: Vec<_> = directive.values.iter().map(u32::to_string).collect();
    let space = if values.is_empty() { "" } else { " " };
    append(
        out,
        format_args!(".{}{space}{}", directive.name, values.join(", ")),
    );
}

/// The text of a directive with normalized spaces, if it is on one line. Sections keep their
/// lines.
fn one_spaced(out: &mut String, text: &str) {
    if text.contains('\n') || text.contains("/*") {
        out.push_str(text);
        return;
    }
    let mut quoted = false;
    let mut space = false;
    for character in text.chars() {
        quoted ^= character == '"';
        let blank = !quoted && character.is_ascii_whitespace();
        if !blank {
            out.push(character);
        } else if !space {
            out.push(' ');
        }
        space = blank;
    }
}

fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::None => "",
        Linkage::Extern => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}
