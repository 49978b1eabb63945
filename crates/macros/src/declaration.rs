//! What is written in `kernels!`, read from its tokens.

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

use crate::failure::Failure;
use crate::source::Origin;
use crate::tokens::{Attribute, Tokens, is_punct};

/// `pub mod vector in "vector.ptx"; unsafe extern { … }`
#[derive(Debug)]
pub struct Module {
    pub docs: TokenStream,
    pub visibility: TokenStream,
    pub name: Ident,
    pub origin: Origin,
    /// The user's `unsafe extern`, as a block of no functions.
    pub voucher: TokenStream,
    pub kernels: Vec<Kernel>,
}

/// `pub safe fn scale(values: &mut DeviceSlice<f32>, n: Count<u32>);`
#[derive(Debug)]
pub struct Kernel {
    pub docs: TokenStream,
    pub visibility: TokenStream,
    /// `safe fn`: any arguments of the types will do.
    pub is_safe: bool,
    pub name: Ident,
    /// `#[link_name = "_Z5scalePfj"]`: its name in the PTX.
    pub link_name: Option<Literal>,
    /// `#[block(16, 16)]`: the only block that it is launched with.
    pub block: Option<([u32; 3], Span)>,
    /// `#[cooperative]`: its blocks wait for one another.
    pub is_cooperative: bool,
    pub parameters: Vec<Parameter>,
}

/// `values: &mut DeviceSlice<f32>`
#[derive(Debug)]
pub struct Parameter {
    pub name: Ident,
    pub written: Written,
    /// The type as a `Parameter` of the library.
    pub ty: TokenStream,
    /// The type as it is written, if that is another.
    pub slice: Option<TokenStream>,
    pub span: Span,
}

/// What a type stands for, as far as its tokens tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `*const T`, `*mut T`, `&DeviceSlice<T>`, `&mut DeviceSlice<T>`: an address.
    Address,
    /// `&[T]`, `&mut [T]`: an address and a length.
    Slice,
    /// A number, a structure, a texture, `&TensorMap`.
    Value,
}

/// The library's own path, and what is declared.
pub fn parse(input: TokenStream) -> Result<(TokenStream, Vec<Module>), Failure> {
    let mut tokens = Tokens::new(input, Span::call_site());
    let ptxkit = tokens.next().into_iter().collect();
    let mut modules = Vec::new();
    while tokens.peek().is_some() {
        modules.push(module(&mut tokens)?);
    }
    if modules.is_empty() {
        return Err(tokens.expected("`pub mod NAME in \"FILE.ptx\";`"));
    }
    Ok((ptxkit, modules))
}

fn module(tokens: &mut Tokens) -> Result<Module, Failure> {
    let mut docs = TokenStream::new();
    for attribute in tokens.attributes()? {
        if attribute.name != "doc" {
            return Err(attribute.unknown("a module takes doc comments alone"));
        }
        docs.extend(attribute.tokens);
    }
    let visibility = tokens.visibility();
    tokens.keyword("mod")?;
    let name = tokens.ident("the name of the module")?;
    let origin = if tokens.take_word("in").is_some() {
        Origin::File(tokens.literal("the path of a PTX file")?)
    } else if tokens.take_word("source").is_some() {
        tokens.punct('=')?;
        Origin::Cuda(tokens.literal("the path of a CUDA C++ file")?)
    } else if tokens.take_punct('=') {
        Origin::Text(tokens.literal("PTX text")?)
    } else {
        return Err(tokens.expected("`in \"FILE.ptx\"`, `source = \"FILE.cu\"` or `= \"PTX\"`"));
    };
    tokens.punct(';')?;
    let unsafety = tokens.keyword("unsafe")?;
    let external = tokens.keyword("extern")?;
    let block = tokens.group(Delimiter::Brace, "`{`, and then the kernels")?;
    let mut inner = Tokens::new(block.stream(), block.span_close());
    let mut kernels = Vec::new();
    while inner.peek().is_some() {
        kernels.push(kernel(&mut inner)?);
    }
    Ok(Module {
        docs,
        visibility,
        name,
        origin,
        voucher: voucher(unsafety, external, block.span()),
        kernels,
    })
}

/// `unsafe extern "C" {}` where the user's block is, so that lints find it there.
fn voucher(unsafety: Ident, external: Ident, span: Span) -> TokenStream {
    let (mut abi, mut none) = (
        Literal::string("C"),
        Group::new(Delimiter::Brace, TokenStream::new()),
    );
    abi.set_span(external.span());
    none.set_span(span);
    let tokens: [TokenTree; 4] = [unsafety.into(), external.into(), abi.into(), none.into()];
    tokens.into_iter().collect()
}

fn kernel(tokens: &mut Tokens) -> Result<Kernel, Failure> {
    let (mut docs, mut link_name, mut block) = (TokenStream::new(), None, None);
    let mut is_cooperative = false;
    for attribute in tokens.attributes()? {
        match attribute.name.as_str() {
            "doc" => docs.extend(attribute.tokens),
            "cooperative" => is_cooperative = true,
            "link_name" => {
                let mut arguments = attribute.arguments;
                arguments.punct('=')?;
                link_name = Some(arguments.literal("the kernel's name in the PTX")?);
            }
            "block" => {
                let span = attribute.span;
                block = Some((threads(attribute)?, span));
            }
            _ => {
                return Err(attribute.unknown(
                    "a kernel takes doc comments, #[link_name = \"…\"], #[block(x, y, z)] and \
                     #[cooperative]",
                ));
            }
        }
    }
    let visibility = within(tokens.visibility())?;
    let is_safe = tokens.take_word("safe").is_some();
    if !is_safe {
        let _ = tokens.take_word("unsafe");
    }
    tokens.keyword("fn")?;
    let name = tokens.ident("the name of a kernel")?;
    let list = tokens.group(Delimiter::Parenthesis, "`(`, and then the parameters")?;
    tokens.punct(';')?;
    let mut list = Tokens::new(list.stream(), list.span_close());
    let mut parameters = Vec::new();
    while list.peek().is_some() {
        parameters.push(parameter(&mut list)?);
    }
    Ok(Kernel {
        docs,
        visibility,
        is_safe,
        name,
        link_name,
        block,
        is_cooperative,
        parameters,
    })
}

fn parameter(tokens: &mut Tokens) -> Result<Parameter, Failure> {
    let name = tokens.ident("the name of a parameter")?;
    if name.to_string() == "_" {
        return Err(Failure::new("give the parameter a name", name.span()));
    }
    tokens.punct(':')?;
    let ty = tokens.until_comma();
    let Some(span) = ty.first().map(TokenTree::span) else {
        return Err(tokens.expected("a type"));
    };
    let Some((written, passed)) = passed(&ty) else {
        let why = "a kernel takes no such reference: write `&DeviceSlice<T>` for the address of \
                   values, `&[T]` for address and length, `&TensorMap` for a tensor map, each with \
                   `mut` for what it writes, and anything else by value";
        return Err(Failure::new(why, span));
    };
    let is_slice = written == Written::Address && is_punct(ty.first(), '&');
    Ok(Parameter {
        name,
        written,
        slice: is_slice.then(|| ty.iter().cloned().collect()),
        ty: passed,
        span,
    })
}

/// A type as a `Parameter` of the library: `DeviceSlice`s as pointers, slices with a lifetime.
fn passed(ty: &[TokenTree]) -> Option<(Written, TokenStream)> {
    let all = || ty.iter().cloned().collect();
    match ty {
        [TokenTree::Punct(star), ..] if star.as_char() == '*' => Some((Written::Address, all())),
        [TokenTree::Punct(and), rest @ ..] if and.as_char() == '&' => {
            let is_lifetime = is_punct(rest.first(), '\'');
            let rest = if is_lifetime { rest.get(2..)? } else { rest };
            let mutable = rest.first().is_some_and(|first| first.to_string() == "mut");
            let referent = rest.get(usize::from(mutable)..)?;
            if let [TokenTree::Group(_)] = referent {
                let reference = tokens(if mutable { "&'static mut" } else { "&'static" });
                return Some((Written::Slice, concatenated(reference, referent)));
            }
            if referent
                .last()
                .is_some_and(|last| last.to_string() == "TensorMap")
            {
                let reference = tokens(if mutable { "&'static mut" } else { "&'static" });
                return Some((Written::Value, concatenated(reference, referent)));
            }
            let pointer = tokens(if mutable { "*mut" } else { "*const" });
            Some((Written::Address, concatenated(pointer, element(referent)?)))
        }
        _ => Some((Written::Value, all())),
    }
}

/// The `T` of `path::DeviceSlice<T>`.
fn element(ty: &[TokenTree]) -> Option<&[TokenTree]> {
    let open = ty.iter().position(|token| is_punct(Some(token), '<'))?;
    let name = open
        .checked_sub(1)
        .and_then(|last| ty.get(last))?
        .to_string();
    let (close, inner) = ty.get(open + 1..)?.split_last()?;
    let is_slice = name == "DeviceSlice" || name == "DeviceSliceMut";
    if !is_slice || !is_punct(Some(close), '>') {
        return None;
    }
    // `DeviceSlice<'_, T>`
    match inner {
        [quote, _, comma, element @ ..]
            if is_punct(Some(quote), '\'') && is_punct(Some(comma), ',') =>
        {
            Some(element)
        }
        _ => Some(inner),
    }
}

/// The visibility in a module below that in which it is written.
fn within(visibility: TokenStream) -> Result<TokenStream, Failure> {
    let text: String = visibility
        .clone()
        .into_iter()
        .map(|token| token.to_string())
        .collect();
    match text.replace(' ', "").as_str() {
        "" | "pub(self)" => Ok(tokens("pub(super)")),
        "pub(super)" => Ok(tokens("pub(in super::super)")),
        _ => Ok(visibility),
    }
}

fn tokens(text: &str) -> TokenStream {
    crate::template::fill(text, &[], Span::call_site())
}

fn concatenated(before: TokenStream, after: &[TokenTree]) -> TokenStream {
    before.into_iter().chain(after.iter().cloned()).collect()
}

/// `(x, y, z)`
fn threads(attribute: Attribute) -> Result<[u32; 3], Failure> {
    let wrong = || {
        let why = "write the threads of a block as up to three numbers: #[block(16, 16)]";
        Failure::new(why, attribute.span)
    };
    let mut arguments = attribute.arguments;
    let list = arguments
        .group(Delimiter::Parenthesis, "")
        .map_err(|_| wrong())?;
    let list = list.stream().to_string();
    let mut block = [1; 3];
    for (index, number) in list.trim_end_matches([' ', ',']).split(',').enumerate() {
        let place = block.get_mut(index).ok_or_else(wrong)?;
        *place = number.trim().parse().map_err(|_| wrong())?;
    }
    Ok(block)
}
