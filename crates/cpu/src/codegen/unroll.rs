//! Loops of the vector function of which several iterations run after one check of their
//! accesses to shared memory.
//!
//! An address that changes by the same amount in each iteration is checked for the next
//! [`ITERATIONS`] at once. Where they are all in bounds, that many copies of the loop's blocks
//! run without checks, each of which leaves the loop where it ends. Otherwise one iteration runs
//! with its checks, which report exactly the access that is out of bounds.

use std::collections::HashMap;

use analysis::control_flow::Loops;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::checked_address::InBounds;
use super::emitter::Emitter;
use super::lane_set::LaneSet;
use super::vectorize::{Lowering, lowering};
use crate::abi::offset;
use crate::program::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Terminator, UniformityInfo,
};
use ptx::names::{Modifier as M, Opcode as O};

/// The number of iterations that are checked together.
pub(super) const ITERATIONS: u32 = 4;
/// The largest loop that is copied.
const MAX_STEPS: usize = 48;
/// Blocks of the longest way around it.
const MAX_BLOCKS: usize = 4;
/// Offsets and steps below it cannot wrap around within the size of shared memory.
const MAX_DISTANCE: i64 = 1 << 24;

/// A loop without inner loops, with one way around it.
pub(super) struct UnrolledLoop {
    /// Its blocks in the order in which an iteration runs them.
    pub blocks: Vec<BlockId>,
    accesses: Vec<LoopAccess>,
}

/// An access to shared memory whose address changes by `step` in each iteration.
struct LoopAccess {
    /// The instruction, by the start of its operands.
    operands: u32,
    /// The register with the address, and the distance of the access from its value at the
    /// start of an iteration.
    base: Reg,
    distance: i64,
    step: i64,
    bytes: u32,
    align: u32,
}

/// The loops that are worth it.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    has_fma: bool,
) -> Vec<UnrolledLoop> {
    let Some(loops) = Loops::new(&program.graph()) else {
        return Vec::new();
    };
    let mut blocks_of = vec![0; loops.ids().count()];
    for block in 0..program.blocks.len() as u32 {
        for id in loops.around(loops.innermost(BlockId(block))) {
            blocks_of[id.index()] += 1;
        }
    }
    let mut found = Vec::new();
    for id in loops.ids().filter(|id| blocks_of[id.index()] <= MAX_BLOCKS) {
        let inside = |block: BlockId| loops.contains(id, block);
        let Some(blocks) = way_around(program, loops.get(id).head, &inside) else {
            continue;
        };
        // Others lie on another way, or in an inner loop.
        if blocks.len() != blocks_of[id.index()] {
            continue;
        }
        let accesses = accesses(program, uniformity, &blocks, has_fma);
        if !accesses.is_empty() {
            found.push(UnrolledLoop { blocks, accesses });
        }
    }
    found
}

/// The blocks of an iteration, if there is one way from the head back to it.
fn way_around(
    program: &Program<'_>,
    head: BlockId,
    inside: &dyn Fn(BlockId) -> bool,
) -> Option<Vec<BlockId>> {
    let (mut blocks, mut steps) = (Vec::new(), 0);
    let mut at = head;
    loop {
        blocks.push(at);
        let block = &program.blocks[at.index()];
        steps += block.steps.len();
        if steps > MAX_STEPS || blocks.len() > MAX_BLOCKS {
            return None;
        }
        at = match &block.terminator {
            Terminator::Jump(next) => *next,
            Terminator::Branch {
                then, otherwise, ..
            } => match (inside(*then), inside(*otherwise)) {
                (true, false) => *then,
                (false, true) => *otherwise,
                _ => return None,
            },
            _ => return None,
        };
        if at == head {
            return Some(blocks);
        }
    }
}

/// How a register changes in an iteration.
#[derive(Clone, Copy)]
enum Change {
    /// By this amount, in the instruction with this number.
    Step(i64, usize),
    Unknown,
}

fn accesses(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    blocks: &[BlockId],
    has_fma: bool,
) -> Vec<LoopAccess> {
    let steps = || {
        blocks
            .iter()
            .flat_map(|block| &program.blocks[block.index()].steps)
    };
    let mut changes: HashMap<Reg, Change> = HashMap::new();
    for (number, step) in steps().enumerate() {
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            let change = match step {
                Step::Instruction(i) if !changes.contains_key(&reg) => increment(program, i, reg)
                    .map_or(Change::Unknown, |step| Change::Step(step, number)),
                _ => Change::Unknown,
            };
            changes.insert(reg, change);
        });
    }
    let mut accesses = Vec::new();
    for (number, step) in steps().enumerate() {
        let Step::Instruction(i) = step else { continue };
        let Some((base, offset)) = shared_address(program, i) else {
            continue;
        };
        let Some((element, count)) = size(program, i) else {
            continue;
        };
        let lowering = lowering(program, &|reg| uniformity.of(reg), step, has_fma);
        let (bytes, align) = match lowering {
            Lowering::Uniform => (element * count, element * count),
            Lowering::Contiguous => (element * uniformity.group.width(), element),
            Lowering::Widened | Lowering::LastLane | Lowering::Scalarized => continue,
        };
        let (step, before) = match changes.get(&base) {
            None => (0, false),
            Some(Change::Step(step, at)) => (*step, *at < number),
            Some(Change::Unknown) => continue,
        };
        let distance = offset + if before { step } else { 0 };
        let small = step.abs() < MAX_DISTANCE && distance.abs() < MAX_DISTANCE;
        // An address of 32 bits that shrinks could pass 0 before the distance is added.
        let wraps = step < 0 && distance > 0;
        if small && !wraps && align.is_power_of_two() && step % i64::from(align) == 0 {
            accesses.push(LoopAccess {
                operands: i.args.start,
                base,
                distance,
                step,
                bytes,
                align,
            });
        }
    }
    accesses
}

/// The amount by which an instruction increments a register.
fn increment(program: &Program<'_>, i: &Instruction, reg: Reg) -> Option<i64> {
    let amount = match program.list(i.args) {
        &[Arg::Reg(to), Arg::Reg(from), Arg::Int(amount)] if to == reg && from == reg => amount,
        _ => return None,
    };
    let plain = i.modifiers.first_of(&[M::Sat, M::Cc]).is_none() && i.guard.is_none();
    let bytes = u64::from(program.registers[reg.index()].bytes());
    let ty = i.modifiers.types().next()?;
    let is_integer = matches!(
        program.registers[reg.index()],
        RegClass::I32 | RegClass::I64
    );
    if !plain || !is_integer || ty.bytes() != bytes {
        return None;
    }
    let amount = match bytes {
        4 => i64::from(amount as u32 as i32),
        _ => amount.cast_signed(),
    };
    match i.opcode {
        O::Add => Some(amount),
        O::Sub => amount.checked_neg(),
        _ => None,
    }
}

/// The address of an access to shared memory that nothing orders.
fn shared_address(program: &Program<'_>, i: &Instruction) -> Option<(Reg, i64)> {
    let operand = match i.opcode {
        O::Ld => 1,
        O::St => 0,
        _ => return None,
    };
    let m = &i.modifiers;
    let ordered = [
        M::Volatile,
        M::Relaxed,
        M::Acquire,
        M::Release,
        M::Mmio,
        M::Async,
    ];
    if m.first_of(&[M::Shared, M::SharedCta]).is_none() || m.first_of(&ordered).is_some() {
        return None;
    }
    match *program.list(i.args).get(operand)? {
        Arg::Address(Base::Reg(reg), offset) => matches!(
            program.registers[reg.index()],
            RegClass::I32 | RegClass::I64
        )
        .then_some((reg, offset)),
        _ => None,
    }
}

/// The bytes of an element, and the number of elements.
fn size(program: &Program<'_>, i: &Instruction) -> Option<(u32, u32)> {
    let bytes = i.modifiers.types().next()?.bytes() as u32;
    let value = program.list(i.args).get(usize::from(i.opcode != O::Ld))?;
    match *value {
        Arg::List(list) => Some((bytes, list.len)),
        _ => Some((bytes, 1)),
    }
}

/// Emits the guard of the loop: it jumps to `unchecked` if the next iterations are in bounds, and
/// to `checked` otherwise.
pub(super) fn guard(
    e: &mut Emitter<'_, '_>,
    unrolled: &UnrolledLoop,
    unchecked: Block,
    checked: Block,
) -> Vec<InBounds> {
    e.lane_set = LaneSet::Scalar;
    let size = e.context_word(offset::SHARED_SIZE);
    let shared = e.context_word(offset::SHARED);
    let mut in_bounds: Vec<InBounds> = Vec::new();
    let mut addresses: HashMap<Reg, (Value, Value)> = HashMap::new();
    for access in &unrolled.accesses {
        let (value, address) = *addresses.entry(access.base).or_insert_with(|| {
            let value = e.register(access.base);
            let value = e.coerce(value, types::I64);
            (value, e.b.ins().iadd(shared, value))
        });
        let span = access.step * i64::from(ITERATIONS - 1);
        let length = i64::from(access.bytes) + span.abs();
        let first = e.add_offset(value, access.distance + span.min(0));
        // The number of places where it may start, in units of its alignment.
        let shift = e.scalar_int(types::I32, access.align.trailing_zeros().into());
        let starts = e.add_offset(size, -length);
        let starts = e.b.ins().sshr(starts, shift);
        let starts = e.add_offset(starts, 1);
        let zero = e.scalar_int(types::I64, 0);
        let starts = e.b.ins().smax(starts, zero);
        let number = e.b.ins().rotr(first, shift);
        let good = e.icmp(IntCC::UnsignedLessThan, number, starts);
        let next = e.b.create_block();
        e.b.ins().brif(good, next, &[], checked, &[]);
        e.enter(next);
        in_bounds.push(InBounds {
            operands: access.operands,
            address,
            distance: access.distance,
            step: access.step,
        });
    }
    e.b.ins().jump(unchecked, &[]);
    in_bounds
}
