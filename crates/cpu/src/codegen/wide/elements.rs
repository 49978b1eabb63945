//! Loops over elements: each iteration loads a vector of consecutive elements of some arrays, computes
//! with them, and stores vectors of results past the caches.
//!
//! What is larger than the caches leaves them before it is read again. A store that goes through them
//! first reads the line that it overwrites.

use std::collections::HashMap;

use super::assembly::{LANES, function};
use super::body::{Body, Definition, Id, Load, Pointer, Store, arithmetic};
use crate::program::{Arg, Instruction, Program, Reg};

/// A function that runs such a loop, of which an iteration has [`LANES`](Self::LANES) elements.
pub(in crate::codegen) struct ElementsLoop {
    pub code: Vec<u8>,
    /// What its table of addresses has, entry by entry.
    pub table: Vec<Pointed>,
}

impl ElementsLoop {
    pub const LANES: u32 = LANES;
}

/// What an address points to.
#[derive(Clone, Copy)]
pub(in crate::codegen) enum Pointed {
    /// The first element of an access, by its number.
    Elements(usize),
    /// The value of a register that all lanes share.
    Value(Reg),
}

/// What an iteration does so far.
pub(in crate::codegen) struct Elements<'e> {
    program: &'e Program<'e>,
    body: Body,
    table: Vec<Pointed>,
    accesses: usize,
    /// What registers have.
    current: HashMap<Reg, Id>,
}

impl<'e> Elements<'e> {
    pub fn new(program: &'e Program<'e>) -> Elements<'e> {
        Elements {
            program,
            body: Body::default(),
            table: Vec::new(),
            accesses: 0,
            current: HashMap::new(),
        }
    }

    /// Adds an access, of which the first loads. `None` if it loads what may have been stored.
    pub fn access(&mut self, reg: Reg, loads: bool) -> Option<()> {
        if loads && !self.body.stores.is_empty() {
            return None;
        }
        let step = i64::from(4 * LANES);
        let pointer = self.pointer(Pointed::Elements(self.accesses), (reg, step));
        self.accesses += 1;
        match loads {
            true => {
                let value = self.load(pointer, false);
                self.current.insert(reg, value);
            }
            false => {
                let value = self.operand(reg);
                self.body.stores.push(Store { pointer, value });
            }
        }
        Some(())
    }

    /// Adds an instruction, if it is arithmetic of `f32`.
    pub fn compute(&mut self, i: &Instruction) -> Option<()> {
        let (operation, sources) = arithmetic(self.program, i)?;
        let &[Arg::Reg(to), ..] = self.program.list(i.args) else {
            return None;
        };
        let mut operands = [None; 3];
        for (operand, source) in operands.iter_mut().zip(sources) {
            *operand = match source {
                Some(Arg::Reg(reg)) if self.program.registers[reg.index()].bytes() == 4 => {
                    Some(self.operand(reg))
                }
                Some(_) => return None,
                None => None,
            };
        }
        let definition = Definition::Arithmetic(operation, operands);
        let value = self.body.value(definition, false);
        self.current.insert(to, value);
        Some(())
    }

    /// The function, if there are enough registers.
    pub fn compile(self) -> Option<ElementsLoop> {
        let pointers: Vec<_> = (0..self.body.pointers.len()).map(|n| (n, 0)).collect();
        let code = function(&self.body, (1, LANES, LANES), &pointers)?;
        Some(ElementsLoop {
            code,
            table: self.table,
        })
    }

    /// The value of a register: what no lane has computed, all share.
    fn operand(&mut self, reg: Reg) -> Id {
        if let Some(&known) = self.current.get(&reg) {
            return known;
        }
        let pointer = self.pointer(Pointed::Value(reg), (reg, 0));
        let value = self.load(pointer, true);
        self.current.insert(reg, value);
        value
    }

    fn pointer(&mut self, to: Pointed, (base, step): (Reg, i64)) -> usize {
        self.table.push(to);
        self.body.pointers.push(Pointer {
            base,
            step,
            is_own: false,
        });
        self.body.pointers.len() - 1
    }

    fn load(&mut self, pointer: usize, is_broadcast: bool) -> Id {
        let load = Load {
            pointer,
            offset: 0,
            is_broadcast,
        };
        self.body.value(Definition::Load(load), false)
    }
}
