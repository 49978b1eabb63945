//! Stream memory operations: writes of values, and waits for values.

use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::order::Effect;
use crate::driver::memory::uses::{MemoryGuard, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{CUdeviceptr, MemoryOperation};

/// The condition of a wait (`CUstreamWaitValue_flags`), for the value in memory and the one
/// given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WaitValue {
    /// Their difference is not negative, in wrapping arithmetic.
    AtLeast = 0,
    /// They are equal.
    Equal = 1,
    /// Their bitwise and is not zero.
    AnyBit = 2,
    /// Their bitwise nor is not zero.
    NotAllBits = 3,
}

/// One of several operations that a stream is given at once; see
/// [`Stream::memory_operations`]. Each is about the first element of a buffer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum MemoryOp<'a> {
    /// Writes 4 bytes.
    Write(&'a DeviceBuffer<u32>, u32),
    /// Writes 8 bytes.
    Write64(&'a DeviceBuffer<u64>, u64),
    /// Waits for 4 bytes.
    Wait(&'a DeviceBuffer<u32>, WaitValue, u32),
    /// Waits for 8 bytes.
    Wait64(&'a DeviceBuffer<u64>, WaitValue, u64),
}

impl Stream {
    /// Writes `value` to the first element of `to` once all work queued so far
    /// is done (`cuStreamWriteValue32_v2`, from CUDA 11.7).
    pub fn write_value(&self, to: &DeviceBuffer<u32>, value: u32) -> Result<(), Error> {
        let (address, _guard) = self.value_address(to)?;
        let api = self.context().bind()?;
        // SAFETY: the buffer has an element, and freeing it waits for the stream.
        unsafe { Ok(api.cuStreamWriteValue32_v2(self.raw(), address, value, 0)?) }
    }

    /// The same with 64 bits (`cuStreamWriteValue64_v2`).
    pub fn write_value_64(&self, to: &DeviceBuffer<u64>, value: u64) -> Result<(), Error> {
        let (address, _guard) = self.value_address(to)?;
        let api = self.context().bind()?;
        // SAFETY: as `write_value`.
        unsafe { Ok(api.cuStreamWriteValue64_v2(self.raw(), address, value, 0)?) }
    }

    /// Lets work queued from now on wait until the first element of `at` is as
    /// `until` says (`cuStreamWaitValue32_v2`, from CUDA 11.7).
    pub fn wait_value(
        &self,
        at: &DeviceBuffer<u32>,
        until: WaitValue,
        value: u32,
    ) -> Result<(), Error> {
        let (address, _guard) = self.value_address(at)?;
        let api = self.context().bind()?;
        // SAFETY: as `write_value`.
        unsafe { Ok(api.cuStreamWaitValue32_v2(self.raw(), address, value, until as u32)?) }
    }

    /// The same with 64 bits (`cuStreamWaitValue64_v2`).
    pub fn wait_value_64(
        &self,
        at: &DeviceBuffer<u64>,
        until: WaitValue,
        value: u64,
    ) -> Result<(), Error> {
        let (address, _guard) = self.value_address(at)?;
        let api = self.context().bind()?;
        // SAFETY: as `write_value`.
        unsafe { Ok(api.cuStreamWaitValue64_v2(self.raw(), address, value, until as u32)?) }
    }

    /// Several such writes and waits as one call (`cuStreamBatchMemOp_v2`, from
    /// CUDA 11.7), at most 256. They are done in their order.
    pub fn memory_operations(&self, operations: &[MemoryOp<'_>]) -> Result<(), Error> {
        let described = operations
            .iter()
            .map(|operation| {
                let mut described = MemoryOperation::default();
                (described.operation, described.address, described.value) = match *operation {
                    MemoryOp::Wait(at, _, value) => (1, self.address_of_first(at)?, value.into()),
                    MemoryOp::Write(to, value) => (2, self.address_of_first(to)?, value.into()),
                    MemoryOp::Wait64(at, _, value) => (4, self.address_of_first(at)?, value),
                    MemoryOp::Write64(to, value) => (5, self.address_of_first(to)?, value),
                };
                if let MemoryOp::Wait(_, until, _) | MemoryOp::Wait64(_, until, _) = operation {
                    described.flags = *until as u32;
                }
                Ok(described)
            })
            .collect::<Result<Vec<_>, Error>>();
        let mut described = described?;
        if described.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(described.len()).unwrap_or(u32::MAX);
        let memory = operations.iter().map(|operation| match operation {
            MemoryOp::Wait(buffer, ..) | MemoryOp::Write(buffer, _) => {
                buffer.used(Effect::Synchronizes)
            }
            MemoryOp::Wait64(buffer, ..) | MemoryOp::Write64(buffer, _) => {
                buffer.used(Effect::Synchronizes)
            }
        });
        let api = self.context().bind()?;
        let _guard = lock_memory(Some(self), memory)?;
        // SAFETY: as many operations as said, on elements of live buffers; freeing one waits
        // for the stream.
        unsafe { Ok(api.cuStreamBatchMemOp_v2(self.raw(), count, described.as_mut_ptr(), 0)?) }
    }

    /// The address of a buffer's first element, and the guard to hold until the operation
    /// is queued.
    fn value_address<'a, T: Pod>(
        &'a self,
        buffer: &'a DeviceBuffer<T>,
    ) -> Result<(CUdeviceptr, MemoryGuard<'a>), Error> {
        let address = self.address_of_first(buffer)?;
        Ok((
            address,
            lock_memory(Some(self), [buffer.used(Effect::Synchronizes)])?,
        ))
    }

    fn address_of_first<T: Pod>(&self, buffer: &DeviceBuffer<T>) -> Result<CUdeviceptr, Error> {
        if buffer.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "buffer and stream",
            });
        }
        if buffer.is_empty() {
            return Err(Error::Length {
                what: "value of a stream",
                given: 1,
                capacity: 0,
            });
        }
        Ok(buffer.address())
    }
}
