//! Which instructions the CPU device has stands in the instruction table: `cpu`.

use std::collections::HashSet;

use crate::codegen::Vectorization;
use crate::compile::{CompileErrorKind, CompileOptions};
use crate::source::compile_image;
use ptx::ast::{Item, Modifiers, Module, Statement};
use ptx::isa::{self, Form};

#[path = "../../../ptx/tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;
#[path = "../../../ptx/tests/conformance/instruction.rs"]
mod instruction;

/// Whether a module compiles; `None` where its text is refused for another reason.
fn compiles(text: &str) -> Option<bool> {
    let options = CompileOptions {
        vectorization: Vectorization::Never,
    };
    match compile_image(text, &options) {
        Ok(_) => Some(true),
        Err(error) => (error.kind == CompileErrorKind::NotSupported).then_some(false),
    }
}

/// The row of the only instruction of a module.
fn row(module: &Module<'_>) -> Option<&'static Form> {
    let bodies = module.items.iter().filter_map(|item| match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    });
    let statements = bodies.flat_map(|body| &body.statements);
    let mut instructions = statements.filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    let mnemonic = module.mnemonic(instructions.next_back()?);
    isa::form(mnemonic.opcode, &mnemonic.modifiers)
}

/// What no row says is refused; this is the other half. Not every combination of
/// modifiers need compile, nor does the archive have an instruction of every row.
#[test]
fn of_each_row_that_says_so_something_compiles() {
    let (mut tried, mut compiled) = (HashSet::new(), HashSet::new());
    for line in archive::read("grid").lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (version, target, verdict, text) = (word(), word(), word(), word());
        if verdict != "ok" {
            continue;
        }
        let module = instruction::module(version, target, text);
        if let Some(row) = row(&ptx::read(&module).module)
            && row.meaning(&Modifiers::NONE).cpu
            && !compiled.contains(row.text.as_str())
            && let Some(is) = compiles(&module)
        {
            tried.insert(row.text.as_str());
            if is {
                compiled.insert(row.text.as_str());
            }
        }
    }
    let wrong: Vec<&&str> = tried.difference(&compiled).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compiled.len() > 300, "{}", compiled.len());
}
