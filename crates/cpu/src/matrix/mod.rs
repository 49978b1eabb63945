//! Matrix instructions: `mma`, `wmma`, `wgmma`, `ldmatrix`, `stmatrix`, `movmatrix`, and those
//! of tensor memory, `tcgen05`.
//!
//! The lanes of a warp execute them together, so that they are sync points. Their registers
//! are slots: threads save the operands there as they save what is live, and the results are
//! in the slots of the registers when the threads resume. A slot has the values of a warp's
//! lanes side by side, so that one call computes an instruction for the whole warp. A single thread issues
//! `tcgen05.mma`, whose matrices are in memory: compiled code calls it.
//!
//! [`fragment`] says which lane holds which element. Fragments of `wmma`, which the PTX ISA
//! leaves open, are those of the `mma` that computes the same on sm_80 and higher.

#[cfg(target_arch = "x86_64")]
mod avx;
mod descriptor;
mod element;
mod encoding;
mod execute;
mod factors;
mod fragment;
#[cfg(target_arch = "x86_64")]
mod halves;
mod lines;
mod operation;
mod product;
mod quad_pair;
mod registers;
mod scale;
mod sparse;
mod tensor_product;
mod tensor_transfer;
mod transfer;
mod transpose;
mod warp_group;

pub use element::Element;
pub use fragment::{SCALES, operands};
pub use operation::{Code, NO_SLOT, Operation};
pub(crate) use tensor_product::{Copied, Flags, Kind, Product, copy, multiply};
pub use tensor_transfer::Tile;
