//! Imported memory, and what is seen in it.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::error::Error;
use crate::driver::external::settle;
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::buffer::{DeviceBuffer, DeviceMemory};
use crate::driver::memory::length;
use crate::driver::pod::Pod;
use crate::driver::pod::texel::Texel;
use crate::driver::texture::mipmapped::MipmappedArray;
use crate::driver::texture::shape::{ArrayFlags, ArrayShape, raw_descriptor};
use api::{CUexternalMemory, ExternalArrayDesc, ExternalBufferDesc, ExternalMemoryDesc};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`
const OPAQUE_FD: u32 = 1;
/// `CUDA_EXTERNAL_MEMORY_DEDICATED`
const DEDICATED: u32 = 1;

/// Memory of another library (`cuImportExternalMemory`). Clones share it; it goes with the last
/// clone and the last buffer or image in it (`cuDestroyExternalMemory`).
#[derive(Clone, Debug)]
pub struct Memory {
    import: Arc<Import>,
}

#[derive(Debug)]
struct Import {
    context: Context,
    handle: CUexternalMemory,
    bytes: usize,
    /// The parts that buffers have by themselves.
    parts: Mutex<Vec<Range<usize>>>,
}

// SAFETY: the handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Import {}
// SAFETY: as above.
unsafe impl Sync for Import {}

impl Memory {
    /// Imports memory of `bytes` bytes, which may hold several buffers and images. The file
    /// descriptor goes to the driver, and is closed if that fails.
    ///
    /// # Safety
    /// The descriptor must be an opaque one (`VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT`) of
    /// memory of this device with that many bytes: no driver promises to check either.
    pub unsafe fn import(
        context: &Context,
        descriptor: OwnedFd,
        bytes: usize,
    ) -> Result<Memory, Error> {
        // SAFETY: the caller's.
        unsafe { Memory::import_as(context, descriptor, bytes, 0) }
    }

    /// The same for memory that belongs to one buffer or image
    /// (`CUDA_EXTERNAL_MEMORY_DEDICATED`, `VkMemoryDedicatedAllocateInfo`).
    ///
    /// # Safety
    /// As [`import`](Memory::import), and the memory was allocated so.
    pub unsafe fn import_dedicated(
        context: &Context,
        descriptor: OwnedFd,
        bytes: usize,
    ) -> Result<Memory, Error> {
        // SAFETY: the caller's.
        unsafe { Memory::import_as(context, descriptor, bytes, DEDICATED) }
    }

    /// # Safety
    /// As `import`.
    unsafe fn import_as(
        context: &Context,
        descriptor: OwnedFd,
        bytes: usize,
        flags: u32,
    ) -> Result<Memory, Error> {
        let api = context.bind()?;
        let described = ExternalMemoryDesc {
            kind: OPAQUE_FD,
            descriptor: descriptor.as_raw_fd(),
            size: bytes as u64,
            flags,
            ..ExternalMemoryDesc::default()
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller answers for the descriptor; writes one handle.
        let imported = unsafe { api.cuImportExternalMemory(&mut handle, &described) };
        settle(descriptor, &imported, context);
        imported?;
        Ok(Memory {
            import: Arc::new(Import {
                context: context.clone(),
                handle,
                bytes,
                parts: Mutex::default(),
            }),
        })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.import.bytes
    }

    /// The context it was imported in.
    pub fn context(&self) -> &Context {
        &self.import.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUexternalMemory {
        self.import.handle
    }

    /// `len` values from byte `at` on (`cuExternalMemoryGetMappedBuffer`, and `cuMemFree_v2`
    /// when it is dropped, after the work of its context). Buffers must not overlap, else this is
    /// [`Error::Mapped`]. `at` is a multiple of a value's size ([`Error::Cast`]).
    pub fn buffer<T: Pod>(&self, at: usize, len: usize) -> Result<DeviceBuffer<T>, Error> {
        let bytes = self.check::<T>(at, len)?;
        let owner = Mapped::claim(&self.import, at..at + bytes)?;
        self.map(at, bytes, len, owner)
    }

    /// The same for a buffer that may overlap others.
    ///
    /// # Safety
    /// A kernel that is declared safe ([`Kernel::typed`](crate::driver::Kernel::typed)) must not
    /// be passed the bytes as `&mut` by one buffer and in any way by another in one launch.
    pub unsafe fn buffer_alias<T: Pod>(
        &self,
        at: usize,
        len: usize,
    ) -> Result<DeviceBuffer<T>, Error> {
        let bytes = self.check::<T>(at, len)?;
        self.map(at, bytes, len, self.import.clone())
    }

    /// The bytes of a buffer, which are there.
    fn check<T>(&self, at: usize, len: usize) -> Result<usize, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        length::check_range("buffer in imported memory", at, bytes, self.bytes())?;
        if at.is_multiple_of(size_of::<T>().max(1)) {
            Ok(bytes)
        } else {
            Err(Error::Cast {
                address: at as u64,
                bytes,
                size: size_of::<T>(),
                align: size_of::<T>(),
            })
        }
    }

    fn map<T: Pod>(
        &self,
        at: usize,
        bytes: usize,
        len: usize,
        owner: Owner,
    ) -> Result<DeviceBuffer<T>, Error> {
        let (mut address, mut release) = (0, Release::Nothing);
        if bytes > 0 {
            let described = ExternalBufferDesc {
                offset: at as u64,
                size: bytes as u64,
                ..ExternalBufferDesc::default()
            };
            let api = self.context().bind()?;
            // SAFETY: the memory is live and has the bytes; writes one address.
            unsafe { api.cuExternalMemoryGetMappedBuffer(&mut address, self.raw(), &described) }?;
            release = Release::External(owner);
        }
        let memory = Allocation::new(self.context(), address, bytes, false, release, false);
        Ok(DeviceBuffer::of(DeviceMemory::sharing(&memory), len))
    }

    /// The image from byte `at` on (`cuExternalMemoryGetMappedMipmappedArray`), destroyed
    /// when it is dropped. An image of one level has it as level 0.
    ///
    /// # Safety
    /// The memory must be bound at that byte to an image with optimal tiling of this shape,
    /// format and number of levels. Its uses are those of the flags: storage and transfers
    /// with [`surface`](ArrayFlags::surface), and colour attachments with
    /// `CUDA_ARRAY3D_COLOR_ATTACHMENT` (0x20).
    pub unsafe fn mipmapped_array<T: Texel>(
        &self,
        at: usize,
        shape: ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<MipmappedArray<T>, Error> {
        length::check_range("image in imported memory", at, 1, self.bytes())?;
        MipmappedArray::<T>::check_levels(shape, levels)?;
        let described = ExternalArrayDesc {
            offset: at as u64,
            array: raw_descriptor::<T>(shape, flags),
            levels,
            ..ExternalArrayDesc::default()
        };
        let mut raw = std::ptr::null_mut();
        let api = self.context().bind()?;
        // SAFETY: the memory is live, the caller answers for the image; writes one handle.
        unsafe { api.cuExternalMemoryGetMappedMipmappedArray(&mut raw, self.raw(), &described) }?;
        let import = self.import.clone();
        Ok(MipmappedArray::own(
            self.context(),
            raw,
            (shape, levels, flags),
            Some(import),
        ))
    }
}

/// A range of imported memory that belongs to one buffer.
#[derive(Debug)]
struct Mapped {
    import: Arc<Import>,
    part: Range<usize>,
}

impl Mapped {
    fn claim(import: &Arc<Import>, part: Range<usize>) -> Result<Owner, Error> {
        let mut parts = import.parts();
        let overlaps = |other: &Range<usize>| other.start < part.end && part.start < other.end;
        if parts.iter().any(overlaps) {
            return Err(Error::Mapped);
        }
        parts.push(part.clone());
        let import = import.clone();
        Ok(Arc::new(Mapped { import, part }))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let mut parts = self.import.parts();
        if let Some(index) = parts.iter().position(|part| *part == self.part) {
            parts.swap_remove(index);
        }
    }
}

impl Import {
    fn parts(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        report_drop(
            self.context
                .bind()
                // SAFETY: imported once, destroyed once; buffers and images in it hold it and
                // are gone.
                .and_then(|api| unsafe { Ok(api.cuDestroyExternalMemory(self.handle)?) }),
        );
    }
}
