//! OpenGL interoperability: OpenGL's buffers and images in kernels.
//!
//! An OpenGL object is registered once. It is then mapped, used by kernels, and unmapped;
//! in between OpenGL must not access it. The CPU device does not support this
//! (`CUDA_ERROR_NOT_SUPPORTED`).
//!
//! ```no_run
//! use ptxkit::driver::{Context, Kernel, LaunchConfig, Stream, opengl};
//!
//! # fn frame(context: &Context, kernel: &Kernel, stream: &Stream, vertices: u32)
//! # -> Result<(), ptxkit::driver::Error> {
//! // SAFETY: the OpenGL context with the buffer object is current, and the
//! // object lives longer than `buffer`.
//! let mut buffer =
//!     unsafe { opengl::Buffer::register(context, vertices, opengl::Access::WriteDiscard) }?;
//! let positions = buffer.map(stream)?;
//! // SAFETY: the kernel writes 1024 positions, which the buffer object holds.
//! unsafe { kernel.launch(LaunchConfig::for_elements(1024, 256), stream, (&positions,)) }?;
//! positions.unmap()?; // OpenGL may draw
//! # Ok(())
//! # }
//! ```

use std::marker::PhantomData;

use crate::driver::device::Device;
use crate::driver::device::context::{Context, report_drop};
use crate::driver::device::driver::Driver;
use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Argument};
use crate::driver::stream::Stream;
use api::{CUarray, CUdeviceptr, CUgraphicsResource, CUmipmappedArray};

/// What kernels do with a mapped object (`CUgraphicsRegisterFlags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Access {
    /// They read and write it.
    #[default]
    ReadWrite = 0,
    /// They read it.
    ReadOnly = 1,
    /// They write all of it: what was there before is lost.
    WriteDiscard = 2,
}

/// Which devices are asked for (`CUGLDeviceList`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Rendering {
    /// All that the OpenGL context uses.
    All = 1,
    /// Those that render the current frame.
    CurrentFrame = 2,
    /// Those that will render the next one.
    NextFrame = 3,
}

/// The devices that the OpenGL context current on this thread draws with
/// (`cuGLGetDevices`). Without one, `CUDA_ERROR_INVALID_GRAPHICS_CONTEXT` or
/// another error.
pub fn devices(driver: Driver, which: Rendering) -> Result<Vec<Device>, Error> {
    const ROOM: usize = 64;
    let (mut count, mut handles) = (0, [0; ROOM]);
    // SAFETY: the array has room for as many handles as said.
    unsafe {
        driver
            .api()
            .cuGLGetDevices_v2(&mut count, handles.as_mut_ptr(), ROOM as u32, which as u32)
    }?;
    let handles = &handles[..ROOM.min(count as usize)];
    let mut all = driver.devices()?;
    all.retain(|device| handles.contains(&device.raw()));
    Ok(all)
}

/// A registered object. It is not `Send`, as OpenGL's current context belongs to a thread.
#[derive(Debug)]
struct Resource {
    context: Context,
    handle: CUgraphicsResource,
    thread: PhantomData<*const ()>,
}

impl Resource {
    fn own(context: &Context, handle: CUgraphicsResource) -> Resource {
        Resource {
            context: context.clone(),
            handle,
            thread: PhantomData,
        }
    }

    fn set_access(&mut self, access: Access) -> Result<(), Error> {
        let api = self.context.bind()?;
        // SAFETY: the resource is registered, and not mapped while it can be borrowed so.
        unsafe { Ok(api.cuGraphicsResourceSetMapFlags_v2(self.handle, access as u32)?) }
    }

    fn map(&mut self, stream: &Stream) -> Result<Mapping<'_>, Error> {
        if stream.context() != &self.context {
            return Err(Error::DifferentContexts {
                what: "an object of OpenGL and the stream",
            });
        }
        let api = self.context.bind()?;
        // SAFETY: one registered resource, not mapped; a live stream.
        unsafe { api.cuGraphicsMapResources(1, &mut self.handle, stream.raw()) }?;
        Ok(Mapping {
            resource: self,
            stream: stream.clone(),
            mapped: true,
        })
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        // SAFETY: registered once, and no more mapped.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { Ok(api.cuGraphicsUnregisterResource(self.handle)?) }),
        );
    }
}

#[derive(Debug)]
struct Mapping<'a> {
    resource: &'a mut Resource,
    stream: Stream,
    mapped: bool,
}

impl Mapping<'_> {
    fn unmap(&mut self) -> Result<(), Error> {
        self.mapped = false;
        let api = self.resource.context.bind()?;
        let handle = &mut self.resource.handle;
        // SAFETY: one mapped resource; work queued in the stream comes before.
        unsafe { Ok(api.cuGraphicsUnmapResources(1, handle, self.stream.raw())?) }
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        if self.mapped {
            report_drop(self.unmap());
        }
    }
}

/// A registered buffer object of OpenGL.
#[derive(Debug)]
pub struct Buffer {
    resource: Resource,
}

impl Buffer {
    /// Registers a buffer object by its name (`cuGraphicsGLRegisterBuffer`).
    ///
    /// # Safety
    /// An OpenGL context in which the object exists must be current on this
    /// thread, now and whenever the value is used or dropped, and the object
    /// must live as long as the value.
    pub unsafe fn register(
        context: &Context,
        object: u32,
        access: Access,
    ) -> Result<Buffer, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller answers for OpenGL; writes one handle.
        unsafe {
            context
                .bind()?
                .cuGraphicsGLRegisterBuffer(&mut handle, object, access as u32)
        }?;
        Ok(Buffer {
            resource: Resource::own(context, handle),
        })
    }

    /// Sets how kernels access it from the next mapping on
    /// (`cuGraphicsResourceSetMapFlags_v2`).
    pub fn set_access(&mut self, access: Access) -> Result<(), Error> {
        self.resource.set_access(access)
    }

    /// Maps it for kernels in `stream`, after the work that OpenGL has queued
    /// (`cuGraphicsMapResources`).
    pub fn map(&mut self, stream: &Stream) -> Result<MappedBuffer<'_>, Error> {
        let mapping = self.resource.map(stream)?;
        let (mut address, mut bytes) = (0, 0);
        let resource = &mapping.resource;
        let api = resource.context.bind()?;
        // SAFETY: the resource is mapped; writes an address and a number.
        unsafe {
            api.cuGraphicsResourceGetMappedPointer_v2(&mut address, &mut bytes, resource.handle)
        }?;
        Ok(MappedBuffer {
            mapping,
            address,
            bytes,
        })
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUgraphicsResource {
        self.resource.handle
    }
}

/// A mapped buffer object, unmapped when dropped.
#[derive(Debug)]
pub struct MappedBuffer<'a> {
    mapping: Mapping<'a>,
    address: CUdeviceptr,
    bytes: usize,
}

impl MappedBuffer<'_> {
    /// Its address (`cuGraphicsResourceGetMappedPointer_v2`). The next mapping
    /// may give another one.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Unmaps it, after the work queued in the stream (`cuGraphicsUnmapResources`).
    pub fn unmap(mut self) -> Result<(), Error> {
        self.mapping.unmap()
    }

    /// Its address as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::value(&self.address)
    }
}

impl Argument for &MappedBuffer<'_> {
    fn arg(&self) -> Arg<'_> {
        MappedBuffer::arg(self)
    }
}

/// A registered texture or renderbuffer of OpenGL.
#[derive(Debug)]
pub struct Image {
    resource: Resource,
}

/// Uses of a registered image beyond reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImageUse {
    /// As a surface (`CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST`).
    pub surface: bool,
    /// For `tld4` (`CU_GRAPHICS_REGISTER_FLAGS_TEXTURE_GATHER`).
    pub gather: bool,
}

impl Image {
    /// Registers a texture or renderbuffer by its name and target, as
    /// `GL_TEXTURE_2D`, 0x0DE1 (`cuGraphicsGLRegisterImage`). CUDA says which
    /// formats it takes.
    ///
    /// # Safety
    /// As [`Buffer::register`], and `target` must be the object's: not every driver
    /// looks.
    pub unsafe fn register(
        context: &Context,
        object: u32,
        target: u32,
        access: Access,
        used: ImageUse,
    ) -> Result<Image, Error> {
        let flags = access as u32 | u32::from(used.surface) << 2 | u32::from(used.gather) << 3;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller answers for OpenGL; writes one handle.
        unsafe {
            context
                .bind()?
                .cuGraphicsGLRegisterImage(&mut handle, object, target, flags)
        }?;
        Ok(Image {
            resource: Resource::own(context, handle),
        })
    }

    /// Sets how kernels access it from the next mapping on
    /// (`cuGraphicsResourceSetMapFlags_v2`).
    pub fn set_access(&mut self, access: Access) -> Result<(), Error> {
        self.resource.set_access(access)
    }

    /// Maps it for kernels in `stream`, after the work that OpenGL has queued
    /// (`cuGraphicsMapResources`).
    pub fn map(&mut self, stream: &Stream) -> Result<MappedImage<'_>, Error> {
        let mapping = self.resource.map(stream)?;
        Ok(MappedImage { mapping })
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUgraphicsResource {
        self.resource.handle
    }
}

/// A mapped image, unmapped when dropped.
#[derive(Debug)]
pub struct MappedImage<'a> {
    mapping: Mapping<'a>,
}

impl MappedImage<'_> {
    /// The array of a layer, or face of a cubemap, and a mipmap level, both from
    /// 0 (`cuGraphicsSubResourceGetMappedArray`): a raw handle, good until the
    /// image is given back, for [`Array::borrow_raw`](crate::driver::Array::borrow_raw).
    pub fn array(&self, layer: u32, level: u32) -> Result<CUarray, Error> {
        let resource = &self.mapping.resource;
        let api = resource.context.bind()?;
        let mut array = std::ptr::null_mut();
        // SAFETY: the resource is mapped; writes one handle.
        unsafe {
            api.cuGraphicsSubResourceGetMappedArray(&mut array, resource.handle, layer, level)
        }?;
        Ok(array)
    }

    /// All levels of a texture that has several
    /// (`cuGraphicsResourceGetMappedMipmappedArray`): a raw handle, good until the
    /// image is given back, for
    /// [`MipmappedArray::borrow_raw`](crate::driver::MipmappedArray::borrow_raw).
    pub fn levels(&self) -> Result<CUmipmappedArray, Error> {
        let resource = &self.mapping.resource;
        let api = resource.context.bind()?;
        let mut levels = std::ptr::null_mut();
        // SAFETY: the resource is mapped; writes one handle.
        unsafe { api.cuGraphicsResourceGetMappedMipmappedArray(&mut levels, resource.handle) }?;
        Ok(levels)
    }

    /// Unmaps it, after the work queued in the stream (`cuGraphicsUnmapResources`).
    pub fn unmap(mut self) -> Result<(), Error> {
        self.mapping.unmap()
    }
}
