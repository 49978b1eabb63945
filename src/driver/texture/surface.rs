//! Surface objects: arrays that kernels read and write by coordinates.

use std::sync::{Arc, MutexGuard};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::pod::texel::Texel;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::{Retained, RetainedRef};
use crate::driver::stream::users::{Users, UsingStreams, Waits};
use crate::driver::texture::array::{Array, ArrayMemory};
use crate::driver::texture::object::Object;
use api::{CUsurfObject, ResourceDesc};

/// A surface object (`cuSurfObjectCreate`). A kernel takes it as a `.u64`
/// parameter, which `&surface` fills, and reads and writes the array with `suld`,
/// `sust` and `sured`, whose first coordinate counts bytes.
///
/// It retains its array. Destroyed when dropped (`cuSurfObjectDestroy`), after the kernels
/// that were launched with it, or with the last graph that uses it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::*;
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let flags = ArrayFlags::default().surface();
/// let mut row = Array::with_flags(&context, ArrayShape::D1 { width: 3 }, flags)?;
/// row.write(&[1_u32, 2, 3])?;
/// let surface = Surface::new(&row)?;
///
/// let module = Module::load(&context, b"
///     .version 8.0 .target sm_80 .address_size 64
///     .visible .entry add(.param .u64 surface, .param .u32 at, .param .u32 n) {
///         .reg .b64 %s; .reg .b32 %x, %n, %v;
///         ld.param.u64 %s, [surface];
///         ld.param.u32 %x, [at];
///         ld.param.u32 %n, [n];
///         suld.b.1d.b32.trap %v, [%s, {%x}];
///         add.u32 %v, %v, %n;
///         sust.b.1d.b32.trap [%s, {%x}], %v;
///         ret;
///     }")?;
/// let stream = Stream::new(&context)?;
/// // The texel 1 begins at byte 4.
/// let arguments = (&surface, 4_u32, 40_u32);
/// // SAFETY: the kernel accesses the surface alone.
/// unsafe { module.kernel("add")?.launch(LaunchConfig::default(), &stream, arguments) }?;
/// stream.synchronize()?;
/// assert_eq!(row.to_vec()?, [1, 42, 3]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct Surface {
    pub(crate) object: Arc<SurfaceObject>,
}

/// The surface's handle, destroyed after its last use.
#[derive(Debug)]
pub(crate) struct SurfaceObject {
    pub(crate) raw: CUsurfObject,
    users: UsingStreams,
    array: Arc<ArrayMemory>,
}

impl Retained for SurfaceObject {
    fn before_launch(
        &self,
        stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.users.record(stream);
        Ok(None)
    }
}

impl Object for Arc<SurfaceObject> {
    fn context(&self) -> &Context {
        self.array.context()
    }

    fn retained(&self) -> RetainedRef {
        self.clone()
    }
}

impl Drop for SurfaceObject {
    fn drop(&mut self) {
        // A kernel may still write it: leak the array.
        if !self.users.wait_until_done() {
            std::mem::forget(self.array.clone());
            return;
        }
        let bound = self.array.context().bind();
        // SAFETY: made once and destroyed once, when nothing uses it any more.
        report_drop(bound.and_then(|api| unsafe { Ok(api.cuSurfObjectDestroy(self.raw)?) }));
    }
}

impl Surface {
    /// A surface of an array that was made for it
    /// ([`ArrayFlags::surface`](crate::driver::ArrayFlags::surface), else
    /// [`Error::NotForSurfaces`]).
    pub fn new<T: Texel>(array: &Array<T>) -> Result<Surface, Error> {
        if !array.flags().has_surface() {
            return Err(Error::NotForSurfaces);
        }
        let desc = ResourceDesc {
            resource: array.raw().expose_provenance() as u64,
            ..ResourceDesc::default()
        };
        let mut raw = 0;
        let api = array.context().bind()?;
        // SAFETY: reads a description of a live array; writes a handle.
        unsafe { api.cuSurfObjectCreate(&mut raw, &desc) }?;
        Ok(Surface {
            object: Arc::new(SurfaceObject {
                raw,
                users: UsingStreams::default(),
                array: array.memory().clone(),
            }),
        })
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.object.array.context()
    }

    /// The driver's handle, for calls that the safe layer does not have. It is
    /// good as long as the surface.
    pub fn raw(&self) -> CUsurfObject {
        self.object.raw
    }

    /// Its resource as the driver reports it (`cuSurfObjectGetResourceDesc`).
    pub fn resource(&self) -> Result<ResourceDesc, Error> {
        let mut desc = ResourceDesc::default();
        let api = self.context().bind()?;
        // SAFETY: the surface is live; writes one structure.
        unsafe { api.cuSurfObjectGetResourceDesc(&mut desc, self.raw()) }?;
        Ok(desc)
    }
}
