//! Memory and semaphores that another library has made and exports by file descriptor, as
//! Vulkan does.
//!
//! [`Memory`] is imported once and then seen as buffers, or as the image that it was made for. A
//! [`Semaphore`] orders the work of a stream with that of the other library. Importing is
//! `unsafe`, as a driver need not find out what a file descriptor stands for, nor how large it
//! is; what is made of an import is safe, but for images, whose layout the other library chose.
//! The CPU device imports nothing (`CUDA_ERROR_NOT_SUPPORTED`).
//!
//! ```no_run
//! use std::os::fd::OwnedFd;
//! use ptxkit::driver::external::{Memory, Semaphore, SemaphoreKind};
//! use ptxkit::driver::{Context, Stream};
//!
//! # fn frame(context: &Context, stream: &Stream, memory: OwnedFd, done: OwnedFd)
//! # -> Result<(), ptxkit::driver::Error> {
//! // SAFETY: Vulkan exported memory of 4 MiB, and a binary semaphore.
//! let (memory, done) = unsafe {
//!     (Memory::import(context, memory, 4 << 20)?,
//!      Semaphore::import(context, SemaphoreKind::Binary, done)?)
//! };
//! let mut pixels = memory.buffer::<u32>(0, 1 << 20)?;
//! pixels.all_mut().fill_async(0xff, stream)?;
//! done.signal(0, stream)?; // Vulkan's queue waits for it, and then reads
//! # Ok(())
//! # }
//! ```
//!
//! `examples/vulkan` is a whole program.

mod memory;
mod semaphore;

use std::os::fd::{IntoRawFd, OwnedFd};

use crate::driver::device::context::Context;
use api::DriverKind;

pub use memory::Memory;
pub use semaphore::{Semaphore, SemaphoreKind};

/// Settles who closes a descriptor after an import. NVIDIA's driver closes those that it refuses
/// too, which its documentation does not say; closed twice, the number may be another file's by
/// then. The CPU device takes none.
fn settle<T>(descriptor: OwnedFd, imported: &Result<T, api::Error>, context: &Context) {
    if imported.is_ok() || context.device().driver().kind() != DriverKind::Cpu {
        let _ = descriptor.into_raw_fd();
    }
}
