//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};

use api::{CUmemoryPool, MemAccessDesc, MemLocation, MemPoolProps};

use crate::context::ready;
use crate::entry::{Stream, driver, entries};

entries! {
    /// The pool that a device has from the start.
    fn cudaDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: c_int) {
        driver!(cuDeviceGetDefaultMemPool(pool.required()?, device))
    }

    /// The pool that `cudaMallocAsync` takes from.
    fn cudaDeviceGetMemPool(pool: *mut CUmemoryPool, device: c_int) {
        driver!(cuDeviceGetMemPool(pool.required()?, device))
    }

    /// Makes a pool that one.
    fn cudaDeviceSetMemPool(device: c_int, pool: CUmemoryPool) {
        driver!(cuDeviceSetMemPool(device, pool.ptr()))
    }

    /// A new pool.
    fn cudaMemPoolCreate(pool: *mut CUmemoryPool, properties: *const MemPoolProps) {
        ready()?;
        driver!(cuMemPoolCreate(pool.required()?, properties.required()?))
    }

    /// Destroys a pool.
    fn cudaMemPoolDestroy(pool: CUmemoryPool) {
        driver!(cuMemPoolDestroy(pool.ptr()))
    }

    /// Gives back what a pool does not use.
    fn cudaMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
        driver!(cuMemPoolTrimTo(pool.ptr(), keep))
    }

    /// One attribute of a pool.
    fn cudaMemPoolGetAttribute(pool: CUmemoryPool, number: c_uint, value: *mut c_void) {
        driver!(cuMemPoolGetAttribute(pool.ptr(), number, value.required()?))
    }

    /// Sets one.
    fn cudaMemPoolSetAttribute(pool: CUmemoryPool, number: c_uint, value: *mut c_void) {
        driver!(cuMemPoolSetAttribute(pool.ptr(), number, value.required()?))
    }

    /// Which devices reach a pool's memory.
    fn cudaMemPoolSetAccess(pool: CUmemoryPool, access: *const MemAccessDesc, count: usize) {
        driver!(cuMemPoolSetAccess(pool.ptr(), access.ptr(), count))
    }

    /// Whether one does.
    fn cudaMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut MemLocation) {
        driver!(cuMemPoolGetAccess(flags.required()?, pool.ptr(), location.required()?))
    }

    /// Memory of a pool in stream order.
    fn cudaMallocFromPoolAsync / cudaMallocFromPoolAsync_ptsz(
        address: *mut *mut c_void,
        bytes: usize,
        pool: CUmemoryPool,
        stream: Stream,
    ) {
        ready()?;
        address.required()?;
        let mut allocated = 0;
        driver!(cuMemAllocFromPoolAsync(&mut allocated, bytes, pool.ptr(), stream))?;
        address.put_address(allocated)
    }
}
