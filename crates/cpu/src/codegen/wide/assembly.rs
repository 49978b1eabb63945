//! From the operations of an iteration to the machine code of a function that runs a loop of them.

use super::body::Body;
use super::encoder::{Condition, Encoder, Gpr};
use super::schedule::{Operation, Schedule, schedule};

/// `f32` in a vector of 256 bits, and in one of 512.
pub(super) const LANES: u32 = 8;
pub(super) const LANES_512: u32 = 16;

/// The most operations of the iterations that follow one another.
const MAX_UNROLLED: usize = 256;

/// The loop's first argument: the address of a table of addresses. The second one is the number of
/// iterations, at least 1.
const TABLE: Gpr = Gpr::RDI;
const LEFT: Gpr = Gpr::RSI;
/// A register for addresses in front of the loop and behind it.
const ADDRESS: Gpr = Gpr::RAX;
/// The registers that a function may change by the calling convention of System V and that are not
/// an argument, and behind them those that it must restore.
#[rustfmt::skip]
const POINTERS: [Gpr; 12] = [
    ADDRESS, Gpr(1), Gpr(2), Gpr(8), Gpr(9), Gpr(10), Gpr(11),
    Gpr(3), Gpr(5), Gpr(13), Gpr(14), Gpr(15),
];
/// How many it may change.
const CHANGED: usize = 7;

/// The function with these pointers in its table, for so many groups of `width` lanes, in vectors of
/// [`LANES`] or [`LANES_512`].
pub(super) fn function(
    body: &Body,
    (groups, width, lanes): (usize, u32, u32),
    pointers: &[(usize, usize)],
) -> Option<Vec<u8>> {
    let schedule = schedule(body, groups, (width / lanes) as usize)?;
    let registers = POINTERS.get(..pointers.len())?;
    let writer = Writer {
        body,
        schedule: &schedule,
        pointers,
        groups,
        vector: 4 * lanes as i32,
        encoder: Encoder {
            is_512: lanes == LANES_512,
            ..Encoder::default()
        },
    };
    writer.function(registers.get(CHANGED..).unwrap_or_default())
}

struct Writer<'b> {
    body: &'b Body,
    schedule: &'b Schedule,
    pointers: &'b [(usize, usize)],
    groups: usize,
    /// Bytes of a vector.
    vector: i32,
    encoder: Encoder,
}

impl Writer<'_> {
    /// `None` if a distance is too large for an instruction. It restores these registers.
    fn function(mut self, restored: &[Gpr]) -> Option<Vec<u8>> {
        let operations = self.schedule.operations.len().max(1);
        let unrolled = match MAX_UNROLLED / operations {
            4.. => 4,
            2 | 3 => 2,
            _ => 1,
        };
        for register in restored {
            self.encoder.push(*register);
        }
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
        for register in restored.iter().rev() {
            self.encoder.pop(*register);
        }
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
            let offset = self.vector * vector.part as i32;
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
            if step != 0 {
                self.encoder.add(register, i32::try_from(step).ok()?);
            }
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
                let (base, offset) = self.address(load.pointer, group, iteration)?;
                let offset = offset + load.offset + i64::from(self.vector) * part as i64;
                let offset = i32::try_from(offset).ok()?;
                match load.is_broadcast {
                    true => self.encoder.broadcast(to, base, offset),
                    false => self.encoder.load(to, base, offset),
                }
            }
            Operation::Store { from, store, part } => {
                let (base, offset) = self.address(store.pointer, 0, iteration)?;
                let offset = offset + i64::from(self.vector) * part as i64;
                self.encoder.stream(from, base, i32::try_from(offset).ok()?);
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

    /// Where a group's pointer points to in an iteration.
    fn address(&self, number: usize, group: usize, iteration: i32) -> Option<(Gpr, i64)> {
        let pointer = &self.body.pointers[number];
        let group = if pointer.is_own { group } else { 0 };
        let mut pointers = self.pointers.iter();
        let at = pointers.position(|known| *known == (number, group))?;
        Some((POINTERS[at], pointer.step * i64::from(iteration)))
    }
}

/// The offset of an entry.
fn entry(number: usize) -> i32 {
    8 * number as i32
}
