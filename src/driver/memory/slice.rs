//! Parts of device memory: what copies, fills and launches work on.

use std::marker::PhantomData;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::fill::FillValue;
use crate::driver::memory::length;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use crate::driver::stream::Stream;
use crate::driver::stream::attribute::{AccessPolicy, AccessProperty};
use api::{Api, CUdeviceptr};

/// Part of a [`DeviceBuffer`](crate::driver::DeviceBuffer), or all of it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let mut numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3, 4, 5])?;
/// let (mut left, right) = numbers.all_mut().split_at_mut(2)?;
/// left.copy_from(&right.slice(1..)?)?;
/// assert_eq!(numbers.to_vec()?, [4, 5, 3, 4, 5]);
/// for chunk in numbers.all().chunks(2) {
///     println!("{:?}", chunk.to_vec()?);
/// }
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceSlice<'a, T> {
    allocation: &'a Arc<Allocation>,
    address: CUdeviceptr,
    len: usize,
    values: PhantomData<&'a T>,
}

/// Part of a [`DeviceBuffer`](crate::driver::DeviceBuffer) that a kernel or a copy writes:
/// no other part that is there meanwhile has memory of it.
#[derive(Debug)]
pub struct DeviceSliceMut<'a, T>(DeviceSlice<'a, T>);

impl<'a, T> DeviceSlice<'a, T> {
    /// `len` values from this address on, which are in `allocation`.
    pub(super) fn new(
        allocation: &'a Arc<Allocation>,
        address: CUdeviceptr,
        len: usize,
    ) -> DeviceSlice<'a, T> {
        DeviceSlice {
            allocation,
            address,
            len,
            values: PhantomData,
        }
    }

    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.allocation
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'a> {
        Use {
            memory: self.allocation,
            part: Part::new(self.address, self.len * size_of::<T>()),
            effect,
        }
    }

    pub(crate) fn place(&self) -> &CUdeviceptr {
        &self.address
    }

    /// Part of it, for `what`.
    pub(super) fn range(
        &self,
        what: &'static str,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSlice<'a, T>, Error> {
        let (start, len) = length::range(what, range, self.len)?;
        Ok(self.part(start, len))
    }

    /// The part that begins at value `start`. Both are within it.
    fn part(&self, start: usize, len: usize) -> DeviceSlice<'a, T> {
        let address = self.address + (start * size_of::<T>()) as u64;
        DeviceSlice::new(self.allocation, address, len)
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// How many values it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>() // no more than the memory has
    }

    /// The device address of its first value.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.allocation.context()
    }

    /// Part of it.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>, Error> {
        self.range("part of a buffer", range)
    }

    /// Its first `at` values, and the others.
    pub fn split_at(&self, at: usize) -> Result<(DeviceSlice<'_, T>, DeviceSlice<'_, T>), Error> {
        length::check_range("part of a buffer", 0, at, self.len)?;
        Ok((self.part(0, at), self.part(at, self.len - at)))
    }

    /// Parts of `len` values in a row, of which the last may have fewer; 0 counts as 1.
    pub fn chunks(&self, len: usize) -> impl Iterator<Item = DeviceSlice<'_, T>> {
        let len = len.max(1);
        (0..self.len)
            .step_by(len)
            .map(move |start| self.part(start, len.min(self.len - start)))
    }

    /// The same memory as values of another type ([`Error::Cast`]).
    pub fn cast<U: Pod>(&self) -> Result<DeviceSlice<'_, U>, Error> {
        let (bytes, size, align) = (self.bytes(), size_of::<U>(), align_of::<U>());
        if size == 0 || !bytes.is_multiple_of(size) || !self.address.is_multiple_of(align as u64) {
            return Err(Error::Cast {
                address: self.address,
                bytes,
                size,
                align,
            });
        }
        let len = bytes / size;
        Ok(DeviceSlice::new(self.allocation, self.address, len))
    }

    /// Reads all of it (`cuMemcpyDtoH_v2`); `values` has its length.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        length::check_equal("read of a buffer", values.len(), self.len)?;
        let destination = bytes_of_mut(values);
        if destination.is_empty() {
            return Ok(());
        }
        let api = self.context().bind()?;
        let _guard = lock_memory(None, [self.used(Effect::Read)])?;
        let (to, bytes) = (destination.as_mut_ptr().cast(), destination.len());
        // SAFETY: both have that many bytes; any bits are values.
        unsafe { Ok(api.cuMemcpyDtoH_v2(to, self.address, bytes)?) }
    }

    /// All of it as a vector.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len);
        self.read(&mut values)?;
        Ok(values)
    }

    /// Reads all of it into pinned memory in stream order (`cuMemcpyDtoHAsync_v2`).
    /// The pinned buffer waits for the copy before it is read or freed.
    pub fn read_async(&self, values: &mut PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        length::check_equal("read of a buffer", values.len(), self.len)?;
        let api = self.bind_with(Some(stream))?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let memory = [self.used(Effect::Read), values.used(Effect::Write)];
        let guard = lock_memory(Some(stream), memory)?;
        let (to, from) = (values.pointer().cast(), self.address);
        // SAFETY: both have that many bytes; the pinned memory stays as it is until the
        // stream is done.
        unsafe { api.cuMemcpyDtoHAsync_v2(to, from, self.bytes(), stream.raw()) }?;
        drop(guard);
        self.after(Some(stream), "copy to the host")
    }

    pub(super) fn bind_with(&self, stream: Option<&Stream>) -> Result<&'static Api, Error> {
        if stream.is_some_and(|stream| stream.context() != self.context()) {
            return Err(Error::DifferentContexts {
                what: "buffer and stream",
            });
        }
        self.context().bind()
    }

    /// In check mode, waits for what was queued just now.
    fn after(&self, stream: Option<&Stream>, what: &str) -> Result<(), Error> {
        match stream {
            Some(stream) if self.context().check_mode() => {
                stream.wait_for_check(|| format!("{what}, {} bytes", self.bytes()))
            }
            _ => Ok(()),
        }
    }
}

impl<'a, T: Pod> DeviceSliceMut<'a, T> {
    /// It has memory of no other slice that is there meanwhile.
    pub(super) fn new(slice: DeviceSlice<'a, T>) -> DeviceSliceMut<'a, T> {
        DeviceSliceMut(slice)
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'a> {
        self.0.used(effect)
    }

    /// Part of it.
    pub fn slice_mut(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSliceMut<'_, T>, Error> {
        self.0.slice(range).map(DeviceSliceMut)
    }

    /// Its first `at` values, and the others. It is used up, so that both can outlive it;
    /// [`slice_mut(..)`](DeviceSliceMut::slice_mut) splits it for a while.
    pub fn split_at_mut(
        self,
        at: usize,
    ) -> Result<(DeviceSliceMut<'a, T>, DeviceSliceMut<'a, T>), Error> {
        length::check_range("part of a buffer", 0, at, self.len)?;
        let others = self.0.part(at, self.len - at);
        Ok((DeviceSliceMut(self.0.part(0, at)), DeviceSliceMut(others)))
    }

    /// Parts of `len` values in a row, of which the last may have fewer; 0 counts as 1.
    pub fn chunks_mut(&mut self, len: usize) -> impl Iterator<Item = DeviceSliceMut<'_, T>> {
        self.0.chunks(len).map(DeviceSliceMut)
    }

    /// The same memory as values of another type ([`Error::Cast`]).
    pub fn cast_mut<U: Pod>(&mut self) -> Result<DeviceSliceMut<'_, U>, Error> {
        self.0.cast().map(DeviceSliceMut)
    }

    /// Writes all of it (`cuMemcpyHtoD_v2`); `values` has its length.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        length::check_equal("write to a buffer", values.len(), self.len)?;
        let bytes = bytes_of(values);
        if bytes.is_empty() {
            return Ok(());
        }
        let api = self.context().bind()?;
        let _guard = lock_memory(None, [self.used(Effect::Write)])?;
        // SAFETY: both have that many bytes.
        unsafe { Ok(api.cuMemcpyHtoD_v2(self.address, bytes.as_ptr().cast(), bytes.len())?) }
    }

    /// Writes all of it from pinned memory in stream order (`cuMemcpyHtoDAsync_v2`).
    /// The pinned buffer waits for the copy before it is written or freed.
    pub fn write_async(&mut self, values: &PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        length::check_equal("write to a buffer", values.len(), self.len)?;
        let api = self.bind_with(Some(stream))?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let memory = [self.used(Effect::Write), values.used(Effect::Read)];
        let guard = lock_memory(Some(stream), memory)?;
        let (to, from) = (self.address, values.pointer().cast());
        // SAFETY: both have that many bytes; the pinned memory stays as it is until the
        // stream is done.
        unsafe { api.cuMemcpyHtoDAsync_v2(to, from, self.bytes(), stream.raw()) }?;
        drop(guard);
        self.after(Some(stream), "copy to the device")
    }

    /// Sets every value (`cuMemsetD8_v2`, `cuMemsetD16_v2`, `cuMemsetD32_v2`;
    /// larger values are copied from the host).
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        if !matches!(size_of::<T>(), 1 | 2 | 4) {
            return self.write(&vec![value; self.len]);
        }
        self.fill_in(None, value, self.len)
    }

    /// Sets every value in stream order (`cuMemsetD8Async`, `cuMemsetD16Async`,
    /// `cuMemsetD32Async`). Values have 1, 2 or 4 bytes.
    pub fn fill_async(&mut self, value: T, stream: &Stream) -> Result<(), Error> {
        self.fill_in(Some(stream), value, self.len)
    }

    /// Sets every byte (`cuMemsetD8_v2`).
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), Error> {
        self.fill_in(None, byte, self.bytes())
    }

    /// Sets every byte in stream order (`cuMemsetD8Async`).
    pub fn fill_bytes_async(&mut self, byte: u8, stream: &Stream) -> Result<(), Error> {
        self.fill_in(Some(stream), byte, self.bytes())
    }

    fn fill_in<V: Pod>(
        &mut self,
        stream: Option<&Stream>,
        value: V,
        count: usize,
    ) -> Result<(), Error> {
        let fill = FillValue::of(&value)?;
        let api = self.bind_with(stream)?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let _guard = lock_memory(stream, [self.used(Effect::Write)])?;
        // SAFETY: the range is the slice, which is aligned to its values, or else the driver
        // refuses it; freeing it waits for the stream.
        unsafe { fill.fill(api, stream, self.address, count) }?;
        self.after(stream, "fill")
    }

    /// Copies all of another slice of the same length (`cuMemcpyDtoD_v2`). The
    /// copy is ordered like work of the default stream.
    pub fn copy_from(&mut self, source: &DeviceSlice<'_, T>) -> Result<(), Error> {
        self.copy_from_in(source, None)
    }

    /// The same in stream order (`cuMemcpyDtoDAsync_v2`).
    pub fn copy_from_async(
        &mut self,
        source: &DeviceSlice<'_, T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.copy_from_in(source, Some(stream))
    }

    fn copy_from_in(
        &mut self,
        source: &DeviceSlice<'_, T>,
        stream: Option<&Stream>,
    ) -> Result<(), Error> {
        length::check_equal("copy between buffers", source.len, self.len)?;
        let api = self.bind_with(stream)?;
        if source.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "the buffers of a copy",
            });
        }
        if self.bytes() == 0 {
            return Ok(());
        }
        let memory = [self.used(Effect::Write), source.used(Effect::Read)];
        let guard = lock_memory(stream, memory)?;
        let (to, from, bytes) = (self.address, source.address, self.bytes());
        // SAFETY: both have that many bytes; freeing either waits for the copy.
        unsafe {
            match stream {
                Some(stream) => api.cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()),
                None => api.cuMemcpyDtoD_v2(to, from, bytes),
            }
        }?;
        drop(guard);
        self.after(stream, "copy between buffers")
    }
}

impl<'a, T> Deref for DeviceSliceMut<'a, T> {
    type Target = DeviceSlice<'a, T>;

    fn deref(&self) -> &DeviceSlice<'a, T> {
        &self.0
    }
}

impl AccessPolicy {
    /// The memory of a slice is to stay in L2, or as much of it as the ratio
    /// says; the rest of it streams.
    pub fn persisting<T: Pod>(slice: &DeviceSlice<'_, T>, hit_ratio: f32) -> AccessPolicy {
        AccessPolicy {
            address: slice.address(),
            bytes: slice.bytes(),
            hit_ratio,
            hit: AccessProperty::Persisting,
            miss: AccessProperty::Streaming,
        }
    }
}
