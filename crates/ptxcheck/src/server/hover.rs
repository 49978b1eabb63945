//! What stands under the cursor: an instruction, a name, a special register.

use super::protocol::{Hover, MarkupContent, Position};
use super::references::{Declared, Symbol};
use super::register;
use super::tree::Tree;
use ptx::ast::{Function, Instruction, Operand, Span, Statement, Variable};
use ptx::isa::{self, Form, special};
use ptx::names::SpecialRegister;

/// An instruction with more forms shows these.
const MAX_FORMS: usize = 4;

/// A declaration that is longer is cut.
const MAX_DECLARATION: usize = 1000;

pub fn hover(tree: &Tree<'_>, position: Position) -> Option<Hover> {
    let offset = tree.text.offset(position);
    let (span, value) = of_name(tree, offset).or_else(|| of_instruction(tree, offset))?;
    Some(Hover {
        contents: MarkupContent {
            kind: "markdown",
            value,
        },
        range: tree.text.range(span),
    })
}

fn of_name(tree: &Tree<'_>, offset: u32) -> Option<(Span, String)> {
    let symbol = Symbol::at(tree, offset)?;
    let mut text = match symbol.declared {
        Declared::Variable(variable) => code(declaration(tree, variable)),
        Declared::Function(function) => code(head(tree, function)),
        Declared::Label => code(&format!("{}:", symbol.reference.name.text)),
        Declared::Table(span) => code(slice(tree, span)),
    };
    text += &register::describe(tree, &symbol).unwrap_or_default();
    Some((symbol.reference.name.span(tree.source), text))
}

fn code(text: &str) -> String {
    format!("```ptx\n{}\n```\n", text.trim_end())
}

fn slice<'t>(tree: &Tree<'t>, span: Span) -> &'t str {
    let text = tree
        .source
        .get(span.start as usize..span.end as usize)
        .unwrap_or_default();
    let end = (0..=MAX_DECLARATION.min(text.len())).rev();
    let end = end.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A declaration without the values that it begins with.
fn declaration<'t>(tree: &Tree<'t>, variable: &Variable<'_>) -> &'t str {
    let text = slice(tree, variable.span);
    text.split_once('=').map_or(text, |(before, _)| before)
}

/// What stands before the body.
fn head<'t>(tree: &Tree<'t>, function: &Function<'_>) -> &'t str {
    let end = function.body.as_ref().map(|body| body.span.start);
    slice(
        tree,
        Span {
            end: end.unwrap_or(function.span.end),
            ..function.span
        },
    )
}

fn of_instruction(tree: &Tree<'_>, offset: u32) -> Option<(Span, String)> {
    let function = tree.function(offset)?;
    let body = function.body.as_ref()?;
    let special = body.operands.iter().find_map(|operand| match operand {
        Operand::Special(register, span) if contains(*span, offset) => Some((*span, *register)),
        _ => None,
    });
    if let Some((span, register)) = special {
        return Some((span, of_special(register)));
    }
    let instruction = body
        .statements
        .iter()
        .find_map(|statement| match statement {
            Statement::Instruction(instruction) if contains(instruction.opcode_span, offset) => {
                Some(instruction)
            }
            _ => None,
        })?;
    Some((instruction.opcode_span, mnemonic(tree, instruction)?))
}

fn contains(span: Span, offset: u32) -> bool {
    (span.start..=span.end).contains(&offset)
}

/// What an instruction does, its forms, and since when there is what is written.
fn mnemonic(tree: &Tree<'_>, instruction: &Instruction) -> Option<String> {
    let mnemonic = tree.module.mnemonic(instruction);
    let forms = || isa::forms_of(mnemonic.opcode, &mnemonic.modifiers);
    let fitting: Vec<&Form> = forms()
        .filter(|form| form.fit(&mnemonic.modifiers).is_ok())
        .collect();
    let shown = if fitting.is_empty() {
        forms().collect()
    } else {
        fitting
    };
    let form = shown.first()?;
    let mut text = match isa::summary(form.name()) {
        Some(summary) => format!("**{}**: {summary}\n\n", form.name()),
        None => format!("**{}**\n\n", form.name()),
    };
    let descriptions = shown.iter().take(MAX_FORMS).map(|form| isa::describe(form));
    text += &code(&descriptions.collect::<Vec<_>>().join("\n"));
    if let Ok(fit) = form.fit(&mnemonic.modifiers) {
        // Words may be younger than their form.
        let mut since: Vec<String> = fit
            .since
            .iter()
            .map(|since| isa::since_text(since))
            .collect();
        since.dedup();
        text += &format!("`{}` since {}\n", mnemonic.text, since.join(", and "));
    }
    if shown.len() > MAX_FORMS {
        text += &format!(
            "\n{} more forms: `ptxkit isa {}`\n",
            shown.len() - MAX_FORMS,
            form.opcode.text()
        );
    }
    Some(text)
}

/// What a special register holds.
pub fn of_special(register: SpecialRegister) -> String {
    let special = special::of(register);
    let mut text = format!("**{}**", register.text());
    if let Some(summary) = isa::special_summary(register) {
        text += &format!(": {summary}");
    }
    format!(
        "{text}\n\n{}, since {}\n",
        special.describe(),
        isa::since_text(&special.since)
    )
}
