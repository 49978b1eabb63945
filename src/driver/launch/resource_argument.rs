//! Memory, textures and surfaces as kernel arguments.

use crate::driver::launch::argument::{Arg, Argument};
use crate::driver::memory::buffer::{DeviceBuffer, DeviceMemory};
use crate::driver::memory::growable::GrowableBuffer;
use crate::driver::memory::ipc::IpcBuffer;
use crate::driver::memory::managed::ManagedBuffer;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::pitched::PitchedBuffer;
use crate::driver::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::driver::memory::tensor_map::map::TensorMap;
use crate::driver::pod::Pod;
use crate::driver::texture::Texture;
use crate::driver::texture::surface::Surface;

impl DeviceMemory {
    /// Its address as a kernel argument.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl Argument for &DeviceMemory {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceMemory::arg(self)
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// Its address as a kernel argument.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl<T: Pod> Argument for &DeviceBuffer<T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceBuffer::arg(self)
    }
}

impl<T: Pod> Argument for &mut DeviceBuffer<T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceBuffer::arg(self)
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// Its address as a kernel argument.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::address(self.place(), self.bytes(), self.allocation())
    }
}

impl<T: Pod> Argument for DeviceSlice<'_, T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceSlice::arg(self)
    }
}

impl<T: Pod> Argument for &DeviceSlice<'_, T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceSlice::arg(self)
    }
}

impl<T: Pod> Argument for &mut DeviceSliceMut<'_, T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        DeviceSlice::arg(self)
    }
}

impl<T: Pod> PitchedBuffer<T> {
    /// The address of its first row as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl<T: Pod> Argument for &PitchedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        PitchedBuffer::arg(self)
    }
}

impl<T: Pod> Argument for &GrowableBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        DeviceBuffer::arg(self)
    }
}

impl<T: Pod> IpcBuffer<T> {
    /// Its address as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl<T: Pod> Argument for &IpcBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        IpcBuffer::arg(self)
    }
}

impl<T: Pod> ManagedBuffer<T> {
    /// Its address as a kernel argument. Reading and writing wait for the kernel.
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl<T: Pod> Argument for &ManagedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        ManagedBuffer::arg(self)
    }
}

impl<T: Pod> Argument for &mut ManagedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        ManagedBuffer::arg(self)
    }
}

impl<T: Pod> PinnedBuffer<T> {
    /// Its address as a kernel argument. Reading, writing and freeing wait for
    /// the kernel.
    pub fn arg(&self) -> Arg<'_> {
        Arg::of(self.allocation())
    }
}

impl<T: Pod> Argument for &PinnedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        PinnedBuffer::arg(self)
    }
}

impl<T: Pod> Argument for &mut PinnedBuffer<T> {
    fn arg(&self) -> Arg<'_> {
        PinnedBuffer::arg(self)
    }
}

impl TensorMap {
    /// Its 128 bytes as a kernel argument. [`Arg::read_only`] is for kernels that copy from the
    /// tensor alone.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::using(self.raw(), self.address(), self.bytes(), self.allocation())
    }
}

impl Argument for &TensorMap {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        TensorMap::arg(self)
    }
}

impl Argument for &mut TensorMap {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        TensorMap::arg(self)
    }
}

impl Texture {
    /// Its handle as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::handle(&self.object.raw, &self.object)
    }
}

impl Argument for &Texture {
    fn arg(&self) -> Arg<'_> {
        Texture::arg(self)
    }
}

impl Surface {
    /// Its handle as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::handle(&self.object.raw, &self.object)
    }
}

impl Argument for &Surface {
    fn arg(&self) -> Arg<'_> {
        Surface::arg(self)
    }
}
