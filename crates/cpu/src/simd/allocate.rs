//! Register allocation.

use regalloc2::{
    Algorithm, Block, Function, Inst, InstRange, MachineEnv, Operand, Output, PReg, PRegSet,
    RegAllocError, RegClass, RegallocOptions, VReg,
};

use super::assembler::{R11, RBP, RSP};
use super::machine::{Code, INT, Label, MASK, Op, ZMM};

/// The scratch registers of the allocator's moves.
pub(super) const SCRATCH_ZMM: u8 = 31;
pub(super) const SCRATCH_YMM: u8 = 15;
pub(super) const SCRATCH_MASK: u8 = 7;

/// The code as regalloc2 reads it: blocks and instructions are numbered in layout order.
struct View<'c> {
    code: &'c Code,
    /// By position: the block.
    blocks: Vec<Label>,
    /// By position: the first instruction.
    starts: Vec<u32>,
    /// By instruction: its block and its number in it.
    instructions: Vec<(Label, u32)>,
    successors: Vec<Vec<Block>>,
    predecessors: Vec<Vec<Block>>,
}

impl<'c> View<'c> {
    fn new(code: &'c Code) -> View<'c> {
        let mut position = vec![0; code.blocks.len()];
        for (number, block) in code.layout.iter().enumerate() {
            position[block.0 as usize] = number;
        }
        let (mut starts, mut instructions) = (vec![0], Vec::new());
        let (mut successors, mut predecessors) = (Vec::new(), Vec::new());
        for &label in &code.layout {
            let block = &code.blocks[label.0 as usize];
            let count = block.instructions.len() as u32;
            instructions.extend((0..count).map(|n| (label, n)));
            starts.push(instructions.len() as u32);
            let at = |label: &Label| Block::new(position[label.0 as usize]);
            successors.push(block.successors().iter().map(at).collect());
            predecessors.push(block.predecessors.iter().map(at).collect());
        }
        View {
            code,
            blocks: code.layout.clone(),
            starts,
            instructions,
            successors,
            predecessors,
        }
    }

    fn op(&self, instruction: Inst) -> &Op {
        let (block, number) = self.instructions[instruction.index()];
        &self.code.blocks[block.0 as usize].instructions[number as usize].op
    }

    fn block(&self, block: Block) -> &super::machine::Block {
        &self.code.blocks[self.blocks[block.index()].0 as usize]
    }
}

impl Function for View<'_> {
    fn num_insts(&self) -> usize {
        self.instructions.len()
    }

    fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        let [from, to] = [0, 1].map(|n| Inst::new(self.starts[block.index() + n] as usize));
        InstRange::new(from, to)
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.successors[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.predecessors[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.block(block).params
    }

    fn is_ret(&self, instruction: Inst) -> bool {
        *self.op(instruction) == Op::Return
    }

    fn is_branch(&self, instruction: Inst) -> bool {
        matches!(self.op(instruction), Op::Jump(_) | Op::Branch { .. })
    }

    fn branch_blockparams(&self, block: Block, _: Inst, successor: usize) -> &[VReg] {
        &self.block(block).arguments[successor]
    }

    fn inst_operands(&self, instruction: Inst) -> &[Operand] {
        let (block, number) = self.instructions[instruction.index()];
        &self.code.blocks[block.0 as usize].instructions[number as usize].operands
    }

    fn inst_clobbers(&self, _: Inst) -> PRegSet {
        PRegSet::empty()
    }

    fn num_vregs(&self) -> usize {
        self.code.values as usize
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        match (class, self.code.is_avx2) {
            (ZMM, true) => 4,
            (ZMM, false) => 8,
            _ => 1,
        }
    }
}

fn environment(is_avx2: bool) -> MachineEnv {
    let registers = |class, numbers: &[u8]| -> Vec<PReg> {
        let numbers = numbers.iter();
        numbers.map(|&n| PReg::new(n.into(), class)).collect()
    };
    let set = |class, numbers: &[u8]| registers(class, numbers).into_iter().collect::<PRegSet>();
    debug_assert!(![R11, RBP, RSP].contains(&3));
    let scratch = if is_avx2 { SCRATCH_YMM } else { SCRATCH_ZMM };
    let zmm: Vec<u8> = (0..scratch).collect();
    MachineEnv {
        preferred_regs_by_class: [
            set(INT, &[0, 1, 2, 6, 7, 8, 9, 10]),
            set(ZMM, &zmm),
            set(MASK, &[1, 2, 3, 4, 5, 6]),
        ],
        non_preferred_regs_by_class: [
            set(INT, &[3, 12, 13, 14, 15]),
            PRegSet::empty(),
            PRegSet::empty(),
        ],
        scratch_by_class: [
            Some(PReg::new(R11.into(), INT)),
            Some(PReg::new(scratch.into(), ZMM)),
            Some(PReg::new(SCRATCH_MASK.into(), MASK)),
        ],
        fixed_stack_slots: Vec::new(),
    }
}

/// Allocates registers and spill slots. Blocks and instructions are numbered in layout order.
pub(super) fn allocate(code: &Code) -> Result<Output, RegAllocError> {
    let options = RegallocOptions {
        verbose_log: false,
        validate_ssa: cfg!(debug_assertions),
        algorithm: Algorithm::Ion,
    };
    regalloc2::run(&View::new(code), &environment(code.is_avx2), &options)
}
