//! Checks the initializer of a variable against its type.

use super::symbols::Symbol;
use crate::ast::{Initializer, Name, Space, Span, Variable};
use crate::diagnostic::{Code, Diagnostic, suggestion};
use crate::names::Type;

/// The fields of `.texref`, `.samplerref` and `.surfref`, and which types have them.
const FIELDS: &[(&str, &[Type])] = {
    use Type::{Samplerref, Surfref, Texref};
    const IMAGE: &[Type] = &[Texref, Surfref];
    const SAMPLING: &[Type] = &[Texref, Samplerref];
    &[
        ("width", IMAGE),
        ("height", IMAGE),
        ("depth", IMAGE),
        ("array_size", IMAGE),
        ("num_mipmap_levels", IMAGE),
        ("num_samples", IMAGE),
        ("channel_data_type", IMAGE),
        ("channel_order", IMAGE),
        ("normalized_coords", &[Texref]),
        ("filter_mode", SAMPLING),
        ("addr_mode_0", SAMPLING),
        ("addr_mode_1", SAMPLING),
        ("addr_mode_2", SAMPLING),
        ("force_unnormalized_coords", &[Samplerref]),
    ]
};

/// The words that are values of fields.
const VALUES: &[&str] = &[
    "wrap",
    "mirror",
    "clamp_ogl",
    "clamp_to_edge",
    "clamp_to_border",
    "nearest",
    "linear",
];

/// Checks the initializer of a variable, if it has one. `symbol` looks up the names
/// declared so far in the module.
pub fn check<'m, 'a: 'm>(
    variable: &Variable<'a>,
    source: &'a str,
    symbol: impl Fn(&str) -> Option<Symbol<'m, 'a>>,
) -> Option<Diagnostic> {
    let init = variable.init.as_ref()?;
    let checker = Checker {
        variable,
        source,
        symbol,
    };
    checker.array(init, &variable.dims).err()
}

struct Checker<'v, 'a, F> {
    variable: &'v Variable<'a>,
    source: &'a str,
    symbol: F,
}

type Checked = Result<(), Diagnostic>;

impl<'m, 'a: 'm, F: Fn(&str) -> Option<Symbol<'m, 'a>>> Checker<'_, 'a, F> {
    fn wrong(&self, code: Code, init: &Initializer<'_>, message: impl Into<String>) -> Checked {
        let place = place(init, self.source);
        let span = place.unwrap_or_else(|| self.variable.name.span(self.source));
        Err(Diagnostic::new(code, span, message))
    }

    /// Checks `init` for an array of these dimensions; for a vector or scalar if there are none.
    fn array(&self, init: &Initializer<'a>, dims: &[Option<u64>]) -> Checked {
        let Some((size, inner)) = dims.split_first() else {
            return self.element(init);
        };
        let Initializer::List(list) = init else {
            return self.wrong(
                Code::OperandType,
                init,
                "the initializer of an array is a list `{…}`",
            );
        };
        // `[0]` takes its size from the values, like `[]`.
        if size.is_some_and(|size| size > 0 && list.len() as u64 > size) {
            return self.wrong(
                Code::Range,
                init,
                format!("{} values exceed the size of the array", list.len()),
            );
        }
        // ptxas treats fields as values here and does not check them.
        if opaque(self.variable.ty) || matches!(list.first(), Some(Initializer::Property { .. })) {
            return Ok(());
        }
        // Tables are large, and hold numbers alone.
        let numbers = list
            .iter()
            .take_while(|value| matches!(value, Initializer::Integer(_)));
        let numbers =
            if inner.is_empty() && self.variable.vector == 1 && self.variable.ty.holds_integers() {
                numbers.count()
            } else {
                0
            };
        let mut rest = list.iter().skip(numbers);
        rest.try_for_each(|value| self.array(value, inner))
    }

    fn element(&self, init: &Initializer<'a>) -> Checked {
        if opaque(self.variable.ty) {
            return self.fields(init);
        }
        if self.variable.vector == 1 {
            return self.scalar(init);
        }
        let Initializer::List(list) = init else {
            return self.wrong(
                Code::OperandType,
                init,
                "the initializer of a vector is a list `{…}`",
            );
        };
        if list.len() != usize::from(self.variable.vector) {
            return self.wrong(
                Code::Range,
                init,
                format!(
                    "{} values for a vector of {}",
                    list.len(),
                    self.variable.vector
                ),
            );
        }
        list.iter().try_for_each(|value| self.scalar(value))
    }

    fn scalar(&self, init: &Initializer<'a>) -> Checked {
        use Type::*;
        let ty = self.variable.ty;
        if ty == F16 {
            let message = "ptxas does not support initializers of `.f16`: use `.b16`";
            return self.wrong(Code::OperandType, init, message);
        }
        let fits = match init {
            Initializer::Integer(_) => ty.holds_integers(),
            Initializer::Float(_) => matches!(ty, B8 | B16 | B32 | B64 | B128 | F32 | F64),
            Initializer::Address {
                name,
                generic,
                offset,
                mask,
            } => {
                let sized = match mask {
                    None => matches!(ty, U32 | U64),
                    Some(_) => matches!(ty, U8 | U32 | U64),
                };
                if sized {
                    return self.address(*name, *generic, *offset);
                }
                false
            }
            // ptxas checks no further.
            Initializer::List(_) => ty == F16x2,
            Initializer::Property { .. } => false,
        };
        if fits {
            return Ok(());
        }
        self.wrong(
            Code::OperandType,
            init,
            format!("this value cannot initialize a `.{}`", ty.text()),
        )
    }

    fn address(&self, name: Name<'a>, generic: bool, offset: i64) -> Checked {
        let wrong = |code, message: &str| {
            let message = format!("`{}` {message}", name.text);
            Err(Diagnostic::new(code, name.span(self.source), message))
        };
        match (self.symbol)(name.text) {
            Some(Symbol::Function(_)) if generic || offset != 0 => wrong(
                Code::OperandType,
                "is a function, whose address takes no offset",
            ),
            Some(Symbol::Function(_)) => Ok(()),
            Some(Symbol::Variable(variable, _)) => match variable.space {
                Space::Global | Space::Const => Ok(()),
                _ => wrong(
                    Code::StateSpace,
                    "has no address at load time: only `.global` and `.const` variables have",
                ),
            },
            _ => wrong(Code::Undeclared, "is not declared"),
        }
    }

    fn fields(&self, init: &Initializer<'a>) -> Checked {
        let Initializer::List(list) = init else {
            return self.wrong(Code::OperandType, init, "fields must be in a list `{…}`");
        };
        for field in list {
            let Initializer::Property { name, value } = field else {
                return self.wrong(
                    Code::OperandType,
                    field,
                    "a field needs a name, as in `filter_mode = linear`",
                );
            };
            let ty = self.variable.ty;
            let of_type = |field: &&(&'static str, &[Type])| field.1.contains(&ty);
            if !FIELDS
                .iter()
                .filter(of_type)
                .any(|(known, _)| *known == name.text)
            {
                let mut unknown = Diagnostic::new(
                    Code::Undeclared,
                    name.span(self.source),
                    format!("a `.{}` has no field `{}`", ty.text(), name.text),
                );
                let known = FIELDS.iter().filter(of_type).map(|(known, _)| *known);
                unknown.help = suggestion(name.text, known);
                return Err(unknown);
            }
            match value.as_ref() {
                Initializer::Integer(_) => {}
                Initializer::Address { name, .. } if VALUES.contains(&name.text) => {}
                value => {
                    return self.wrong(Code::Undeclared, value, "this is not a value of a field");
                }
            }
        }
        Ok(())
    }
}

fn opaque(ty: Type) -> bool {
    matches!(ty, Type::Texref | Type::Samplerref | Type::Surfref)
}

/// The start of a value; `None` for an empty list.
fn place(init: &Initializer<'_>, source: &str) -> Option<Span> {
    match init {
        Initializer::Integer(integer) => Some(integer.span),
        Initializer::Float(float) => Some(float.span),
        Initializer::Address { name, .. } | Initializer::Property { name, .. } => {
            Some(name.span(source))
        }
        Initializer::List(list) => place(list.first()?, source),
    }
}
