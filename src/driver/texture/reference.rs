//! Texture and surface references of modules: variables of the PTX that are bound
//! to memory, as before there were [texture objects](crate::driver::Texture).

use std::ffi::CString;

use crate::driver::error::Error;
use crate::driver::module::Module;
use crate::driver::pod::texel::Texel;
use crate::driver::texture::TextureDescriptor;
use crate::driver::texture::array::Array;
use crate::driver::texture::resource::{BoundResource, TextureResource};
use api::CudaError;
use api::{ArrayDesc, CUarray, CUmipmappedArray, CUsurfref, CUtexref};

/// A `.texref` of a module (`cuModuleGetTexRef`). CUDA deprecates references:
/// drivers that have none any more say so ([`Error::EntryMissing`]).
///
/// It retains its module, and the module retains what is bound.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::*;
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let module = Module::load(&context, b"
///     .version 8.0 .target sm_80 .address_size 64
///     .global .texref numbers;
///     .visible .entry fetch(.param .u64 result) {
///         .reg .b64 %to; .reg .b32 %x; .reg .s32 %r, %g, %b, %a;
///         ld.param.u64 %to, [result];
///         mov.u32 %x, 2;
///         tex.1d.v4.s32.s32 {%r, %g, %b, %a}, [numbers, {%x}];
///         st.global.s32 [%to], %r;
///         ret;
///     }")?;
/// // Texel indices are for linear memory.
/// let row = DeviceBuffer::from_slice(&context, &[5, 6, 7])?;
/// module.texture_reference("numbers")?.bind(&row, &TextureDescriptor::default())?;
///
/// let result = DeviceBuffer::<i32>::zeroed(&context, 1)?;
/// let stream = Stream::new(&context)?;
/// // SAFETY: the kernel writes one number.
/// unsafe { module.kernel("fetch")?.launch(LaunchConfig::default(), &stream, (&result,)) }?;
/// stream.synchronize()?;
/// assert_eq!(result.to_vec()?, [7]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextureReference {
    module: Module,
    name: CString,
    raw: CUtexref,
}

// SAFETY: the handle may be used from any thread with its context current.
unsafe impl Send for TextureReference {}
// SAFETY: as above.
unsafe impl Sync for TextureReference {}

/// `CU_TRSA_OVERRIDE_FORMAT`: the array's own.
const OVERRIDE_FORMAT: u32 = 1;

impl TextureReference {
    /// The driver's handle. It is good as long as the module is loaded.
    pub fn raw(&self) -> CUtexref {
        self.raw
    }

    /// Binds it to a resource and a descriptor (`cuTexRefSetArray`,
    /// `cuTexRefSetMipmappedArray`, `cuTexRefSetAddress_v2`, `cuTexRefSetAddress2D_v3`, and
    /// the entries that set each mode), for kernels launched from now on. Waits for running
    /// kernels.
    pub fn bind(
        &self,
        resource: &impl TextureResource,
        descriptor: &TextureDescriptor,
    ) -> Result<(), Error> {
        let source = resource.source()?;
        if source.context != *self.module.context() {
            return Err(Error::DifferentContexts {
                what: "module and resource of a texture reference",
            });
        }
        descriptor.check(source.format.0)?;
        let api = source.context.bind()?;
        let (format, channels) = (source.format.0 as u32, source.format.1);
        let desc = descriptor.raw();
        let raw = self.raw;
        let retained = source.retained.clone();
        self.module.bind_reference(&self.name, retained, || {
            // SAFETY: the reference is of a live module, the resource is live, and the module
            // keeps it from here on.
            unsafe {
                api.cuCtxSynchronize()?;
                api.cuTexRefSetFormat(raw, format, channels as i32)?;
                for (axis, mode) in desc.address_modes.into_iter().enumerate() {
                    api.cuTexRefSetAddressMode(raw, axis as i32, mode)?;
                }
                api.cuTexRefSetFilterMode(raw, desc.filter_mode)?;
                api.cuTexRefSetFlags(raw, desc.flags)?;
                let mut border = desc.border_color;
                api.cuTexRefSetBorderColor(raw, border.as_mut_ptr())?;
                match source.bound() {
                    BoundResource::Array(array) => {
                        api.cuTexRefSetArray(raw, array, OVERRIDE_FORMAT)?
                    }
                    BoundResource::Mipmapped(array) => self.bind_levels(array, &desc)?,
                    BoundResource::Linear { address, bytes } => {
                        api.cuTexRefSetAddress_v2(std::ptr::null_mut(), raw, address, bytes)?;
                    }
                    BoundResource::Rows {
                        address,
                        width,
                        height,
                        pitch,
                    } => {
                        let rows = ArrayDesc {
                            width,
                            height,
                            format,
                            channels,
                        };
                        api.cuTexRefSetAddress2D_v3(raw, &rows, address, pitch)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// # Safety
    /// As in `bind`.
    unsafe fn bind_levels(
        &self,
        array: CUmipmappedArray,
        desc: &api::TextureDesc,
    ) -> Result<(), Error> {
        let api = self.module.context().bind()?;
        let raw = self.raw;
        let [least, most] = [desc.min_mipmap_level, desc.max_mipmap_level];
        // SAFETY: the caller's.
        unsafe {
            api.cuTexRefSetMipmapFilterMode(raw, desc.mipmap_filter_mode)?;
            api.cuTexRefSetMipmapLevelBias(raw, desc.mipmap_level_bias)?;
            api.cuTexRefSetMipmapLevelClamp(raw, least, most)?;
            api.cuTexRefSetMaxAnisotropy(raw, desc.max_anisotropy.max(1))?;
            Ok(api.cuTexRefSetMipmappedArray(raw, array, OVERRIDE_FORMAT)?)
        }
    }

    /// Its descriptor as the driver reports it: address modes (`cuTexRefGetAddressMode`),
    /// filter (`cuTexRefGetFilterMode`), flags (`cuTexRefGetFlags`), border
    /// (`cuTexRefGetBorderColor`); of a mipmapped array (`cuTexRefGetMipmappedArray`) also what
    /// is said of levels (`cuTexRefGetMipmapFilterMode`, `cuTexRefGetMipmapLevelBias`,
    /// `cuTexRefGetMipmapLevelClamp`, `cuTexRefGetMaxAnisotropy`), which else has default values.
    pub fn descriptor(&self) -> Result<TextureDescriptor, Error> {
        let api = self.module.context().bind()?;
        let mut desc = TextureDescriptor::default().raw();
        // SAFETY: the reference is of a live module; each writes one number.
        unsafe {
            for (axis, mode) in desc.address_modes.iter_mut().enumerate() {
                api.cuTexRefGetAddressMode(mode, self.raw, axis as i32)?;
            }
            api.cuTexRefGetFilterMode(&mut desc.filter_mode, self.raw)?;
            api.cuTexRefGetFlags(&mut desc.flags, self.raw)?;
            api.cuTexRefGetBorderColor(desc.border_color.as_mut_ptr(), self.raw)?;
            let mut levels = std::ptr::null_mut();
            let bound = api.cuTexRefGetMipmappedArray(&mut levels, self.raw);
            if bound.is_ok() && !levels.is_null() {
                api.cuTexRefGetMipmapFilterMode(&mut desc.mipmap_filter_mode, self.raw)?;
                api.cuTexRefGetMipmapLevelBias(&mut desc.mipmap_level_bias, self.raw)?;
                let (least, most) = (&mut desc.min_mipmap_level, &mut desc.max_mipmap_level);
                api.cuTexRefGetMipmapLevelClamp(least, most, self.raw)?;
                let mut samples = 0;
                api.cuTexRefGetMaxAnisotropy(&mut samples, self.raw)?;
                desc.max_anisotropy = samples.cast_unsigned();
            }
        }
        Ok(TextureDescriptor::from_raw(&desc))
    }

    /// The array that is bound to it (`cuTexRefGetArray`).
    pub fn array(&self) -> Result<CUarray, Error> {
        let mut array = std::ptr::null_mut();
        let api = self.module.context().bind()?;
        // SAFETY: the reference is of a live module; writes a handle.
        unsafe { api.cuTexRefGetArray(&mut array, self.raw) }?;
        Ok(array)
    }
}

/// A `.surfref` of a module (`cuModuleGetSurfRef`); like [`TextureReference`].
#[derive(Clone, Debug)]
pub struct SurfaceReference {
    module: Module,
    name: CString,
    raw: CUsurfref,
}

// SAFETY: the handle may be used from any thread with its context current.
unsafe impl Send for SurfaceReference {}
// SAFETY: as above.
unsafe impl Sync for SurfaceReference {}

impl SurfaceReference {
    /// The driver's handle. It is good as long as the module is loaded.
    pub fn raw(&self) -> CUsurfref {
        self.raw
    }

    /// Binds it to an array that was made for surfaces (`cuSurfRefSetArray`,
    /// else [`Error::NotForSurfaces`]). Waits for the kernels that run.
    pub fn bind<T: Texel>(&self, array: &Array<T>) -> Result<(), Error> {
        if !array.flags().has_surface() {
            return Err(Error::NotForSurfaces);
        }
        if array.context() != self.module.context() {
            return Err(Error::DifferentContexts {
                what: "module and array of a surface reference",
            });
        }
        let api = array.context().bind()?;
        let retained = array.memory().clone();
        self.module.bind_reference(&self.name, retained, || {
            // SAFETY: the reference is of a live module, the array is live, and the module keeps
            // it from here on.
            unsafe {
                api.cuCtxSynchronize()?;
                Ok(api.cuSurfRefSetArray(self.raw, array.raw(), 0)?)
            }
        })
    }

    /// The array that is bound to it (`cuSurfRefGetArray`).
    pub fn array(&self) -> Result<CUarray, Error> {
        let mut array = std::ptr::null_mut();
        let api = self.module.context().bind()?;
        // SAFETY: the reference is of a live module; writes a handle.
        unsafe { api.cuSurfRefGetArray(&mut array, self.raw) }?;
        Ok(array)
    }
}

impl Module {
    /// A texture reference by name (`cuModuleGetTexRef`).
    pub fn texture_reference(&self, name: &str) -> Result<TextureReference, Error> {
        let (api, symbol) = (self.context().bind()?, symbol(name)?);
        let mut raw = std::ptr::null_mut();
        // SAFETY: the name ends in NUL; the module is live.
        let found = unsafe { api.cuModuleGetTexRef(&mut raw, self.raw(), symbol.as_ptr()) };
        found.map_err(|error| unknown(error.into(), name))?;
        Ok(TextureReference {
            module: self.clone(),
            name: symbol,
            raw,
        })
    }

    /// A surface reference by name (`cuModuleGetSurfRef`).
    pub fn surface_reference(&self, name: &str) -> Result<SurfaceReference, Error> {
        let (api, symbol) = (self.context().bind()?, symbol(name)?);
        let mut raw = std::ptr::null_mut();
        // SAFETY: the name ends in NUL; the module is live.
        let found = unsafe { api.cuModuleGetSurfRef(&mut raw, self.raw(), symbol.as_ptr()) };
        found.map_err(|error| unknown(error.into(), name))?;
        Ok(SurfaceReference {
            module: self.clone(),
            name: symbol,
            raw,
        })
    }
}

fn symbol(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::UnknownReference {
        name: name.to_owned(),
    })
}

/// Maps "not found" to an error with the name.
fn unknown(error: Error, name: &str) -> Error {
    match error.code() {
        Some(CudaError::NOT_FOUND) => Error::UnknownReference {
            name: name.to_owned(),
        },
        _ => error,
    }
}
