//! `tcgen05.ld` and `tcgen05.st`: words between tensor memory and the registers of a warp.

use super::operation::{Code, Operation};
use super::registers::Registers;
use crate::tensor_memory::{COLUMNS, LANES, LANES_OF_WARP, Place, TensorFault, TensorMemory};

/// The lanes and columns that an instruction moves, as it names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Tile {
    /// `.32x32b`: each lane of the warp moves words of its own.
    Lanes32 = 1,
    /// `.16x64b`
    Bits64 = 2,
    /// `.16x128b`
    Bits128 = 3,
    /// `.16x256b`
    Bits256 = 4,
    /// `.16x32bx2`: the upper half of the warp has the same lanes, other columns.
    Halves = 5,
}

const ALL: [(Tile, &str, u32); 5] = [
    (Tile::Lanes32, "32x32b", 1),
    (Tile::Bits64, "16x64b", 1),
    (Tile::Bits128, "16x128b", 2),
    (Tile::Bits256, "16x256b", 4),
    (Tile::Halves, "16x32bx2", 1),
];

impl Tile {
    pub fn from_text(text: &str) -> Option<Tile> {
        ALL.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    pub(super) fn from_number(number: u32) -> Option<Tile> {
        let mut all = ALL.iter();
        all.find(|row| row.0 as u32 == number).map(|row| row.0)
    }

    /// Registers of each repetition.
    pub(super) fn registers(self) -> u32 {
        ALL[self as usize - 1].2
    }

    /// The lanes of tensor memory.
    fn lanes(self) -> usize {
        match self {
            Tile::Lanes32 => LANES_OF_WARP,
            _ => 16,
        }
    }

    /// The lane and the column of a register of a lane of the warp, from the address on.
    fn place(self, register: usize, lane: usize) -> (usize, usize) {
        match self {
            Tile::Lanes32 => (lane, register),
            Tile::Halves => (lane % 16, register),
            Tile::Bits64 => (lane / 4 + lane / 2 % 2 * 8, 2 * register + lane % 2),
            Tile::Bits128 => (lane / 4 + register % 2 * 8, register / 2 * 4 + lane % 4),
            Tile::Bits256 => (
                lane / 4 + register / 2 % 2 * 8,
                register / 4 * 8 + lane % 4 * 2 + register % 2,
            ),
        }
    }
}

/// Executes it for a warp of this number. Of `halves`, the upper half of the warp has columns
/// that are so many further.
pub(super) fn transfer(
    operation: &Operation,
    registers: &mut Registers<'_>,
    memory: &mut TensorMemory,
    warp: usize,
    (address, halves): (u32, usize),
) -> Result<(), TensorFault> {
    let Some(tile) = Tile::from_number(operation.shape[0]) else {
        return Ok(());
    };
    let stores = operation.code == Code::TensorStore;
    let packs = operation.has(Operation::PACKS);
    let at = Place::of(address);
    // There is none beyond these.
    let halves = halves.min(COLUMNS);
    let own = warp * LANES_OF_WARP % LANES;
    if at.lane < own || at.lane + tile.lanes() > own + LANES_OF_WARP {
        return Err(TensorFault::OtherLanes(at));
    }
    // A register with two halves takes two columns.
    let width = if packs { 2 } else { 1 };
    for register in 0..registers.len() {
        if tile == Tile::Lanes32 && !packs {
            let words = memory.lanes(at.after(register), LANES_OF_WARP)?;
            if stores {
                words.copy_from_slice(registers.words(register))
            } else {
                let loaded = std::array::from_fn(|lane| words[lane]);
                registers.set_words(register, &loaded);
            }
            continue;
        }
        let mut words = *registers.words(register);
        for (lane, word) in words.iter_mut().enumerate() {
            let (row, column) = tile.place(register, lane);
            let further = match tile {
                Tile::Halves if lane >= 16 => halves,
                _ => 0,
            };
            let first = Place {
                lane: at.lane + row,
                column: at.column + column * width + further,
            };
            match (stores, packs) {
                (true, false) => memory.lanes(first, 1)?[0] = *word,
                (false, false) => *word = memory.lanes(first, 1)?[0],
                (true, true) => {
                    memory.lanes(first, 1)?[0] = *word & 0xFFFF;
                    memory.lanes(first.after(1), 1)?[0] = *word >> 16;
                }
                (false, true) => {
                    let low = memory.lanes(first, 1)?[0] & 0xFFFF;
                    *word = low | memory.lanes(first.after(1), 1)?[0] << 16;
                }
            }
        }
        if !stores {
            registers.set_words(register, &words);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word of a tile is in one register of one lane.
    #[test]
    fn tiles_are_whole() {
        for (tile, text, registers) in ALL {
            assert_eq!(Tile::from_text(text), Some(tile));
            assert_eq!(Tile::from_number(tile as u32), Some(tile));
            let mut words: Vec<(usize, usize)> = (0..2 * registers as usize)
                .flat_map(|register| (0..32).map(move |lane| (register, lane)))
                .map(|(register, lane)| {
                    let (row, column) = tile.place(register, lane);
                    let half = tile == Tile::Halves && lane >= 16;
                    (row, column + if half { 2 } else { 0 })
                })
                .collect();
            words.sort_unstable();
            let columns = 64 * registers as usize / tile.lanes();
            let expected: Vec<(usize, usize)> = (0..tile.lanes())
                .flat_map(|row| (0..columns).map(move |column| (row, column)))
                .collect();
            assert_eq!(words, expected, "{text}");
        }
    }
}
