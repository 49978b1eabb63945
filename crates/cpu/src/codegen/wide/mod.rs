//! Loops in vectors of 256 or 512 bits: counted ones that several lane groups run together, and those over
//! elements that they store past the caches. And copies that do so.
//!
//! Cranelift has vectors of 128 bits on x86-64. A loop that multiplies and adds what it loads from
//! shared memory, as those of matrix products do, takes half the instructions with vectors of twice
//! the size, and needs little of a compiler. It becomes a function of its own, which the vector
//! function calls.

mod assembly;
mod body;
mod counted;
mod elements;
mod encoder;
mod schedule;
mod vectors;

pub(super) use body::{Source, read};
pub(super) use counted::{Address, WideLoop, compile};
pub(super) use elements::{Elements, ElementsLoop, Pointed};
pub(super) use vectors::{MAX_STREAMED, copy_column, prefetch, store_halves, stream_vectors};
