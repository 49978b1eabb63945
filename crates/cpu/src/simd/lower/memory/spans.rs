//! Accesses to shared memory at constant distances from a register, such as those of a loop that nvcc has
//! unrolled. The first one of a block checks the bounds of all.

use std::collections::HashMap;

use super::address::Space;
use super::element::Element;
use crate::abi::{Access, offset};
use crate::optimization::Optimization;
use crate::program::{Arg, Base, BlockId, Instruction, Program, Reg, Step};
use crate::simd::lower::operands::{LONG, WORD};
use crate::simd::lower::{Lowered, Lowering, Place};
use crate::simd::machine::{Alu, Condition, INT, Memory, Shift, Value};
use crate::simd::span::{Span, Spans};
use ptx::names::{Modifier as M, Opcode as O};

/// Larger distances are checked by themselves.
const MAX_DISTANCE: i64 = 1 << 24;

/// A checked access: the host address of a span, and the distance of the first lane.
#[derive(Clone, Copy)]
pub(in crate::simd::lower) struct Spanned {
    pub host: Value,
    pub distance: i32,
    /// All lanes access the same; otherwise consecutive places.
    pub is_uniform: bool,
}

/// The number of the address operand of an access.
fn address_operand(i: &Instruction) -> usize {
    usize::from(i.opcode != O::St)
}

/// The base and distance of a load or store of shared memory.
fn shared_access(program: &Program<'_>, i: &Instruction) -> Option<(Reg, i64)> {
    let is_shared = super::address::space_of(i) == Space::Shared;
    let is_plain = matches!(i.opcode, O::Ld | O::St) && i.guard.is_none();
    let others = [M::SharedCluster, M::Async];
    if !is_shared || !is_plain || i.modifiers.first_of(&others).is_some() {
        return None;
    }
    match program.list(i.args).get(address_operand(i))? {
        &Arg::Address(Base::Reg(reg), distance) => {
            let distance = distance.bytes();
            (distance.abs() < MAX_DISTANCE).then_some((reg, distance))
        }
        _ => None,
    }
}

impl Lowering<'_, '_> {
    /// Finds the spans of a block.
    pub(in crate::simd::lower) fn find_spans(&mut self, at: BlockId) {
        let program = self.program;
        let mut spans = Spans::default();
        if !Optimization::Spans.is_on() {
            self.spans = spans;
            return;
        }
        // By register, how often it has been written, size, and remainder of the distance by the size.
        let mut known: HashMap<(Reg, u32, u32, i64), usize> = HashMap::new();
        let mut written: HashMap<Reg, u32> = HashMap::new();
        for step in &program.blocks[at.index()].steps {
            if let Step::Instruction(i) = step
                && let Some((base, distance)) = shared_access(program, i)
                && let Some((bytes, reach)) = self.reach(i, base)
            {
                let version = written.get(&base).copied().unwrap_or(0);
                let key = (base, version, bytes, distance.rem_euclid(bytes.into()));
                let number = *known.entry(key).or_insert_with(|| {
                    spans.all.push(Span {
                        base,
                        bytes,
                        low: distance,
                        end: distance,
                        members: Vec::new(),
                        host: None,
                    });
                    spans.all.len() - 1
                });
                let span = &mut spans.all[number];
                span.low = span.low.min(distance);
                span.end = span.end.max(distance + reach);
                if !span.members.is_empty() {
                    Optimization::Spans.count();
                }
                span.members.push(*i);
                spans.of.insert(i.args.start, (number, distance));
            }
            program.step_effects(step, &mut |_| {}, &mut |reg| {
                *written.entry(reg).or_default() += 1;
            });
        }
        self.spans = spans;
    }

    /// The bytes of an access by a lane, and from the first lane's to the end of the last one's; `None` if
    /// the lanes access other places than one or consecutive ones.
    fn reach(&self, i: &Instruction, base: Reg) -> Option<(u32, i64)> {
        let element = Element::of(self.ty(i, 0).ok()?).ok()?;
        let parts = self.parts(self.arg(i, 1 - address_operand(i)).ok()?);
        let bytes = element.bytes * parts.len() as u32;
        if bytes > 16 || !bytes.is_power_of_two() {
            return None;
        }
        match self.places[base.index()] {
            Place::Uniform(_) => Some((bytes, bytes.into())),
            Place::Affine(_, stride) if parts.len() == 1 && stride.cast_unsigned() == bytes => {
                Some((bytes, i64::from(bytes) * self.width as i64))
            }
            _ => None,
        }
    }

    /// The host address of an access of a span. The first access of a span checks all of them.
    pub(in crate::simd::lower) fn spanned(&mut self, i: &Instruction) -> Lowered<Option<Spanned>> {
        let Some(&(number, distance)) = self.spans.of.get(&i.args.start) else {
            return Ok(None);
        };
        let host = match self.spans.all[number].host {
            Some(host) => host,
            None => {
                let host = self.check_span(number)?;
                self.spans.all[number].host = Some(host);
                host
            }
        };
        let span = &self.spans.all[number];
        Ok(Some(Spanned {
            host,
            distance: (distance - span.low) as i32,
            is_uniform: matches!(self.places[span.base.index()], Place::Uniform(_)),
        }))
    }

    fn check_span(&mut self, number: usize) -> Lowered<Value> {
        let span = &self.spans.all[number];
        let (base, bytes, low) = (span.base, span.bytes, span.low);
        let units = (span.end - low) / i64::from(bytes);
        let members = span.members.clone();
        let shift = bytes.trailing_zeros();
        let first = match self.places[base.index()] {
            Place::Affine(variable, _) => self.b.get(variable),
            _ => self.int(Arg::Reg(base), false)?,
        };
        let first = self.add_offset(first, low);
        let address = self.extended(first, WORD);
        let unit = self.shift_int(Shift::Rotate, true, address, shift as u8);
        let last = self.add_offset(unit, units - 1);
        let limit = self.field(WORD, offset::SHARED_UNITS + 4 * shift as i32);
        let shared = self.field(LONG, offset::SHARED);
        let host = self.b.variable(INT);
        let in_bounds = self.alu(Alu::Add, true, shared, address);
        self.b.set(host, in_bounds);
        self.compare_int(true, last, limit);
        let [good, cold] = [(); 2].map(|()| self.b.block());
        self.b.branch(Condition::Below, good, cold);
        self.b.enter_cold(cold);
        let line = self.line;
        for i in &members {
            self.line = i.line;
            let write = match i.opcode {
                O::St => Access::WRITE,
                _ => 0,
            };
            self.address(i, address_operand(i), bytes, write)?;
        }
        self.line = line;
        // Only lanes that are not active are out of bounds. The first of them may be below 0.
        let signed = Memory {
            signed: true,
            ..WORD
        };
        let address = self.extended(first, signed);
        let below = self.alu(Alu::Add, true, shared, address);
        self.b.set(host, below);
        self.b.jump(good);
        self.b.enter_sealed(good);
        Ok(self.b.get(host))
    }
}
