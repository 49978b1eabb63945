//! Random kernels. They have no undefined behaviour and no race, and their results do not
//! depend on the order in which threads run:
//!
//! - A thread writes its own part of the output and of shared memory. Other threads read shared
//!   memory between two barriers.
//! - Barriers are where all threads of a block arrive. Warp operations have the mask of the lanes
//!   that arrive.
//! - Memory that several threads update, they update by atomics that commute.

use crate::kernel::{
    Class, Count, Function, Initial, Kernel, Op, Operand, Register, Stmt, Uniform,
};
use crate::random::Random;
use crate::template::{self, TEMPLATES, Template, guard};

/// What a generated kernel may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// NaN results keep their bits.
    pub nan_bits: bool,
}

/// The kernel of a seed.
pub fn generate(seed: u64, options: Options) -> Kernel {
    kernel(seed, &mut Random::new(seed), options)
}

/// The kernel that bytes choose.
pub fn generate_of_bytes(bytes: &[u8]) -> Kernel {
    kernel(0, &mut Random::of_bytes(bytes), Options::default())
}

fn kernel(seed: u64, random: &mut Random, options: Options) -> Kernel {
    let block = *random.pick(&[
        [1, 1],
        [31, 1],
        [32, 1],
        [32, 1],
        [33, 1],
        [96, 1],
        [5, 7],
        [256, 1],
    ]);
    let mut kernel = Kernel {
        seed,
        functions: Vec::new(),
        body: Vec::new(),
        initial: initial(random),
        grid: random.between(1, 3) as u32,
        block,
        parameters: [(); 4].map(|()| random.below(4) as u32),
        nan_bits: options.nan_bits,
    };
    // Grids whose blocks run on several workers, some of them after the kernel is hot.
    if random.chance(3) {
        kernel.grid = 200;
    }
    let small = random.chance(50);
    // Moves, loads and synchronization.
    let sparse = small && random.chance(60);
    // Many are for the reference interpreter.
    let reference = sparse || random.chance(33);
    let mut generator = Generator {
        weights: weights(random, reference, small, sparse),
        reference,
        full_warps: kernel.has_full_warps(),
        small,
        functions: Vec::new(),
    };
    if !reference && random.chance(35) {
        for _ in 0..random.between(1, 2) {
            let recursive = random.chance(35);
            let warp = !recursive && random.chance(50);
            let flow = Flow {
                warp,
                block: false,
                full: false,
                may_return: !warp,
                depth: 2,
            };
            let mut budget = random.between(3, 15);
            let body = generator.list(random, flow, &mut budget);
            kernel.functions.push(Function {
                body,
                recursive,
                warp,
            });
            generator.functions.push(flow.warp);
        }
    }
    let flow = Flow {
        warp: true,
        block: true,
        full: kernel.has_full_warps(),
        may_return: false,
        depth: 0,
    };
    // Small kernels show what larger ones hide: a register that is not written again.
    let mut budget = if small {
        random.between(4, 16)
    } else {
        random.between(12, 90)
    };
    while budget > 0 {
        kernel
            .body
            .extend(generator.list(random, flow, &mut budget));
    }
    kernel
}

fn initial(random: &mut Random) -> Vec<(Register, Initial)> {
    let registers = Class::ALL
        .iter()
        .flat_map(|&class| (0..class.count()).map(move |number| Register { class, number }));
    registers
        .map(|register| {
            let bits = match register.class {
                Class::Double => 64,
                Class::Half => 16,
                Class::Word | Class::Predicate => 32,
            };
            let initial = match random.below(5) {
                0 => Initial::Constant(template::integer(random, bits)),
                1 | 2 => Initial::Thread(
                    random.bits() as u32 & 0xFF,
                    template::integer(random, 16) as u32,
                ),
                _ => Initial::Input((random.below(200) * 8) as u32),
            };
            (register, initial)
        })
        .collect()
}

/// The weights of the templates: each kernel has some groups, so that their instructions meet.
fn weights(random: &mut Random, reference: bool, small: bool, sparse: bool) -> Vec<u32> {
    let mut weights = Vec::new();
    let mut group = ("", 0);
    for template in TEMPLATES.iter() {
        if template.group != group.0 {
            // Registers that are not written again show what a small kernel lost.
            let always = matches!(template.group, "move" | "predicate")
                || (template.group == "integer" && !small);
            let waits = matches!(template.group, "barrier" | "warp");
            let simple = matches!(template.group, "move" | "memory" | "barrier" | "warp");
            let factor = match (always || random.chance(50)) && (simple || !sparse) {
                true if small && waits => 4,
                true => random.between(1, 4) as u32,
                false => 0,
            };
            group = (template.group, factor);
        }
        weights.push(if reference && !template.needs.reference {
            0
        } else {
            template.weight * group.1
        });
    }
    weights
}

/// What the statements at a place may contain.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The mask of the lanes that arrive is known.
    warp: bool,
    /// All threads of the block arrive.
    block: bool,
    /// The mask is that of 32 lanes.
    full: bool,
    /// In a device function without warp operations.
    may_return: bool,
    depth: usize,
}

struct Generator {
    weights: Vec<u32>,
    reference: bool,
    full_warps: bool,
    small: bool,
    /// Whether each function executes warp operations.
    functions: Vec<bool>,
}

/// Sets a predicate to a bit of a register or of the number of the thread.
fn condition(random: &mut Random, predicate: usize) -> Op {
    let register = |class, number| Operand::Register(Register { class, number });
    let of = if random.chance(50) { "%me" } else { "$1" };
    Op {
        text: vec![
            format!("and.b32 %sr0, {of}, $2"),
            format!("setp.{}.u32 $0, %sr0, 0", random.pick(&["eq", "ne"])),
        ],
        operands: vec![
            register(Class::Predicate, predicate),
            register(Class::Word, random.below(Class::Word.count())),
            Operand::Integer(1 << random.below(5)),
        ],
        floats: Vec::new(),
        guard: None,
    }
}

/// A barrier of the block.
fn barrier() -> Op {
    Op {
        text: vec!["bar.sync 0".to_owned()],
        operands: Vec::new(),
        floats: Vec::new(),
        guard: None,
    }
}

impl Generator {
    fn list(&mut self, random: &mut Random, flow: Flow, budget: &mut usize) -> Vec<Stmt> {
        let mut statements = Vec::new();
        let mut left = random.between(1, if self.small && !flow.block { 2 } else { 8 });
        while left > 0 && *budget > 0 {
            (left, *budget) = (left - 1, *budget - 1);
            if self.small && flow.block && flow.depth < 2 && random.chance(30) {
                statements.extend(self.partial_write(random, flow));
                continue;
            }
            let statement = self.statement(random, flow, budget);
            // A predicate that does not live across a barrier is compiled otherwise.
            let guard = match &statement {
                Stmt::If { condition, .. } => Some(*condition),
                Stmt::Irreducible { entry, .. } => Some(*entry),
                Stmt::Op(op) => op.guard,
                _ => None,
            };
            if let Some(guard) = guard.filter(|_| random.chance(if self.small { 75 } else { 30 })) {
                statements.push(Stmt::Op(condition(random, guard.predicate)));
            }
            statements.push(statement);
        }
        statements
    }

    /// A register that only some lanes write, between two barriers, and more barriers behind.
    fn partial_write(&mut self, random: &mut Random, flow: Flow) -> Vec<Stmt> {
        let guard = guard(random);
        let divergent = Flow {
            warp: false,
            block: false,
            full: false,
            ..flow
        };
        let write = self.op(random, divergent);
        let write = match write {
            Stmt::Op(op) if op.guard.is_none() && random.chance(25) => Stmt::Op(Op {
                guard: Some(guard),
                ..op
            }),
            write => Stmt::If {
                condition: guard,
                masked: false,
                then: vec![write],
                otherwise: Vec::new(),
            },
        };
        let barrier = || Stmt::Op(barrier());
        let mut statements = vec![
            barrier(),
            Stmt::Op(condition(random, guard.predicate)),
            write,
            barrier(),
        ];
        let count = Count::Constant(random.between(1, 2) as u32);
        let parameter = random.below(4);
        match random.below(5) {
            0 => statements = vec![Stmt::Loop(count, statements)],
            1 => statements = vec![Stmt::Loop(Count::Parameter(parameter), statements)],
            2 => statements.push(Stmt::Loop(count, vec![barrier()])),
            3 => {
                let condition = Uniform::Parameter(parameter, random.below(4) as u32);
                statements.insert(3, Stmt::UniformIf(condition, vec![barrier()]));
            }
            _ => {}
        }
        statements
    }

    fn statement(&mut self, random: &mut Random, flow: Flow, budget: &mut usize) -> Stmt {
        // In small kernels a barrier or a nested statement is as likely as an instruction: values
        // that only some lanes write live from one barrier to the next.
        let kinds = if self.small { 50 } else { 100 };
        let nested = random.below(kinds);
        if flow.depth >= 3 || nested >= 26 {
            return if self.small && flow.block && nested >= 36 {
                Stmt::Op(barrier())
            } else {
                self.op(random, flow)
            };
        }
        let masked = flow.warp && random.chance(if self.small { 30 } else { 60 });
        let inner = Flow {
            depth: flow.depth + 1,
            ..flow
        };
        let divergent = Flow {
            warp: masked,
            block: false,
            full: false,
            ..inner
        };
        match nested {
            0..4 if flow.block => {
                let condition = match random.below(3) {
                    0 if !self.reference => Uniform::AnyOfBlock(random.below(4)),
                    _ => Uniform::Parameter(random.below(4), random.below(4) as u32),
                };
                Stmt::UniformIf(condition, self.list(random, inner, budget))
            }
            4..9 if flow.block => {
                let count = if random.chance(50) {
                    Count::Constant(random.between(1, 4) as u32)
                } else {
                    Count::Parameter(random.below(4))
                };
                Stmt::Loop(count, self.list(random, inner, budget))
            }
            9..13 => {
                let count = Count::Register {
                    register: random.below(8),
                    masked,
                };
                Stmt::Loop(count, self.list(random, divergent, budget))
            }
            13..15 if !self.reference => {
                let arms = random.between(2, 4);
                Stmt::Switch {
                    selector: random.below(8),
                    masked,
                    arms: (0..arms)
                        .map(|_| self.list(random, divergent, budget))
                        .collect(),
                }
            }
            15..17 if !self.reference => {
                let flow = Flow {
                    warp: false,
                    ..divergent
                };
                Stmt::Irreducible {
                    entry: guard(random),
                    count: random.below(8),
                    first: self.list(random, flow, budget),
                    second: self.list(random, flow, budget),
                }
            }
            17..20 if !self.functions.is_empty() => {
                let function = random.below(self.functions.len());
                if flow.warp || !self.functions[function] {
                    Stmt::Call {
                        function,
                        arguments: [random.below(8), random.below(4), random.below(5)],
                        results: [random.below(8), random.below(5)],
                        depth: random.below(8),
                    }
                } else {
                    self.op(random, flow)
                }
            }
            20 if flow.may_return => Stmt::Return(guard(random)),
            _ => Stmt::If {
                condition: guard(random),
                masked,
                then: self.list(random, divergent, budget),
                otherwise: if random.chance(40) {
                    self.list(random, divergent, budget)
                } else {
                    Vec::new()
                },
            },
        }
    }

    fn op(&mut self, random: &mut Random, flow: Flow) -> Stmt {
        let fits = |template: &Template| {
            let needs = template.needs;
            (!needs.warp || flow.warp)
                && (!needs.full || (flow.full && self.full_warps))
                && (!needs.block || flow.block)
        };
        let weights = TEMPLATES.iter().zip(&self.weights);
        let weights: Vec<u32> = weights
            .map(|(template, &weight)| if fits(template) { weight } else { 0 })
            .collect();
        Stmt::Op(TEMPLATES[random.weighted(&weights)].instantiate(random))
    }
}

#[cfg(test)]
mod tests {
    use ptxkit::ptx;

    use super::*;
    use crate::reduce::is_valid;

    #[test]
    fn kernels_are_correct_ptx() {
        for seed in 0..300 {
            for nan_bits in [false, true] {
                let kernel = generate(seed, Options { nan_bits });
                let text = kernel.ptx();
                let module = ptx::read(&text).module;
                assert_eq!(ptx::check(&module, &text), [], "seed {seed}");
                assert!(is_valid(&kernel), "seed {seed}");
            }
        }
    }

    #[test]
    fn bytes_and_seeds_choose_kernels() {
        let text = |seed| generate(seed, Options::default()).ptx();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        let of = |bytes: &[u8]| generate_of_bytes(bytes).ptx();
        assert_ne!(of(&[1; 200]), of(&[2; 200]));
    }
}
