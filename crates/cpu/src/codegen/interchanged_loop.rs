//! Loops that the lane groups of a block run step by step: those that go on by the size of the
//! block or of the grid.

use analysis::control_flow::Loops;

use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, BlockId, Instruction, Liveness, Program, Reg, Step, Terminator, Uniformity, UniformityInfo,
};
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S};

/// The largest loop.
const MAX_STEPS: usize = 96;
/// Instructions from a special register to a stride.
const MAX_DEPTH: usize = 4;

/// A loop that the groups run step by step.
pub(super) struct InterchangedLoop {
    pub head: BlockId,
    pub blocks: Vec<BlockId>,
    /// The registers that it writes.
    pub written: Vec<Reg>,
    /// It goes on by the size of the grid.
    pub by_grid: bool,
}

/// The loops that are worth it: those without inner loops and sync points. Values that a loop carries
/// are saved and loaded in each turn: loops that go on by the size of a block, a short stride, carry
/// none.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    has_fma: bool,
) -> Vec<InterchangedLoop> {
    let is_size = |arg: &Arg| matches!(arg, Arg::Special(S::NtidX | S::NctaidX));
    if !program.args.iter().any(is_size) && program.block.is_none() {
        return Vec::new();
    }
    let Some(loops) = Loops::new(&program.graph()) else {
        return Vec::new();
    };
    let mut liveness = None;
    let mut found = Vec::new();
    for id in loops.ids() {
        let is_outer = loops.ids().any(|other| loops.get(other).parent == Some(id));
        let head = loops.get(id).head;
        if is_outer || head == BlockId(0) {
            continue;
        }
        let blocks = (0..program.blocks.len() as u32).map(BlockId);
        let blocks: Vec<BlockId> = blocks.filter(|&b| loops.contains(id, b)).collect();
        let Some(accesses) = accesses(program, uniformity, &blocks, has_fma) else {
            continue;
        };
        let mut written = Vec::new();
        for step in steps(program, &blocks) {
            program.step_effects(step, &mut |_| {}, &mut |reg| written.push(reg));
        }
        written.sort_unstable();
        written.dedup();
        let strides = stride(program, uniformity, &blocks, &written);
        let Some(stride) = strides.filter(|_| accesses > 0) else {
            continue;
        };
        let live = liveness.get_or_insert_with(|| Liveness::new(program));
        let carries_vectors = live.live_in(head).iter().any(|reg| {
            uniformity.of(*reg) == Uniformity::Divergent && written.binary_search(reg).is_ok()
        });
        if !carries_vectors || stride == Size::Grid {
            found.push(InterchangedLoop {
                head,
                blocks,
                written,
                by_grid: stride == Size::Grid,
            });
        }
    }
    found
}

fn steps<'p>(program: &'p Program<'_>, blocks: &'p [BlockId]) -> impl Iterator<Item = &'p Step> {
    blocks
        .iter()
        .flat_map(|block| &program.blocks[block.index()].steps)
}

/// The accesses of a loop to consecutive values in global memory, if the groups can run it step by
/// step.
fn accesses(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    blocks: &[BlockId],
    has_fma: bool,
) -> Option<usize> {
    let branches = |block: &BlockId| {
        matches!(
            program.blocks[block.index()].terminator,
            Terminator::Jump(_) | Terminator::Branch { .. }
        )
    };
    if !blocks.iter().all(branches) || steps(program, blocks).count() > MAX_STEPS {
        return None;
    }
    let mut accesses = 0;
    for step in steps(program, blocks) {
        let Step::Instruction(i) = step else {
            return None;
        };
        let in_shared = i.modifiers.first_of(&[M::Shared, M::SharedCta]).is_some();
        let lowering = lowering(program, &|reg| uniformity.of(reg), step, has_fma);
        match lowering {
            Lowering::Contiguous => accesses += usize::from(!in_shared),
            Lowering::Uniform | Lowering::FirstLane | Lowering::Widened | Lowering::Scalarized => {}
            Lowering::LastLane if stores_uniform(program, uniformity, i) => {}
            Lowering::LastLane => return None,
        }
    }
    Some(accesses)
}

/// Whether all lanes of a group store the same.
fn stores_uniform(program: &Program<'_>, uniformity: &UniformityInfo, i: &Instruction) -> bool {
    let value = program.list(i.args).get(1);
    value.is_some_and(|value| uniformity.is_uniform(program, *value))
}

/// What a loop goes on by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Block,
    Grid,
}

/// The size that the loop adds to an affine value.
fn stride(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    blocks: &[BlockId],
    written: &[Reg],
) -> Option<Size> {
    let threads = program.block_threads();
    let size = |arg: &Arg| match *arg {
        Arg::Int(amount) if threads.is_some_and(|threads| amount == u64::from(threads)) => {
            Some(Size::Block)
        }
        Arg::Reg(reg) if written.binary_search(&reg).is_err() => size_of(program, reg, MAX_DEPTH),
        _ => None,
    };
    steps(program, blocks).find_map(|step| match step {
        Step::Instruction(i) if i.opcode == O::Add => {
            let args = program.list(i.args);
            let is_affine = |arg: &Arg| match *arg {
                Arg::Reg(reg) => matches!(uniformity.of(reg), Uniformity::Affine(_)),
                _ => false,
            };
            let operands = args.get(1..3).unwrap_or(&[]);
            let adds = args.first().is_some_and(is_affine) && operands.iter().any(is_affine);
            operands.iter().filter(|_| adds).find_map(size)
        }
        _ => None,
    })
}

/// The size from which a register's only definition computes it: that of the grid if it reads
/// `%nctaid`, that of the block if only `%ntid`.
fn size_of(program: &Program<'_>, reg: Reg, depth: usize) -> Option<Size> {
    let mut definitions = program
        .blocks
        .iter()
        .flat_map(|block| &block.steps)
        .filter_map(|step| match step {
            Step::Instruction(i) if program.list(i.args).first() == Some(&Arg::Reg(reg)) => {
                program.has_destination(i).then_some(i)
            }
            _ => None,
        });
    let (Some(definition), None) = (definitions.next(), definitions.next()) else {
        return None;
    };
    let scales = matches!(
        definition.opcode,
        O::Mov | O::Cvt | O::Mul | O::Mad | O::Shl | O::Mul24
    );
    let sizes = program.list(definition.args)[1..].iter();
    let sizes = sizes.filter_map(|arg| match *arg {
        Arg::Special(S::NtidX) => Some(Size::Block),
        Arg::Special(S::NctaidX) => Some(Size::Grid),
        Arg::Reg(from) if depth > 0 => size_of(program, from, depth - 1),
        _ => None,
    });
    // The product of both is the size of the grid.
    let largest = |a, b| if a == Size::Grid { a } else { b };
    sizes.filter(|_| scales).reduce(largest)
}
