//! Matrix instructions: `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix`.
//!
//! The lanes of a warp execute them together, so that they are sync points. Their registers
//! are slots: threads save the operands there as they save what is live, and the results are
//! in the slots of the registers when the threads resume. A slot has the values of a warp's
//! lanes side by side, so that one call computes an instruction for the whole warp.
//!
//! [`fragment`] says which lane holds which element. Fragments of `wmma`, which the PTX ISA
//! leaves open, are those of the `mma` that computes the same on sm_80 and higher.

mod element;
mod fragment;
mod product;
mod quad_pair;
mod registers;
mod transfer;

pub use element::Element;

use crate::abi::BlockContext;
use registers::Registers;

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
}

impl Code {
    /// The code with this number.
    fn from_number(number: u32) -> Option<Code> {
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
    /// its like, the rows and columns of a matrix and the number of matrices.
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
    /// The shift of the number of the rounding of `f64`
    /// ([`Rounding`](crate::math::rounding::Rounding)).
    pub const ROUNDING: u32 = 8;

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The number of registers of each operand that is a fragment, and whether their values
    /// have 8 bytes; the first `results` are written. `None` for a form that does not exist.
    pub fn operands(&self) -> Option<Operands> {
        fragment::operands(self)
    }

    /// The numbers that [`from_words`](Self::from_words) reads.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![self.code as u32, self.flags];
        words.extend(self.shape);
        words.extend(self.elements.map(|element| element as u32));
        words.extend(&self.slots);
        words
    }

    /// `None` unless the instruction exists and its slots are among the first `slots`.
    pub fn from_words(words: &[u32], slots: u32) -> Option<Operation> {
        let (&[code, flags, m, n, k, d, a, b, c], rest) = words.split_first_chunk()?;
        let element = Element::from_number;
        let operation = Operation {
            code: Code::from_number(code)?,
            flags,
            shape: [m, n, k],
            elements: [element(d)?, element(a)?, element(b)?, element(c)?],
            slots: rest.to_vec(),
        };
        let operands = operation.operands()?;
        let results = operands.results();
        let valid = |(at, &slot): (usize, &u32)| slot < slots || at < results && slot == NO_SLOT;
        (rest.len() == operands.total() && rest.iter().enumerate().all(valid)).then_some(operation)
    }

    /// Executes it for the warp whose first thread is `first`, of which `lanes` take part. Returns false if the context has
    /// a fault.
    ///
    /// # Safety
    /// The context is that of a block with this warp, its slots include those of the
    /// operation, and no other reference to its arrays is in use.
    pub(crate) unsafe fn execute(
        &self,
        context: *mut BlockContext,
        first: u32,
        lanes: u32,
        line: u32,
    ) -> bool {
        // SAFETY: the caller's contract.
        let mut registers = unsafe { Registers::new(context, first, &self.slots) };
        match self.code {
            Code::Mma | Code::WmmaMma => {
                product::multiply(self, &mut registers);
                true
            }
            Code::MoveMatrix => {
                transfer::transpose(&mut registers);
                true
            }
            _ => {
                let access = transfer::Access {
                    context,
                    first,
                    lanes,
                    line,
                    shared: self.has(Operation::SHARED),
                };
                // SAFETY: the caller's contract.
                unsafe { transfer::transfer(self, &mut registers, &access) }.is_some()
            }
        }
    }
}

/// The registers of an operation's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The number of registers of each operand, and whether their values have 8 bytes.
    pub counts: [(usize, bool); 4],
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
