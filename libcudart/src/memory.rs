//! Device and managed memory.

use std::ffi::{c_int, c_uint, c_void};

use api::MemLocation;

use crate::context::ready;
use crate::entry::{Stream, driver, entries};
use crate::error::{Code, Result};
use crate::types::{Extent, PitchedPointer, PointerAttributes};

/// `CU_POINTER_ATTRIBUTE_…`
const MEMORY_TYPE: c_uint = 2;
const DEVICE_POINTER: c_uint = 3;
const HOST_POINTER: c_uint = 4;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;

/// `cudaMemoryType`: memory of the host that the driver does not know, and managed memory.
const UNREGISTERED: c_uint = 0;
const MANAGED: c_uint = 3;

/// What an attribute of a pointer is; `T` is what the driver writes.
fn attribute<T: Default>(number: c_uint, address: u64) -> Result<T> {
    let mut value = T::default();
    driver!(cuPointerGetAttribute(
        (&raw mut value).cast(),
        number,
        address
    ))?;
    Ok(value)
}

/// `CU_MEMORYTYPE_…` of an address that the driver knows: 1 the host's, 2 the device's.
pub(crate) fn memory_type(address: u64) -> Option<c_uint> {
    let (mut number, mut kind) = (MEMORY_TYPE, 0);
    let mut place = (&raw mut kind).cast::<c_void>();
    // The plural form is no error for an address that the driver does not know.
    let mut ask = || driver!(cuPointerGetAttributes(1, &mut number, &mut place, address));
    ask().ok()?;
    (kind != 0).then_some(kind)
}

fn pointer_attributes(address: u64) -> Result<PointerAttributes> {
    let pointer = |address: u64| std::ptr::with_exposed_provenance_mut(address as usize);
    let Some(kind) = memory_type(address) else {
        return Ok(PointerAttributes {
            kind: UNREGISTERED,
            device: -2,
            device_pointer: std::ptr::null_mut(),
            host_pointer: pointer(address),
            reserved: [0; 8],
        });
    };
    let is_managed = attribute::<u8>(IS_MANAGED, address).unwrap_or(0) != 0;
    Ok(PointerAttributes {
        kind: if is_managed { MANAGED } else { kind },
        device: attribute(DEVICE_ORDINAL, address)?,
        device_pointer: pointer(attribute(DEVICE_POINTER, address).unwrap_or(0)),
        host_pointer: pointer(attribute(HOST_POINTER, address).unwrap_or(0)),
        reserved: [0; 8],
    })
}

/// Rows of `width` bytes, and how far apart they are.
fn pitched(width: usize, rows: usize) -> Result<(u64, usize)> {
    let (mut address, mut pitch) = (0, 0);
    driver!(cuMemAllocPitch_v2(
        &mut address,
        &mut pitch,
        width,
        rows,
        16
    ))?;
    Ok((address, pitch))
}

entries! {
    /// Device memory.
    fn cudaMalloc(address: *mut *mut c_void, bytes: usize) {
        ready()?;
        address.required()?;
        if bytes == 0 {
            return address.put(std::ptr::null_mut());
        }
        let mut allocated = 0;
        driver!(cuMemAlloc_v2(&mut allocated, bytes))?;
        address.put_address(allocated)
    }

    /// Device memory for rows.
    fn cudaMallocPitch(address: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        ready()?;
        address.required()?;
        pitch.required()?;
        let (allocated, bytes) = pitched(width, height)?;
        address.put_address(allocated)?;
        pitch.put(bytes)
    }

    /// Device memory for slices of rows.
    fn cudaMalloc3D(result: *mut PitchedPointer, extent: Extent) {
        ready()?;
        result.required()?;
        let rows = extent.height.checked_mul(extent.depth).ok_or(Code::INVALID_VALUE)?;
        let (allocated, pitch) = pitched(extent.width, rows)?;
        result.put(PitchedPointer {
            start: std::ptr::with_exposed_provenance_mut(allocated as usize),
            pitch,
            width: extent.width,
            height: extent.height,
        })
    }

    /// Memory that the host and all devices reach.
    fn cudaMallocManaged(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        ready()?;
        address.required()?;
        let mut allocated = 0;
        driver!(cuMemAllocManaged(&mut allocated, bytes, flags))?;
        address.put_address(allocated)
    }

    /// Frees device or managed memory; null is nothing to free.
    fn cudaFree(address: *mut c_void) {
        ready()?;
        if address.is_null() { Ok(()) } else { driver!(cuMemFree_v2(address.addr())) }
    }

    /// Device memory in stream order.
    fn cudaMallocAsync / cudaMallocAsync_ptsz(address: *mut *mut c_void, bytes: usize, stream: Stream) {
        ready()?;
        address.required()?;
        let mut allocated = 0;
        driver!(cuMemAllocAsync(&mut allocated, bytes, stream))?;
        address.put_address(allocated)
    }

    /// Frees device memory in stream order.
    fn cudaFreeAsync / cudaFreeAsync_ptsz(address: *mut c_void, stream: Stream) {
        ready()?;
        driver!(cuMemFreeAsync(address.addr(), stream))
    }

    /// Free and total device memory.
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        ready()?;
        driver!(cuMemGetInfo_v2(free.required()?, total.required()?))
    }

    /// Moves managed memory ahead of its use.
    fn cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz(
        address: *const c_void,
        bytes: usize,
        location: MemLocation,
        flags: c_uint,
        stream: Stream,
    ) {
        ready()?;
        driver!(cuMemPrefetchAsync_v2(address.addr(), bytes, location, flags, stream))
    }

    /// Says how managed memory is used.
    fn cudaMemAdvise(address: *const c_void, bytes: usize, advice: c_uint, location: MemLocation) {
        ready()?;
        driver!(cuMemAdvise_v2(address.addr(), bytes, advice, location))
    }

    /// One attribute of managed memory.
    fn cudaMemRangeGetAttribute(
        value: *mut c_void,
        value_bytes: usize,
        number: c_uint,
        address: *const c_void,
        bytes: usize,
    ) {
        ready()?;
        driver!(cuMemRangeGetAttribute(value.ptr(), value_bytes, number, address.addr(), bytes))
    }

    /// Ties managed memory to a stream.
    fn cudaStreamAttachMemAsync / cudaStreamAttachMemAsync_ptsz(
        stream: Stream,
        address: *mut c_void,
        bytes: usize,
        flags: c_uint,
    ) {
        ready()?;
        driver!(cuStreamAttachMemAsync(stream, address.addr(), bytes, flags))
    }

    /// Whose memory an address is of.
    fn cudaPointerGetAttributes(result: *mut PointerAttributes, address: *const c_void) {
        ready()?;
        result.put(pointer_attributes(address.addr())?)
    }

    /// What another process opens device memory with.
    fn cudaIpcGetMemHandle(handle: *mut api::CUipcMemHandle, address: *mut c_void) {
        ready()?;
        driver!(cuIpcGetMemHandle(handle.required()?, address.addr()))
    }

    /// The device memory of another process.
    fn cudaIpcOpenMemHandle(address: *mut *mut c_void, handle: api::CUipcMemHandle, flags: c_uint) {
        ready()?;
        address.required()?;
        let mut opened = 0;
        driver!(cuIpcOpenMemHandle_v2(&mut opened, handle, flags))?;
        address.put_address(opened)
    }

    /// Ends the use of another process's device memory.
    fn cudaIpcCloseMemHandle(address: *mut c_void) {
        ready()?;
        driver!(cuIpcCloseMemHandle(address.addr()))
    }

    /// Whether a device can reach another's memory.
    fn cudaDeviceCanAccessPeer(result: *mut c_int, device: c_int, peer: c_int) {
        driver!(cuDeviceCanAccessPeer(result.required()?, device, peer))
    }

    /// Lets the current device reach a peer's memory.
    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        ready()?;
        driver!(cuCtxEnablePeerAccess(crate::context::primary(peer)?, flags))
    }

    /// Ends peer access.
    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        ready()?;
        driver!(cuCtxDisablePeerAccess(crate::context::primary(peer)?))
    }
}
