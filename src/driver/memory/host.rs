//! Copies in the order of a stream between device memory and memory of the program, and buffers
//! that are made so.

use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::length;
use crate::driver::memory::order::Effect;
use crate::driver::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::driver::memory::uses::{MemoryGuard, lock_memory};
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use crate::driver::stream::Stream;
use crate::driver::stream::users::wait;

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Writes all of it in the order of a stream (`cuMemcpyHtoDAsync_v2`), and waits until that
    /// is done; `values` has its length. [`write_async`](DeviceSliceMut::write_async), from
    /// pinned memory, does not wait. A capturing stream refuses it ([`Error::Captured`]).
    pub fn copy_from_host(&mut self, values: &[T], stream: &Stream) -> Result<(), Error> {
        length::check_equal("write to a buffer", values.len(), self.len())?;
        let api = self.bind_with(Some(stream))?;
        let (to, bytes) = (self.address(), bytes_of(values));
        if bytes.is_empty() {
            return Ok(());
        }
        let guard = lock_memory(Some(stream), [self.used(Effect::Write)])?;
        refuse_capture(&guard)?;
        // SAFETY: both have that many bytes, and stay until the stream is done: it is waited for.
        unsafe { api.cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), stream.raw()) }?;
        wait_for_copy(stream, guard)
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// Reads all of it in the order of a stream (`cuMemcpyDtoHAsync_v2`), and waits until that
    /// is done; `values` has its length. [`read_async`](DeviceSlice::read_async), into pinned
    /// memory, does not wait. A capturing stream refuses it ([`Error::Captured`]).
    pub fn copy_to_host(&self, values: &mut [T], stream: &Stream) -> Result<(), Error> {
        length::check_equal("read of a buffer", values.len(), self.len())?;
        let api = self.bind_with(Some(stream))?;
        let bytes = bytes_of_mut(values);
        if bytes.is_empty() {
            return Ok(());
        }
        let guard = lock_memory(Some(stream), [self.used(Effect::Read)])?;
        refuse_capture(&guard)?;
        let (to, from) = (bytes.as_mut_ptr().cast(), self.address());
        // SAFETY: as `copy_from_host`; any bits are values.
        unsafe { api.cuMemcpyDtoHAsync_v2(to, from, bytes.len(), stream.raw()) }?;
        wait_for_copy(stream, guard)
    }

    /// All of it as a vector, likewise.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len());
        self.copy_to_host(&mut values, stream)?;
        Ok(values)
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// An array of `len` values of zero bits, allocated and filled in the order of a stream
    /// ([`new_async`](DeviceBuffer::new_async)).
    pub fn zeroed_async(stream: &Stream, len: usize) -> Result<DeviceBuffer<T>, Error> {
        let mut buffer = DeviceBuffer::new_async(stream, len)?;
        buffer.fill_bytes_async(0, stream)?;
        Ok(buffer)
    }

    /// A copy of `values`, likewise ([`copy_from_host`](DeviceBuffer::copy_from_host)).
    pub fn from_host(stream: &Stream, values: &[T]) -> Result<DeviceBuffer<T>, Error> {
        let mut buffer = DeviceBuffer::new_async(stream, values.len())?;
        buffer.copy_from_host(values, stream)?;
        Ok(buffer)
    }

    /// A copy of this buffer, allocated and written in the order of a stream
    /// ([`new_async`](DeviceBuffer::new_async)).
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let stream = Stream::non_blocking(&context)?;
    /// let numbers = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
    /// let mut copy = numbers.try_clone(&stream)?;
    /// copy.fill_async(7, &stream)?;
    /// assert_eq!(numbers.to_host(&stream)?, [1, 2, 3]);
    /// assert_eq!(copy.slice(1..)?.to_host(&stream)?, [7, 7]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn try_clone(&self, stream: &Stream) -> Result<DeviceBuffer<T>, Error> {
        let mut copy = DeviceBuffer::new_async(stream, self.len())?;
        copy.copy_from_async(self, stream)?;
        Ok(copy)
    }

    /// Writes all of it in the order of a stream ([`DeviceSliceMut::copy_from_host`]).
    pub fn copy_from_host(&mut self, values: &[T], stream: &Stream) -> Result<(), Error> {
        self.all_mut().copy_from_host(values, stream)
    }

    /// Reads all of it in the order of a stream ([`DeviceSlice::copy_to_host`]).
    pub fn copy_to_host(&self, values: &mut [T], stream: &Stream) -> Result<(), Error> {
        self.all().copy_to_host(values, stream)
    }

    /// All of it as a vector ([`DeviceSlice::to_host`]).
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        self.all().to_host(stream)
    }
}

fn refuse_capture(guard: &MemoryGuard<'_>) -> Result<(), Error> {
    match guard.capture() {
        Some(_) => Err(Error::Captured {
            what: "a copy from or to memory of the program",
        }),
        None => Ok(()),
    }
}

/// Waits for a copy from or to memory that the caller borrows. The guard keeps a capture, which
/// would forbid that, from beginning.
fn wait_for_copy(stream: &Stream, _guard: MemoryGuard<'_>) -> Result<(), Error> {
    let result = wait(stream);
    let may_run = |result: &Result<(), Error>| {
        let error = result.as_ref().err();
        error.is_some_and(|error| !error.is_sticky())
    };
    if may_run(&result) && may_run(&stream.context().synchronize()) {
        // The device may still use memory that its owner would.
        eprintln!("ptxkit: a copy of the program's memory cannot be waited for: {result:?}");
        std::process::abort();
    }
    result
}
