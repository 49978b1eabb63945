//! A matrix instruction of a kernel.

use super::element::Element;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// `mma.sync`: D = A · B + C.
    Mma = 0,
    /// `wmma.mma`, whose tile is one or two of `mma`.
    WmmaMma = 1,
    /// `ldmatrix`
    LoadMatrix = 2,
    /// `stmatrix`
    StoreMatrix = 3,
    /// `movmatrix`
    MoveMatrix = 4,
    /// `wmma.load.a`
    LoadA = 5,
    /// `wmma.load.b`
    LoadB = 6,
    /// `wmma.load.c`
    LoadC = 7,
    /// `wmma.store.d`
    StoreD = 8,
    /// `wgmma.mma_async` of four warps: D = A · B + D.
    WarpGroupMma = 9,
    /// `tcgen05.ld`
    TensorLoad = 10,
    /// `tcgen05.st`
    TensorStore = 11,
}

impl Code {
    /// The code with this number.
    pub(super) fn from_number(number: u32) -> Option<Code> {
        use Code::*;
        [
            Mma,
            WmmaMma,
            LoadMatrix,
            StoreMatrix,
            MoveMatrix,
            LoadA,
            LoadB,
            LoadC,
            StoreD,
            WarpGroupMma,
            TensorLoad,
            TensorStore,
        ]
        .into_iter()
        .find(|&code| code as u32 == number)
    }
}

/// A matrix instruction of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub code: Code,
    /// The rows of A, the columns of B and what they share: `m16n8k16`. For `ldmatrix` and
    /// its like, the rows and columns of a matrix and the number of matrices. Of tensor memory
    /// the number of the [`Tile`](super::Tile) and how often it is repeated.
    pub shape: [u32; 3],
    /// The elements of D, A, B and C. Transfers have one kind of element.
    pub elements: [Element; 4],
    /// Of the constants below.
    pub flags: u32,
    /// The slots of the registers, in the order of the operands. [`NO_SLOT`] for a result
    /// that nobody reads.
    pub slots: Vec<u32>,
}

/// No slot: the result is dropped.
pub const NO_SLOT: u32 = u32::MAX;

impl Operation {
    /// `.trans`
    pub const TRANSPOSED: u32 = 1;
    /// Addresses are offsets in shared memory; otherwise they are generic.
    pub const SHARED: u32 = 1 << 1;
    /// `.satfinite`: sums are clamped.
    pub const SATURATES: u32 = 1 << 2;
    /// `.xor` of bits; otherwise `.and`.
    pub const XOR: u32 = 1 << 3;
    /// A, or what is loaded or stored, is `.col`; otherwise `.row`.
    pub const A_COLUMNS: u32 = 1 << 4;
    /// B is `.col`; otherwise `.row`.
    pub const B_COLUMNS: u32 = 1 << 5;
    /// The A of a warp group is in registers; otherwise a descriptor says where it is.
    pub const A_IN_REGISTERS: u32 = 1 << 6;
    /// In memory, rows of B lie side by side; [`TRANSPOSED`](Self::TRANSPOSED) says so of
    /// columns of A.
    pub const TRANSPOSED_B: u32 = 1 << 7;
    /// A, or B, is multiplied by -1.
    pub const NEGATED_A: u32 = 1 << 11;
    pub const NEGATED_B: u32 = 1 << 12;
    /// `.pack::16b`, `.unpack::16b`: a register has two halves, each of a column.
    pub const PACKS: u32 = 1 << 13;
    /// `.sp`: of A half of the elements are there, and metadata say which.
    pub const SPARSE: u32 = 1 << 14;
    /// The shift of how many scales a row of A has: none, one, two or four.
    pub const SCALES: u32 = 18;
    /// Scales are `ue4m3`; otherwise `ue8m0`.
    pub const UE4M3: u32 = 1 << 20;
    /// The shift of the selector of the lanes that have the metadata.
    pub const SELECTOR: u32 = 16;
    /// The shift of the number of the rounding of `f64`
    /// ([`Rounding`](crate::math::rounding::Rounding)).
    pub const ROUNDING: u32 = 8;

    /// The elements from a row or column to the next of a transfer that does not state it: they lie
    /// behind each other.
    pub fn default_distance(&self) -> u32 {
        let [m, n, k] = self.shape;
        let columns = self.flags & Operation::A_COLUMNS != 0;
        let (rows, row) = match self.code {
            Code::LoadA => (m, k),
            Code::LoadB => (k, n),
            _ => (m, n),
        };
        if columns { rows } else { row }
    }

    /// The warps that execute it together.
    pub fn warps(&self) -> u32 {
        match self.code {
            Code::WarpGroupMma => 4,
            _ => 1,
        }
    }

    /// How many scales a row of A has.
    pub fn scales(&self) -> Option<usize> {
        match self.flags >> Operation::SCALES & 3 {
            0 => None,
            n => Some(1 << (n - 1)),
        }
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The registers of an operation's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The number of registers of each operand, and whether their values have 8 bytes.
    pub counts: [(usize, bool); 5],
    /// Whether the first operand is written.
    pub writes: bool,
}

impl Operands {
    /// All registers.
    pub fn total(&self) -> usize {
        self.counts.iter().map(|(count, _)| count).sum()
    }

    /// The registers that are written, which come first.
    pub fn results(&self) -> usize {
        if self.writes { self.counts[0].0 } else { 0 }
    }
}
