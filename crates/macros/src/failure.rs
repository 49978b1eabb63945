//! Errors of the macros, as errors of the compiler.

use proc_macro::{Span, TokenStream};

use crate::template::fill;

/// What is wrong, and where in the Rust file. There may be several.
#[derive(Debug)]
pub struct Failure(Vec<(String, Span)>);

impl Failure {
    pub fn new(message: impl Into<String>, span: Span) -> Failure {
        Failure(vec![(message.into(), span)])
    }

    /// All of them, if there is one.
    pub fn of(failures: Vec<Failure>) -> Result<(), Failure> {
        let all: Vec<_> = failures.into_iter().flat_map(|one| one.0).collect();
        if all.is_empty() {
            Ok(())
        } else {
            Err(Failure(all))
        }
    }

    pub fn into_tokens(self) -> TokenStream {
        let errors = self.0.into_iter().map(|(message, span)| {
            let message = crate::string(&message);
            fill("::core::compile_error! { HOLE_0 }", &[message], span)
        });
        errors.collect()
    }
}
