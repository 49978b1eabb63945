//! What may stand at the cursor: opcodes, modifiers, directives, names, by the tables.

use std::collections::HashSet;

use super::protocol::{CompletionItem, CompletionItemKind, Position, TextEdit};
use super::tree::Tree;
use ptx::ast::{Function, FunctionKind, Item, Span, Statement, Variable};
use ptx::isa::target::{Availability, Target};
use ptx::isa::{self, Form, special};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};
use ptx::version::{Floor, function_directives, versions};

/// Directives at the top of a module.
const OF_MODULES: [&str; 16] = [
    "version",
    "target",
    "address_size",
    "visible",
    "extern",
    "weak",
    "common",
    "entry",
    "func",
    "global",
    "const",
    "file",
    "section",
    "alias",
    "pragma",
    "shared",
];

/// Directives in a function.
const OF_FUNCTIONS: [&str; 9] = [
    "reg",
    "shared",
    "local",
    "param",
    "loc",
    "pragma",
    "branchtargets",
    "calltargets",
    "callprototype",
];

/// What a declaration says besides its type.
const OF_DECLARATIONS: [&str; 15] = [
    "align",
    "v2",
    "v4",
    "param",
    "reg",
    "global",
    "shared",
    "const",
    "local",
    "ptr",
    "entry",
    "func",
    "attribute",
    "noreturn",
    "visible",
];

/// What is written before the cursor.
enum Place<'t> {
    /// The first word of a statement: a directive with a dot, an opcode without.
    Start,
    /// The words of `ld.global.` before the last dot.
    Modifiers(Opcode, Vec<&'t str>),
    /// Behind the first word of a directive.
    Directive(&'t str),
    /// Behind an opcode.
    Operands,
}

pub fn complete(tree: &Tree<'_>, position: Position) -> Option<Vec<CompletionItem>> {
    let offset = tree.text.offset(position);
    let before = tree.source.get(..offset as usize)?;
    if in_comment(before) {
        return None;
    }
    let (place, word) = place(before);
    let mut items = Items {
        tree,
        span: Span {
            start: offset - word.len() as u32,
            end: offset,
        },
        items: Vec::new(),
    };
    // A body without its brace is what is being written before one.
    let function = tree.function(offset).filter(|function| {
        let start = function.body.as_ref().map(|body| body.span.start);
        let opened = start.filter(|start| *start < offset);
        opened.is_some_and(|start| tree.source[start as usize..].starts_with('{'))
    });
    match (place, function) {
        (Place::Modifiers(opcode, written), _) => items.modifiers(opcode, &written),
        (Place::Directive(directive), _) => {
            items.of_directive(directive, word);
            // `.entry k() .maxntid` may stand in one line.
            if function.is_none() && word.starts_with('.') {
                items.function_directives();
            }
        }
        (Place::Start, Some(_)) if word.starts_with('.') => items.directives(&OF_FUNCTIONS),
        (Place::Start, None) => {
            items.directives(&OF_MODULES);
            items.function_directives();
        }
        (Place::Start, Some(_)) => items.opcodes(),
        (Place::Operands, Some(function)) => items.names(function),
        (Place::Operands, None) => {}
    }
    Some(items.items)
}

/// Whether the cursor stands in a comment that begins in its line.
fn in_comment(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before);
    line.contains("//")
}

/// What stands before the cursor in its statement, and the word that it is in.
fn place(before: &str) -> (Place<'_>, &str) {
    let begins = |at: usize, byte: u8| match byte {
        b';' | b'{' | b'}' | b'\n' => true,
        // The end of a label, and no part of `.shared::cta`.
        b':' => {
            let near = [at.checked_sub(1), at.checked_add(1)];
            let near = near.map(|at| before.as_bytes().get(at?).copied());
            !near.contains(&Some(b':'))
        }
        _ => false,
    };
    let bytes = before.as_bytes();
    let start = (0..bytes.len()).rev().find(|at| begins(*at, bytes[*at]));
    let mut statement = before[start.map_or(0, |at| at + 1)..].trim_start();
    // `@!%p ` is no part of the instruction.
    if statement.starts_with('@')
        && let Some(end) = statement.find([' ', '\t'])
    {
        statement = statement[end..].trim_start();
    }
    let in_word = |c: char| c.is_ascii_alphanumeric() || "_$%.:".contains(c);
    let word = &statement[statement.trim_end_matches(in_word).len()..];
    let first = &statement[..statement.find(|c| !in_word(c)).unwrap_or(statement.len())];
    if first.len() < statement.len() {
        let place = match first.strip_prefix('.') {
            Some(directive) => Place::Directive(directive),
            None => Place::Operands,
        };
        return (place, word);
    }
    let mut words = word.split('.');
    let opcode = words.next().and_then(Opcode::from_text);
    match (opcode, words.next_back()) {
        (Some(opcode), Some(last)) => (Place::Modifiers(opcode, words.collect()), last),
        _ => (Place::Start, word),
    }
}

struct Items<'c, 't> {
    tree: &'c Tree<'t>,
    /// The word at the cursor, which an item replaces.
    span: Span,
    items: Vec<CompletionItem>,
}

impl<'t> Items<'_, 't> {
    fn add(&mut self, text: &str, kind: CompletionItemKind) -> &mut CompletionItem {
        let edit = TextEdit {
            range: self.tree.text.range(self.span),
            new_text: text.to_owned(),
        };
        let item = CompletionItem {
            label: text.to_owned(),
            kind,
            detail: None,
            sort_text: None,
            filter_text: None,
            text_edit: edit,
        };
        let at = self.items.len();
        self.items.push(item);
        &mut self.items[at]
    }

    /// Whether the module may use something.
    fn permits(&self, since: &Availability) -> bool {
        let module = self.tree.module;
        let words = module.target.iter();
        let target = words.filter_map(|word| Target::from_text(word.text)).next();
        match (module.version, target) {
            (Some((version, _)), Some(target)) => since.permits(version, target),
            _ => true,
        }
    }

    fn opcodes(&mut self) {
        for opcode in Opcode::ALL {
            let Some(form) = isa::forms(*opcode).first() else {
                continue;
            };
            let what = isa::summary(opcode.text()).or_else(|| isa::summary(form.name()));
            let item = self.add(opcode.text(), CompletionItemKind::FUNCTION);
            item.detail = what.map(str::to_owned);
        }
    }

    /// The words that may stand beside those that are written, in the order of the forms;
    /// those that the module may not use come last.
    fn modifiers(&mut self, opcode: Opcode, written: &[&str]) {
        let written: Vec<Modifier> = written
            .iter()
            .filter_map(|word| Modifier::from_text(word))
            .collect();
        let forms = isa::forms(opcode).iter();
        let forms = forms.filter(|form| written.iter().all(|word| form.may_have(*word)));
        let mut words: Vec<Offer<'_>> = forms.flat_map(|form| offers(form, &written)).collect();
        let permitted = |offer: &Offer<'_>| {
            let mut since = offer.since.into_iter().flatten();
            since.all(|since| self.permits(since))
        };
        // Of one word in several forms, the one that the module may use counts.
        words.sort_by_cached_key(|offer| (!permitted(offer), !offer.of_opcode));
        let mut offered = HashSet::new();
        words.retain(|offer| offered.insert(offer.word));
        for (order, Offer { word, since, .. }) in words.into_iter().enumerate() {
            let since: Vec<String> = since.into_iter().flatten().map(isa::since_text).collect();
            let item = self.add(word.text(), CompletionItemKind::KEYWORD);
            item.detail = Some(format!("since {}", since.join(", and ")));
            item.sort_text = Some(format!("{order:04}"));
        }
    }

    fn directives(&mut self, words: &[&str]) {
        for word in words {
            self.add(&format!(".{word}"), CompletionItemKind::KEYWORD);
        }
    }

    fn function_directives(&mut self) {
        for (word, Floor { version, target }) in function_directives(FunctionKind::Entry) {
            let item = self.add(&format!(".{word}"), CompletionItemKind::KEYWORD);
            item.detail = Some(match target {
                0 => format!("since PTX ISA {version}"),
                target => format!("since PTX ISA {version}, sm_{target}"),
            });
        }
    }

    fn of_directive(&mut self, directive: &str, word: &str) {
        match directive {
            "version" => {
                for version in versions() {
                    self.add(&version.to_string(), CompletionItemKind::VALUE);
                }
            }
            "target" => {
                for target in Target::all() {
                    let item = self.add(&target.to_string(), CompletionItemKind::VALUE);
                    let since = target.since().map(|version| version.to_string());
                    item.detail = since.map(|since| format!("since PTX ISA {since}"));
                }
            }
            "address_size" => {
                self.add("64", CompletionItemKind::VALUE);
                self.add("32", CompletionItemKind::VALUE);
            }
            _ if word.starts_with('.') => {
                for ty in Type::ALL {
                    self.add(&format!(".{}", ty.text()), CompletionItemKind::STRUCT);
                }
                self.directives(&OF_DECLARATIONS);
            }
            _ => {}
        }
    }

    /// Every name that the function or the module declares, and the special registers.
    fn names(&mut self, function: &'t Function<'t>) {
        let parameters = function.returns.iter().chain(&function.params);
        parameters.for_each(|variable| self.variable(variable));
        for statement in function.body.iter().flat_map(|body| &body.statements) {
            match statement {
                Statement::Variable(variable) => self.variable(variable),
                Statement::Label(name) => {
                    self.add(name.text, CompletionItemKind::REFERENCE);
                }
                Statement::Targets(targets) => {
                    self.add(targets.name.text, CompletionItemKind::REFERENCE);
                }
                Statement::Prototype(prototype) => {
                    self.add(prototype.name.text, CompletionItemKind::REFERENCE);
                }
                _ => {}
            }
        }
        for item in &self.tree.module.items {
            match item {
                Item::Variable(variable) => self.variable(variable),
                Item::Function(function) => {
                    self.add(function.name.text, CompletionItemKind::FUNCTION);
                }
                Item::Directive(_) => {}
            }
        }
        for register in SpecialRegister::ALL {
            if self.permits(&special::of(*register).since) {
                let item = self.add(register.text(), CompletionItemKind::CONSTANT);
                item.detail = isa::special_summary(*register).map(str::to_owned);
            }
        }
    }

    fn variable(&mut self, variable: &Variable<'_>) {
        let name = variable.name.text;
        let detail = format!(".{} .{}", variable.space.text(), variable.ty.text());
        let item = self.add(name, CompletionItemKind::VARIABLE);
        item.detail = Some(detail);
        // Of a range the number is written behind it.
        if let Some(count) = variable.count {
            item.label = format!("{name}<{count}>");
            item.filter_text = Some(name.to_owned());
        }
    }
}

/// A word that may be written next.
struct Offer<'f> {
    word: Modifier,
    /// It belongs to the opcode: `commit_group` of `cp.async.commit_group`.
    of_opcode: bool,
    /// Since when there is the form, and the word in it.
    since: [Option<&'f Availability>; 2],
}

/// The words of a form for which there is still a place. Those of its opcode come first,
/// and nothing comes between.
fn offers<'f>(form: &'f Form, written: &[Modifier]) -> Vec<Offer<'f>> {
    if let Some(word) = form.opcode_words.get(written.len()) {
        let begun = form.opcode_words.starts_with(written);
        let offer = Offer {
            word: *word,
            of_opcode: true,
            since: [Some(&form.since), None],
        };
        return begun.then_some(offer).into_iter().collect();
    }
    if !written.starts_with(&form.opcode_words) {
        return Vec::new();
    }
    let slots = form.slots.iter().filter(|slot| {
        let mut words = slot.words.iter();
        slot.names_type.is_some() || !words.any(|word| written.contains(&word.modifier))
    });
    let words = slots.flat_map(|slot| &slot.words);
    let offers = words.map(|word| Offer {
        word: word.modifier,
        of_opcode: false,
        since: [Some(&form.since), word.since.as_ref()],
    });
    offers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str) -> String {
        match place(before) {
            (Place::Start, word) => format!("start `{word}`"),
            (Place::Modifiers(opcode, words), word) => {
                format!("{} {words:?} `{word}`", opcode.text())
            }
            (Place::Directive(name), word) => format!("of .{name} `{word}`"),
            (Place::Operands, word) => format!("operands `{word}`"),
        }
    }

    #[test]
    fn places() {
        for (before, expected) in [
            ("", "start ``"),
            ("{ ad", "start `ad`"),
            ("\tret;\n\t.re", "start `.re`"),
            ("L: ld.", "ld [] ``"),
            ("@!%p1 ld.global.v", "ld [\"global\"] `v`"),
            (
                "cp.async.bulk.shared::cl",
                "cp [\"async\", \"bulk\"] `shared::cl`",
            ),
            (".reg .b", "of .reg `.b`"),
            (".target ", "of .target ``"),
            ("add.s32 %r1, %", "operands `%`"),
            ("@%p bra LO", "operands `LO`"),
            ("é.", "operands `.`"),
            ("xyz.glo", "start `xyz.glo`"),
        ] {
            assert_eq!(shown(before), expected, "{before}");
        }
    }
}
