//! Device memory shared between processes.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::length;
use crate::driver::memory::pool::MemoryPool;
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use api::{CUdeviceptr, CUipcMemHandle, CUmemPoolPtrExportData};

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`
#[cfg(unix)]
const DMA_BUF: u32 = 1;

impl<T: Pod> DeviceBuffer<T> {
    /// The 64-byte handle by which another process opens the buffer ([`IpcBuffer::open`],
    /// `cuIpcGetMemHandle`). It names the driver's allocation, which may hold other buffers
    /// too: share it only with processes you trust. The CPU device waits for the work of the
    /// context first, and shares memory on Linux alone.
    pub fn ipc_handle(&self) -> Result<[u8; 64], Error> {
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        let api = self.context().bind()?;
        // SAFETY: the buffer is live; writes 64 bytes.
        unsafe { api.cuIpcGetMemHandle(&mut handle, self.address()) }?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }

    /// The buffer as a DMA-BUF, by which drivers of other devices, as network cards, reach it
    /// (`cuMemGetHandleForAddressRange`, from CUDA 11.7). Address and size are multiples of the
    /// host's pages, else `CUDA_ERROR_INVALID_VALUE`; devices with
    /// `DeviceAttribute::DMA_BUF_SUPPORTED` can it. The buffer must live as long as others use
    /// the descriptor: what they reach later is whatever the device has there.
    #[cfg(unix)]
    pub fn dma_buf(&self) -> Result<std::os::fd::OwnedFd, Error> {
        use std::os::fd::FromRawFd;
        self.allocation().refuse_graph_memory()?;
        let mut descriptor: std::ffi::c_int = -1;
        let api = self.context().bind()?;
        let place = (&raw mut descriptor).cast();
        // SAFETY: the buffer is live; this kind of handle is an `int`; the flags may be 0.
        unsafe {
            api.cuMemGetHandleForAddressRange(place, self.address(), self.bytes(), DMA_BUF, 0)
        }?;
        // SAFETY: a descriptor of our own, which nobody else closes.
        Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
    }

    /// The 64-byte handle by which another process opens the buffer in a pool that it has
    /// [imported](MemoryPool::import) ([`IpcBuffer::open_in`], `cuMemPoolExportPointer`).
    /// The buffer must be from a [shareable](MemoryPool::shareable) pool that was
    /// [exported](MemoryPool::export) before. Waits until the allocation is done.
    pub fn pool_handle(&self) -> Result<[u8; 64], Error> {
        self.allocation().refuse_graph_memory()?;
        self.context().synchronize()?;
        let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
        let api = self.context().bind()?;
        // SAFETY: the buffer is live; writes 64 bytes.
        unsafe { api.cuMemPoolExportPointer(&mut data, self.address()) }?;
        Ok(data.reserved)
    }
}

/// A buffer of another process, which must keep it. Closed when dropped, or with the last
/// graph that uses it.
#[derive(Debug)]
pub struct IpcBuffer<T> {
    memory: Arc<Allocation>,
    len: usize,
    values: PhantomData<T>,
}

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
const LAZY_PEER: u32 = 1;

impl<T: Pod> IpcBuffer<T> {
    /// Opens a buffer of `len` values by the bytes that its process got from
    /// [`DeviceBuffer::ipc_handle`] (`cuIpcOpenMemHandle_v2`, and
    /// `cuIpcCloseMemHandle` when it is dropped). Peer access to its device is
    /// enabled if that is another one. A process cannot open its own.
    ///
    /// # Safety
    /// The other process must not free the buffer before this and the graphs that
    /// use it are dropped, and the buffer has at least `len` values.
    pub unsafe fn open(
        context: &Context,
        handle: [u8; 64],
        len: usize,
    ) -> Result<IpcBuffer<T>, Error> {
        let handle = CUipcMemHandle {
            reserved: handle.map(|byte| byte as c_char),
        };
        let mut address = 0;
        // SAFETY: 64 bytes by value, which the driver checks; writes one address.
        unsafe {
            context
                .bind()?
                .cuIpcOpenMemHandle_v2(&mut address, handle, LAZY_PEER)
        }?;
        Ok(IpcBuffer::of(context, address, len, None))
    }

    /// Opens a buffer of `len` values in an imported pool, by the bytes that its
    /// process got from [`DeviceBuffer::pool_handle`] (`cuMemPoolImportPointer`, and
    /// `cuMemFree_v2` when it is dropped).
    ///
    /// # Safety
    /// As of [`open`](IpcBuffer::open).
    pub unsafe fn open_in(
        pool: &MemoryPool,
        context: &Context,
        handle: [u8; 64],
        len: usize,
    ) -> Result<IpcBuffer<T>, Error> {
        if context.device() != pool.device() {
            return Err(Error::DifferentDevices {
                what: "pool and context",
            });
        }
        let mut data = CUmemPoolPtrExportData { reserved: handle };
        let mut address = 0;
        let api = context.bind()?;
        // SAFETY: the pool is live; 64 bytes, which the driver checks; writes one address.
        unsafe { api.cuMemPoolImportPointer(&mut address, pool.raw(), &mut data) }?;
        Ok(IpcBuffer::of(context, address, len, Some(pool.clone())))
    }

    fn of(
        context: &Context,
        address: CUdeviceptr,
        len: usize,
        pool: Option<MemoryPool>,
    ) -> IpcBuffer<T> {
        let (bytes, release) = (len.saturating_mul(size_of::<T>()), Release::Ipc(pool));
        IpcBuffer {
            memory: Allocation::new(context, address, bytes, false, release, false),
            len,
            values: PhantomData,
        }
    }

    /// The context it was opened in.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    /// Its address in this process.
    pub fn address(&self) -> CUdeviceptr {
        *self.memory.address()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes all of it (`cuMemcpyHtoD_v2`); `values` has its length.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        length::check_equal("write to another process's buffer", values.len(), self.len)?;
        let (api, bytes) = (self.context().bind()?, bytes_of(values));
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the buffer is as long as the slice, as `open` was promised.
        unsafe { Ok(api.cuMemcpyHtoD_v2(self.address(), bytes.as_ptr().cast(), bytes.len())?) }
    }

    /// All of it as a vector (`cuMemcpyDtoH_v2`).
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len);
        let (api, destination) = (self.context().bind()?, bytes_of_mut(&mut values));
        if !destination.is_empty() {
            // SAFETY: as `write`, the other way; any bits are values.
            unsafe {
                api.cuMemcpyDtoH_v2(
                    destination.as_mut_ptr().cast(),
                    self.address(),
                    destination.len(),
                )
            }?;
        }
        Ok(values)
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.memory
    }
}
