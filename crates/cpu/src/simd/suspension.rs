//! The resume points of a kernel. Vector code and the scalar function share them, so that each can
//! resume threads that the other has suspended.

use crate::program::{BlockId, Reg};

/// A place where suspended threads resume.
#[derive(Clone, Debug)]
pub(crate) struct ResumePlace {
    /// The block in which they resume.
    pub next: BlockId,
    /// The live registers.
    pub live: Vec<Reg>,
    /// Those that may differ from their slots.
    pub dirty: Vec<Reg>,
    /// Those that are read before the next sync point.
    pub reload: Vec<Reg>,
    /// It is a barrier of all threads of the block, without operands that the scheduler needs.
    pub is_block_barrier: bool,
    /// The elements from a row of a matrix to the next, for a transfer that does not state it.
    pub distance: u32,
}

/// The resume points of a kernel, and the slots of its registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspension {
    /// A thread in state `i + 1` resumes at place `i`.
    pub places: Vec<ResumePlace>,
    /// By block: the number of the place at its end.
    pub sync_at: Vec<Option<u32>>,
    /// By register: its slot.
    pub slots: Vec<Option<u32>>,
    pub slot_count: u32,
}
