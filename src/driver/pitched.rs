//! Two-dimensional device memory with aligned rows.

use std::marker::PhantomData;

use cudarc::driver::sys::CUmemorytype;

use super::api::{CUDA_MEMCPY2D, CUdeviceptr};
use super::argument::{Arg, Argument};
use super::context::Context;
use super::error::Error;
use super::memory::DeviceMemory;
use super::plain::{Plain, zeroed};

/// Rows of values, each row aligned for coalesced access (`cuMemAllocPitch_v2`).
/// On the host the rows stand without gaps.
#[derive(Debug)]
pub struct PitchedBuffer<T> {
    memory: DeviceMemory,
    width: usize,
    height: usize,
    pitch: usize,
    values: PhantomData<T>,
}

impl<T: Plain> PitchedBuffer<T> {
    /// `height` rows of `width` values each; which values is not said.
    pub fn new(context: &Context, width: usize, height: usize) -> Result<PitchedBuffer<T>, Error> {
        let api = context.bind()?;
        let (mut address, mut pitch) = (0, 0);
        let row = width.saturating_mul(size_of::<T>());
        if row > 0 && height > 0 {
            // The driver knows the access sizes 4, 8 and 16.
            let element = size_of::<T>().next_power_of_two().clamp(4, 16) as u32;
            // SAFETY: writes an address and a number.
            unsafe { api.cuMemAllocPitch_v2(&mut address, &mut pitch, row, height, element) }?;
        }
        Ok(PitchedBuffer {
            memory: DeviceMemory::adopt(context, address, pitch.saturating_mul(height)),
            width,
            height,
            pitch,
            values: PhantomData,
        })
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Bytes from one row to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The device address of the first row.
    pub fn address(&self) -> CUdeviceptr {
        self.memory.address()
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    pub(crate) fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Writes all rows (`cuMemcpy2D_v2`).
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.check("write to a pitched buffer", values.len())?;
        let mut copy = self.rectangle();
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = values.as_ptr().cast();
        copy.srcPitch = copy.WidthInBytes;
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = self.address();
        copy.dstPitch = self.pitch;
        self.copy(&copy)
    }

    /// Reads all rows (`cuMemcpy2D_v2`).
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        self.check("read of a pitched buffer", values.len())?;
        let mut copy = self.rectangle();
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = self.address();
        copy.srcPitch = self.pitch;
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = values.as_mut_ptr().cast();
        copy.dstPitch = copy.WidthInBytes;
        self.copy(&copy)
    }

    /// All rows as one vector.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.width.saturating_mul(self.height));
        self.read(&mut values)?;
        Ok(values)
    }

    fn copy(&self, copy: &CUDA_MEMCPY2D) -> Result<(), Error> {
        if copy.WidthInBytes == 0 || copy.Height == 0 {
            return Ok(());
        }
        // SAFETY: the host side holds `width * height` values (checked), the device side
        // `height` rows of `pitch` bytes.
        unsafe { self.context().bind()?.cuMemcpy2D_v2(copy) }
    }

    fn rectangle(&self) -> CUDA_MEMCPY2D {
        CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: std::ptr::null(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: 0,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: std::ptr::null_mut(),
            dstDevice: 0,
            dstArray: std::ptr::null_mut(),
            dstPitch: 0,
            // Rows of any width can be none.
            WidthInBytes: self.width.saturating_mul(size_of::<T>()),
            Height: self.height,
        }
    }

    fn check(&self, what: &'static str, given: usize) -> Result<(), Error> {
        let room = self.width.saturating_mul(self.height);
        if given != room {
            return Err(Error::Length { what, given, room });
        }
        Ok(())
    }

    /// The address of its first row as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        self.memory.arg()
    }
}

impl<T: Plain> Argument for &PitchedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        PitchedBuffer::arg(self)
    }
}
