//! Which thread writes an address last, and at which line.

use std::fmt::Write as _;

use super::load::Loaded;
use super::thread::ThreadIndex;
use super::{Insertions, Shown};
use crate::errors::of_driver;
use crate::launch::Placed;
use crate::sample::Sample;
use ptxkit::driver::DeviceBuffer;
use ptxkit::ptx::ast::{Module, Operand, Statement};
use ptxkit::ptx::diagnostic::LineIndex;
use ptxkit::ptx::isa::{self, Effect};
use ptxkit::ptx::names::Modifier;
use terminal::failure::Failure;

/// The words of the record: the line, the block and the thread.
const WORDS: usize = 7;

/// A module that records who writes an address.
#[derive(Debug)]
pub struct Instrumented {
    pub text: String,
    /// The variables for the address that is watched, and for that of the record.
    watched: String,
    record: String,
}

/// Who wrote an address last.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub line: u32,
    pub index: ThreadIndex,
}

/// Instruments a module without errors; `None` if it does not say the size of addresses.
pub fn instrument(module: &Module<'_>, source: &str) -> Option<Instrumented> {
    let prefix = super::prefix(source);
    let index = LineIndex::new(source);
    let mut insertions = Insertions::default();
    let (watched, record) = (format!("{prefix}_watched"), format!("{prefix}_record"));
    insertions.add(
        super::head_end(module)?,
        format!(
            " .visible .global .align 8 .u64 {watched}; .visible .global .align 8 .u64 {record};"
        ),
    );
    for (function, body) in super::bodies(module) {
        insertions.add(
            body.span.start + 1,
            format!(
                " .reg .pred %{prefix}_hit; .reg .b32 %{prefix}_word; .reg .b64 %{prefix}_at, \
                 %{prefix}_watched, %{prefix}_record; \
                 ld.global.u64 %{prefix}_watched, [{watched}]; \
                 ld.global.u64 %{prefix}_record, [{record}];"
            ),
        );
        super::each_statement(module, function, body, |statement, registers| {
            let Statement::Instruction(instruction) = statement else {
                return;
            };
            let mnemonic = module.mnemonic(instruction);
            let modifiers = &mnemonic.modifiers;
            let effect = isa::meaning(mnemonic.opcode, modifiers).effect;
            let elsewhere = [Modifier::Shared, Modifier::Local, Modifier::Param];
            if !matches!(effect, Effect::Store | Effect::Update)
                || modifiers.first_of(&elsewhere).is_some()
            {
                return;
            }
            let operands = body.list(instruction.operands).iter();
            let mut addresses = operands.filter_map(|operand| match operand {
                Operand::Address { offset, .. } => Some(*offset),
                _ => None,
            });
            let base = registers
                .reads
                .iter()
                .find(|read| read.shown == Shown::Address);
            let (Some(offset), Some(base)) = (addresses.next(), base) else {
                return;
            };
            let size = modifiers.types().last().map_or(0, |ty| ty.bytes());
            let bytes = size
                * match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
                    Some(Modifier::V2) => 2,
                    Some(Modifier::V4) => 4,
                    Some(_) => 8,
                    None => 1,
                };
            if base.declared.bits() != 64 || bytes == 0 {
                return;
            }
            let condition = match body.guard(instruction) {
                None => format!("setp.lt.u64 %{prefix}_hit, %{prefix}_at, {bytes};"),
                Some(guard) => format!(
                    "setp.lt.and.u64 %{prefix}_hit, %{prefix}_at, {bytes}, {}{};",
                    if guard.negated { "!" } else { "" },
                    guard.predicate.text
                ),
            };
            let line = index.locate(instruction.span.start).line;
            let mut code = format!(
                "add.s64 %{prefix}_at, {}, {offset}; \
                 sub.s64 %{prefix}_at, %{prefix}_watched, %{prefix}_at; {condition} \
                 @%{prefix}_hit st.global.u64 [%{prefix}_record], {line}; ",
                base.name
            );
            for (number, register) in ["ctaid", "tid"].into_iter().enumerate() {
                for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
                    // Writing to a String cannot fail.
                    let _ = write!(
                        code,
                        "mov.u32 %{prefix}_word, %{register}.{name}; \
                         @%{prefix}_hit st.global.u32 [%{prefix}_record+{}], %{prefix}_word; ",
                        8 * (1 + 3 * number + axis)
                    );
                }
            }
            insertions.add(instruction.span.start, code);
        });
    }
    Some(Instrumented {
        text: insertions.apply(source),
        watched,
        record,
    })
}

impl Instrumented {
    /// Launches the loaded kernel and returns who wrote this byte of an argument last; `None` if
    /// no instruction did that can be watched.
    pub fn find(
        &self,
        loaded: &Loaded,
        sample: &Sample,
        argument: usize,
        byte: usize,
    ) -> Result<Option<Writer>, Failure> {
        let record: DeviceBuffer<u64> =
            DeviceBuffer::zeroed(loaded.context(), WORDS).map_err(|error| of_driver(&error))?;
        loaded.set(&self.record, record.address())?;
        let launched = loaded.launch(sample, |placed: &[Option<Placed>]| {
            match placed.get(argument).copied().flatten() {
                Some(placed) => loaded.set(&self.watched, placed.address_of(byte)),
                None => Ok(()),
            }
        })?;
        if launched.error.is_some() {
            return Ok(None);
        }
        let words = record.to_vec().map_err(|error| of_driver(&error))?;
        let words: Vec<u32> = words.iter().map(|word| *word as u32).collect();
        Ok(match words[..] {
            [line, a, b, c, x, y, z] if line > 0 => Some(Writer {
                line,
                index: ThreadIndex {
                    block: [a, b, c],
                    thread: [x, y, z],
                },
            }),
            _ => None,
        })
    }
}
