//! Counted loops that several lane groups run together, in vectors of 256 bits.
//!
//! Cranelift has vectors of 128 bits on x86-64. A loop that multiplies and adds what it loads from
//! shared memory, as those of matrix products do, takes half the instructions with vectors of twice
//! the size, and needs little of a compiler. It becomes a function of its own, which the vector
//! function calls.

mod body;
mod encoder;
mod schedule;

use crate::program::Reg;
use body::{Body, Pointer};
pub(super) use body::{Source, read};
use encoder::{Condition, Encoder, Gpr};
use schedule::{Operation, Schedule, schedule};

/// Bytes of a vector.
const VECTOR: i32 = 32;
/// `f32` in a vector.
const LANES: u32 = 8;

/// The most operations of the iterations that follow one another.
const MAX_UNROLLED: usize = 256;

/// The loop's first argument: the address of [`WideLoop::table`]. The second one is the number of
/// iterations, at least 1.
const TABLE: Gpr = Gpr::RDI;
const LEFT: Gpr = Gpr::RSI;
/// A register for addresses in front of the loop and behind it.
const ADDRESS: Gpr = Gpr::RAX;
/// The registers that a function may change by the calling convention of System V, and that are not
/// an argument.
const POINTERS: [Gpr; 7] = [ADDRESS, Gpr(1), Gpr(2), Gpr(8), Gpr(9), Gpr(10), Gpr(11)];

/// A function that runs a loop.
pub(super) struct WideLoop {
    pub code: Vec<u8>,
    /// What its table of addresses has, entry by entry.
    pub table: Vec<Entry>,
    /// The registers whose values it writes.
    pub written: Vec<Reg>,
}

/// An entry for a group.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub group: usize,
    pub address: Address,
}

#[derive(Clone, Copy)]
pub(super) enum Address {
    /// The host address of what a register of the group points to, in shared memory.
    Pointer(Reg),
    /// The values of a register in the lanes, one after the other.
    Values(Reg),
}

/// The function for so many groups of `width` lanes, if there are enough registers.
pub(super) fn compile(body: &Body, groups: usize, width: u32) -> Option<WideLoop> {
    if !width.is_multiple_of(LANES) {
        return None;
    }
    let schedule = schedule(body, groups, (width / LANES) as usize)?;
    let pointers = pointers(body, groups);
    if pointers.len() > POINTERS.len() {
        return None;
    }
    let mut table: Vec<Entry> = Vec::new();
    for &(pointer, group) in &pointers {
        let address = Address::Pointer(body.pointers[pointer].base);
        table.push(Entry { group, address });
    }
    for carried in &body.carried {
        let address = Address::Values(carried.reg);
        table.extend((0..groups).map(|group| Entry { group, address }));
    }
    let writer = Writer {
        body,
        schedule: &schedule,
        pointers: &pointers,
        groups,
        encoder: Encoder::default(),
    };
    let code = writer.function()?;
    let carried = body.carried.iter();
    let written = carried.filter(|carried| carried.first != carried.last);
    let written = written.map(|carried| carried.reg).collect();
    Some(WideLoop {
        code,
        table,
        written,
    })
}

/// Each pointer of each group, but once for all where it is theirs together.
fn pointers(body: &Body, groups: usize) -> Vec<(usize, usize)> {
    let of = |(number, pointer): (usize, &Pointer)| {
        let own = if pointer.is_own { groups } else { 1 };
        (0..own).map(move |group| (number, group))
    };
    body.pointers.iter().enumerate().flat_map(of).collect()
}

struct Writer<'b> {
    body: &'b Body,
    schedule: &'b Schedule,
    pointers: &'b [(usize, usize)],
    groups: usize,
    encoder: Encoder,
}

impl Writer<'_> {
    /// `None` if a distance is too large for an instruction.
    fn function(mut self) -> Option<Vec<u8>> {
        let operations = self.schedule.operations.len().max(1);
        let unrolled = match MAX_UNROLLED / operations {
            4.. => 4,
            2 | 3 => 2,
            _ => 1,
        };
        self.carried(true);
        for (number, register) in POINTERS.into_iter().take(self.pointers.len()).enumerate() {
            self.encoder.load_word(register, TABLE, entry(number));
        }
        let rest = match unrolled {
            1 => None,
            _ => {
                self.encoder.subtract(LEFT, unrolled);
                let rest = self.encoder.jump_forward(Condition::Below);
                self.iterations(unrolled, Condition::AboveOrEqual)?;
                self.encoder.land(rest);
                self.encoder.add(LEFT, unrolled);
                Some(self.encoder.jump_forward(Condition::Equal))
            }
        };
        self.iterations(1, Condition::NotEqual)?;
        if let Some(rest) = rest {
            self.encoder.land(rest);
        }
        self.carried(false);
        self.encoder.clear_upper_halves();
        self.encoder.return_();
        Some(self.encoder.bytes)
    }

    /// Loads carried registers, or stores those that the loop writes.
    fn carried(&mut self, loads: bool) {
        for vector in &self.schedule.carried {
            if !loads && !vector.is_written {
                continue;
            }
            let number = self.pointers.len() + vector.carried * self.groups + vector.group;
            if vector.part == 0 {
                self.encoder.load_word(ADDRESS, TABLE, entry(number));
            }
            let offset = VECTOR * vector.part as i32;
            match loads {
                true => self.encoder.load(vector.at, ADDRESS, offset),
                false => self.encoder.store(vector.at, ADDRESS, offset),
            }
        }
    }

    /// A loop of so many iterations at a time.
    fn iterations(&mut self, count: i32, goes_on: Condition) -> Option<()> {
        let head = self.encoder.bytes.len();
        for iteration in 0..count {
            for operation in &self.schedule.operations {
                self.operation(operation, iteration)?;
            }
        }
        for (&(pointer, _), register) in self.pointers.iter().zip(POINTERS) {
            let step = self.body.pointers[pointer].step * i64::from(count);
            self.encoder.add(register, i32::try_from(step).ok()?);
        }
        self.encoder.subtract(LEFT, count);
        self.encoder.jump_back(goes_on, head);
        Some(())
    }

    fn operation(&mut self, operation: &Operation, iteration: i32) -> Option<()> {
        match *operation {
            Operation::Load {
                to,
                load,
                group,
                part,
            } => {
                let pointer = &self.body.pointers[load.pointer];
                let group = if pointer.is_own { group } else { 0 };
                let mut pointers = self.pointers.iter();
                let at = pointers.position(|known| *known == (load.pointer, group))?;
                let offset = load.offset + pointer.step * i64::from(iteration);
                let offset = offset + i64::from(VECTOR) * part as i64;
                let offset = i32::try_from(offset).ok()?;
                match load.is_broadcast {
                    true => self.encoder.broadcast(to, POINTERS[at], offset),
                    false => self.encoder.load(to, POINTERS[at], offset),
                }
            }
            Operation::Copy { to, from } => self.encoder.copy(to, from),
            Operation::Arithmetic {
                operation,
                to,
                operands: [a, b],
            } => self.encoder.arithmetic(operation, to, a, b),
        }
        Some(())
    }
}

/// The offset of an entry.
fn entry(number: usize) -> i32 {
    8 * number as i32
}
