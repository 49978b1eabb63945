//! What an iteration of a loop computes, as values without names.

use std::collections::HashMap;

use super::encoder::Arithmetic;
use crate::codegen::counted_loop::{CountedLoop, LoopAccess};
use crate::program::{Arg, Instruction, Liveness, Program, Reg, RegisterSet, Step};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The number of a value.
pub(super) type Id = usize;

#[derive(Clone, Copy)]
pub(super) struct Value {
    pub definition: Definition,
    /// Each group has its own.
    pub is_own: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Definition {
    /// What a register has when the iteration starts.
    Carried,
    Load(Load),
    /// Of three operands the last is added.
    Arithmetic(Arithmetic, [Option<Id>; 3]),
}

/// A load from an address that moves on from iteration to iteration.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// By its number.
    pub pointer: usize,
    pub offset: i64,
    /// All lanes have one address. Otherwise theirs are consecutive.
    pub is_broadcast: bool,
}

/// A register with the address of loads.
pub(super) struct Pointer {
    pub base: Reg,
    pub step: i64,
    pub is_own: bool,
}

/// A register that is read before an iteration writes it.
pub(super) struct Carried {
    pub reg: Reg,
    /// What it has when an iteration starts and ends.
    pub first: Id,
    pub last: Id,
}

/// A store past the caches, to an address that moves on from iteration to iteration: consecutive
/// ones of the lanes.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub pointer: usize,
    pub value: Id,
}

#[derive(Default)]
pub(in crate::codegen) struct Body {
    pub(super) values: Vec<Value>,
    pub(super) pointers: Vec<Pointer>,
    pub(super) carried: Vec<Carried>,
    /// At the end of an iteration.
    pub(super) stores: Vec<Store>,
}

impl Body {
    /// The registers that are read before an iteration writes them.
    pub fn carried_registers(&self) -> impl Iterator<Item = Reg> + '_ {
        self.carried.iter().map(|carried| carried.reg)
    }

    pub(super) fn value(&mut self, definition: Definition, is_own: bool) -> Id {
        self.values.push(Value { definition, is_own });
        self.values.len() - 1
    }
}

/// Arithmetic of `f32`, and its operands.
pub(super) fn arithmetic(
    program: &Program<'_>,
    i: &Instruction,
) -> Option<(Arithmetic, [Option<Arg>; 3])> {
    let m = &i.modifiers;
    let others = [M::Ftz, M::Sat, M::Rz, M::Rm, M::Rp];
    if i.guard.is_some() || !m.types().eq([Type::F32]) || m.first_of(&others).is_some() {
        return None;
    }
    let (operation, sources) = match (i.opcode, program.list(i.args)) {
        (O::Add, &[_, a, b]) => (Arithmetic::Add, [Some(a), Some(b), None]),
        (O::Sub, &[_, a, b]) => (Arithmetic::Sub, [Some(a), Some(b), None]),
        (O::Mul, &[_, a, b]) => (Arithmetic::Mul, [Some(a), Some(b), None]),
        (O::Fma | O::Mad, &[_, a, b, c]) => (Arithmetic::MultiplyAdd, [Some(a), Some(b), Some(c)]),
        _ => return None,
    };
    Some((operation, sources))
}

/// A loop, and what is known of the registers of the groups that run it.
pub(in crate::codegen) struct Source<'s> {
    pub program: &'s Program<'s>,
    pub counted: &'s CountedLoop,
    /// Its steps, without those that have no effect.
    pub steps: &'s [&'s Step],
    pub own: &'s RegisterSet,
    pub liveness: &'s Liveness,
    /// Whether the lanes have different values in a register.
    pub is_divergent: &'s dyn Fn(Reg) -> bool,
}

/// The values of an iteration, if it has nothing but loads and arithmetic of `f32`.
pub(in crate::codegen) fn read(source: &Source<'_>) -> Option<Body> {
    let mut reader = Reader {
        source,
        body: Body::default(),
        current: HashMap::new(),
    };
    let mut written = Vec::new();
    for step in source.steps {
        let Step::Instruction(i) = step else {
            return None;
        };
        reader.instruction(i)?;
        let program = source.program;
        program.step_effects(step, &mut |_| {}, &mut |reg| written.push(reg));
    }
    let liveness = source.liveness;
    let is_live = |block, reg: &Reg| liveness.live_in(block).binary_search(reg).is_ok();
    for reg in written {
        let is_carried = reader.body.carried.iter().any(|carried| carried.reg == reg);
        let stays = is_live(source.counted.exit, &reg) || is_live(source.counted.blocks[0], &reg);
        if stays && !is_carried {
            return None;
        }
    }
    let Reader {
        mut body, current, ..
    } = reader;
    for carried in &mut body.carried {
        carried.last = *current.get(&carried.reg)?;
        let is_other = carried.last != carried.first
            && matches!(body.values[carried.last].definition, Definition::Carried);
        if is_other {
            return None;
        }
    }
    Some(body)
}

struct Reader<'s> {
    source: &'s Source<'s>,
    body: Body,
    /// What registers have.
    current: HashMap<Reg, Id>,
}

impl Reader<'_> {
    fn instruction(&mut self, i: &Instruction) -> Option<()> {
        let args = self.source.program.list(i.args);
        if i.guard.is_some() {
            return None;
        }
        let mut accesses = self.source.counted.accesses.iter();
        if let Some(access) = accesses.find(|known| known.access.operands == i.args.start) {
            return self.load(i, access);
        }
        let (operation, sources) = arithmetic(self.source.program, i)?;
        let mut operands = [None; 3];
        for (operand, source) in operands.iter_mut().zip(sources) {
            if let Some(source) = source {
                *operand = Some(self.operand(source)?);
            }
        }
        let is_own = operands
            .iter()
            .flatten()
            .any(|&id| self.body.values[id].is_own);
        self.define(args[0], Definition::Arithmetic(operation, operands), is_own)
    }

    fn load(&mut self, i: &Instruction, access: &LoopAccess) -> Option<()> {
        let args = self.source.program.list(i.args);
        if i.opcode != O::Ld || i.modifiers.types().next()?.bytes() != 4 {
            return None;
        }
        let pointer = self.pointer(access);
        let is_own = self.body.pointers[pointer].is_own;
        let parts = match args.first()? {
            Arg::List(list) => self.source.program.list(*list),
            one => std::slice::from_ref(one),
        };
        for (number, &to) in (0..).zip(parts) {
            let is_broadcast = match to {
                Arg::Reg(reg) => !(self.source.is_divergent)(reg),
                Arg::Sink => continue,
                _ => return None,
            };
            // Those of other lanes lie in between.
            if !is_broadcast && parts.len() > 1 {
                return None;
            }
            let load = Load {
                pointer,
                offset: access.distance + 4 * number,
                is_broadcast,
            };
            self.define(to, Definition::Load(load), is_own)?;
        }
        Some(())
    }

    fn pointer(&mut self, access: &LoopAccess) -> usize {
        let base = access.access.base;
        let pointers = &mut self.body.pointers;
        if let Some(known) = pointers.iter().position(|pointer| pointer.base == base) {
            return known;
        }
        pointers.push(Pointer {
            base,
            step: access.step,
            is_own: self.source.own.contains(base),
        });
        pointers.len() - 1
    }

    fn operand(&mut self, arg: Arg) -> Option<Id> {
        let Arg::Reg(reg) = arg else {
            return None;
        };
        if let Some(&known) = self.current.get(&reg) {
            return Some(known);
        }
        if !(self.source.is_divergent)(reg) || !self.has_words(reg) {
            return None;
        }
        let first = self.body.value(Definition::Carried, true);
        self.current.insert(reg, first);
        let last = first;
        self.body.carried.push(Carried { reg, first, last });
        Some(first)
    }

    fn define(&mut self, to: Arg, definition: Definition, is_own: bool) -> Option<()> {
        let Arg::Reg(reg) = to else {
            return None;
        };
        if !self.has_words(reg) {
            return None;
        }
        let id = self.body.value(definition, is_own);
        self.current.insert(reg, id);
        Some(())
    }

    fn has_words(&self, reg: Reg) -> bool {
        self.source.program.registers[reg.index()].bytes() == 4
    }
}
