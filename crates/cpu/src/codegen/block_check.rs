//! Accesses of a block to shared memory at constant distances from a register, such as those of a
//! loop that the compiler has unrolled, checked at once.
//!
//! Where one of them may be out of bounds, the scalar function takes over at the start of the
//! block, and reports exactly that one.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::checked_address::InBounds;
use super::emitter::Emitter;
use super::lane_group;
use super::lane_set::LaneSet;
use super::resume::ResumePlan;
use super::shared_access::{MAX_DISTANCE, SharedAccess, increment, shared_access};
use crate::abi::offset;
use crate::program::{Arg, Base, BlockId, Program, Reg, Step, Storage, UniformityInfo};

/// Fewer accesses of a block are checked one by one.
const MIN_ACCESSES: usize = 4;

/// Accesses at constant distances from the value of a register at the start of a block.
#[derive(Debug)]
pub(super) struct BlockCheck {
    base: Reg,
    align: u32,
    /// Of the lowest byte, and behind the highest.
    lowest: i64,
    end: i64,
    /// The instructions, by the starts of their operands, and their distances.
    accesses: Vec<(u32, i64)>,
}

/// By block: what can be checked at its start.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    has_fma: bool,
) -> Vec<Vec<BlockCheck>> {
    let blocks = program.blocks.iter();
    blocks
        .map(|block| {
            let mut checks = of_block(program, uniformity, &block.steps, has_fma);
            checks.retain(|check| check.accesses.len() > 1);
            let accesses: usize = checks.iter().map(|check| check.accesses.len()).sum();
            match accesses < MIN_ACCESSES {
                true => Vec::new(),
                false => checks,
            }
        })
        .collect()
}

fn of_block(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    steps: &[Step],
    has_fma: bool,
) -> Vec<BlockCheck> {
    let mut checks: Vec<BlockCheck> = Vec::new();
    // By how much registers have changed; unknown if that is no constant.
    let mut changes: Vec<(Reg, Option<i64>)> = Vec::new();
    for step in steps {
        if let Some(access) = shared_access(program, uniformity, step, has_fma) {
            let mut known = changes.iter().filter(|(reg, _)| *reg == access.base);
            let change = known.next().map_or(Some(0), |(_, change)| *change);
            if let Some(change) = change {
                add(&mut checks, &access, change);
            }
        }
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            let by = match step {
                Step::Instruction(i) => increment(program, i, reg),
                Step::SystemCall { .. } => None,
            };
            match changes.iter_mut().find(|(known, _)| *known == reg) {
                Some((_, change)) => {
                    *change = change.zip(by).map(|(change, by)| change.saturating_add(by));
                }
                None => changes.push((reg, by)),
            }
        });
    }
    checks
}

fn add(checks: &mut Vec<BlockCheck>, access: &SharedAccess, change: i64) {
    let distance = access.offset.saturating_add(change);
    // An address of 32 bits below 0 would wrap around before the distance is added.
    let wraps = (change < 0 || access.lowest < 0) && distance > 0;
    if wraps || distance.abs() >= MAX_DISTANCE || change.abs() >= MAX_DISTANCE {
        return;
    }
    let lowest = distance + access.lowest;
    let end = lowest + access.bytes;
    let member = (access.operands, distance);
    let align = i64::from(access.align);
    let same = |check: &&mut BlockCheck| {
        check.base == access.base
            && check.align == access.align
            && (check.lowest - lowest) % align == 0
    };
    match checks.iter_mut().find(same) {
        Some(check) => {
            check.lowest = check.lowest.min(lowest);
            check.end = check.end.max(end);
            check.accesses.push(member);
        }
        None => checks.push(BlockCheck {
            base: access.base,
            align: access.align,
            lowest,
            end,
            accesses: vec![member],
        }),
    }
}

/// Emits the checks of a block, whose accesses are in bounds then.
pub(super) fn emit(e: &mut Emitter<'_, '_>, plan: &ResumePlan, block: BlockId) {
    let checks = plan.together.blocks.get(block.index());
    let Some(state) = plan.divergence_state(block) else {
        return;
    };
    e.lane_set = LaneSet::Scalar;
    let mut good: Option<Value> = None;
    for check in checks.into_iter().flatten() {
        let base = e.register(check.base);
        let base = e.coerce(base, types::I64);
        let lowest = e.add_offset(base, check.lowest);
        let bytes = e.scalar_int(types::I64, (check.end - check.lowest).cast_unsigned());
        let inside = is_in_shared(e, lowest, bytes, check.align);
        good = Some(good.map_or(inside, |good| e.b.ins().band(good, inside)));
        let shared = e.context_word(offset::SHARED);
        let address = e.b.ins().iadd(shared, base);
        let accesses = check.accesses.iter();
        e.in_bounds
            .extend(accesses.map(|&(operands, distance)| InBounds {
                operands,
                address,
                distance,
                step: 0,
            }));
    }
    if let Some(good) = good {
        lane_group::resume_scalar_unless(e, plan, good, state);
    }
    e.iteration = 0;
}

/// Whether so many bytes from an address on, which must be aligned, are in shared memory.
pub(super) fn is_in_shared(
    e: &mut Emitter<'_, '_>,
    lowest: Value,
    bytes: Value,
    align: u32,
) -> Value {
    // The number of places where they may start, in units of the alignment.
    let shift = e.scalar_int(types::I32, align.trailing_zeros().into());
    let named = |arg: &Arg| match arg {
        Arg::Symbol(storage, _) | Arg::Address(Base::Storage(storage), _) => {
            *storage == Storage::DynamicShared
        }
        _ => false,
    };
    // Constants are folded. What is behind the static part is out of bounds, in most cases.
    let size = match e.program.shared_bytes > 0 && !e.program.args.iter().any(named) {
        true => e.scalar_int(types::I64, e.program.shared_bytes.into()),
        false => e.context_word(offset::SHARED_SIZE),
    };
    let starts = e.b.ins().isub(size, bytes);
    let starts = e.b.ins().sshr(starts, shift);
    let starts = e.add_offset(starts, 1);
    let zero = e.scalar_int(types::I64, 0);
    let starts = e.b.ins().smax(starts, zero);
    let number = e.b.ins().rotr(lowest, shift);
    e.icmp(IntCC::UnsignedLessThan, number, starts)
}
