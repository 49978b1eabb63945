//! Sizes of declared parameters that their tokens tell: numbers, addresses, slices. What is
//! wrong is then named at each parameter, and costs the compiler nothing where all is right.

use ptx::signature::ParamSignature;

use crate::declaration::{Parameter, Written};
use crate::entry;
use crate::failure::Failure;
use crate::source::Source;
use crate::tokens::text_of;

/// An address, and a length beside it.
const ADDRESS: usize = 8;

impl Parameter {
    /// The type as it is declared.
    pub fn written_type(&self) -> String {
        text_of(self.slice.as_ref().unwrap_or(&self.ty))
    }

    /// The bytes of each parameter of the `.entry` that it stands for, to which it is aligned
    /// too. `None` for a structure or another name, which the compiler alone knows.
    pub fn known_sizes(&self) -> Option<Vec<usize>> {
        match self.written {
            Written::Address => Some(vec![ADDRESS]),
            Written::Slice => Some(vec![ADDRESS; 2]),
            Written::Value => number(&text_of(&self.ty)).map(|bytes| vec![bytes]),
        }
    }
}

/// The bytes of a number, or of a `Count` of them.
fn number(ty: &str) -> Option<usize> {
    let counted = ty.strip_prefix("Count<");
    let ty = counted.and_then(|ty| ty.strip_suffix('>')).unwrap_or(ty);
    Some(match ty {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" => 4,
        "u64" | "i64" | "f64" | "usize" | "isize" => 8,
        _ => return None,
    })
}

/// Why it cannot stand for these parameters, as the library says it of other types.
pub fn wrong(parameter: &Parameter, entry: &[ParamSignature], source: &Source) -> Option<Failure> {
    let sizes = parameter.known_sizes()?;
    let why = entry.iter().zip(sizes).find_map(|(param, given)| {
        let (size, align) = (param.size as usize, param.align as usize);
        let (what, expected) = match (given == size, given <= align) {
            (false, _) => ("has", size),
            (true, false) => ("is aligned to", align),
            (true, true) => return None,
        };
        let param = entry::declared_as(param, source);
        let written = parameter.written_type();
        Some(format!(
            "{param} {what} {expected} bytes, `{written}` {what} {given}"
        ))
    });
    Some(Failure::new(why?, parameter.span))
}
