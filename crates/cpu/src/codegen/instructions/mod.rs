//! The instructions.

mod async_copy;
mod atomic;
mod bits;
mod bulk_copy;
mod cluster;
mod compare;
mod convert;
mod float;
mod half;
mod integer;
pub(super) mod matrix;
mod memory;
mod packed;
mod special;
pub(super) mod sync;
mod system;
mod tensor;
mod texture;
mod video;
