//! What instructions compute: PTX in, numbers out, on the device that
//! `PTXKIT_DEVICE` names (`cpu` where it names none). The same rows for both
//! kinds of device, so that a GPU proves what is expected of the CPU. The kernels
//! access the buffers that they are passed, which is the reason of each launch's
//! `unsafe`.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "launches of kernels that are declared beside them"
)]
#![cfg(feature = "cpu")]

mod answers;
mod approximate;
mod atomic;
mod bits;
mod blackwell;
mod block;
mod bodies;
mod both;
#[cfg(feature = "build")]
mod built;
mod calls;
mod cluster;
mod compare;
mod constant;
mod control;
mod convert;
mod float;
mod half;
mod immediate;
mod inputs;
mod integer;
mod kernels;
mod matrix;
mod mbarrier;
mod parts;
mod refusal;
mod row;
mod scaled;
mod sparse;
mod tensor;
mod tensor_memory;
mod video;
mod warp_group;
mod wide_columns;
mod wrapped;
