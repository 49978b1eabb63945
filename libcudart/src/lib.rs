//! The CUDA runtime (`libcudart`) under its own C names, over the driver API: over the CPU
//! device, or over NVIDIA's driver, whichever `libcuda.so.1` is.
//!
//! nvcc's host code registers its fatbins here before `main`; the driver loads them when
//! something of them is first used. What the runtime documents and this library lacks is no
//! symbol of it, so a program that needs it does not link or start.

#![allow(non_snake_case)] // the C API's own names

mod array;
mod binary;
mod context;
mod copy;
mod device;
mod entry;
mod error;
mod event;
mod execution;
mod function;
mod graph;
mod host_memory;
mod library;
mod memory;
mod node;
mod pool;
mod stream;
mod texture;
mod types;

pub use array::*;
pub use binary::*;
pub use copy::*;
pub use device::*;
pub use entry::Stream;
pub use error::*;
pub use event::*;
pub use execution::*;
pub use function::*;
pub use graph::*;
pub use host_memory::*;
pub use library::*;
pub use memory::*;
pub use node::*;
pub use pool::*;
pub use stream::*;
pub use texture::*;
pub use types::*;
