//! Tensor memory, which `tcgen05` uses: 128 lanes of 512 columns of 32 bits for each block.
//!
//! A block allocates columns. Each warp loads and stores a quarter of the lanes, that of its
//! number in its warp group.

/// Lanes, and those that a warp accesses.
pub(crate) const LANES: usize = 128;
pub(crate) const LANES_OF_WARP: usize = 32;
/// Columns, and those of a unit of allocation.
pub(crate) const COLUMNS: usize = 512;
const UNIT: usize = 32;

/// The words of a column, by lane.
pub(crate) type Column = [u32; LANES];

/// An address: the lane in the upper half, the column in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub lane: usize,
    pub column: usize,
}

impl Place {
    pub(crate) fn of(address: u32) -> Place {
        Place {
            lane: (address >> 16) as usize,
            column: (address & 0xFFFF) as usize,
        }
    }

    /// The same lane of a column behind it.
    pub(crate) fn after(self, columns: usize) -> Place {
        Place {
            column: self.column + columns,
            ..self
        }
    }
}

/// Why an instruction fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorFault {
    /// Access to a column that is not allocated, or to no lane.
    Unallocated(Place),
    /// A load or store of lanes that are not those of the warp.
    OtherLanes(Place),
    /// No room for so many columns.
    Full(u32),
    /// What is to be freed is no allocation.
    BadFree(u32),
    /// An instruction descriptor that the instruction does not have.
    Instruction(u32),
    /// A matrix descriptor that does not exist; bits 32 and on.
    Matrix(u32),
}

impl TensorFault {
    /// For a [`FaultRecord`](crate::abi::FaultRecord).
    pub(crate) fn number(self) -> u64 {
        use TensorFault::*;
        let place = |Place { lane, column }| (lane as u64) << 16 | column as u64;
        let (kind, operand) = match self {
            Unallocated(at) => (0, place(at)),
            OtherLanes(at) => (1, place(at)),
            Full(columns) => (2, columns.into()),
            BadFree(address) => (3, address.into()),
            Instruction(bits) => (4, bits.into()),
            Matrix(bits) => (5, bits.into()),
        };
        kind << 32 | operand & u64::from(u32::MAX)
    }

    fn from_number(number: u64) -> TensorFault {
        use TensorFault::*;
        let operand = number as u32;
        match number >> 32 {
            0 => Unallocated(Place::of(operand)),
            1 => OtherLanes(Place::of(operand)),
            2 => Full(operand),
            3 => BadFree(operand),
            4 => Instruction(operand),
            _ => Matrix(operand),
        }
    }

    /// What the fault with this number is.
    pub(crate) fn describe(number: u64) -> String {
        match TensorFault::from_number(number) {
            TensorFault::Unallocated(Place { lane, column }) => {
                format!(
                    "access to lane {lane}, column {column} of tensor memory, which is not allocated"
                )
            }
            TensorFault::OtherLanes(Place { lane, column }) => format!(
                "access from lane {lane}, column {column} of tensor memory on by a warp of other \
                 lanes: warp n of a warp group has the 32 from 32 * n on"
            ),
            TensorFault::Full(columns) => {
                format!(
                    "no {columns} columns of tensor memory are free, a power of 2 from 32 to 512"
                )
            }
            TensorFault::BadFree(address) => {
                format!(
                    "{address:#x} with this number of columns is no allocation of tensor memory"
                )
            }
            TensorFault::Instruction(bits) => {
                format!("the instruction descriptor {bits:#x} is not one of this instruction")
            }
            TensorFault::Matrix(bits) => {
                format!(
                    "the upper half {bits:#x} of a matrix descriptor has a mode that does not exist"
                )
            }
        }
    }
}

/// The tensor memory of a block.
#[derive(Default)]
pub(crate) struct TensorMemory {
    /// Column by column; empty until the first allocation.
    columns: Vec<Column>,
    /// By unit: the units of the allocation that begins there.
    sizes: [u8; COLUMNS / UNIT],
    /// By unit: whether it is allocated.
    used: [bool; COLUMNS / UNIT],
}

impl TensorMemory {
    /// Frees everything, for the next block.
    pub(crate) fn reset(&mut self) {
        if !self.columns.is_empty() {
            self.sizes = Default::default();
            self.used = Default::default();
        }
    }

    /// Allocates columns; returns the address of the first.
    pub(crate) fn allocate(&mut self, columns: u32) -> Result<u32, TensorFault> {
        let full = TensorFault::Full(columns);
        let units = columns as usize / UNIT;
        if !columns.is_power_of_two() || !(1..=COLUMNS / UNIT).contains(&units) {
            return Err(full);
        }
        let mut firsts = (0..COLUMNS / UNIT).step_by(units);
        let free = |first: &usize| !self.used[*first..][..units].contains(&true);
        let first = firsts.find(free).ok_or(full)?;
        self.used[first..][..units].fill(true);
        self.sizes[first] = units as u8; // at most 16
        if self.columns.is_empty() {
            self.columns.resize(COLUMNS, [0; LANES]);
        }
        Ok((first * UNIT) as u32)
    }

    pub(crate) fn free(&mut self, address: u32, columns: u32) -> Result<(), TensorFault> {
        let Place { lane, column } = Place::of(address);
        let (first, units) = (column / UNIT, columns as usize / UNIT);
        let is_first = lane == 0 && column.is_multiple_of(UNIT) && units > 0;
        match self.sizes.get_mut(first) {
            Some(size) if is_first && usize::from(*size) == units => *size = 0,
            _ => return Err(TensorFault::BadFree(address)),
        }
        self.used[first..][..units].fill(false);
        Ok(())
    }

    /// The words of consecutive lanes of a column.
    pub(crate) fn lanes(&mut self, at: Place, count: usize) -> Result<&mut [u32], TensorFault> {
        let is_used = self.used.get(at.column / UNIT) == Some(&true);
        let words = match self.columns.get_mut(at.column) {
            Some(column) if is_used => column.get_mut(at.lane..at.lane + count),
            _ => None,
        };
        words.ok_or(TensorFault::Unallocated(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_allocated_and_freed() {
        let mut memory = TensorMemory::default();
        assert_eq!(memory.allocate(64), Ok(0));
        assert_eq!(memory.allocate(256), Ok(256));
        assert_eq!(memory.allocate(128), Ok(128));
        assert_eq!(memory.allocate(128), Err(TensorFault::Full(128)));
        for wrong in [0, 16, 48, 96, 1024] {
            assert_eq!(memory.allocate(wrong), Err(TensorFault::Full(wrong)));
        }
        for (address, columns) in [(0, 32), (32, 32), (1 << 16, 64), (64, 64), (512, 64)] {
            let error = memory.free(address, columns);
            assert_eq!(error, Err(TensorFault::BadFree(address)));
        }
        memory.free(256, 256).unwrap();
        assert_eq!(memory.free(256, 256), Err(TensorFault::BadFree(256)));
        assert_eq!(memory.allocate(32), Ok(64));
        assert_eq!(memory.allocate(256), Ok(256));
        memory.reset();
        assert_eq!(memory.allocate(512), Ok(0));
    }

    #[test]
    fn only_what_is_allocated_is_accessible() {
        let mut memory = TensorMemory::default();
        memory.allocate(32).unwrap();
        let at = Place::of(96 << 16 | 31);
        memory.lanes(at, 32).unwrap().fill(7);
        assert_eq!(memory.lanes(Place::of(127 << 16 | 31), 1).unwrap(), [7]);
        for bad in [at.after(1), Place::of(97 << 16), Place::of(0xFFFF_FFFF)] {
            assert_eq!(memory.lanes(bad, 32), Err(TensorFault::Unallocated(bad)));
        }
    }

    #[test]
    fn faults_are_their_numbers() {
        use TensorFault::*;
        let at = Place::of(0x7F_01FF);
        for fault in [
            Unallocated(at),
            OtherLanes(at),
            Full(48),
            BadFree(0x20),
            Instruction(1),
            Matrix(u32::MAX),
        ] {
            assert_eq!(TensorFault::from_number(fault.number()), fault);
        }
    }
}
