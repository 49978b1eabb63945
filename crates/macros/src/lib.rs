//! The procedural macros of ptxkit. Use them through that crate.

use std::path::{Path, PathBuf};

use proc_macro::{Delimiter, Literal, Span, TokenStream, TokenTree};

/// BLAKE3 of a PTX file without the NULs at its end, as an array of 32 bytes. The
/// path is a string literal, relative to the file it is written in.
///
/// A procedural macro, as the compiler's interpreter takes minutes for a `const fn`
/// over megabytes.
#[proc_macro]
pub fn digest_of_ptx_file(input: TokenStream) -> TokenStream {
    match digest(input) {
        Ok(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
            tokens(&format!("[{}]", bytes.join(", ")), Span::call_site())
        }
        Err((why, span)) => {
            let message = Literal::string(&why);
            tokens(&format!("::core::compile_error!({message})"), span)
        }
    }
}

fn digest(input: TokenStream) -> Result<[u8; 32], (String, Span)> {
    let literal = literal(input)?;
    let span = literal.span();
    let path = resolve(&literal).map_err(|why| (why, span))?;
    let bytes = std::fs::read(&path)
        .map_err(|error| (format!("cannot read {}: {error}", path.display()), span))?;
    let length = bytes.iter().rposition(|byte| *byte != 0);
    let text = &bytes[..length.map_or(0, |last| last + 1)];
    // Binaries have NULs. Their code is not known by a digest of the whole.
    if text.contains(&0) {
        let why = format!("{} is not PTX text: it has a NUL byte", path.display());
        return Err((why, span));
    }
    Ok(*blake3::hash(text).as_bytes())
}

/// The one literal in `input`, which another macro may have put into a group.
fn literal(input: TokenStream) -> Result<Literal, (String, Span)> {
    let mut tokens = input.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Literal(literal)), None) => Ok(literal),
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => {
            self::literal(group.stream())
        }
        (first, _) => {
            let span = first.map_or_else(Span::call_site, |token| token.span());
            Err((
                "give the path of a PTX file as a string literal".to_owned(),
                span,
            ))
        }
    }
}

/// The path in a literal, which is relative to the file that the literal is in.
fn resolve(literal: &Literal) -> Result<PathBuf, String> {
    let text = literal.to_string();
    let path = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .filter(|path| !path.contains('\\'))
        .ok_or("give the path as a string literal without escapes")?;
    let file = literal.span().local_file();
    let folder = file.as_deref().and_then(Path::parent);
    let folder = folder.ok_or("the source file of this path is not known")?;
    Ok(folder.join(path))
}

fn tokens(text: &str, span: Span) -> TokenStream {
    // The text is made here, so it is valid.
    let tokens: TokenStream = text.parse().unwrap_or_default();
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}
