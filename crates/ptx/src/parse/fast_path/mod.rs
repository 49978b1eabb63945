//! The fast path: parses statements in the form that compilers generate,
//! `@%p1 ld.global.f32 %f1, [%rd4+8];`, from the bytes without the lexer.
//!
//! Nearly all statements have this form. Everything else is left to the parsers of tokens, which
//! give the same result for these statements. The fast path never reports errors.

mod declaration;
mod initializer;
mod location;
mod operand;
mod parameter;
mod section;
mod skim;
#[cfg(test)]
mod tests;
mod text;

pub use declaration::MAX_REGISTERS;
pub use initializer::{number_list, skip_integers};
pub use parameter::parameters;
pub use section::skip_data;
pub use skim::Skimmer;
pub use text::{Text, begins_statement};
