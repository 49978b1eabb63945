//! Values that must not wrap around within a lane group, and which no clamp may change.
//!
//! They are checked at the start of a block, where something else can run the group: the scalar
//! function, or a load lane by lane where an index is clamped.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::clamped_load::{self, ClampedLoad};
use super::emitter::Emitter;
use super::lane_set::LaneSet;
use crate::program::{
    BasicBlock, BlockId, Bound, NoWrap, Program, Reg, Step, Terminator, UniformityInfo,
};

/// The checks at the starts of blocks.
pub(super) struct WrapChecks {
    /// By block.
    pub of_blocks: Vec<Vec<NoWrap>>,
    /// By block: the load that goes on lane by lane where the check fails.
    pub clamped: Vec<Option<ClampedLoad>>,
}

impl WrapChecks {
    /// For a program without lane groups.
    pub fn none(program: &Program<'_>) -> WrapChecks {
        let blocks = program.blocks.len();
        WrapChecks {
            of_blocks: vec![Vec::new(); blocks],
            clamped: vec![None; blocks],
        }
    }

    /// Splits blocks where a value is checked, so that the check is at the start of a block.
    pub fn split(
        program: &mut Program<'_>,
        uniformity: &UniformityInfo,
        has_fma: bool,
    ) -> WrapChecks {
        let mut checks = WrapChecks::none(program);
        for number in 0..program.blocks.len() {
            let mut number = number;
            let mut known: Vec<NoWrap> = Vec::new();
            // With the checks that were known before the block of the clamp.
            let mut loads: Vec<(usize, ClampedLoad, Vec<NoWrap>)> = Vec::new();
            let mut at = 0;
            while at < program.blocks[number].steps.len() {
                let Step::Instruction(i) = program.blocks[number].steps[at] else {
                    at += 1;
                    continue;
                };
                if let Some(check) = uniformity.no_wrap(program, &i)
                    && !known.contains(&check)
                {
                    if at > 0 {
                        number = checks.split_block(program, number, at);
                        at = 0;
                    }
                    if check.clamp.is_some() {
                        let steps = &program.blocks[number].steps;
                        let load = clamped_load::find(program, uniformity, steps, has_fma);
                        let here = &checks.of_blocks[number];
                        let before = known.iter().filter(|check| !here.contains(check));
                        let before = before.copied().collect();
                        loads.extend(load.map(|load| (number, load, before)));
                    }
                    checks.of_blocks[number].push(check);
                    known.push(check);
                }
                program.effects(&i, &mut |_| {}, &mut |reg| {
                    let is_bound =
                        |c: &NoWrap| c.clamp.is_some_and(|clamp| clamp.bound == Bound::Reg(reg));
                    known.retain(|c| c.reg != reg && !is_bound(c));
                });
                at += 1;
                if loads.iter().any(|(_, load, _)| load.ends_with(&i)) {
                    number = checks.split_block(program, number, at);
                    at = 0;
                    for (start, mut load, before) in loads.drain(..) {
                        // Groups in which one of them does not hold come here, too, without those
                        // of the blocks in between.
                        known.retain(|check| before.contains(check));
                        load.next = BlockId(number as u32);
                        checks.clamped[start] = Some(load);
                    }
                }
            }
        }
        clamped_load::retain(program, &mut checks.clamped);
        checks
    }

    /// The registers that the checks at the start of a block read; `None` if groups in which one fails
    /// go on elsewhere.
    pub fn read_at(&self, block: BlockId) -> Option<Vec<Reg>> {
        if self.clamped[block.index()].is_some() {
            return None;
        }
        let mut registers = Vec::new();
        for check in &self.of_blocks[block.index()] {
            registers.push(check.reg);
            if let Some(Bound::Reg(bound)) = check.clamp.map(|clamp| clamp.bound) {
                registers.push(bound);
            }
        }
        Some(registers)
    }

    /// Moves the steps of a block from one on to a block of their own.
    fn split_block(&mut self, program: &mut Program<'_>, number: usize, at: usize) -> usize {
        let next = program.blocks.len();
        let block = &mut program.blocks[number];
        let rest = BasicBlock {
            steps: block.steps.split_off(at),
            terminator: std::mem::replace(
                &mut block.terminator,
                Terminator::Jump(BlockId(next as u32)),
            ),
        };
        program.blocks.push(rest);
        self.of_blocks.push(Vec::new());
        self.clamped.push(None);
        next
    }
}

/// Emits checks: where one fails, what `otherwise` emits runs instead of what follows.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    checks: &[NoWrap],
    mut otherwise: impl FnMut(&mut Emitter<'_, '_>),
) {
    for check in checks {
        e.lane_set = LaneSet::Scalar;
        let (first, and) = holds(e, check);
        let (ok, fails) = (e.b.create_block(), e.b.create_block());
        e.b.set_cold_block(fails);
        if let Some(and) = and {
            let next = e.b.create_block();
            e.b.ins().brif(first, next, &[], fails, &[]);
            e.enter(next);
            e.b.ins().brif(and, ok, &[], fails, &[]);
        } else {
            e.b.ins().brif(first, ok, &[], fails, &[]);
        }
        e.enter(fails);
        otherwise(e);
        e.enter(ok);
    }
}

/// What must be true: that the value of the first lane is in a range of numbers, and that the clamp
/// does not change those of the others if its bound is in a register.
fn holds(e: &mut Emitter<'_, '_>, check: &NoWrap) -> (Value, Option<Value>) {
    let first = e.register(check.reg);
    let distance = check.stride * i64::from(e.width - 1);
    let (least, most) = match check.signed {
        true => (i64::from(i32::MIN), i64::from(i32::MAX)),
        false => (0, i64::from(u32::MAX)),
    };
    // The first lane may have these.
    let mut low = least - distance.min(0);
    let mut high = most - distance.max(0);
    let mut and = None;
    if let Some(clamp) = check.clamp {
        match clamp.bound {
            Bound::Int(number) => {
                let bound = match check.signed {
                    true => i64::from(number as i32),
                    false => i64::from(number as u32),
                };
                match clamp.at_least {
                    true => low = low.max(bound - distance.min(0)),
                    false => high = high.min(bound - distance.max(0)),
                }
            }
            Bound::Reg(reg) => {
                let bound = e.register(reg);
                let (end, cc) = match clamp.at_least {
                    true => (distance.min(0), IntCC::SignedGreaterThanOrEqual),
                    false => (distance.max(0), IntCC::SignedLessThanOrEqual),
                };
                let cc = if check.signed { cc } else { cc.unsigned() };
                let end = e.add_offset(first, end);
                and = Some(e.icmp(cc, end, bound));
            }
        }
    }
    let in_range = if low > high {
        e.scalar_int(types::I8, 0)
    } else if low == least {
        let cc = match check.signed {
            true => IntCC::SignedLessThanOrEqual,
            false => IntCC::UnsignedLessThanOrEqual,
        };
        e.icmp_imm(cc, first, high)
    } else {
        let ty = e.b.func.dfg.value_type(first);
        let least = e.scalar_int(ty, low.cast_unsigned());
        let place = e.b.ins().isub(first, least);
        e.icmp_imm(IntCC::UnsignedLessThanOrEqual, place, high - low)
    };
    (in_range, and)
}
