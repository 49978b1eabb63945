//! The order in which the copies of an iteration for several groups compute its values, and the
//! registers that have them.

use std::collections::HashMap;

use super::body::{Body, Definition, Id, Load, Store};
use super::encoder::{Arithmetic, Ymm};

/// A vector of a value: that of a group, in a part of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    value: Id,
    group: usize,
    part: usize,
}

/// An operation on registers.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Load {
        to: Ymm,
        load: Load,
        group: usize,
        part: usize,
    },
    Store {
        from: Ymm,
        store: Store,
        part: usize,
    },
    Copy {
        to: Ymm,
        from: Ymm,
    },
    /// `to` has the last operand of [`Arithmetic::MultiplyAdd`].
    Arithmetic {
        operation: Arithmetic,
        to: Ymm,
        operands: [Ymm; 2],
    },
}

/// A vector of a register that is carried from iteration to iteration.
#[derive(Clone, Copy)]
pub(super) struct CarriedVector {
    pub carried: usize,
    pub group: usize,
    pub part: usize,
    pub at: Ymm,
    pub is_written: bool,
}

pub(super) struct Schedule {
    pub carried: Vec<CarriedVector>,
    pub operations: Vec<Operation>,
}

/// The operations of an iteration for so many groups, of so many vectors each, if the registers
/// suffice.
pub(super) fn schedule(body: &Body, groups: usize, parts: usize) -> Option<Schedule> {
    let mut order = Order {
        body,
        groups,
        parts,
        names: Vec::new(),
        known: HashMap::new(),
    };
    order.all();
    let names = order.names;
    let mut carried = Vec::new();
    let mut numbers = 0..Ymm::COUNT;
    for (number, register) in body.carried.iter().enumerate() {
        for group in 0..groups {
            for part in 0..parts {
                carried.push(CarriedVector {
                    carried: number,
                    group,
                    part,
                    at: Ymm(numbers.next()?),
                    is_written: register.first != register.last,
                });
            }
        }
    }
    let mut registers = Registers {
        body,
        free: numbers.rev().map(Ymm).collect(),
        pinned: carried.iter().map(|vector| vector.at).collect(),
        last_use: HashMap::new(),
        at: HashMap::new(),
        operations: Vec::new(),
    };
    for vector in &carried {
        let CarriedVector { group, part, .. } = *vector;
        let of = |value| name(body, value, group, part);
        let register = &body.carried[vector.carried];
        registers.at.insert(of(register.first), vector.at);
        // It is there when the iteration ends.
        registers.last_use.insert(of(register.last), usize::MAX);
    }
    let stores = body.stores.iter();
    let stores = stores.flat_map(|store| (0..parts).map(move |part| (*store, part)));
    for (store, part) in stores.clone() {
        let name = name(body, store.value, 0, part);
        registers.last_use.insert(name, usize::MAX);
    }
    registers.assign(&names)?;
    for (store, part) in stores {
        let from = *registers.at.get(&name(body, store.value, 0, part))?;
        registers
            .operations
            .push(Operation::Store { from, store, part });
    }
    registers.carry(&carried)?;
    Some(Schedule {
        carried,
        operations: registers.operations,
    })
}

fn name(body: &Body, value: Id, group: usize, part: usize) -> Name {
    let is_broadcast = match body.values[value].definition {
        Definition::Load(load) => load.is_broadcast,
        _ => false,
    };
    Name {
        value,
        group: if body.values[value].is_own { group } else { 0 },
        part: if is_broadcast { 0 } else { part },
    }
}

fn operands(body: &Body, name: Name) -> impl Iterator<Item = Name> + '_ {
    let operands = match body.values[name.value].definition {
        Definition::Arithmetic(_, operands) => operands,
        _ => [None; 3],
    };
    let operands = operands.into_iter().flatten();
    operands.map(move |value| self::name(body, value, name.group, name.part))
}

/// The order of the vectors.
struct Order<'b> {
    body: &'b Body,
    groups: usize,
    parts: usize,
    names: Vec<Name>,
    known: HashMap<Name, ()>,
}

impl Order<'_> {
    /// The groups take turns, so that what they compute need not wait for itself. Values that are
    /// used soon after are computed together, so that they need few registers.
    fn all(&mut self) {
        let computed: Vec<Id> = (0..self.body.values.len())
            .filter(|&id| matches!(self.body.values[id].definition, Definition::Arithmetic(..)))
            .collect();
        let mut turn: Vec<Id> = Vec::new();
        for (at, &id) in computed.iter().enumerate() {
            turn.push(id);
            let next = computed.get(at + 1);
            let is_own = |id: Id| self.body.values[id].is_own;
            let ends = match next {
                Some(&next) => is_own(id) != is_own(next) || !self.is_used_behind(&turn),
                None => true,
            };
            if ends {
                self.turns(&std::mem::take(&mut turn));
            }
        }
        for carried in &self.body.carried {
            for group in 0..self.groups {
                for part in 0..self.parts {
                    self.ask(name(self.body, carried.last, group, part));
                }
            }
        }
        for store in &self.body.stores {
            for part in 0..self.parts {
                self.ask(name(self.body, store.value, 0, part));
            }
        }
    }

    /// Whether later operations need these values, apart from those that carried registers get.
    fn is_used_behind(&self, values: &[Id]) -> bool {
        let last = *values.last().unwrap_or(&0);
        let behind = self.body.values.iter().skip(last + 1);
        let mut used = behind.filter_map(|value| match value.definition {
            Definition::Arithmetic(_, operands) => Some(operands),
            _ => None,
        });
        // The sum so far stays where it is.
        let is_kept = |id: &Id| values.contains(id) && !self.is_sum(*id);
        used.any(|operands| operands.iter().flatten().any(is_kept))
    }

    /// Whether a value takes the place of one that is carried.
    fn is_sum(&self, id: Id) -> bool {
        match self.body.values[id].definition {
            Definition::Carried => true,
            Definition::Load(_) => false,
            Definition::Arithmetic(Arithmetic::MultiplyAdd, [.., sum]) => {
                sum.is_some_and(|sum| self.is_sum(sum))
            }
            Definition::Arithmetic(_, operands) => {
                operands.iter().flatten().any(|&id| self.is_sum(id))
            }
        }
    }

    fn turns(&mut self, values: &[Id]) {
        for group in 0..self.groups {
            for part in 0..self.parts {
                for &value in values {
                    self.ask(name(self.body, value, group, part));
                }
            }
        }
    }

    /// Has a vector computed here, if it is not yet: what it is computed from was before, or is
    /// loaded here.
    fn ask(&mut self, name: Name) {
        let is_carried = matches!(self.body.values[name.value].definition, Definition::Carried);
        if is_carried || self.known.insert(name, ()).is_some() {
            return;
        }
        for operand in operands(self.body, name) {
            self.ask(operand);
        }
        self.names.push(name);
    }
}

struct Registers<'b> {
    body: &'b Body,
    free: Vec<Ymm>,
    /// Those of carried registers, in which nothing else is put.
    pinned: Vec<Ymm>,
    /// The last operation that uses a vector.
    last_use: HashMap<Name, usize>,
    at: HashMap<Name, Ymm>,
    operations: Vec<Operation>,
}

impl Registers<'_> {
    fn assign(&mut self, names: &[Name]) -> Option<()> {
        for (at, &name) in names.iter().enumerate() {
            for operand in operands(self.body, name) {
                let last = self.last_use.entry(operand).or_insert(at);
                *last = (*last).max(at);
            }
        }
        for (at, &name) in names.iter().enumerate() {
            match self.body.values[name.value].definition {
                Definition::Carried => {}
                Definition::Load(load) => {
                    let to = self.free.pop()?;
                    self.operations.push(Operation::Load {
                        to,
                        load,
                        group: name.group,
                        part: name.part,
                    });
                    self.at.insert(name, to);
                }
                Definition::Arithmetic(operation, _) => self.compute(at, name, operation)?,
            }
        }
        Some(())
    }

    fn compute(&mut self, at: usize, name: Name, operation: Arithmetic) -> Option<()> {
        let operands: Vec<Name> = operands(self.body, name).collect();
        let places: Option<Vec<Ymm>> = operands.iter().map(|o| self.at.get(o).copied()).collect();
        let places = places?;
        let ends = |operand: &Name| self.last_use.get(operand) == Some(&at);
        let (factors, rest) = places.split_at_checked(2)?;
        let (&[a, b], sum) = (factors.first_chunk()?, rest.first().copied());
        // It may take the place of an operand that is used for the last time.
        let reused = match sum {
            Some(sum) => ends(&operands[2]).then_some(sum),
            None => {
                let mut ending = operands.iter().zip(&places).filter(|(o, _)| ends(o));
                let ending: Vec<Ymm> = ending.by_ref().map(|(_, &place)| place).collect();
                let pinned = ending.iter().find(|place| self.pinned.contains(place));
                pinned.or(ending.first()).copied()
            }
        };
        let to = match reused {
            Some(place) => place,
            None => self.free.pop()?,
        };
        if let Some(from) = sum.filter(|&sum| sum != to) {
            self.operations.push(Operation::Copy { to, from });
        }
        self.operations.push(Operation::Arithmetic {
            operation,
            to,
            operands: [a, b],
        });
        for (operand, place) in operands.iter().zip(&places) {
            // One that is used twice is there once.
            if self.last_use.get(operand) == Some(&at)
                && self.at.remove(operand).is_some()
                && *place != to
                && !self.pinned.contains(place)
            {
                self.free.push(*place);
            }
        }
        self.at.insert(name, to);
        Some(())
    }

    /// Has carried registers' vectors where the next iteration expects them.
    fn carry(&mut self, carried: &[CarriedVector]) -> Option<()> {
        for vector in carried.iter().filter(|vector| vector.is_written) {
            let value = self.body.carried[vector.carried].last;
            let from = *self
                .at
                .get(&name(self.body, value, vector.group, vector.part))?;
            if from == vector.at {
                continue;
            }
            // It would have to be moved before that one is.
            if self.pinned.contains(&from) {
                return None;
            }
            let to = vector.at;
            self.operations.push(Operation::Copy { to, from });
        }
        Some(())
    }
}
