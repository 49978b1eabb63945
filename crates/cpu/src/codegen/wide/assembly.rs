//! From the operations of an iteration to the machine code of a function that runs a loop of them.

use super::body::Body;
use super::encoder::{Condition, Encoder, Gpr};
use super::schedule::{Operation, Schedule, schedule};

/// Bytes of a vector.
pub(super) const VECTOR: i32 = 32;
/// `f32` in a vector.
pub(super) const LANES: u32 = 8;

/// The most operations of the iterations that follow one another.
const MAX_UNROLLED: usize = 256;

/// The loop's first argument: the address of a table of addresses. The second one is the number of
/// iterations, at least 1.
const TABLE: Gpr = Gpr::RDI;
const LEFT: Gpr = Gpr::RSI;
/// A register for addresses in front of the loop and behind it.
const ADDRESS: Gpr = Gpr::RAX;
/// The registers that a function may change by the calling convention of System V, and that are not
/// an argument.
const POINTERS: [Gpr; 7] = [ADDRESS, Gpr(1), Gpr(2), Gpr(8), Gpr(9), Gpr(10), Gpr(11)];

/// The function with these pointers in its table.
pub(super) fn function(
    body: &Body,
    (groups, width): (usize, u32),
    pointers: &[(usize, usize)],
) -> Option<Vec<u8>> {
    let schedule = schedule(body, groups, (width / LANES) as usize)?;
    if pointers.len() > POINTERS.len() {
        return None;
    }
    let writer = Writer {
        body,
        schedule: &schedule,
        pointers,
        groups,
        encoder: Encoder::default(),
    };
    writer.function()
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
                let offset = offset + load.offset + i64::from(VECTOR) * part as i64;
                let offset = i32::try_from(offset).ok()?;
                match load.is_broadcast {
                    true => self.encoder.broadcast(to, base, offset),
                    false => self.encoder.load(to, base, offset),
                }
            }
            Operation::Store { from, store, part } => {
                let (base, offset) = self.address(store.pointer, 0, iteration)?;
                let offset = offset + i64::from(VECTOR) * part as i64;
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
