//! Divergence analysis: which values differ between the threads of a block, and
//! which instructions some threads execute without the others.
//!
//! A value is divergent only if that is proven: it depends on `%tid`, `%laneid`, an
//! atomic, a load at a divergent address. An unknown value, such as the result of a
//! call, counts as uniform.

use super::affine::{Affine, Term};
use super::effect::Terminator;
use super::graph::{BlockId, Graph};
use super::instructions::{InstructionId, Instructions};
use super::values::{Definition, ValueId, Values};
use ptx::ast::{Instruction, Mnemonic, Operand};
use ptx::names::{Modifier, Opcode, SpecialRegister};

/// The threads that share a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variance {
    /// All threads of a block: the value is uniform.
    #[default]
    Block,
    /// The threads of a warp: it is uniform within a warp.
    Warp,
    /// A single thread: it is divergent.
    Thread,
}

/// A branch that not all threads of a block take.
#[derive(Clone, Copy, Debug)]
pub struct DivergentBranch {
    /// The block that ends with the branch.
    pub block: BlockId,
    /// The threads that take it together.
    pub variance: Variance,
    /// The point of reconvergence; `None` if some threads return.
    pub meets: Option<BlockId>,
}

/// The divergent values and branches of a function.
#[derive(Debug)]
pub struct Divergence {
    values: Vec<Variance>,
    /// The threads that execute each block together.
    control: Vec<Variance>,
    /// The divergent branches.
    pub divergent_branches: Vec<DivergentBranch>,
}

/// The limit of rounds: each value moves up the lattice at most twice, and nested loops
/// take a round each.
const ROUNDS: usize = 24;

impl Divergence {
    /// `None` for a function whose analysis takes too many steps.
    pub(crate) fn new(
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
        affine: &Affine,
        mnemonics: &[Mnemonic<'_>],
    ) -> Option<Divergence> {
        let blocks = graph.blocks.len();
        let mut solver = Solver {
            instructions,
            graph,
            values,
            affine,
            mnemonics,
            meets: graph.post_dominators()?,
            joins: vec![Variance::Block; blocks],
            loops: vec![Variance::Block; blocks],
            phis: values.phis(graph),
            visited: vec![0; blocks],
            epoch: 0,
            found: Divergence {
                values: vec![Variance::Block; values.definitions.len()],
                control: vec![Variance::Block; blocks],
                divergent_branches: Vec::new(),
            },
        };
        for _ in 0..ROUNDS {
            if !solver.round() {
                break;
            }
        }
        Some(solver.found)
    }

    /// The threads that share a value.
    pub fn of(&self, value: ValueId) -> Variance {
        self.values.get(value.index()).copied().unwrap_or_default()
    }

    /// The threads that execute a block together.
    pub fn control(&self, block: BlockId) -> Variance {
        self.control[block.index()]
    }
}

struct Solver<'c, 'm, 'a> {
    instructions: &'c Instructions<'m, 'a>,
    graph: &'c Graph,
    values: &'c Values,
    affine: &'c Affine,
    mnemonics: &'c [Mnemonic<'a>],
    meets: Vec<Option<BlockId>>,
    /// Joins of divergent paths.
    joins: Vec<Variance>,
    /// Loops with divergent exits.
    loops: Vec<Variance>,
    /// The phis, in reverse post-order.
    phis: Vec<(BlockId, ValueId)>,
    visited: Vec<u32>,
    epoch: u32,
    found: Divergence,
}

impl Solver<'_, '_, '_> {
    fn round(&mut self) -> bool {
        let mut changed = false;
        let phis = std::mem::take(&mut self.phis);
        let mut next = phis.iter().peekable();
        for block in &self.graph.order {
            while let Some((_, value)) = next.next_if(|(home, _)| home == block) {
                changed |= self.join(*value, *block);
            }
            for id in self.graph.blocks[block.index()].steps() {
                let (instructions, values) = (self.instructions, self.values);
                let step = &instructions.steps[id.index()];
                // Nothing goes up that is at the top, and what writes nothing
                // has no result.
                let mut written = values.writes(instructions, step);
                if written.all(|(_, value)| self.found.of(value) == Variance::Thread) {
                    continue;
                }
                let variance = self.result(id, *block);
                for (_, written) in values.writes(instructions, step) {
                    let variance = match values.prior(written) {
                        Some(prior) => variance.max(self.read(prior, *block)),
                        None => variance,
                    };
                    changed |= raise(&mut self.found.values[written.index()], variance);
                }
            }
            changed |= self.branch(*block);
        }
        self.phis = phis;
        changed
    }

    /// The variance of a phi.
    fn join(&mut self, value: ValueId, block: BlockId) -> bool {
        let parts = self.values.phi_operands(self.graph, value);
        let mut variance = parts.iter().map(|part| self.read(*part, block)).max();
        // Different numbers are different. Of other values nothing is shown:
        // both sides may well have loaded the same.
        let number = |part: &ValueId| self.affine.of(*part).as_number();
        let mut numbers = parts.iter().map(number);
        let first = numbers.next().flatten();
        let known = first.is_some() && parts.iter().all(|part| number(part).is_some());
        if known && numbers.any(|other| other != first) {
            variance = variance.max(Some(self.joins[block.index()]));
        }
        raise(
            &mut self.found.values[value.index()],
            variance.unwrap_or_default(),
        )
    }

    /// What a value is to who reads it in this block: threads that left a loop
    /// at different times bring different values of it along.
    fn read(&self, value: ValueId, block: BlockId) -> Variance {
        let known = self.found.of(value);
        let home = match self.values.definition(value) {
            Some(Definition::Written(id)) => self.graph.block_of(id),
            Some(Definition::Phi(home)) => home,
            _ => return known,
        };
        let of_loop = self.loops[home.index()];
        match self.loops[block.index()] < of_loop {
            true => known.max(of_loop),
            false => known,
        }
    }

    fn branch(&mut self, block: BlockId) -> bool {
        let Some(id) = self.graph.blocks[block.index()].steps().next_back() else {
            return false;
        };
        let step = &self.instructions.steps[id.index()];
        let splits = match step.terminator {
            Terminator::Jump | Terminator::Return => step.guarded,
            Terminator::IndirectJump => true,
            Terminator::FallThrough | Terminator::Trap => false,
        };
        if !splits {
            return false;
        }
        let reads = self.values.reads(self.instructions, step);
        let variance = reads.map(|(_, value)| self.read(value, block)).max();
        let variance = variance.unwrap_or_default();
        let known = self
            .found
            .divergent_branches
            .iter_mut()
            .find(|divergent| divergent.block == block);
        match known {
            _ if variance == Variance::Block => return false,
            Some(divergent) if divergent.variance >= variance => return false,
            Some(divergent) => divergent.variance = variance,
            None => self.found.divergent_branches.push(DivergentBranch {
                block,
                variance,
                meets: self.meets[block.index()],
            }),
        }
        let end = self.meets[block.index()];
        self.epoch += 1;
        let mut region = Vec::new();
        let mut open: Vec<BlockId> = self.graph.successors(block).collect();
        let mut comes_back = false;
        while let Some(at) = open.pop() {
            if Some(at) == end {
                continue;
            }
            comes_back |= at == block;
            if std::mem::replace(&mut self.visited[at.index()], self.epoch) != self.epoch {
                region.push(at);
                open.extend(self.graph.successors(at));
            }
        }
        for at in &region {
            raise(&mut self.found.control[at.index()], variance);
            raise(&mut self.joins[at.index()], variance);
            if comes_back {
                raise(&mut self.loops[at.index()], variance);
            }
        }
        if let Some(end) = end {
            raise(&mut self.joins[end.index()], variance);
        }
        true
    }

    /// The threads that share the result of an instruction.
    fn result(&self, id: InstructionId, block: BlockId) -> Variance {
        let instructions = self.instructions;
        let step = &instructions.steps[id.index()];
        let (Some(instruction), Some(mnemonic)) = (
            instructions.get(id),
            self.mnemonics.get(step.mnemonic as usize),
        ) else {
            return Variance::Block;
        };
        let reads = self.values.reads(instructions, step);
        let inputs = reads
            .map(|(_, value)| self.read(value, block))
            .chain(self.specials(instruction))
            .max()
            .unwrap_or_default();
        let has = |word| mnemonic.modifiers.has(word);
        match mnemonic.opcode {
            // A thread has its own of it, of which nothing is known.
            Opcode::Ld if has(Modifier::Local) => Variance::Block,
            Opcode::Atom | Opcode::Elect | Opcode::Ldmatrix | Opcode::Mma | Opcode::Wmma => {
                Variance::Thread
            }
            Opcode::Match if has(Modifier::Any) => Variance::Thread,
            Opcode::Vote | Opcode::Match | Opcode::Redux => inputs.min(Variance::Warp),
            Opcode::Activemask => Variance::Warp,
            Opcode::Bar | Opcode::Barrier => Variance::Block,
            Opcode::Shfl if has(Modifier::Idx) => match self.operand(instruction, 2, block) {
                Variance::Thread => inputs,
                _ => inputs.min(Variance::Warp),
            },
            Opcode::Call => Variance::Block,
            _ if inputs == Variance::Thread && self.is_of_warp(instruction, mnemonic, block) => {
                Variance::Warp
            }
            _ => inputs,
        }
    }

    fn specials(&self, instruction: &Instruction) -> impl Iterator<Item = Variance> {
        let operands = self.instructions.body.list(instruction.operands).iter();
        operands.filter_map(|operand| match operand {
            Operand::Special(register, _) => Some(of_special(*register)),
            _ => None,
        })
    }

    fn operand(&self, instruction: &Instruction, number: u32, block: BlockId) -> Variance {
        let place = (instruction.operands.start + number) as usize;
        match self.instructions.body.operands.get(place) {
            Some(Operand::Special(register, _)) => of_special(*register),
            Some(Operand::Name(_)) => self.read(self.values.of_operand(place), block),
            _ => Variance::Block,
        }
    }

    /// Whether a result is the same for a warp though its inputs are not:
    /// `%tid.x >> 5`, `%tid.x < 64`.
    fn is_of_warp(
        &self,
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
        block: BlockId,
    ) -> bool {
        const LANES: i64 = 32;
        let first = instruction.operands.start as usize;
        let linear = |number: usize| {
            if number >= instruction.operands.len as usize {
                return None;
            }
            self.affine
                .of_operand(self.instructions, self.values, first + number)
        };
        let number = |place: usize| linear(place)?.as_number();
        // Counts threads: the 32 of a warp have 32 numbers in a row, from a
        // multiple of 32 on. `%tid.y * %ntid.x + %tid.x` counts too.
        let counts = |place: usize| {
            let linear = linear(place)?;
            let x = linear.coefficient(Term::Special(SpecialRegister::TidX));
            let lanes = linear.coefficient(Term::Special(SpecialRegister::Laneid));
            let aligned = linear.constant % LANES == 0;
            (x == 1 && lanes == 0 && aligned).then_some(())
        };
        // Whether a mask of lanes is full, all of them see alike.
        let is_mask = |number: u32| {
            let value = self.values.of_operand(first + number as usize);
            let Some(Definition::Written(id)) = self.values.definition(value) else {
                return false;
            };
            let writer = self.instructions.get(id).map(|writer| writer.opcode);
            matches!(
                writer,
                Some(Opcode::Match | Opcode::Vote | Opcode::Activemask)
            )
        };
        let full = |number: Option<i64>| number.is_some_and(|number| number as u32 == u32::MAX);
        let same = |number: u32| self.operand(instruction, number, block) < Variance::Thread;
        let has = |word| mnemonic.modifiers.has(word);
        let shown = || {
            Some(match mnemonic.opcode {
                Opcode::Shr => number(2)? >= 5 && counts(1).is_some(),
                Opcode::Div => number(2)? % LANES == 0 && counts(1).is_some(),
                Opcode::And => number(2)? % LANES == 0 && counts(1).is_some(),
                Opcode::Setp if full(number(2)) && is_mask(1) => {
                    has(Modifier::Eq) || has(Modifier::Ne)
                }
                Opcode::Setp if instruction.operands.len == 3 => {
                    let (left, right) = (counts(1).is_some(), counts(2).is_some());
                    let bound = match (left, right) {
                        // Compared with a multiple of what is not known: who
                        // writes that means whole warps.
                        (true, false) => number(2).or(same(2).then_some(LANES))?,
                        (false, true) => number(1).or(same(1).then_some(LANES))?,
                        _ => return None,
                    };
                    let known = if left { number(2) } else { number(1) };
                    let below = has(Modifier::Lt)
                        || has(Modifier::Lo)
                        || has(Modifier::Ge)
                        || has(Modifier::Hs);
                    let through = has(Modifier::Le)
                        || has(Modifier::Ls)
                        || has(Modifier::Gt)
                        || has(Modifier::Hi);
                    let (below, through) = match left {
                        true => (below, through),
                        false => (through, below),
                    };
                    known.is_some()
                        && (below && bound % LANES == 0 || through && bound % LANES == LANES - 1)
                }
                _ => false,
            })
        };
        shown().unwrap_or(false)
    }
}

fn raise(known: &mut Variance, to: Variance) -> bool {
    let higher = to > *known;
    if higher {
        *known = to;
    }
    higher
}

/// The threads that share the value of a special register.
fn of_special(register: SpecialRegister) -> Variance {
    match register {
        SpecialRegister::Tid
        | SpecialRegister::TidX
        | SpecialRegister::TidY
        | SpecialRegister::TidZ
        | SpecialRegister::Laneid
        | SpecialRegister::LanemaskEq
        | SpecialRegister::LanemaskLe
        | SpecialRegister::LanemaskLt
        | SpecialRegister::LanemaskGe
        | SpecialRegister::LanemaskGt => Variance::Thread,
        SpecialRegister::Warpid
        | SpecialRegister::Clock
        | SpecialRegister::ClockHi
        | SpecialRegister::Clock64
        | SpecialRegister::Globaltimer
        | SpecialRegister::GlobaltimerLo
        | SpecialRegister::GlobaltimerHi => Variance::Warp,
        _ => Variance::Block,
    }
}
