//! Accesses of a block to shared memory at constant distances from a register, such as those of a
//! loop that the compiler has unrolled, checked at once.
//!
//! Where one of them may be out of bounds, the scalar function takes over at the start of the
//! block, and reports exactly that one.

use super::shared_access::{SharedAccess, increment, shared_access};
use crate::program::{ByteOffset, Program, Reg, Step, UniformityInfo};

/// Fewer accesses of a block are checked one by one.
const MIN_ACCESSES: usize = 4;

/// Accesses at constant distances from the value of a register at the start of a block.
#[derive(Debug)]
pub(super) struct BlockCheck {
    pub base: Reg,
    pub align: u32,
    /// Of the lowest byte, and behind the highest.
    pub lowest: i64,
    pub end: i64,
    /// The instructions, by the starts of their operands, and their distances.
    pub accesses: Vec<(u32, i64)>,
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
    // By how much registers have changed; unknown if that is no constant of 64 bits.
    let mut changes: Vec<(Reg, Option<ByteOffset>)> = Vec::new();
    for step in steps {
        if let Some(access) = shared_access(program, uniformity, step, has_fma) {
            let mut known = changes.iter().filter(|(reg, _)| *reg == access.base);
            let change = known
                .next()
                .map_or(Some(ByteOffset::ZERO), |(_, change)| *change);
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
                    *change = change
                        .zip(by)
                        .and_then(|(change, by)| change.checked_add(by));
                }
                None => changes.push((reg, by)),
            }
        });
    }
    checks
}

fn add(checks: &mut Vec<BlockCheck>, access: &SharedAccess, change: ByteOffset) {
    let Some(distance) = access.offset.checked_add(change) else {
        return;
    };
    if !distance.is_small() || !change.is_small() {
        return;
    }
    let distance = distance.bytes();
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
