//! Code generation: a lowered kernel becomes machine code, with Cranelift (scalar code)
//! or [`simd`](crate::simd) (vector code).
//!
//! The code contains no absolute address. It reaches everything through the block
//! context, its first argument, so that it can be stored and mapped anywhere.

mod async_copy;
mod atomic;
mod bits;
mod blocks;
mod bulk_copy;
mod called_check;
mod checked_address;
mod cluster;
mod cold_code;
mod compare;
mod compiler_contexts;
mod constants;
mod convert;
mod dispatch;
mod emitter;
mod entry;
mod first_code;
mod float;
mod function;
mod half;
mod helper_call;
mod host;
mod integer;
mod kernel;
mod kernel_code;
mod lanes;
mod machine_code;
mod matrix;
mod memory;
mod nan;
mod one_thread;
mod packed;
mod prologue;
mod recent_constants;
mod registers;
mod resume;
mod rounding;
mod slots;
mod special;
mod sync;
mod system;
mod tensor;
mod terminator;
mod texture;
mod thread_state;
mod thunks;
mod variables;
mod vectorization;
mod video;

pub(crate) use compiler_contexts::CompilerContexts;
pub(crate) use host::{HostIsa, host};
pub(crate) use kernel::{check_kernel, compile_kernel};
pub(crate) use kernel_code::KernelCode;
pub(crate) use machine_code::MachineCode;
pub use vectorization::Vectorization;
