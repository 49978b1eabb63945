//! PTX at compile time: from a file, from a literal, or from what a build script compiled.

use std::path::{Path, PathBuf};

use proc_macro::{Delimiter, Literal, Span, TokenStream, TokenTree};
use ptx::diagnostic::{Diagnostics, Severity};
use ptx::signature::{KernelSignature, signatures};
use ptx::{CheckOptions, Digest, Ptx};

use crate::failure::Failure;
use crate::template::fill;

/// So many errors of a module are shown.
const MAX_SHOWN: usize = 10;

/// Where a module's PTX comes from, with the literal that says so.
#[derive(Debug)]
pub enum Origin {
    /// A file, relative to the Rust file.
    File(Literal),
    /// The text itself.
    Text(Literal),
    /// A CUDA C++ file, relative to the Rust file, which the build script compiled.
    Cuda(Literal),
}

/// PTX without errors.
#[derive(Debug)]
pub struct Source {
    /// How messages of the loader name it.
    pub name: String,
    /// Its file in messages of the compiler.
    pub file: String,
    /// An expression for its bytes. It makes the compiler read the file, and so
    /// compile anew when that changes.
    pub bytes: TokenStream,
    pub digest: Digest,
    pub kernels: Vec<KernelSignature>,
}

impl Origin {
    fn literal(&self) -> &Literal {
        match self {
            Origin::File(literal) | Origin::Text(literal) | Origin::Cuda(literal) => literal,
        }
    }

    /// Reads and checks it. The library has this path.
    pub fn read(&self, ptxkit: &TokenStream) -> Result<Source, Failure> {
        let literal = self.literal();
        let span = literal.span();
        let (text, prefix) = text_of(literal)?;
        match self {
            Origin::File(_) => {
                let (ptx, bytes) = file(ptxkit, &text, span)?;
                Source::new(ptx.text(), &text, text.clone(), bytes, ptx.digest(), span)
            }
            Origin::Text(_) => {
                let name = span.file();
                let ptx = Ptx::from_bytes(text, name).map_err(|why| wrong(why, span))?;
                // In front of it as many lines and columns as in the Rust file, so that errors
                // are located there.
                let mut shown = "\n".repeat(span.line().saturating_sub(1));
                shown.push_str(&" ".repeat(span.column().saturating_sub(1) + prefix));
                shown.push_str(ptx.text());
                let bytes = fill("HOLE_0.as_bytes()", &[token(literal)], span);
                Source::new(
                    &shown,
                    ptx.name(),
                    ptx.name().to_owned(),
                    bytes,
                    ptx.digest(),
                    span,
                )
            }
            Origin::Cuda(_) => {
                let compiled = compiled(&text, span)?;
                let ptx = read(&compiled, &text).map_err(|why| {
                    let message =
                        format!("{why}: compile {text} in build.rs, by `ptxkit_nvcc::compile`");
                    Failure::new(message, span)
                })?;
                let path = compiled.to_string_lossy();
                let bytes = include(ptxkit, &compiled, span)?;
                Source::new(ptx.text(), &path, text, bytes, ptx.digest(), span)
            }
        }
    }
}

impl Source {
    fn new(
        text: &str,
        file: &str,
        name: String,
        bytes: TokenStream,
        digest: Digest,
        span: Span,
    ) -> Result<Source, Failure> {
        let read = |kernels| Source {
            name,
            file: file.to_owned(),
            bytes,
            digest,
            kernels,
        };
        // Mostly so, and then it takes a part of the time.
        if ptx::is_surely_valid(text, &CheckOptions::default())
            && let Some((module, _)) = ptx::read_outline(text)
        {
            return Ok(read(signatures(&module, text)));
        }
        let reading = ptx::read(text);
        let mut found = reading.diagnostics;
        found.extend(ptx::check(&reading.module, text));
        found.retain(|found| found.severity == Severity::Error);
        let more = found.len().saturating_sub(MAX_SHOWN);
        found.truncate(MAX_SHOWN);
        let mut failures: Vec<_> = found
            .into_iter()
            .map(|found| {
                let code = found.code;
                let drawn = Diagnostics::new(text, file, vec![found]).to_string();
                // The compiler writes "error" itself.
                let drawn = drawn
                    .split_once("]: ")
                    .map_or(&drawn[..], |(_, drawn)| drawn);
                Failure::new(format!("PTX {code}: {drawn}"), span)
            })
            .collect();
        if more > 0 {
            failures.push(Failure::new(format!("{more} more errors in {file}"), span));
        }
        Failure::of(failures)?;
        Ok(read(signatures(&reading.module, text)))
    }
}

/// What [`ptx_file`](crate::ptx_file) expands to.
pub fn file_and_digest(input: TokenStream) -> Result<TokenStream, Failure> {
    let mut input = input.into_iter();
    let ptxkit = input.next().into_iter().collect();
    let literal = only_literal(input.collect())?;
    let (path, _) = text_of(&literal)?;
    let (ptx, bytes) = file(&ptxkit, &path, literal.span())?;
    let holes = [bytes, bytes_of(ptx.digest())];
    Ok(fill("(HOLE_0, HOLE_1)", &holes, literal.span()))
}

/// An expression for the bytes of a file, which makes the compiler read it.
fn include(ptxkit: &TokenStream, place: &Path, span: Span) -> Result<TokenStream, Failure> {
    // The compiler takes a relative path for one beside the code that calls the outermost macro,
    // which need not be the file that the path is written in.
    let place = std::path::absolute(place).map_err(|error| wrong(error, span))?;
    let path = place
        .to_str()
        .ok_or_else(|| wrong("the path is not UTF-8", span))?;
    let holes = [ptxkit.clone(), crate::string(path)];
    Ok(fill("HOLE_0::__core::include_bytes!(HOLE_1)", &holes, span))
}

/// An array of a digest's bytes.
pub fn bytes_of(digest: Digest) -> TokenStream {
    fill(&format!("{:?}", digest.as_bytes()), &[], Span::call_site())
}

fn wrong(why: impl ToString, span: Span) -> Failure {
    Failure::new(why.to_string(), span)
}

/// A PTX file, and an expression for its bytes.
fn file(ptxkit: &TokenStream, path: &str, span: Span) -> Result<(Ptx, TokenStream), Failure> {
    let place = folder_of(span)?.join(path);
    let ptx = read(&place, path).map_err(|why| wrong(why, span))?;
    Ok((ptx, include(ptxkit, &place, span)?))
}

fn read(place: &Path, name: &str) -> Result<Ptx, String> {
    let bytes = std::fs::read(place)
        .map_err(|error| format!("cannot read {}: {error}", place.display()))?;
    Ptx::from_bytes(bytes, name).map_err(|why| why.to_string())
}

/// The folder of the file that a token is written in.
fn folder_of(span: Span) -> Result<PathBuf, Failure> {
    let file = span.local_file();
    let folder = file.as_deref().and_then(Path::parent);
    let unknown = || Failure::new("the source file of this path is not known", span);
    folder.map(Path::to_owned).ok_or_else(unknown)
}

/// Where a build script puts the PTX of a CUDA C++ file: at its place in the package, in
/// `OUT_DIR`.
fn compiled(path: &str, span: Span) -> Result<PathBuf, Failure> {
    let variable = |name: &str, why: &str| {
        let missing = || Failure::new(why.to_owned(), span);
        std::env::var_os(name)
            .map(PathBuf::from)
            .ok_or_else(missing)
    };
    let out = variable(
        "OUT_DIR",
        &format!(
            "{path} is not compiled: this package has no build.rs that calls \
             `ptxkit_nvcc::compile`"
        ),
    )?;
    let package = variable("CARGO_MANIFEST_DIR", "Cargo does not run this compiler")?;
    let place = folder_of(span)?.join(path);
    let place = place
        .canonicalize()
        .map_err(|error| wrong(format!("cannot read {}: {error}", place.display()), span))?;
    let package = package.canonicalize().unwrap_or(package);
    let within = place
        .strip_prefix(&package)
        .map_err(|_| wrong(format!("{path} lies outside of the package"), span))?;
    Ok(out.join(within).with_extension("ptx"))
}

/// The one literal in `input`, which another macro may have put into a group.
fn only_literal(input: TokenStream) -> Result<Literal, Failure> {
    let mut tokens = input.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Literal(literal)), None) => Ok(literal),
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => {
            only_literal(group.stream())
        }
        (first, _) => {
            let span = first.map_or_else(Span::call_site, |token| token.span());
            Err(wrong(
                "give the path of a PTX file as a string literal",
                span,
            ))
        }
    }
}

/// The text of a string literal, and how many characters stand before it there.
fn text_of(literal: &Literal) -> Result<(String, usize), Failure> {
    let written = literal.to_string();
    let raw = written.strip_prefix('r');
    let hashes = raw.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    let quoted = raw.unwrap_or(&written).get(hashes..);
    let text = quoted
        .and_then(|quoted| quoted.get(..quoted.len().checked_sub(hashes)?))
        .and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'))
        .filter(|text| raw.is_some() || !text.contains('\\'));
    let text = text.ok_or_else(|| {
        let why = "give a string literal without escapes, or a raw one: r#\"…\"#";
        Failure::new(why, literal.span())
    })?;
    let prefix = hashes + 1 + usize::from(raw.is_some());
    Ok((text.to_owned(), prefix))
}

fn token(literal: &Literal) -> TokenStream {
    TokenTree::from(literal.clone()).into()
}
