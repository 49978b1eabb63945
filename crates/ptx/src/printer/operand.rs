//! Operands and constants.

use std::fmt::Write;

use super::layout::Layout;
use crate::ast::*;

impl Layout<'_> {
    pub fn operands(&self, out: &mut String, operands: &[Operand<'_>], body: &Body<'_>) {
        for (index, operand) in operands.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            self.operand(out, operand, body);
        }
    }

    fn operand(&self, out: &mut String, operand: &Operand<'_>, body: &Body<'_>) {
        match *operand {
            Operand::Name(name) => out.push_str(name.text),
            Operand::Special(register, _) => out.push_str(register.text()),
            Operand::Component { name, component } => {
                let letter = ["x", "y", "z", "w"].get(component as usize).unwrap_or(&"x");
                append(out, format_args!("{}.{letter}", name.text));
            }
            Operand::Integer(integer) => self.integer(out, integer),
            Operand::Float(float) => self.float(out, float),
            Operand::Not(name) => append(out, format_args!("!{}", name.text)),
            Operand::Negated(name) => append(out, format_args!("-{}", name.text)),
            Operand::Select {
                name,
                negated,
                selector,
            } => {
                let sign = if negated { "-" } else { "" };
                append(out, format_args!("{sign}{}.{}", name.text, selector.text()));
            }
            // `name+0` parses to another operand than `name`.
            Operand::Offset { name, offset: 0 } => append(out, format_args!("{}+0", name.text)),
            Operand::Offset { name, offset } => {
                out.push_str(name.text);
                displacement(out, offset);
            }
            Operand::Address {
                base,
                offset,
                unified,
            } => {
                address(out, base, offset);
                if unified {
                    out.push_str(".unified");
                }
            }
            Operand::Element(list, _) => {
                if let [array, index] = body.list(list) {
                    self.operand(out, array, body);
                    out.push('[');
                    self.operand(out, index, body);
                    out.push(']');
                }
            }
            Operand::Vector(list, _) => self.enclosed(out, '{', list, '}', body),
            Operand::Arguments(list, _) => self.enclosed(out, '(', list, ')', body),
            Operand::Indexed(list, _) => self.enclosed(out, '[', list, ']', body),
            Operand::Pair(pair, _) => {
                for (index, one) in body.list(pair).iter().enumerate() {
                    if index > 0 {
                        out.push('|');
                    }
                    self.operand(out, one, body);
                }
            }
            Operand::Sink(_) => out.push('_'),
        }
    }

    fn enclosed(&self, out: &mut String, open: char, list: List, close: char, body: &Body<'_>) {
        out.push(open);
        self.operands(out, body.list(list), body);
        out.push(close);
    }

    pub fn integer(&self, out: &mut String, integer: Integer) {
        if self.as_written(out, integer.span) {
            return;
        }
        if integer.unsigned {
            return append(out, format_args!("{}U", integer.value));
        }
        match integer.value as i64 {
            // The digits of the smallest number without its sign would be an unsigned constant.
            i64::MIN => out.push_str("-9223372036854775807-1"),
            value => append(out, format_args!("{value}")),
        }
    }

    pub fn float(&self, out: &mut String, float: Float) {
        if self.as_written(out, float.span) {
            return;
        }
        match float.value {
            FloatValue::F32(bits) => append(out, format_args!("0f{bits:08X}")),
            FloatValue::F64(bits) => append(out, format_args!("0d{bits:016X}")),
        }
    }

    /// A constant in the notation of the source, if there is one.
    fn as_written(&self, out: &mut String, span: Span) -> bool {
        let Some(text) = self
            .source
            .and_then(|source| source.get(span.start as usize..span.end as usize))
            .filter(|text| !text.is_empty() && !["//", "/*", "#"].iter().any(|c| text.contains(c)))
        else {
            return false;
        };
        for part in text.split_ascii_whitespace() {
            out.push_str(part);
            // `%5` would be a name.
            if part.ends_with('%') {
                out.push(' ');
            }
        }
        true
    }
}

fn address(out: &mut String, base: AddressBase<'_>, offset: i64) {
    match base {
        AddressBase::Name(name) => {
            append(out, format_args!("[{}", name.text));
            displacement(out, offset);
            out.push(']');
        }
        AddressBase::Immediate(_) => append(out, format_args!("[{offset}]")),
    }
}

/// `+4`, `+-4`, and nothing for 0. A `-` cannot follow a name.
pub fn displacement(out: &mut String, offset: i64) {
    match offset {
        0 => {}
        i64::MIN => out.push_str("+-9223372036854775807-1"),
        _ => append(out, format_args!("+{offset}")),
    }
}

pub fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}
