//! `#[derive(DeviceRepr)]`.

use proc_macro::{Delimiter, Literal, Span, TokenStream, TokenTree};

use crate::failure::Failure;
use crate::template::fill;
use crate::tokens::Tokens;

/// A field: its name, or its number in a tuple structure, and its type.
struct Field {
    name: TokenTree,
    ty: TokenStream,
    span: Span,
}

pub fn derive(input: TokenStream) -> Result<TokenStream, Failure> {
    let mut tokens = Tokens::new(input, Span::call_site());
    let mut reprs = Vec::new();
    for attribute in tokens.attributes()? {
        if attribute.name == "repr" {
            let mut arguments = attribute.arguments;
            let list = arguments.group(Delimiter::Parenthesis, "`(`")?.stream();
            reprs.extend(list.into_iter().map(|token| token.to_string()));
        }
    }
    tokens.visibility();
    if tokens.take_word("struct").is_none() {
        return Err(tokens.expected("a structure: not all bits are a value of another type"));
    }
    let name = tokens.ident("the name of a structure")?;
    let has = |repr: &str| reprs.iter().any(|known| known == repr);
    if has("packed") {
        let why = "a packed structure has fields where device code cannot load them: give the \
                   fields an order without padding";
        return Err(Failure::new(why, name.span()));
    }
    if !has("C") && !has("transparent") {
        let why = format!("Rust may order the fields of `{name}` as it likes: add #[repr(C)]");
        return Err(Failure::new(why, name.span()));
    }
    let fields = fields(&mut tokens)?;

    let fields = fields.into_iter().map(|field| {
        let holes = [field.name.into(), field.ty];
        fill("HOLE_0: HOLE_1,", &holes, field.span)
    });
    // The checks are those of the library's own macro: this crate knows the tokens of the
    // structure, and other macros may change it before it is compiled.
    Ok(fill(
        "::ptxkit::device_structure! { HOLE_0 { HOLE_1 } }",
        &[TokenTree::from(name.clone()).into(), fields.collect()],
        name.span(),
    ))
}

fn fields(tokens: &mut Tokens) -> Result<Vec<Field>, Failure> {
    let braces = tokens.group(Delimiter::Brace, "");
    let is_tuple = braces.is_err();
    let list = match braces {
        Ok(list) => list,
        Err(_) => tokens.group(Delimiter::Parenthesis, "fields, and no type parameters")?,
    };
    let mut inner = Tokens::new(list.stream(), list.span_close());
    let mut fields = Vec::new();
    while inner.peek().is_some() {
        inner.attributes()?;
        inner.visibility();
        let name = if is_tuple {
            Literal::usize_unsuffixed(fields.len()).into()
        } else {
            let name = inner.ident("a field")?;
            inner.punct(':')?;
            name.into()
        };
        let ty = inner.until_comma();
        let span = ty.first().map_or(list.span(), TokenTree::span);
        let ty = ty.into_iter().collect();
        fields.push(Field { name, ty, span });
    }
    Ok(fields)
}
