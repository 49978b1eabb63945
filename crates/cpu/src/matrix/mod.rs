//! Matrix instructions: `mma`, `wmma`, `wgmma`, `ldmatrix`, `stmatrix` and `movmatrix`.
//!
//! The lanes of a warp execute them together, so that they are sync points. Their registers
//! are slots: threads save the operands there as they save what is live, and the results are
//! in the slots of the registers when the threads resume. A slot has the values of a warp's
//! lanes side by side, so that one call computes an instruction for the whole warp.
//!
//! [`fragment`] says which lane holds which element. Fragments of `wmma`, which the PTX ISA
//! leaves open, are those of the `mma` that computes the same on sm_80 and higher.

mod descriptor;
mod element;
mod encoding;
mod execute;
mod fragment;
mod operation;
mod product;
mod quad_pair;
mod registers;
mod transfer;
mod warp_group;

pub use element::Element;
pub use fragment::operands;
pub use operation::{Code, NO_SLOT, Operation};
