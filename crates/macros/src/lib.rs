//! The procedural macros of ptxkit. Use them through that crate.
//!
//! The input is parsed by hand: it is a few declarations, and a parser of all of Rust is
//! more to build than the rest of this crate.

mod declaration;
mod device_repr;
mod entry;
mod expand;
mod failure;
mod size;
mod source;
mod template;
mod tokens;

use proc_macro::{Literal, Span, TokenStream};

/// The bytes of a PTX file, and BLAKE3 of them without the NULs at their end, as an array of 32
/// bytes. The path is a string literal, relative to the file it is written in, after the path of
/// the library.
///
/// A procedural macro, as the compiler's interpreter takes minutes for a `const fn`
/// over megabytes.
#[proc_macro]
pub fn ptx_file(input: TokenStream) -> TokenStream {
    source::file_and_digest(input).unwrap_or_else(failure::Failure::into_tokens)
}

/// What `ptxkit::kernels!` expands to. It passes its own crate as the first token.
#[proc_macro]
pub fn declare_kernels(input: TokenStream) -> TokenStream {
    declaration::parse(input).map_or_else(failure::Failure::into_tokens, |(ptxkit, modules)| {
        let modules = modules.into_iter();
        modules
            .map(|module| expand::module(&ptxkit, module))
            .collect()
    })
}

// Documented where the library exports it.
#[proc_macro_derive(DeviceRepr)]
pub fn device_repr(input: TokenStream) -> TokenStream {
    device_repr::derive(input).unwrap_or_else(failure::Failure::into_tokens)
}

/// Where what the macros make stands for errors, with names that do not meet the user's.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// A string literal.
fn string(text: &str) -> TokenStream {
    proc_macro::TokenTree::from(Literal::string(text)).into()
}
