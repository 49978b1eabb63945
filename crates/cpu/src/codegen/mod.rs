//! Code generation: a lowered kernel becomes machine code, with Cranelift (scalar code)
//! or [`simd`](crate::simd) (vector code).
//!
//! The code contains no absolute address. It reaches everything through the block
//! context, its first argument, so that it can be stored and mapped anywhere.

mod compiler_contexts;
mod emitter;
mod function;
mod host;
mod instructions;
mod kernel;
mod kernel_code;
mod lanes;
mod vectorization;

pub(crate) use compiler_contexts::CompilerContexts;
pub(crate) use emitter::machine_code::MachineCode;
pub(crate) use host::{HostIsa, host};
pub(crate) use kernel::{check_kernel, compile_kernel};
pub(crate) use kernel_code::KernelCode;
pub use vectorization::Vectorization;
