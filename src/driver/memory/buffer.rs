//! Device memory: owned, typed, copied both ways.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::order::Effect;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::pool::MemoryPool;
use crate::driver::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::driver::memory::uses::Use;
use crate::driver::pod::Pod;
use crate::driver::pod::boolean::Bool;
use crate::driver::stream::Stream;
use crate::driver::stream::users::StreamOfThread;
use api::{Api, CUdeviceptr};

/// Bytes of device memory, freed when dropped (`cuMemFree_v2`, which waits for
/// the work that uses them), or with the last graph that uses them.
///
/// Memory from [`new_async`](DeviceMemory::new_async) or a
/// [`MemoryPool`](crate::driver::MemoryPool) is freed in the order of its stream
/// (`cuMemFreeAsync`), after the work of all streams that were given it.
#[derive(Debug)]
pub struct DeviceMemory {
    allocation: Arc<Allocation>,
}

impl DeviceMemory {
    /// Allocates (`cuMemAlloc_v2`, and `cuMemFree_v2` when it is dropped); what the
    /// bytes are is not said. 0 bytes are no allocation and have address 0.
    pub fn new(context: &Context, bytes: usize) -> Result<DeviceMemory, Error> {
        let api = context.bind()?;
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: writes one address.
            unsafe { api.cuMemAlloc_v2(&mut address, bytes) }?;
        }
        Ok(DeviceMemory::adopt(context, address, bytes))
    }

    /// Allocates in the order of a stream, from the current pool of its device
    /// (`cuMemAllocAsync`, from CUDA 11.2). Work of other streams waits for the
    /// allocation by itself when it uses the memory. A capturing stream
    /// allocates nothing ([`Error::Captured`]).
    pub fn new_async(stream: &Stream, bytes: usize) -> Result<DeviceMemory, Error> {
        DeviceMemory::in_order(stream, bytes, |api, address| {
            // SAFETY: the stream is live; writes one address.
            unsafe { Ok(api.cuMemAllocAsync(address, bytes, stream.raw())?) }
        })
    }

    fn in_order(
        stream: &Stream,
        bytes: usize,
        allocate: impl FnOnce(&Api, &mut CUdeviceptr) -> Result<(), Error>,
    ) -> Result<DeviceMemory, Error> {
        let enqueue = stream.begin_enqueue();
        if enqueue.capture().is_some() {
            return Err(Error::Captured {
                what: "an allocation",
            });
        }
        let context = stream.context();
        let api = context.bind()?;
        let mut address = 0;
        let mut release = Release::Nothing;
        if bytes > 0 {
            allocate(api, &mut address)?;
            release = Release::InOrder(StreamOfThread::new(stream));
        }
        Ok(DeviceMemory {
            allocation: Allocation::new(context, address, bytes, false, release, true),
        })
    }

    /// Takes over an allocation of `bytes` bytes that `cuMemFree_v2` frees.
    pub(crate) fn adopt(context: &Context, address: CUdeviceptr, bytes: usize) -> DeviceMemory {
        DeviceMemory {
            allocation: Allocation::device(context, address, bytes),
        }
    }

    /// Memory that others have too.
    pub(crate) fn sharing(allocation: &Arc<Allocation>) -> DeviceMemory {
        DeviceMemory {
            allocation: allocation.clone(),
        }
    }

    /// Frees it in the order of another stream than the one in which it was
    /// allocated (`cuMemFreeAsync`): after that stream's work so far, and after
    /// the work of all streams that were given the memory. Memory that was not
    /// allocated in a stream's order is dropped. A graph that uses the memory
    /// frees it with itself.
    pub fn free_async(mut self, stream: &Stream) -> Result<(), Error> {
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "memory and stream",
            });
        }
        if stream.is_capturing() {
            return Err(Error::Captured {
                what: "the end of memory",
            });
        }
        if let Some(allocation) = Arc::get_mut(&mut self.allocation) {
            allocation.move_to(stream);
        }
        Ok(())
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.allocation.context()
    }

    /// Its address on the device.
    pub fn address(&self) -> CUdeviceptr {
        *self.allocation.address()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.allocation.bytes()
    }

    /// For a graph that uses it.
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

/// An array in device memory.
///
/// Calls that name no stream are work of the default stream. Work of all streams that uses an
/// array is in order, unless [that is turned off](Context::disable_event_tracking).
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let mut numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3, 4])?;
/// numbers.write_at(2, &[30])?;
/// assert_eq!(numbers.to_vec()?, [1, 2, 30, 4]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceBuffer<T> {
    memory: DeviceMemory,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// An array of `len` values; which values is not said (`cuMemAlloc_v2`).
    pub fn new(context: &Context, len: usize) -> Result<DeviceBuffer<T>, Error> {
        // More than all memory: the driver says "out of memory".
        let bytes = len.saturating_mul(size_of::<T>());
        DeviceMemory::new(context, bytes).map(|memory| DeviceBuffer::of(memory, len))
    }

    /// An array of `len` values, allocated in the order of a stream
    /// ([`DeviceMemory::new_async`]) and freed in it: which values is not said.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let stream = Stream::new(&context)?;
    /// let mut scratch = DeviceBuffer::<u32>::new_async(&stream, 1024)?;
    /// scratch.fill_async(7, &stream)?;
    /// drop(scratch); // nothing waits: it is freed when the stream comes to it
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn new_async(stream: &Stream, len: usize) -> Result<DeviceBuffer<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        DeviceMemory::new_async(stream, bytes).map(|memory| DeviceBuffer::of(memory, len))
    }

    pub(crate) fn of(memory: DeviceMemory, len: usize) -> DeviceBuffer<T> {
        DeviceBuffer {
            memory,
            len,
            values: PhantomData,
        }
    }

    /// Frees it in the order of another stream ([`DeviceMemory::free_async`]).
    pub fn free_async(self, stream: &Stream) -> Result<(), Error> {
        self.memory.free_async(stream)
    }

    /// An array of `len` values of zero bits.
    pub fn zeroed(context: &Context, len: usize) -> Result<DeviceBuffer<T>, Error> {
        let mut buffer = DeviceBuffer::new(context, len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// A copy of `values`.
    pub fn from_slice(context: &Context, values: &[T]) -> Result<DeviceBuffer<T>, Error> {
        let mut buffer = DeviceBuffer::new(context, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

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

    /// Its address on the device.
    pub fn address(&self) -> CUdeviceptr {
        self.memory.address()
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    /// All of it, to read.
    pub fn all(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(self.allocation(), self.address(), self.len)
    }

    /// All of it, to write.
    pub fn all_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(self.all())
    }

    /// Part of it: to launch a kernel with, to copy from.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>, Error> {
        self.all().range("part of a buffer", range)
    }

    /// Part of it that a kernel or a copy writes.
    pub fn slice_mut(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSliceMut<'_, T>, Error> {
        self.slice(range).map(DeviceSliceMut::new)
    }

    /// Writes all of it (`cuMemcpyHtoD_v2`); `values` has its length.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.all_mut().write(values)
    }

    /// Writes `values` from value `at` on (`cuMemcpyHtoD_v2`).
    pub fn write_at(&mut self, at: usize, values: &[T]) -> Result<(), Error> {
        let end = at.saturating_add(values.len());
        let part = self.all().range("write to a buffer", at..end)?;
        DeviceSliceMut::new(part).write(values)
    }

    /// Reads all of it (`cuMemcpyDtoH_v2`); `values` has its length.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        self.all().read(values)
    }

    /// Reads from value `at` on (`cuMemcpyDtoH_v2`).
    pub fn read_at(&self, at: usize, values: &mut [T]) -> Result<(), Error> {
        let end = at.saturating_add(values.len());
        self.all().range("read of a buffer", at..end)?.read(values)
    }

    /// All of it as a vector.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.all().to_vec()
    }

    /// Sets every value ([`DeviceSliceMut::fill`]).
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        self.all_mut().fill(value)
    }

    /// Sets every value in stream order ([`DeviceSliceMut::fill_async`]).
    pub fn fill_async(&mut self, value: T, stream: &Stream) -> Result<(), Error> {
        self.all_mut().fill_async(value, stream)
    }

    /// Sets every byte (`cuMemsetD8_v2`).
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), Error> {
        self.all_mut().fill_bytes(byte)
    }

    /// Sets every byte in stream order (`cuMemsetD8Async`).
    pub fn fill_bytes_async(&mut self, byte: u8, stream: &Stream) -> Result<(), Error> {
        self.all_mut().fill_bytes_async(byte, stream)
    }

    /// Copies all of another buffer of the same length (`cuMemcpyDtoD_v2`). The
    /// copy is ordered like work of the default stream.
    pub fn copy_from(&mut self, source: &DeviceBuffer<T>) -> Result<(), Error> {
        self.all_mut().copy_from(&source.all())
    }

    /// The same in stream order (`cuMemcpyDtoDAsync_v2`).
    pub fn copy_from_async(
        &mut self,
        source: &DeviceBuffer<T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.all_mut().copy_from_async(&source.all(), stream)
    }

    /// Writes all of it from pinned memory in stream order (`cuMemcpyHtoDAsync_v2`).
    /// The pinned buffer waits for the copy before it is written or freed.
    pub fn write_async(&mut self, values: &PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        self.all_mut().write_async(values, stream)
    }

    /// Reads all of it into pinned memory in stream order (`cuMemcpyDtoHAsync_v2`).
    /// The pinned buffer waits for the copy before it is read or freed.
    pub fn read_async(&self, values: &mut PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        self.all().read_async(values, stream)
    }

    /// For a graph that uses it.
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        self.memory.allocation()
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        Use::whole(self.allocation(), effect)
    }
}

impl DeviceBuffer<Bool> {
    /// All of it as a vector ([`Error::Bool`] for a byte other than 0 and 1).
    pub fn to_bools(&self) -> Result<Vec<bool>, Error> {
        let values = self.to_vec()?.into_iter().enumerate();
        values
            .map(|(index, value)| {
                value.get().ok_or(Error::Bool {
                    index,
                    byte: value.0,
                })
            })
            .collect()
    }
}

impl MemoryPool {
    /// Allocates in the order of a stream of its device, and frees in it
    /// (`cuMemAllocFromPoolAsync`).
    pub fn memory(&self, stream: &Stream, bytes: usize) -> Result<DeviceMemory, Error> {
        if stream.context().device() != self.device() {
            return Err(Error::DifferentDevices {
                what: "pool and stream",
            });
        }
        DeviceMemory::in_order(stream, bytes, |api, address| {
            // SAFETY: pool and stream are live; writes one address.
            unsafe { Ok(api.cuMemAllocFromPoolAsync(address, bytes, self.raw(), stream.raw())?) }
        })
    }

    /// The same as `len` values; which values is not said.
    pub fn buffer<T: Pod>(&self, stream: &Stream, len: usize) -> Result<DeviceBuffer<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        self.memory(stream, bytes)
            .map(|memory| DeviceBuffer::of(memory, len))
    }
}
