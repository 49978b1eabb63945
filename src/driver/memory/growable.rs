//! Device memory that grows in place.

use std::ops::Deref;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::buffer::{DeviceBuffer, DeviceMemory};
use crate::driver::memory::location::Access;
use crate::driver::memory::virtual_memory::{AddressRange, Mapping, Mappings, PhysicalMemory};
use crate::driver::pod::Pod;

/// An array in device memory that grows without a copy: its addresses are
/// reserved at first, and memory is mapped to them as it is needed.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, GrowableBuffer};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let mut numbers = GrowableBuffer::<u32>::with_capacity(&context, 1 << 20)?;
/// numbers.extend(&[1, 2, 3])?;
/// let address = numbers.address();
/// numbers.extend(&[4, 5])?;
/// assert_eq!(numbers.to_vec()?, [1, 2, 3, 4, 5]);
/// assert_eq!(numbers.address(), address);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct GrowableBuffer<T> {
    /// The part in use.
    buffer: DeviceBuffer<T>,
    allocation: Arc<Allocation>,
    range: AddressRange,
    /// Bytes with physical memory.
    mapped: usize,
}

impl<T: Pod> GrowableBuffer<T> {
    /// An empty array with addresses for `capacity` values, and memory for none.
    pub fn with_capacity(context: &Context, capacity: usize) -> Result<GrowableBuffer<T>, Error> {
        let bytes = capacity.saturating_mul(size_of::<T>());
        let range = AddressRange::reserve(context, bytes, 0)?;
        let release = Release::Mapped(Mappings::default());
        let (address, bytes) = (range.address(), range.bytes());
        let allocation = Allocation::new(context, address, bytes, false, release, false);
        Ok(GrowableBuffer {
            buffer: DeviceBuffer::of(DeviceMemory::sharing(&allocation), 0),
            allocation,
            range,
            mapped: 0,
        })
    }

    /// Its capacity in values.
    pub fn capacity(&self) -> usize {
        self.range.bytes() / size_of::<T>().max(1)
    }

    /// Bytes of physical memory that it has.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped
    }

    /// Resizes it to `len` values. Physical memory is mapped as needed and not released;
    /// new values are unspecified. Memory that it has once it keeps.
    ///
    /// # Errors
    /// [`Error::Ended`] if another buffer took the place of its [own](GrowableBuffer::buffer_mut),
    /// which may still be there: the memory would have two owners.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        if !Arc::ptr_eq(self.buffer.allocation(), &self.allocation) {
            return Err(Error::Ended);
        }
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes > self.range.bytes() {
            return Err(Error::Length {
                what: "growth of a buffer",
                given: len,
                capacity: self.capacity(),
            });
        }
        if bytes > self.mapped {
            let context = self.allocation.context();
            let memory = PhysicalMemory::new(context, bytes - self.mapped)?;
            let mapping = self.range.map(self.mapped, &memory)?;
            mapping.set_access(context.device(), Access::ReadWrite)?;
            self.mapped += memory.bytes();
            self.allocation.retain_mapping(mapping);
        }
        self.buffer = DeviceBuffer::of(DeviceMemory::sharing(&self.allocation), len);
        Ok(())
    }

    /// Appends values.
    pub fn extend(&mut self, values: &[T]) -> Result<(), Error> {
        let len = self.buffer.len();
        self.resize(len.saturating_add(values.len()))?;
        self.buffer.write_at(len, values)
    }

    /// The values to write, copy to and fill.
    pub fn buffer_mut(&mut self) -> &mut DeviceBuffer<T> {
        &mut self.buffer
    }
}

impl<T> Deref for GrowableBuffer<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// The memory of a mapping as an array, with as many values as fit. How
    /// devices may use it is [`Mapping::set_access`]'s to say, before.
    pub fn mapped(mapping: Mapping) -> DeviceBuffer<T> {
        let (address, bytes) = (mapping.address(), mapping.bytes());
        let context = mapping.context().clone();
        let mappings = Mappings::default();
        mappings.push(mapping);
        let release = Release::Mapped(mappings);
        let allocation = Allocation::new(&context, address, bytes, false, release, false);
        let len = bytes / size_of::<T>().max(1);
        DeviceBuffer::of(DeviceMemory::sharing(&allocation), len)
    }
}
