//! An attribute that a project may have for its own purposes.
#![forbid(unsafe_code)]
#![crate_type = "proc-macro"]
extern crate proc_macro;

use proc_macro::{Group, TokenStream, TokenTree};

/// `#[change(NAME TOKENS)]` puts tokens in the place of each name in the item.
#[proc_macro_attribute]
pub fn change(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut arguments = arguments.into_iter();
    let name = arguments.next().unwrap().to_string();
    changed(item, &name, &arguments.collect())
}

fn changed(tokens: TokenStream, name: &str, to: &TokenStream) -> TokenStream {
    let changed = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident.to_string() == name => to.clone(),
        TokenTree::Group(group) => {
            let inner = changed(group.stream(), name, to);
            TokenTree::from(Group::new(group.delimiter(), inner)).into()
        }
        token => token.into(),
    });
    changed.collect()
}
