//! Pointer attributes.

use std::ffi::c_void;
use std::ops::Range;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::location::Access;
use crate::driver::pod::Pod;
use api::{CUcontext, CUdeviceptr, CUmemoryPool};

/// Attributes of an address (`cuPointerGetAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerAttributes {
    /// The kind of memory; `None` if the driver does not know the address.
    pub kind: Option<MemoryKind>,
    /// The context in which it was allocated or registered, as a raw handle;
    /// null where there is none, as for memory of pools.
    pub context: CUcontext,
    /// The address for kernels, 0 where they do not reach it.
    pub device_address: CUdeviceptr,
    /// The address for the host, where it reaches it; also of memory that the
    /// driver does not know, on devices that read the host's pages by themselves.
    pub host_address: Option<usize>,
    /// The number of the device.
    pub device: Option<u32>,
    /// Whether it is managed.
    pub managed: bool,
    /// Whether it is mapped to an address for kernels.
    pub mapped: bool,
    /// The addresses of the allocation that it is in.
    pub range: Range<CUdeviceptr>,
    /// A number that no other allocation of the process has or had, 0 for none.
    pub buffer_id: u64,
    /// Whether synchronous copies of it always wait.
    pub synchronous: bool,
    /// The pool that it came from, as a raw handle, or null.
    pub pool: CUmemoryPool,
    /// Access of the current context's device.
    pub access: Access,
}

/// The kind of memory at an address (`CUmemorytype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Pinned host memory.
    Host,
    /// Device memory, or managed memory.
    Device,
    /// Managed memory, as some drivers report it.
    Unified,
    /// Any other value.
    Other(u32),
}

/// `CU_POINTER_ATTRIBUTE_*`, in the order of `slots` below.
const ATTRIBUTES: [u32; 13] = [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 16, 17];
const SYNC_MEMOPS: u32 = 6;

impl Context {
    /// Attributes of an address of this context or another (`cuPointerGetAttributes`, all
    /// of them from CUDA 11.3). An address that the driver does not know is no error.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, MemoryKind};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let buffer = DeviceBuffer::<u8>::new(&context, 100)?;
    /// let found = context.pointer_attributes(buffer.address() + 50)?;
    /// assert_eq!(found.kind, Some(MemoryKind::Device));
    /// assert_eq!(found.range, buffer.address()..buffer.address() + 100);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn pointer_attributes(&self, address: CUdeviceptr) -> Result<PointerAttributes, Error> {
        let mut slots = [0_u64; ATTRIBUTES.len()];
        let mut numbers = ATTRIBUTES;
        let mut places = slots
            .each_mut()
            .map(|slot| std::ptr::from_mut(slot).cast::<c_void>());
        let api = self.bind()?;
        let count = ATTRIBUTES.len() as u32;
        // SAFETY: a place of 8 bytes for each attribute, none of which is longer.
        unsafe {
            api.cuPointerGetAttributes(count, numbers.as_mut_ptr(), places.as_mut_ptr(), address)
        }?;
        let [
            context,
            kind,
            device_address,
            host_address,
            synchronous,
            buffer_id,
            managed,
            device,
            start,
            bytes,
            mapped,
            access,
            pool,
        ] = slots;
        // Booleans have one byte or four; the first tells.
        let truth = |slot: u64| slot & 0xFF != 0;
        let handle = |slot: u64| slot as usize;
        let kind = match kind as u32 {
            0 => None,
            1 => Some(MemoryKind::Host),
            2 => Some(MemoryKind::Device),
            4 => Some(MemoryKind::Unified),
            other => Some(MemoryKind::Other(other)),
        };
        Ok(PointerAttributes {
            kind,
            context: std::ptr::without_provenance_mut(handle(context)),
            device_address,
            host_address: Some(handle(host_address)).filter(|address| *address != 0),
            device: kind.and_then(|_| u32::try_from(device as i32).ok()),
            managed: truth(managed),
            mapped: truth(mapped),
            range: start..start.saturating_add(bytes),
            buffer_id,
            synchronous: truth(synchronous),
            pool: std::ptr::without_provenance_mut(handle(pool)),
            access: Access::from_bits(access & 0xFFFF_FFFF),
        })
    }

    /// The addresses of the allocation that an address is in
    /// (`cuMemGetAddressRange_v2`).
    pub fn address_range(&self, address: CUdeviceptr) -> Result<Range<CUdeviceptr>, Error> {
        let (mut start, mut bytes) = (0, 0);
        let api = self.bind()?;
        // SAFETY: writes an address and a number.
        unsafe { api.cuMemGetAddressRange_v2(&mut start, &mut bytes, address) }?;
        Ok(start..start + bytes as u64)
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// Lets synchronous copies of it wait for their end also where they need not
    /// (`cuPointerSetAttribute` with `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`), for
    /// memory that network cards reach. Memory of pools cannot.
    pub fn set_synchronous(&mut self, always: bool) -> Result<(), Error> {
        let value = u32::from(always);
        let api = self.context().bind()?;
        // SAFETY: the memory is live; this attribute is an `unsigned int`.
        unsafe {
            Ok(api.cuPointerSetAttribute(
                std::ptr::from_ref(&value).cast(),
                SYNC_MEMOPS,
                self.address(),
            )?)
        }
    }
}
