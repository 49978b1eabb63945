//! CUDA arrays: memory that is laid out for textures and surfaces.

use std::marker::PhantomData;
use std::sync::{Arc, MutexGuard};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::length;
use crate::driver::memory::order::Effect;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::pitched::PitchedBuffer;
use crate::driver::memory::uses::{MemoryGuard, Use, lock_memory, lock_memory_in};
use crate::driver::pod::texel::Texel;
use crate::driver::pod::zeroed;
use crate::driver::stream::retained::Retained;
use crate::driver::stream::users::{Users, UsingStreams, Waits};
use crate::driver::stream::{EnqueueGuard, Stream};
use crate::driver::texture::mipmapped_memory::MipmappedMemory;
use crate::driver::texture::shape::{ArrayDescriptor, ArrayFlags, ArrayShape, raw_descriptor};
use crate::driver::texture::transfer::{CopyEndpoint, transfer};
use api::{ArrayDesc, CUarray};

/// A CUDA array of texels `T`, in an opaque layout that only copies, textures and surfaces
/// access. Host copies are row-major without padding.
///
/// Freed when dropped (`cuArrayDestroy`), after the copies that use it, or with
/// the last texture, surface or graph of it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Array, ArrayShape, Context, Driver};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let shape = ArrayShape::D2 { width: 3, height: 2 };
/// let mut image = Array::from_slice(&context, shape, &[1_u8, 2, 3, 4, 5, 6])?;
/// image.write_at([1, 0, 0], [2, 1, 1], &[20, 30])?;
/// assert_eq!(image.to_vec()?, [1, 20, 30, 4, 5, 6]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct Array<T> {
    memory: Arc<ArrayMemory>,
    texels: PhantomData<T>,
}

/// The array's handle, destroyed after its last use.
#[derive(Debug)]
pub(crate) struct ArrayMemory {
    context: Context,
    raw: CUarray,
    shape: ArrayShape,
    flags: ArrayFlags,
    owner: ArrayOwner,
    users: UsingStreams,
}

/// Who destroys the array.
#[derive(Debug)]
enum ArrayOwner {
    Itself,
    /// The mipmapped array whose level it is.
    Mipmapped {
        levels: Arc<MipmappedMemory>,
    },
    /// The code that the handle came from.
    Another,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for ArrayMemory {}
// SAFETY: as above.
unsafe impl Sync for ArrayMemory {}

impl Retained for ArrayMemory {
    fn before_launch(
        &self,
        stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.users.record(stream);
        Ok(None)
    }
}

impl ArrayMemory {
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Records work of a stream, or retains the array in the stream's capture.
    fn record_use(self: &Arc<ArrayMemory>, stream: &Stream, enqueue: &EnqueueGuard<'_>) {
        match enqueue.capture() {
            Some(capture) => capture.retain(self.clone()),
            None => self.users.record(stream),
        }
    }
}

impl Drop for ArrayMemory {
    fn drop(&mut self) {
        let is_done = self.users.wait_until_done();
        match &self.owner {
            ArrayOwner::Itself if is_done => report_drop(
                self.context
                    .bind()
                    // SAFETY: made once and destroyed once, when nothing uses it any more.
                    .and_then(|api| unsafe { Ok(api.cuArrayDestroy(self.raw)?) }),
            ),
            // A copy may still use it: leak it.
            ArrayOwner::Mipmapped { levels } if !is_done => std::mem::forget(levels.clone()),
            _ => {}
        }
    }
}

impl<T: Texel> Array<T> {
    /// An array for textures (`cuArrayCreate_v2`, and `cuArray3DCreate_v2` for shapes of
    /// more than two dimensions) with unspecified contents.
    pub fn new(context: &Context, shape: ArrayShape) -> Result<Array<T>, Error> {
        let ([width, height, depth], flags) = shape.raw();
        if depth != 0 || flags != 0 {
            return Array::with_flags(context, shape, ArrayFlags::default());
        }
        let desc = ArrayDesc {
            width,
            height,
            format: T::FORMAT as u32,
            channels: T::CHANNELS,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: reads a description and writes a handle.
        unsafe { context.bind()?.cuArrayCreate_v2(&mut raw, &desc) }?;
        let flags = ArrayFlags::default();
        Ok(Array::from_handle(
            context,
            raw,
            shape,
            flags,
            ArrayOwner::Itself,
        ))
    }

    /// An array with flags (`cuArray3DCreate_v2`) and unspecified contents.
    pub fn with_flags(
        context: &Context,
        shape: ArrayShape,
        flags: ArrayFlags,
    ) -> Result<Array<T>, Error> {
        let desc = raw_descriptor::<T>(shape, flags);
        let mut raw = std::ptr::null_mut();
        // SAFETY: reads a description and writes a handle.
        unsafe { context.bind()?.cuArray3DCreate_v2(&mut raw, &desc) }?;
        Ok(Array::from_handle(
            context,
            raw,
            shape,
            flags,
            ArrayOwner::Itself,
        ))
    }

    /// An array for textures with these texels.
    pub fn from_slice(
        context: &Context,
        shape: ArrayShape,
        texels: &[T],
    ) -> Result<Array<T>, Error> {
        let mut array = Array::new(context, shape)?;
        array.write(texels)?;
        Ok(array)
    }

    /// Borrows an array that other code made and destroys, as graphics interop returns
    /// them. By its descriptor its texels must be `T` ([`Error::ArrayFormat`]).
    ///
    /// # Safety
    /// `raw` is an array of the context, and stays one until this array and all
    /// that is made of it are dropped and the context's work is done.
    pub unsafe fn borrow_raw(context: &Context, raw: CUarray) -> Result<Array<T>, Error> {
        // SAFETY: the caller's.
        let found = unsafe { ArrayDescriptor::of(context.bind()?, raw) }?;
        if found.format != Some(T::FORMAT) || found.channels != T::CHANNELS {
            return Err(Error::ArrayFormat {
                expected: (T::FORMAT, T::CHANNELS),
                found: found.format,
                channels: found.channels,
            });
        }
        Ok(Array::from_handle(
            context,
            raw,
            found.shape,
            found.flags,
            ArrayOwner::Another,
        ))
    }

    /// A level of a mipmapped array.
    pub(crate) fn level(
        levels: &Arc<MipmappedMemory>,
        raw: CUarray,
        shape: ArrayShape,
    ) -> Array<T> {
        let owner = ArrayOwner::Mipmapped {
            levels: levels.clone(),
        };
        Array::from_handle(&levels.context, raw, shape, levels.flags, owner)
    }

    fn from_handle(
        context: &Context,
        raw: CUarray,
        shape: ArrayShape,
        flags: ArrayFlags,
        owner: ArrayOwner,
    ) -> Array<T> {
        Array {
            memory: Arc::new(ArrayMemory {
                context: context.clone(),
                raw,
                shape,
                flags,
                owner,
                users: UsingStreams::default(),
            }),
            texels: PhantomData,
        }
    }

    /// Its shape.
    pub fn shape(&self) -> ArrayShape {
        self.memory.shape
    }

    /// Its flags.
    pub fn flags(&self) -> ArrayFlags {
        self.memory.flags
    }

    /// The number of texels.
    pub fn len(&self) -> usize {
        self.shape().texels()
    }

    /// Whether it has no texels; always false.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.memory.context
    }

    /// The driver's handle, for calls that the safe layer does not have. It is
    /// good as long as the array.
    pub fn raw(&self) -> CUarray {
        self.memory.raw
    }

    /// Its descriptor as the driver reports it (`cuArray3DGetDescriptor_v2`).
    pub fn descriptor(&self) -> Result<ArrayDescriptor, Error> {
        // SAFETY: the array is live, its context was just bound.
        unsafe { ArrayDescriptor::of(self.context().bind()?, self.raw()) }
    }

    /// Width and height as reported by the entry for 1D and 2D arrays
    /// (`cuArrayGetDescriptor_v2`); the height of a 1D array is 0.
    pub fn width_and_height(&self) -> Result<(usize, usize), Error> {
        let mut desc = ArrayDesc::default();
        let api = self.context().bind()?;
        // SAFETY: the array is live; writes one structure.
        unsafe { api.cuArrayGetDescriptor_v2(&mut desc, self.raw()) }?;
        Ok((desc.width, desc.height))
    }

    /// Writes all of it (`cuMemcpyHtoA_v2`, `cuMemcpy2DUnaligned_v2`, `cuMemcpy3D_v2`);
    /// `texels` has its length.
    pub fn write(&mut self, texels: &[T]) -> Result<(), Error> {
        self.write_at([0; 3], self.shape().extent(), texels)
    }

    /// Writes a box of it: `extent` texels, rows and planes from `origin` on.
    pub fn write_at(
        &mut self,
        origin: [usize; 3],
        extent: [usize; 3],
        texels: &[T],
    ) -> Result<(), Error> {
        self.check_box("write to an array", origin, extent, texels.len())?;
        let from = CopyEndpoint::host(texels.as_ptr().cast());
        // SAFETY: the box is within the array, and the slice has its texels.
        unsafe { transfer::<T>(self.context(), from, self.endpoint(origin), extent, None) }
    }

    /// Reads all of it (`cuMemcpyAtoH_v2`, `cuMemcpy2DUnaligned_v2`, `cuMemcpy3D_v2`);
    /// `texels` has its length.
    pub fn read(&self, texels: &mut [T]) -> Result<(), Error> {
        self.read_at([0; 3], self.shape().extent(), texels)
    }

    /// Reads a box of it: `extent` texels, rows and planes from `origin` on.
    pub fn read_at(
        &self,
        origin: [usize; 3],
        extent: [usize; 3],
        texels: &mut [T],
    ) -> Result<(), Error> {
        self.check_box("read of an array", origin, extent, texels.len())?;
        let to = CopyEndpoint::host(texels.as_mut_ptr().cast());
        // SAFETY: the box is within the array, and the slice has room for it; any bits are
        // values.
        unsafe { transfer::<T>(self.context(), self.endpoint(origin), to, extent, None) }
    }

    /// All texels as a vector.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut texels = zeroed(self.len());
        self.read(&mut texels)?;
        Ok(texels)
    }

    /// Writes all of it from pinned memory in stream order
    /// (`cuMemcpyHtoAAsync_v2`, `cuMemcpy2DAsync_v2`, `cuMemcpy3DAsync_v2`). The
    /// pinned buffer waits for the copy before it is written or freed.
    pub fn write_async(&mut self, texels: &PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        length::check_equal("write to an array", texels.len(), self.len())?;
        let enqueue = self.begin(stream)?;
        let guard = lock_memory_in(Some(stream), Some(enqueue), [texels.used(Effect::Read)])?;
        let from = CopyEndpoint::host(texels.pointer().cast());
        // SAFETY: both have that many texels; the pinned memory stays as it is until the
        // stream is done.
        unsafe { self.queue(from, self.endpoint([0; 3]), stream, guard) }
    }

    /// Reads all of it into pinned memory in stream order
    /// (`cuMemcpyAtoHAsync_v2`, `cuMemcpy2DAsync_v2`, `cuMemcpy3DAsync_v2`). The
    /// pinned buffer waits for the copy before it is read or freed.
    pub fn read_async(&self, texels: &mut PinnedBuffer<T>, stream: &Stream) -> Result<(), Error> {
        length::check_equal("read of an array", texels.len(), self.len())?;
        let enqueue = self.begin(stream)?;
        let guard = lock_memory_in(Some(stream), Some(enqueue), [texels.used(Effect::Write)])?;
        let to = CopyEndpoint::host(texels.pointer().cast());
        // SAFETY: as `write_async`.
        unsafe { self.queue(self.endpoint([0; 3]), to, stream, guard) }
    }

    /// Copies all of a buffer of the same length (`cuMemcpyDtoA_v2`,
    /// `cuMemcpy2DUnaligned_v2`, `cuMemcpy3D_v2`), ordered like work of the default stream.
    pub fn copy_from_buffer(&mut self, source: &DeviceBuffer<T>) -> Result<(), Error> {
        self.check_buffer(source)?;
        let _guard = lock_memory(None, [source.used(Effect::Read)])?;
        let from = self.linear(source);
        // SAFETY: both have that many texels, and are of one context.
        unsafe { self.copy(from, self.endpoint([0; 3])) }
    }

    /// The same in stream order.
    pub fn copy_from_buffer_async(
        &mut self,
        source: &DeviceBuffer<T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.check_buffer(source)?;
        let enqueue = self.begin(stream)?;
        let guard = lock_memory_in(Some(stream), Some(enqueue), [source.used(Effect::Read)])?;
        let from = self.linear(source);
        // SAFETY: as `copy_from_buffer`; freeing either waits for the copy.
        unsafe { self.queue(from, self.endpoint([0; 3]), stream, guard) }
    }

    /// Copies all texels to a buffer of the same length (`cuMemcpyAtoD_v2`,
    /// `cuMemcpy2DUnaligned_v2`, `cuMemcpy3D_v2`), ordered like work of the default stream.
    pub fn copy_to_buffer(&self, target: &mut DeviceBuffer<T>) -> Result<(), Error> {
        self.check_buffer(target)?;
        let _guard = lock_memory(None, [target.used(Effect::Write)])?;
        let to = self.linear(target);
        // SAFETY: as `copy_from_buffer`.
        unsafe { self.copy(self.endpoint([0; 3]), to) }
    }

    /// The same in stream order.
    pub fn copy_to_buffer_async(
        &self,
        target: &mut DeviceBuffer<T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.check_buffer(target)?;
        let enqueue = self.begin(stream)?;
        let guard = lock_memory_in(Some(stream), Some(enqueue), [target.used(Effect::Write)])?;
        let to = self.linear(target);
        // SAFETY: as `copy_from_buffer_async`.
        unsafe { self.queue(self.endpoint([0; 3]), to, stream, guard) }
    }

    /// Copies the rows of pitched memory of the same width and height into a 2D
    /// array (`cuMemcpy2DUnaligned_v2`).
    pub fn copy_from_rows(&mut self, source: &PitchedBuffer<T>) -> Result<(), Error> {
        self.check_rows(source)?;
        let from = CopyEndpoint::device(source.address(), source.pitch());
        // SAFETY: both have those rows, and are of one context.
        unsafe { self.copy(from, self.endpoint([0; 3])) }
    }

    /// Copies a 2D array into pitched memory of the same width and height
    /// (`cuMemcpy2DUnaligned_v2`).
    pub fn copy_to_rows(&self, target: &mut PitchedBuffer<T>) -> Result<(), Error> {
        self.check_rows(target)?;
        let to = CopyEndpoint::device(target.address(), target.pitch());
        // SAFETY: as `copy_from_rows`.
        unsafe { self.copy(self.endpoint([0; 3]), to) }
    }

    /// Copies all of an array of the same extent (`cuMemcpyAtoA_v2`,
    /// `cuMemcpy2DUnaligned_v2`, `cuMemcpy3D_v2`), ordered like work of the default stream.
    pub fn copy_from(&mut self, source: &Array<T>) -> Result<(), Error> {
        self.check_array(source)?;
        source
            .memory
            .users
            .record(&Stream::default_of(self.context()));
        // SAFETY: both have that extent, and are of one context.
        unsafe { self.copy(source.endpoint([0; 3]), self.endpoint([0; 3])) }
    }

    /// The same in stream order.
    pub fn copy_from_async(&mut self, source: &Array<T>, stream: &Stream) -> Result<(), Error> {
        self.check_array(source)?;
        let enqueue = self.begin(stream)?;
        source.memory.record_use(stream, &enqueue);
        let guard = lock_memory_in(Some(stream), Some(enqueue), None::<Use<'_>>)?;
        // SAFETY: as `copy_from`; freeing either waits for the copy.
        unsafe {
            self.queue(
                source.endpoint([0; 3]),
                self.endpoint([0; 3]),
                stream,
                guard,
            )
        }
    }

    /// The handle, for textures and surfaces.
    pub(crate) fn memory(&self) -> &Arc<ArrayMemory> {
        &self.memory
    }

    fn endpoint(&self, origin: [usize; 3]) -> CopyEndpoint {
        CopyEndpoint::array(self.raw(), self.shape(), origin)
    }

    /// A buffer as rows without padding.
    fn linear(&self, buffer: &DeviceBuffer<T>) -> CopyEndpoint {
        CopyEndpoint::device(buffer.address(), self.shape().extent()[0] * size_of::<T>())
    }

    /// # Safety
    /// Both ends have the texels of this array.
    unsafe fn copy(&self, from: CopyEndpoint, to: CopyEndpoint) -> Result<(), Error> {
        // A copy within the device may still run when the call returns.
        self.memory
            .users
            .record(&Stream::default_of(self.context()));
        // SAFETY: the caller's.
        unsafe { transfer::<T>(self.context(), from, to, self.shape().extent(), None) }
    }

    /// # Safety
    /// As `copy`, until the stream is done with it.
    unsafe fn queue(
        &self,
        from: CopyEndpoint,
        to: CopyEndpoint,
        stream: &Stream,
        guard: MemoryGuard<'_>,
    ) -> Result<(), Error> {
        let extent = self.shape().extent();
        // SAFETY: the caller's.
        unsafe { transfer::<T>(self.context(), from, to, extent, Some(stream)) }?;
        drop(guard);
        if self.context().check_mode() {
            stream.wait_for_check(|| format!("copy of an array, {:?}", self.shape()))?;
        }
        Ok(())
    }

    /// Called before work is queued in a stream.
    fn begin<'s>(&self, stream: &'s Stream) -> Result<EnqueueGuard<'s>, Error> {
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "array and stream",
            });
        }
        let enqueue = stream.begin_enqueue();
        self.memory.record_use(stream, &enqueue);
        Ok(enqueue)
    }

    fn same_context(&self, other: &Context, what: &'static str) -> Result<(), Error> {
        if other != self.context() {
            return Err(Error::DifferentContexts { what });
        }
        Ok(())
    }

    fn check_buffer(&self, buffer: &DeviceBuffer<T>) -> Result<(), Error> {
        length::check_equal(
            "copy between a buffer and an array",
            buffer.len(),
            self.len(),
        )?;
        self.same_context(buffer.context(), "the buffer and the array of a copy")
    }

    fn check_rows(&self, rows: &PitchedBuffer<T>) -> Result<(), Error> {
        self.same_context(rows.context(), "the buffer and the array of a copy")?;
        self.same_extent([rows.width(), rows.height(), 1])
    }

    fn check_array(&self, other: &Array<T>) -> Result<(), Error> {
        self.same_context(other.context(), "the arrays of a copy")?;
        self.same_extent(other.shape().extent())
    }

    fn same_extent(&self, given: [usize; 3]) -> Result<(), Error> {
        let capacity = self.shape().extent();
        match (0..3).find(|&axis| given[axis] != capacity[axis]) {
            None => Ok(()),
            Some(axis) => Err(Error::ArrayBox {
                what: "copy to or from an array of another extent",
                axis,
                start: 0,
                end: given[axis],
                capacity: capacity[axis],
            }),
        }
    }

    /// Whether a box lies within the array and has that many texels.
    fn check_box(
        &self,
        what: &'static str,
        origin: [usize; 3],
        extent: [usize; 3],
        given: usize,
    ) -> Result<(), Error> {
        let capacity = self.shape().extent();
        for axis in 0..3 {
            let end = origin[axis].saturating_add(extent[axis]);
            if end > capacity[axis] {
                return Err(Error::ArrayBox {
                    what,
                    axis,
                    start: origin[axis],
                    end,
                    capacity: capacity[axis],
                });
            }
        }
        // Within the array, so the product is no larger than its texels.
        let capacity = extent.into_iter().product();
        length::check_equal(what, given, capacity)
    }
}
