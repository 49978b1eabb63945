//! Code generation: a lowered kernel becomes machine code, with Cranelift. Some loops become
//! functions of their own beside it ([`wide`]).
//!
//! The code contains no absolute address. It reaches everything through the block
//! context, its first argument, so that it can be stored and mapped anywhere.

mod arrival;
mod async_copy;
mod atomic;
mod bits;
mod block_check;
mod bulk_copy;
mod checked_address;
mod checked_together;
mod clamped_load;
mod cluster;
mod cold_code;
mod compare;
mod constant_lanes;
mod convert;
mod counted_loop;
mod dispatch;
mod emitter;
mod ends;
mod entry;
mod float;
mod function;
mod group_check;
mod group_checked;
mod guarded_copy;
mod guarded_path;
mod half;
mod host;
mod integer;
mod interchange;
mod interchanged_loop;
mod lane_group;
mod lane_set;
mod machine_code;
mod masked;
mod masked_branch;
mod matrix;
mod memory;
mod other_group;
mod packed;
mod pair_load;
mod phase;
mod registers;
mod resume;
mod rounding;
mod shared_access;
mod shared_check;
mod slots;
mod special;
mod steps;
mod straight_line;
mod strided_load;
mod sync;
mod system;
mod tensor;
mod texture;
mod thread_state;
mod thunks;
mod unroll;
mod unroll_and_jam;
mod variables;
mod vector_math;
mod vectorize;
mod video;
mod warp;
mod wide;
mod wide_call;
mod window;
mod wrap_check;

pub(crate) use function::{KernelCode, check_kernel, compile_kernel};
pub(crate) use host::{HostIsa, host};
pub(crate) use machine_code::{CompilerContexts, MachineCode};
pub use vectorize::Vectorization;
