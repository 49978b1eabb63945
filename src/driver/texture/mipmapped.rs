//! Mipmapped arrays.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::device::context::{Context, Owner};
use crate::driver::error::Error;
use crate::driver::pod::texel::Texel;
use crate::driver::texture::array::Array;
use crate::driver::texture::mipmapped_memory::MipmappedMemory;
use crate::driver::texture::shape::{ArrayFlags, ArrayShape, raw_descriptor};
use api::CUmipmappedArray;

/// A mipmapped array (`cuMipmappedArrayCreate`): level 0 has its shape, each further level
/// [half of it](ArrayShape::level). A texture of it filters within and between levels.
///
/// Freed when dropped (`cuMipmappedArrayDestroy`), after the copies of its levels,
/// or with the last level, texture or graph of it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{ArrayFlags, ArrayShape, Context, Driver, MipmappedArray};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let shape = ArrayShape::D2 { width: 8, height: 4 };
/// let pyramid = MipmappedArray::<f32>::new(&context, shape, 3, ArrayFlags::default())?;
/// let mut smallest = pyramid.level(2)?;
/// assert_eq!(smallest.shape(), ArrayShape::D2 { width: 2, height: 1 });
/// smallest.write(&[0.25, 0.75])?;
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct MipmappedArray<T> {
    levels: Arc<MipmappedMemory>,
    texels: PhantomData<T>,
}

impl<T: Texel> MipmappedArray<T> {
    /// An array with `levels` levels and unspecified contents. The shape limits [their
    /// number](ArrayShape::most_levels) ([`Error::MipmapLevel`]).
    pub fn new(
        context: &Context,
        shape: ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<MipmappedArray<T>, Error> {
        MipmappedArray::<T>::check_levels(shape, levels)?;
        let desc = raw_descriptor::<T>(shape, flags);
        let mut raw = std::ptr::null_mut();
        let api = context.bind()?;
        // SAFETY: reads a description and writes a handle.
        unsafe { api.cuMipmappedArrayCreate(&mut raw, &desc, levels) }?;
        Ok(MipmappedArray::own(
            context,
            raw,
            (shape, levels, flags),
            None,
        ))
    }

    /// Fails for a shape that has not so many levels.
    pub(crate) fn check_levels(shape: ArrayShape, levels: u32) -> Result<(), Error> {
        let most = shape.most_levels();
        if levels == 0 || levels > most {
            Err(Error::MipmapLevel {
                what: "levels of a mipmapped array",
                given: levels,
                levels: most,
            })
        } else {
            Ok(())
        }
    }

    /// Takes over an array, which lies in memory that `within` keeps, if it is given.
    pub(crate) fn own(
        context: &Context,
        raw: CUmipmappedArray,
        (shape, count, flags): (ArrayShape, u32, ArrayFlags),
        within: Option<Owner>,
    ) -> MipmappedArray<T> {
        MipmappedArray {
            levels: Arc::new(MipmappedMemory {
                context: context.clone(),
                raw,
                shape,
                flags,
                count,
                is_ours: true,
                within,
            }),
            texels: PhantomData,
        }
    }

    /// The first `levels` levels of an array that something else made and
    /// destroys, as graphics interop gives them. Its descriptor must say that its
    /// texels are `T` ([`Error::ArrayFormat`]).
    ///
    /// # Safety
    /// `raw` is a mipmapped array of the context with at least so many levels, and
    /// stays one until this array and all that is made of it are dropped and the
    /// context's work is done.
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUmipmappedArray,
        levels: u32,
    ) -> Result<MipmappedArray<T>, Error> {
        let mut largest = std::ptr::null_mut();
        // SAFETY: the caller's; writes a handle.
        unsafe {
            context
                .bind()?
                .cuMipmappedArrayGetLevel(&mut largest, raw, 0)
        }?;
        // SAFETY: a level of the caller's array.
        let largest = unsafe { Array::<T>::borrow_raw(context, largest) }?;
        Ok(MipmappedArray {
            levels: Arc::new(MipmappedMemory {
                context: context.clone(),
                raw,
                shape: largest.shape(),
                flags: largest.flags(),
                count: levels,
                is_ours: false,
                within: None,
            }),
            texels: PhantomData,
        })
    }

    /// The shape of level 0.
    pub fn shape(&self) -> ArrayShape {
        self.levels.shape
    }

    /// Its flags.
    pub fn flags(&self) -> ArrayFlags {
        self.levels.flags
    }

    /// The number of levels.
    pub fn levels(&self) -> u32 {
        self.levels.count
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.levels.context
    }

    /// The driver's handle, for calls that the safe layer does not have. It is
    /// good as long as the array.
    pub fn raw(&self) -> CUmipmappedArray {
        self.levels.raw
    }

    /// A level as an array (`cuMipmappedArrayGetLevel`), 0 the largest. It keeps
    /// all levels.
    pub fn level(&self, level: u32) -> Result<Array<T>, Error> {
        if level >= self.levels() {
            return Err(Error::MipmapLevel {
                what: "a level of a mipmapped array",
                given: level,
                levels: self.levels(),
            });
        }
        let mut raw = std::ptr::null_mut();
        let api = self.context().bind()?;
        // SAFETY: the array is live; writes a handle.
        unsafe { api.cuMipmappedArrayGetLevel(&mut raw, self.raw(), level) }?;
        Ok(Array::level(&self.levels, raw, self.shape().level(level)))
    }

    /// For textures of it.
    pub(crate) fn memory(&self) -> &Arc<MipmappedMemory> {
        &self.levels
    }
}
