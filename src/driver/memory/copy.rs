//! Copies between memory of any kinds, which the driver tells apart by unified addressing.

use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::length;
use crate::driver::memory::managed::ManagedBuffer;
use crate::driver::memory::order::Effect;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::pinned_part::{PinnedPart, PinnedPartMut};
use crate::driver::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{Api, CUdeviceptr};

/// An array in memory of any kind: [`DeviceBuffer`], [`DeviceSlice`], [`PinnedBuffer`],
/// [`PinnedPart`] or [`ManagedBuffer`].
pub trait Linear<T>: sealed::Memory {}

/// One that can be written: all of them, and of parts [`DeviceSliceMut`] and [`PinnedPartMut`].
pub trait LinearMut<T>: Linear<T> {}

pub(crate) mod sealed {
    use super::{Allocation, Arc, CUdeviceptr, Effect, Use};

    pub trait Memory {
        #[doc(hidden)]
        fn unified_address(&self) -> CUdeviceptr;
        #[doc(hidden)]
        fn count(&self) -> usize;
        #[doc(hidden)]
        #[allow(private_interfaces, reason = "called in this crate alone")]
        fn memory(&self) -> &Arc<Allocation>;
        #[doc(hidden)]
        #[allow(private_interfaces, reason = "called in this crate alone")]
        fn used(&self, effect: Effect) -> Use<'_>;
    }
}

macro_rules! linear {
    ($($buffer:ty, $address:expr;)*) => { $(
        impl<T: Pod> sealed::Memory for $buffer {
            fn unified_address(&self) -> CUdeviceptr {
                ($address)(self)
            }
            fn count(&self) -> usize {
                self.len()
            }
            #[allow(private_interfaces, reason = "called in this crate alone")]
            fn memory(&self) -> &Arc<Allocation> {
                self.allocation()
            }
            #[allow(private_interfaces, reason = "called in this crate alone")]
            fn used(&self, effect: Effect) -> Use<'_> {
                <$buffer>::used(self, effect)
            }
        }
        impl<T: Pod> Linear<T> for $buffer {}
    )* };
}

linear! {
    DeviceBuffer<T>, |buffer: &DeviceBuffer<T>| buffer.address();
    DeviceSlice<'_, T>, |slice: &DeviceSlice<'_, T>| slice.address();
    DeviceSliceMut<'_, T>, |slice: &DeviceSliceMut<'_, T>| slice.address();
    ManagedBuffer<T>, |buffer: &ManagedBuffer<T>| buffer.address();
    PinnedBuffer<T>, |buffer: &PinnedBuffer<T>| buffer.pointer().expose_provenance() as u64;
    PinnedPart<'_, T>, |part: &PinnedPart<'_, T>| part.host_address();
    PinnedPartMut<'_, T>, |part: &PinnedPartMut<'_, T>| part.host_address();
}

impl<T: Pod> LinearMut<T> for DeviceBuffer<T> {}
impl<T: Pod> LinearMut<T> for DeviceSliceMut<'_, T> {}
impl<T: Pod> LinearMut<T> for ManagedBuffer<T> {}
impl<T: Pod> LinearMut<T> for PinnedBuffer<T> {}
impl<T: Pod> LinearMut<T> for PinnedPartMut<'_, T> {}

/// Copies a whole array to another of the same length, in memory of any kind (`cuMemcpy`).
/// It is ordered like work of the default stream.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Attach, Context, DeviceBuffer, Driver, ManagedBuffer, copy};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let from = DeviceBuffer::from_slice(&context, &[1_u16, 2, 3])?;
/// let mut to = ManagedBuffer::zeroed(&context, 3, Attach::Global)?;
/// copy(&mut to, &from)?;
/// assert_eq!(to.to_vec()?, [1, 2, 3]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
pub fn copy<T: Pod>(to: &mut impl LinearMut<T>, from: &impl Linear<T>) -> Result<(), Error> {
    copy_in(None, to, from, |api, to, from, bytes| {
        // SAFETY: both have that many bytes.
        unsafe { Ok(api.cuMemcpy(to, from, bytes)?) }
    })
}

/// The same in stream order (`cuMemcpyAsync`).
pub fn copy_async<T: Pod>(
    to: &mut impl LinearMut<T>,
    from: &impl Linear<T>,
    stream: &Stream,
) -> Result<(), Error> {
    copy_in(Some(stream), to, from, |api, to, from, bytes| {
        // SAFETY: both have that many bytes, and stay until the stream is done.
        unsafe { Ok(api.cuMemcpyAsync(to, from, bytes, stream.raw())?) }
    })
}

fn copy_in<T: Pod>(
    stream: Option<&Stream>,
    to: &mut impl LinearMut<T>,
    from: &impl Linear<T>,
    call: impl FnOnce(&Api, CUdeviceptr, CUdeviceptr, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    length::check_equal("copy between arrays", from.count(), to.count())?;
    let memory = [to.memory(), from.memory()];
    let own = memory.iter().find(|memory| !memory.is_portable());
    let context = match stream {
        Some(stream) => stream.context(),
        None => own.unwrap_or(&memory[0]).context(),
    };
    if !memory.iter().all(|memory| memory.is_reached_from(context)) {
        return Err(Error::DifferentContexts {
            what: "the ends of a copy, or they and the stream",
        });
    }
    let bytes = to.count() * size_of::<T>(); // the array is in memory
    if bytes == 0 {
        return Ok(());
    }
    let api = context.bind()?;
    let guard = lock_memory(stream, [to.used(Effect::Write), from.used(Effect::Read)])?;
    call(api, to.unified_address(), from.unified_address(), bytes)?;
    drop(guard);
    match stream {
        Some(stream) if context.check_mode() => {
            stream.wait_for_check(|| format!("copy, {bytes} bytes"))
        }
        _ => Ok(()),
    }
}
