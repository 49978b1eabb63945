//! Linking of PTX modules: several modules are merged into one text.
//!
//! An `.extern` declaration and the definition in another module become one symbol. Local
//! symbols are renamed if another module has a symbol of that name.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use ptx::ast::{
    Directive, DirectiveKind, Function, FunctionKind, Item, Linkage, Module, Place, Space, Span,
    Statement, Variable, Version,
};
use ptx::isa::target::Target;
use ptx::printer::print;
use ptx::signature::layout;

/// A symbol of a module.
#[derive(Clone, Copy)]
struct Symbol<'a> {
    name: &'a str,
    reach: Reach,
}

/// Who refers to a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Its module alone. So is dynamic shared memory, whose names all mean the same.
    Module,
    /// Its module, and another one defines it.
    Undefined,
    /// Other modules or the host, too.
    All(Strength),
    /// It is declared, and defined in the same module.
    Declared,
}

/// Which of several definitions is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    /// `.common`: one with a value, or the largest.
    Common {
        has_value: bool,
        bytes: u64,
    },
    Strong,
}

fn symbol<'a>(item: &Item<'a>) -> Option<Symbol<'a>> {
    let (name, reach) = match item {
        Item::Variable(variable) => (variable.name, reach_of_variable(variable)),
        Item::Function(function) => (function.name, reach_of_function(function)),
        Item::Directive(_) => return None,
    };
    let name = name.text;
    Some(Symbol { name, reach })
}

fn reach_of_variable(variable: &Variable<'_>) -> Reach {
    match variable.linkage {
        Linkage::Extern if is_dynamic_shared(variable) => Reach::Module,
        Linkage::Extern => Reach::Undefined,
        Linkage::None => Reach::Module,
        Linkage::Weak => Reach::All(Strength::Weak),
        Linkage::Common => Reach::All(Strength::Common {
            has_value: variable.init.is_some(),
            bytes: layout(variable).0,
        }),
        Linkage::Visible => Reach::All(Strength::Strong),
    }
}

fn is_dynamic_shared(variable: &Variable<'_>) -> bool {
    variable.space == Space::Shared && variable.dims.first() == Some(&None)
}

fn reach_of_function(function: &Function<'_>) -> Reach {
    let is_kernel = function.kind == FunctionKind::Entry;
    match function.linkage {
        Linkage::Extern => Reach::Undefined,
        Linkage::None if !is_kernel => Reach::Module,
        _ if function.body.is_none() => Reach::Declared,
        Linkage::Weak => Reach::All(Strength::Weak),
        _ => Reach::All(Strength::Strong),
    }
}

/// Whether a module has undefined symbols.
pub(crate) fn needs_others(source: &str) -> bool {
    let module = ptx::read(source).module;
    let symbols: Vec<_> = module.items.iter().filter_map(symbol).collect();
    let defined = symbols
        .iter()
        .filter(|symbol| matches!(symbol.reach, Reach::All(_)));
    let defined: HashSet<_> = defined.map(|symbol| symbol.name).collect();
    symbols.iter().any(|symbol| {
        symbol.reach == Reach::Undefined
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
    if symbols.any(|symbol| IN_PTX.contains(&symbol.name) && symbol.reach == Reach::Undefined) {
        merge(&[source, DEVICE_RUNTIME]).map(Some)
    } else {
        Ok(None)
    }
}

/// The definition of a symbol that is used.
#[derive(Clone, Copy)]
struct Definition<'m, 'a> {
    module: usize,
    item: &'m Item<'a>,
    strength: Strength,
}

/// The definitions of all symbols that modules share.
fn definitions<'m, 'a>(
    modules: &'m [Module<'a>],
) -> Result<HashMap<&'a str, Definition<'m, 'a>>, String> {
    let mut definitions: HashMap<&str, Definition<'_, '_>> = HashMap::new();
    for (module, item) in items(modules) {
        let Some(Symbol {
            name,
            reach: Reach::All(strength),
        }) = symbol(item)
        else {
            continue;
        };
        let new = Definition {
            module,
            item,
            strength,
        };
        match definitions.get(name) {
            Some(known) if known.module == module => {}
            Some(known) if known.strength.min(strength) == Strength::Strong => {
                return Err(format!("Multiple definition of '{name}'"));
            }
            Some(known) if known.strength >= strength => {}
            _ => {
                definitions.insert(name, new);
            }
        }
    }
    Ok(definitions)
}

fn items<'m, 'a>(modules: &'m [Module<'a>]) -> impl Iterator<Item = (usize, &'m Item<'a>)> {
    let modules = modules.iter().enumerate();
    modules.flat_map(|(index, module)| module.items.iter().map(move |item| (index, item)))
}

/// Gives functions the linkage of their declarations: `.visible .func f(); .func f() { … }`.
fn link_as_declared(module: &mut Module<'_>) {
    let mut declared = HashMap::new();
    for item in &mut module.items {
        let Item::Function(function) = item else {
            continue;
        };
        match (function.linkage, &function.body) {
            (Linkage::Visible | Linkage::Weak, None) => {
                declared.insert(function.name.text, function.linkage);
            }
            (Linkage::None, Some(_)) => {
                let linkage = declared.get(function.name.text);
                function.linkage = linkage.copied().unwrap_or(Linkage::None);
            }
            _ => {}
        }
    }
}

/// Fails if two modules define a symbol. The error is a message of the linker.
pub(crate) fn check_definitions(sources: &[&str]) -> Result<(), String> {
    if sources.len() < 2 {
        return Ok(());
    }
    let mut modules: Vec<Module<'_>> = sources
        .iter()
        .map(|source| ptx::read(source).module)
        .collect();
    modules.iter_mut().for_each(link_as_declared);
    definitions(&modules).map(|_| ())
}

/// Merges modules. The error is a message of the linker.
pub(crate) fn merge(sources: &[&str]) -> Result<String, String> {
    let mut modules: Vec<Module<'_>> = sources
        .iter()
        .map(|source| ptx::read(source).module)
        .collect();
    modules.iter_mut().for_each(link_as_declared);
    let definitions = definitions(&modules)?;
    // By name: the only module that has it, if there is one.
    let mut only: HashMap<&str, Option<usize>> = HashMap::new();
    for (module, item) in items(&modules) {
        if let Some(symbol) = symbol(item) {
            let known = only.entry(symbol.name).or_insert(Some(module));
            *known = known.filter(|known| *known == module);
        }
    }

    let newest = modules
        .iter()
        .filter_map(|module| module.version)
        .map(|(version, _)| version);
    let newest = newest.max_by_key(|version| (version.major, version.minor));
    let Version { major, minor } = newest.unwrap_or(super::compile::NEWEST_PTX);
    let targets = modules.iter().filter_map(|module| module.target.first());
    let highest = targets.max_by_key(|target| target.text.parse::<Target>().ok());
    let target = highest.map_or("sm_50", |name| name.text);
    let mut text = format!(".version {major}.{minor}\n.target {target}\n.address_size 64\n");

    // Names that the text has declared so far.
    let mut declared = HashSet::new();
    for (index, (module, source)) in modules.iter().zip(sources).enumerate() {
        let symbols = module.items.iter().filter_map(symbol);
        let renamed: HashMap<&str, String> = symbols
            .filter(|symbol| symbol.reach == Reach::Module && only[symbol.name].is_none())
            .map(|symbol| (symbol.name, format!("{}$module{index}", symbol.name)))
            .collect();
        // Files of different modules have different numbers.
        let number = |file: u32| {
            let file = file.wrapping_mul(sources.len() as u32);
            file.wrapping_add(index as u32)
        };
        for (at, item) in module.items.iter().enumerate() {
            if let Some(symbol) = symbol(item)
                && symbol.reach != Reach::Module
            {
                let definition = definitions.get(symbol.name);
                let is_new = declared.insert(symbol.name);
                match definition {
                    Some(definition) if definition.module != index => {
                        if is_new {
                            text.push_str(&declaration(definition.item));
                        }
                        continue;
                    }
                    Some(definition) if std::ptr::eq(definition.item, item) => {}
                    _ if is_new => {}
                    _ => continue,
                }
            }
            match item {
                Item::Function(_) => {}
                Item::Variable(_) => {
                    rename(&printed(item.clone()), &renamed, &mut text);
                    continue;
                }
                // Others are debugging information and hints.
                Item::Directive(directive)
                    if !matches!(directive.kind, DirectiveKind::Alias { .. }) =>
                {
                    text.extend(file_directive(directive, number));
                    continue;
                }
                Item::Directive(_) => {}
            }
            let Span { mut start, end } = item.span();
            let mut places: Vec<_> = locations(item, number).collect();
            // What a body declares is an item of its own, in front of the function.
            let before = module.items[..at].iter().rev().map(Item::span);
            let inside = before.take_while(|span| span.start > start);
            places.extend(inside.map(|span| (statement(span, source), String::new())));
            places.sort_by_key(|(place, _)| place.start);
            for (place, replacement) in places {
                let piece = source.get(start as usize..place.start as usize);
                rename(piece.unwrap_or_default(), &renamed, &mut text);
                text.push_str(&replacement);
                start = place.end;
            }
            let piece = source.get(start as usize..end as usize).unwrap_or_default();
            rename(piece, &renamed, &mut text);
            text.push('\n');
        }
    }
    Ok(text)
}

/// A declaration with the `;` that ends it.
fn statement(mut span: Span, source: &str) -> Span {
    let rest = source.get(span.end as usize..).unwrap_or_default();
    let behind = rest.trim_start();
    if behind.starts_with(';') {
        span.end += (rest.len() - behind.len() + 1) as u32;
    }
    span
}

/// The text of an item.
fn printed(item: Item<'_>) -> String {
    print(&Module {
        items: vec![item],
        ..Module::default()
    })
}

/// What says in front of its definition what a name is.
fn declaration(definition: &Item<'_>) -> String {
    match definition {
        Item::Variable(variable) => printed(Item::Variable(Variable {
            linkage: Linkage::Extern,
            space: variable.space,
            bank: variable.bank,
            align: variable.align,
            ty: variable.ty,
            vector: variable.vector,
            name: variable.name,
            count: variable.count,
            dims: variable.dims.clone(),
            // It may be large.
            init: None,
            pointer: variable.pointer,
            attributes: variable.attributes,
            span: variable.span,
        })),
        Item::Function(function) => {
            let is_shown =
                |directive: &&ptx::ast::FunctionDirective<'_>| directive.name == "noreturn";
            let directives = function.directives.iter().filter(is_shown);
            printed(Item::Function(Function {
                kind: function.kind,
                linkage: function.linkage,
                attributes: function.attributes,
                name: function.name,
                returns: function.returns.clone(),
                params: function.params.clone(),
                directives: directives.cloned().collect(),
                body: None,
                span: function.span,
            }))
        }
        Item::Directive(_) => String::new(),
    }
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
        Statement::Location(location) if !location.intermediate => {
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

    /// Merges modules of these items, and says what the checker finds in the result.
    fn merged(modules: &[&str]) -> (String, Vec<String>) {
        let modules: Vec<_> = modules
            .iter()
            .map(|items| format!("{HEAD}{items}"))
            .collect();
        let modules: Vec<_> = modules.iter().map(String::as_str).collect();
        let text = merge(&modules).unwrap();
        let reading = ptx::read(&text);
        assert!(reading.diagnostics.is_empty(), "{text}");
        let found = ptx::check(&reading.module, &text).into_iter();
        let found = found.map(|diagnostic| diagnostic.message).collect();
        (text, found)
    }

    #[test]
    fn symbols_of_other_modules_are_declared_as_they_are_defined() {
        let kernel = |name: &str, body: &str| {
            format!(".visible .entry {name}() {{ .reg .b64 %x; .reg .b32 %r; {body} ret; }}")
        };
        let uses = format!(
            ".extern .global .b32 t[];\n.extern .func (.param .b32 r) f(.param .b32 x);\n\
             .weak .func g() {{ ret; }}\n.extern .shared .align 16 .b8 tile[];\n{}",
            kernel(
                "a",
                "mov.b64 %x, t; ld.shared.b32 %r, [tile]; call g;\
                 { .param .b32 p; .param .b32 q; st.param.b32 [p], %r; call (q), f, (p); }"
            )
        );
        let defines = format!(
            ".visible .global .align 8 .b8 t[2] = {{1, 2}};\n.visible .func g() {{ trap; }}\n\
             .extern .shared .align 4 .f32 tile[];\n{}\n\
             .visible .func (.param .b32 r) f(.param .b32 x) {{ ret; }}",
            kernel("b", "ld.shared.b32 %r, [tile]; call g;")
        );
        for modules in [[&uses, &defines], [&defines, &uses]] {
            let (text, found) = merged(&[modules[0], modules[1]]);
            assert_eq!(found, [""; 0], "{text}");
            assert!(
                text.contains("trap") && text.contains("t[2] = {1, 2}"),
                "{text}"
            );
        }
        // A call of another signature than the definition has.
        let other = ".visible .func f() { ret; }";
        let (text, found) = merged(&[&uses, other]);
        assert!(
            found.iter().any(|found| found.contains('f')),
            "{text}: {found:?}"
        );
        let shared = format!("{HEAD}.extern .shared .align 16 .b8 tile[];");
        assert!(!needs_others(&shared) && needs_others(&format!("{HEAD}{uses}")));
    }

    /// As people write it.
    #[test]
    fn declarations_in_bodies_and_before_definitions() {
        let calls = ".visible .entry k() { .extern .func f(); call f; ret; }";
        for defines in [
            ".visible .func f() { trap; }",
            ".visible .func f();\n.func f() { trap; }",
        ] {
            for modules in [[calls, defines], [defines, calls]] {
                let (text, found) = merged(&modules);
                assert_eq!(found, [""; 0], "{text}");
                assert!(text.contains("trap") && !text.contains("module"), "{text}");
            }
        }
    }

    #[test]
    fn of_common_variables_one_is_used() {
        let small = ".common .global .b32 x;";
        let large = ".common .global .b32 x[16];";
        let filled = ".common .global .b32 x = 42;";
        let strong = ".visible .global .b32 x = 7;";
        let weak = ".weak .global .b32 x = 1;";
        for (one, two, used) in [
            (small, large, "x[16];"),
            (small, filled, "x = 42;"),
            (large, filled, "x = 42;"),
            (filled, strong, "x = 7;"),
            (weak, small, ".common .global .b32 x;"),
            (weak, strong, "x = 7;"),
        ] {
            for modules in [[one, two], [two, one]] {
                let (text, found) = merged(&modules);
                assert_eq!(found, [""; 0], "{text}");
                let definitions = text.lines().filter(|line| line.contains(" x"));
                let definitions = definitions.filter(|line| !line.contains(".extern"));
                let definitions: Vec<_> = definitions.collect();
                assert!(
                    definitions.len() == 1 && definitions[0].ends_with(used),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn the_highest_target_is_that_of_all() {
        let older = HEAD;
        let newer = &HEAD.replace("80", "90a");
        for modules in [[older, newer], [newer, older]] {
            assert!(merge(&modules).unwrap().contains(".target sm_90a\n"));
        }
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
