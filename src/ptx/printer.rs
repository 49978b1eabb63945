//! Tree → text. Reading the text again gives the same tree but for the places.
//!
//! Comments and line breaks of the source are lost; directives that the tree
//! keeps as text come out as they were. Words that the tables do not know are
//! lost too, so print only what was read without a mistake.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::*;
use super::names::Type;

/// The text of a module, one statement a line.
///
/// ```
/// let source = ".version 8.0\n.target sm_80\n.entry k ( )\n{ ret ; }";
/// let text = ptxkit::ptx::printer::print(&ptxkit::ptx::read(source).module);
/// assert_eq!(text, ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\tret;\n}\n");
/// ```
pub fn print(module: &Module<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_module(&mut out, module);
    out
}

fn write_module(out: &mut String, module: &Module<'_>) -> fmt::Result {
    if let Some((Version { major, minor }, _)) = module.version {
        writeln!(out, ".version {major}.{minor}")?;
    }
    if !module.target.is_empty() {
        let words: Vec<_> = module.target.iter().map(|name| name.text).collect();
        writeln!(out, ".target {}", words.join(", "))?;
    }
    if let Some((size, _)) = module.address_size {
        writeln!(out, ".address_size {size}")?;
    }
    for item in &module.items {
        match item {
            Item::Variable(variable) => writeln!(out, "{};", Declaration(variable))?,
            Item::Function(function) => write_function(out, function, module)?,
            Item::Directive(directive) => writeln!(out, "{}", directive.text)?,
        }
    }
    Ok(())
}

fn write_function<'a>(
    out: &mut String,
    function: &Function<'a>,
    module: &Module<'a>,
) -> fmt::Result {
    let kind = match function.kind {
        FunctionKind::Entry => ".entry",
        FunctionKind::Func => ".func",
    };
    write!(out, "\n{}{kind}", linkage(function.linkage))?;
    write_attributes(out, function.attributes)?;
    out.write_char(' ')?;
    if !function.returns.is_empty() {
        write!(out, "({}) ", Parameters(&function.returns))?;
    }
    write!(
        out,
        "{}({})",
        function.name.text,
        Parameters(&function.params)
    )?;
    for directive in &function.directives {
        write!(out, "\n{}", directive.text)?;
    }
    let Some(body) = &function.body else {
        return writeln!(out, ";");
    };
    writeln!(out, "\n{{")?;
    for statement in &body.statements {
        write_statement(out, statement, module, body)?;
    }
    writeln!(out, "}}")
}

fn write_statement<'a>(
    out: &mut String,
    statement: &Statement<'a>,
    module: &Module<'a>,
    body: &Body<'a>,
) -> fmt::Result {
    match statement {
        Statement::Label(name) => writeln!(out, "{}:", name.text),
        Statement::Instruction(instruction) => {
            out.write_char('\t')?;
            if let Some(Guard { predicate, negated }) = instruction.guard {
                write!(
                    out,
                    "@{}{} ",
                    if negated { "!" } else { "" },
                    predicate.text
                )?;
            }
            out.write_str(&module.mnemonic(instruction).text)?;
            let operands = body.list(instruction.operands);
            if !operands.is_empty() {
                write!(out, " {}", Operands(operands, body))?;
            }
            writeln!(out, ";")
        }
        Statement::Variable(variable) => writeln!(out, "\t{};", Declaration(variable)),
        Statement::Begin(_) => writeln!(out, "{{"),
        Statement::End(_) => writeln!(out, "}}"),
        Statement::Location(location) => {
            write!(out, "\t.loc {}", Spot(location.place))?;
            if let Some(inlined) = &location.inlined {
                let name = inlined.function.text;
                write!(out, ", function_name {name}")?;
                if inlined.offset != 0 {
                    write!(out, "{:+}", inlined.offset)?;
                }
                write!(out, ", inlined_at {}", Spot(inlined.at))?;
            }
            writeln!(out)
        }
        Statement::Targets(targets) => {
            let word = if targets.calls {
                "calltargets"
            } else {
                "branchtargets"
            };
            let names: Vec<_> = targets.targets.iter().map(|target| target.text).collect();
            writeln!(out, "{}: .{word} {};", targets.name.text, names.join(", "))
        }
        Statement::Prototype(prototype) => {
            write!(out, "{}: .callprototype ", prototype.name.text)?;
            if !prototype.returns.is_empty() {
                write!(out, "({}) ", Parameters(&prototype.returns))?;
            }
            write!(out, "_ ({})", Parameters(&prototype.params))?;
            for directive in &prototype.directives {
                write!(out, " {}", directive.text)?;
            }
            writeln!(out, ";")
        }
        Statement::Directive(directive) => writeln!(out, "\t{}", directive.text),
    }
}

struct Spot(Place);

impl Display for Spot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { file, line, column } = self.0;
        write!(f, "{file} {line} {column}")
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

struct Parameters<'m, 'a>(&'m [Variable<'a>]);

impl Display for Parameters<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, variable) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", Declaration(variable))?;
        }
        Ok(())
    }
}

struct Declaration<'m, 'a>(&'m Variable<'a>);

impl Display for Declaration<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let variable = self.0;
        write!(f, "{}.{}", linkage(variable.linkage), variable.space.text())?;
        write_attributes(f, variable.attributes)?;
        if let Some(align) = variable.align {
            write!(f, " .align {align}")?;
        }
        if variable.vector > 1 {
            write!(f, " .v{}", variable.vector)?;
        }
        write!(f, " .{}", Type::text(variable.ty))?;
        if let Some(pointer) = variable.pointer {
            write!(f, " .ptr")?;
            if let Some(space) = pointer.space {
                write!(f, " .{}", space.text())?;
            }
            if let Some(align) = pointer.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", variable.name.text)?;
        if let Some(count) = variable.count {
            write!(f, "<{count}>")?;
        }
        for dim in &variable.dims {
            match dim {
                Some(size) => write!(f, "[{size}]")?,
                None => write!(f, "[]")?,
            }
        }
        match &variable.init {
            Some(init) => write!(f, " = {}", Value(init)),
            None => Ok(()),
        }
    }
}

fn write_attributes(out: &mut impl Write, attributes: Attributes) -> fmt::Result {
    match attributes {
        Attributes {
            managed: false,
            unified: None,
        } => Ok(()),
        Attributes {
            managed: true,
            unified: None,
        } => write!(out, " .attribute(.managed)"),
        Attributes {
            managed,
            unified: Some((high, low)),
        } => {
            let managed = if managed { ".managed, " } else { "" };
            write!(out, " .attribute({managed}.unified({high}, {low}))")
        }
    }
}

struct Value<'m, 'a>(&'m Initializer<'a>);

impl Display for Value<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Initializer::Integer(integer) => write_integer(f, *integer),
            Initializer::Float(float) => write_float(f, float.value),
            Initializer::Address {
                name,
                generic,
                offset,
                mask,
            } => {
                if let Some(mask) = mask {
                    write!(f, "0x{mask:X}(")?;
                }
                match generic {
                    true => write!(f, "generic({})", name.text)?,
                    false => write!(f, "{}", name.text)?,
                }
                // Here no `-` may follow a name.
                match *offset {
                    0 => {}
                    i64::MIN => write!(f, "+-9223372036854775807-1")?,
                    _ => write!(f, "+{offset}")?,
                }
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
            Initializer::List(list) => {
                f.write_char('{')?;
                for (index, value) in list.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", Value(value))?;
                }
                f.write_char('}')
            }
            Initializer::Property { name, value } => write!(f, "{} = {}", name.text, Value(value)),
        }
    }
}

fn write_integer(f: &mut Formatter<'_>, integer: Integer) -> fmt::Result {
    if integer.unsigned {
        return write!(f, "{}U", integer.value);
    }
    match integer.value as i64 {
        // The digits of the least number alone would be an unsigned constant.
        i64::MIN => write!(f, "-9223372036854775807-1"),
        value => write!(f, "{value}"),
    }
}

fn write_float(f: &mut Formatter<'_>, value: FloatValue) -> fmt::Result {
    match value {
        FloatValue::F32(bits) => write!(f, "0f{bits:08X}"),
        FloatValue::F64(bits) => write!(f, "0d{bits:016X}"),
    }
}

fn write_offset(f: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    match offset {
        0 => Ok(()),
        i64::MIN => write!(f, "+-9223372036854775807-1"),
        _ => write!(f, "+{offset}"),
    }
}

struct Operands<'m, 'a>(&'m [Operand<'a>], &'m Body<'a>);

impl Display for Operands<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, operand) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}")?;
            write_operand(f, operand, self.1)?;
        }
        Ok(())
    }
}

fn write_operand(f: &mut Formatter<'_>, operand: &Operand<'_>, body: &Body<'_>) -> fmt::Result {
    let list = |list| Operands(body.list(list), body);
    match *operand {
        Operand::Name(name) => f.write_str(name.text),
        Operand::Special(register, _) => f.write_str(register.text()),
        Operand::Component { name, component } => {
            let letter = ["x", "y", "z", "w"].get(component as usize).unwrap_or(&"x");
            write!(f, "{}.{letter}", name.text)
        }
        Operand::Integer(integer) => write_integer(f, integer),
        Operand::Float(float) => write_float(f, float.value),
        Operand::Not(name) => write!(f, "!{}", name.text),
        Operand::Negated(name) => write!(f, "-{}", name.text),
        Operand::Select {
            name,
            negated,
            selector,
        } => {
            let sign = if negated { "-" } else { "" };
            write!(f, "{sign}{}.{}", name.text, selector.text())
        }
        Operand::Offset { name, offset } => {
            f.write_str(name.text)?;
            // `name+0` is read as another operand than `name`.
            match offset {
                0 => f.write_str("+0"),
                _ => write_offset(f, offset),
            }
        }
        Operand::Address {
            base,
            offset,
            unified,
            ..
        } => {
            f.write_char('[')?;
            match base {
                AddressBase::Name(name) => {
                    f.write_str(name.text)?;
                    write_offset(f, offset)?;
                }
                AddressBase::Immediate(_) => write!(f, "{offset}")?,
            }
            f.write_str(if unified { "].unified" } else { "]" })
        }
        Operand::Element(list, _) => match body.list(list) {
            [array, index] => {
                write_operand(f, array, body)?;
                f.write_char('[')?;
                write_operand(f, index, body)?;
                f.write_char(']')
            }
            _ => Ok(()),
        },
        Operand::Vector(elements, _) => write!(f, "{{{}}}", list(elements)),
        Operand::Arguments(arguments, _) => write!(f, "({})", list(arguments)),
        Operand::Indexed(parts, _) => write!(f, "[{}]", list(parts)),
        Operand::Pair(pair, _) => match body.list(pair) {
            [first, second] => {
                write_operand(f, first, body)?;
                f.write_char('|')?;
                write_operand(f, second, body)
            }
            _ => Ok(()),
        },
        Operand::Sink(_) => f.write_char('_'),
    }
}
