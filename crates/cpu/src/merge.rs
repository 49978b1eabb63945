//! Linking of PTX modules: several modules are merged into one text.
//!
//! An `.extern` declaration and the definition in another module become one symbol. Local
//! symbols are renamed if another module has a symbol of that name.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use ptx::ast::{Directive, DirectiveKind, Item, Linkage, Module, Place, Span, Statement, Version};

/// A symbol of a module.
#[derive(Clone, Copy)]
struct Symbol<'a> {
    name: &'a str,
    linkage: Linkage,
    /// It is a definition, not only a declaration.
    defined: bool,
    is_kernel: bool,
}

fn symbol<'a>(item: &Item<'a>) -> Option<Symbol<'a>> {
    match item {
        Item::Variable(variable) => Some(Symbol {
            name: variable.name.text,
            linkage: variable.linkage,
            defined: variable.linkage != Linkage::Extern,
            is_kernel: false,
        }),
        Item::Function(function) => Some(Symbol {
            name: function.name.text,
            linkage: function.linkage,
            defined: function.body.is_some(),
            is_kernel: function.kind == ptx::ast::FunctionKind::Entry,
        }),
        Item::Directive(_) => None,
    }
}

fn span(item: &Item<'_>) -> Span {
    match item {
        Item::Variable(variable) => variable.span,
        Item::Function(function) => function.span,
        Item::Directive(directive) => directive.span,
    }
}

/// Whether a module has undefined symbols.
pub(crate) fn needs_others(source: &str) -> bool {
    let module = ptx::read(source).module;
    let symbols: Vec<_> = module.items.iter().filter_map(symbol).collect();
    let defined: HashSet<_> = symbols
        .iter()
        .filter(|s| s.defined)
        .map(|s| s.name)
        .collect();
    symbols.iter().any(|symbol| {
        symbol.linkage == Linkage::Extern
            && !defined.contains(symbol.name)
            && !SYSTEM.contains(&symbol.name)
            && !IN_PTX.contains(&symbol.name)
    })
}

/// The functions of CUDA's device runtime that the device has itself.
const SYSTEM: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Those that are written in PTX.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");
const IN_PTX: &[&str] = &[
    "cudaGraphSetConditional",
    "cudaCGGetIntrinsicHandle",
    "cudaCGSynchronize",
];

/// Whether these are the bytes of `libcudadevrt.a`: an archive of the device runtime alone.
pub(crate) fn is_device_runtime(bytes: &[u8]) -> bool {
    const MAGIC: &[u8] = b"!<arch>\n";
    const MEMBER: &[u8] = b"cuda_device_runtime.o";
    let start = &bytes[..bytes.len().min(64 << 10)];
    start.starts_with(MAGIC) && start.windows(MEMBER.len()).any(|window| window == MEMBER)
}

/// The module with the functions of the device runtime that are written in PTX, if it calls some.
/// The error is a message of the linker.
pub(crate) fn with_device_runtime(source: &str) -> Result<Option<String>, String> {
    if !IN_PTX.iter().any(|name| source.contains(name)) {
        return Ok(None);
    }
    let module = ptx::read(source).module;
    let mut symbols = module.items.iter().filter_map(symbol);
    match symbols.any(|symbol| IN_PTX.contains(&symbol.name) && !symbol.defined) {
        true => merge(&[source, DEVICE_RUNTIME]).map(Some),
        false => Ok(None),
    }
}

/// Merges modules. The error is a message of the linker.
pub(crate) fn merge(sources: &[&str]) -> Result<String, String> {
    let modules: Vec<Module<'_>> = sources
        .iter()
        .map(|source| ptx::read(source).module)
        .collect();
    let symbols: Vec<Vec<Symbol<'_>>> = modules
        .iter()
        .map(|module| module.items.iter().filter_map(symbol).collect())
        .collect();

    // The module whose definition is used: the first strong one, otherwise the first.
    let mut owner: HashMap<&str, (usize, Linkage)> = HashMap::new();
    for (index, symbols) in symbols.iter().enumerate() {
        for symbol in symbols.iter().filter(|s| s.defined && is_shared(s)) {
            match owner.get(symbol.name) {
                Some((other, _)) if *other == index => {}
                None | Some((_, Linkage::Weak)) if symbol.linkage != Linkage::Weak => {
                    owner.insert(symbol.name, (index, symbol.linkage));
                }
                None => {
                    owner.insert(symbol.name, (index, symbol.linkage));
                }
                Some(_) if matches!(symbol.linkage, Linkage::Weak | Linkage::Common) => {}
                Some(_) => return Err(format!("Multiple definition of '{}'", symbol.name)),
            }
        }
    }

    let newest = modules
        .iter()
        .filter_map(|module| module.version)
        .map(|(version, _)| version);
    let newest = newest.max_by_key(|version| (version.major, version.minor));
    let Version { major, minor } = newest.unwrap_or(super::compile::NEWEST_PTX);
    let target = modules.iter().find_map(|module| module.target.first());
    let target = target.map_or("sm_50", |name| name.text);
    let mut text = format!(".version {major}.{minor}\n.target {target}\n.address_size 64\n");

    for (index, (module, source)) in modules.iter().zip(sources).enumerate() {
        let taken = |name: &str| {
            let others = symbols
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            others
                .flat_map(|(_, symbols)| symbols)
                .any(|symbol| symbol.name == name)
        };
        let renamed: HashMap<&str, String> = symbols[index]
            .iter()
            .filter(|symbol| !is_shared(symbol) && symbol.linkage == Linkage::None)
            .filter(|symbol| taken(symbol.name))
            .map(|symbol| (symbol.name, format!("{}$module{index}", symbol.name)))
            .collect();
        // Files of different modules have different numbers.
        let number = |file: u32| {
            let file = file.wrapping_mul(sources.len() as u32);
            file.wrapping_add(index as u32)
        };
        for item in &module.items {
            if let Some(symbol) = symbol(item)
                && symbol.defined
                && is_shared(&symbol)
                && owner
                    .get(symbol.name)
                    .is_some_and(|(owner, _)| *owner != index)
            {
                continue; // another module's definition is used
            }
            if let Item::Directive(directive) = item
                && !matches!(directive.kind, DirectiveKind::Alias { .. })
            {
                // Others are debugging information and hints.
                text.extend(file_directive(directive, number));
                continue;
            }
            let Span { mut start, end } = span(item);
            for (place, replacement) in locations(item, number) {
                let piece = source.get(start as usize..place.start as usize);
                rename(piece.unwrap_or_default(), &renamed, &mut text);
                text.push_str(&replacement);
                start = place.end;
            }
            let piece = source.get(start as usize..end as usize).unwrap_or_default();
            rename(piece, &renamed, &mut text);
            if matches!(item, Item::Variable(_)) && !piece.trim_end().ends_with(';') {
                text.push(';');
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// A `.file` directive with another number.
fn file_directive(directive: &Directive<'_>, number: impl Fn(u32) -> u32) -> Option<String> {
    let DirectiveKind::File { index, name, .. } = directive.kind else {
        return None;
    };
    Some(format!(".file {} \"{name}\"\n", number(index)))
}

/// The `.loc` directives of a function, and what stands there with other numbers of files.
fn locations<'m>(
    item: &'m Item<'_>,
    number: impl Fn(u32) -> u32 + Copy + 'm,
) -> impl Iterator<Item = (Span, String)> + 'm {
    let body = match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    };
    let statements = body.into_iter().flat_map(|body| &body.statements);
    statements.filter_map(move |statement| match statement {
        Statement::Location(location) => {
            let place = |Place { file, line, column }| {
                let file = number(file);
                format!("{file} {line} {column}")
            };
            let mut text = format!(".loc {}", place(location.place));
            if let Some(inlined) = &location.inlined {
                let (name, at) = (inlined.function.text, place(inlined.at));
                // Writing to a string cannot fail.
                let _ = write!(text, ", function_name {name}, inlined_at {at}");
            }
            Some((location.span, text))
        }
        _ => None,
    })
}

/// Whether other modules or the host may refer to it.
fn is_shared(symbol: &Symbol<'_>) -> bool {
    symbol.is_kernel
        || matches!(
            symbol.linkage,
            Linkage::Visible | Linkage::Weak | Linkage::Common
        )
}

/// Appends a piece of text with symbols renamed, except in comments and strings. A name
/// next to a dot is part of a mnemonic.
fn rename(piece: &str, renamed: &HashMap<&str, String>, text: &mut String) {
    if renamed.is_empty() {
        text.push_str(piece);
        return;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    let mut rest = piece;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |at| at + 2)
        } else if is_part(first) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(len);
        match renamed.get(token) {
            Some(name) if before != '.' && !after.starts_with('.') => text.push_str(name),
            _ => text.push_str(token),
        }
        before = token.chars().next_back().unwrap_or(' ');
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::line_table::LineTable;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    #[test]
    fn local_names_are_told_apart_and_shared_ones_joined() {
        let one = format!(
            "{HEAD}.global .u32 local = 1;\n.extern .global .u32 shared;\n\
             .visible .entry a() {{ .reg .u32 %r; ld.global.u32 %r, [local]; // local\n ret; }}"
        );
        let two = ".version 8.3\n.target sm_80\n.address_size 64\n\
             .global .u32 local = 2;\n.visible .global .u32 shared = 3;\n\
             .visible .entry b() { .reg .u32 %r; ld.global.u32 %r, [local]; ret; }";
        let text = merge(&[&one, two]).unwrap();
        assert!(text.starts_with(".version 8.3\n"), "{text}");
        for part in [
            "[local$module0]",
            "[local$module1]",
            "// local\n",
            ".u32 shared = 3;",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(ptx::read(&text).diagnostics.is_empty(), "{text}");
        assert!(needs_others(&one) && !needs_others(two));
    }

    #[test]
    fn each_module_keeps_its_files() {
        let module = |name: &str, line: u32| {
            let inlined = format!("function_name $L__info_string0, inlined_at 1 {line} 2");
            format!(
                "{HEAD}.visible .entry {name}() {{\n.loc 1 {line} 2\ntrap;\n\
                 .loc 2 9 1, {inlined}\ntrap; ret;\n}}\n\
                 .file 1 \"{name}.cu\", 1700000000, 10\n.file 2 \"math.h\"\n.section .debug_str {{\n\
                 $L__info_string0:\n.b8 102,0\n}}\n"
            )
        };
        let text = merge(&[&module("a", 5), &module("b", 6)]).unwrap();
        let reading = ptx::read(&text);
        assert!(reading.diagnostics.is_empty(), "{text}");
        let table = LineTable::new(&reading.module, &text);
        let traps = (1..)
            .zip(text.lines())
            .filter(|(_, text)| text.contains("trap"));
        let sources = traps.filter_map(|(line, _)| Some(table.source(line)?.to_string()));
        let sources: Vec<String> = sources.collect();
        let inlined = ["a.cu:5", "b.cu:6"].map(|call| format!("math.h:9, inlined at {call}"));
        assert_eq!(sources, ["a.cu:5", &inlined[0], "b.cu:6", &inlined[1]]);
    }

    #[test]
    fn the_device_runtime_is_there_without_its_archive() {
        let call =
            format!("{HEAD}.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);");
        assert!(!needs_others(&call));
        let text = with_device_runtime(&call).unwrap().unwrap();
        assert!(ptx::read(&text).diagnostics.is_empty(), "{text}");
        assert_eq!(with_device_runtime(HEAD), Ok(None));
        assert!(is_device_runtime(
            b"!<arch>\n/ 0 0\ncuda_device_runtime.o/ 0"
        ));
        assert!(!is_device_runtime(b"!<arch>\nother.o/") && !is_device_runtime(b""));
    }

    #[test]
    fn a_name_is_defined_once() {
        let kernel = format!("{HEAD}.visible .entry k() {{ ret; }}");
        let error = merge(&[&kernel, &kernel]).unwrap_err();
        assert!(error.contains("'k'"), "{error}");
        let weak = format!("{HEAD}.weak .func f() {{ ret; }}");
        let strong = format!("{HEAD}.visible .func f() {{ trap; }}");
        for sources in [[&weak, &strong], [&strong, &weak]] {
            let text = merge(&[sources[0], sources[1]]).unwrap();
            assert!(text.contains("trap") && !text.contains("ret"), "{text}");
        }
    }
}
