//! Code written as text, with holes for tokens of the user.

use proc_macro::{Group, Span, TokenStream, TokenTree};

/// `text` as tokens at `span`. `HOLE_0` in it stands for the first of `holes`, and so on,
/// whose tokens keep their own spans.
pub fn fill(text: &str, holes: &[TokenStream], span: Span) -> TokenStream {
    // The text is that of this crate, so it is valid.
    let tokens: TokenStream = text.parse().unwrap_or_default();
    fill_tokens(tokens, holes, crate::at(span))
}

fn fill_tokens(tokens: TokenStream, holes: &[TokenStream], span: Span) -> TokenStream {
    let tokens = tokens.into_iter().map(|mut token| {
        match &token {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let number = name.strip_prefix("HOLE_").map(str::parse::<usize>);
                if let Some(Ok(number)) = number {
                    return holes.get(number).cloned().unwrap_or_default();
                }
            }
            TokenTree::Group(group) => {
                let inner = fill_tokens(group.stream(), holes, span);
                token = Group::new(group.delimiter(), inner).into();
            }
            _ => {}
        }
        token.set_span(span);
        token.into()
    });
    tokens.collect()
}
