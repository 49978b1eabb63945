//! Copies and fills of rectangles and boxes.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::fill::FillValue;
use crate::driver::memory::managed::ManagedBuffer;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D};

/// Memory seen as rows of values, and planes of rows: what a copy reads.
///
/// `rows` of each kind of buffer makes one, [`Rows::of_slice`] one of memory of
/// the program's own. [`at`](Rows::at) is where the copy begins.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver, Rows};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let mut image = DeviceBuffer::<u8>::zeroed(&context, 4 * 3)?;
/// let stamp = [1, 2, 3, 4];
/// // Two rows of two, into the lower right corner of three rows of four.
/// let corner = image.rows_mut(4)?.at([2, 1, 0]);
/// corner.copy_from(Rows::of_slice(&stamp, 2)?, [2, 2, 1])?;
/// assert_eq!(image.to_vec()?, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct Rows<'a, T> {
    endpoint: PitchedEndpoint<'a>,
    values: PhantomData<&'a [T]>,
}

/// The same to write: what a copy or a fill writes.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    endpoint: PitchedEndpoint<'a>,
    values: PhantomData<&'a mut [T]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PitchedEndpoint<'a> {
    /// `None` for pageable host memory.
    pub memory: Option<&'a Arc<Allocation>>,
    pub on_host: bool,
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Whether the pitch is the driver's own.
    pub aligned: bool,
    /// Values per row, rows per plane, planes.
    pub capacity: [usize; 3],
    pub origin: [usize; 3],
}

impl<'a> PitchedEndpoint<'a> {
    /// `len` values as rows without padding. Values after the last whole row are not
    /// accessible.
    fn unpitched<T>(
        memory: Option<&'a Arc<Allocation>>,
        on_host: bool,
        address: u64,
        len: usize,
        width: usize,
    ) -> Result<PitchedEndpoint<'a>, Error> {
        if width == 0 {
            return Err(Error::Length {
                what: "values of a row",
                given: 0,
                capacity: len,
            });
        }
        Ok(PitchedEndpoint {
            memory,
            on_host,
            address,
            pitch: width.saturating_mul(size_of::<T>()),
            aligned: false,
            capacity: [width, len / width, 1],
            origin: [0; 3],
        })
    }

    fn check(&self, what: &'static str, extent: [usize; 3]) -> Result<(), Error> {
        for (axis, &capacity) in self.capacity.iter().enumerate() {
            let start = self.origin[axis];
            let end = start.saturating_add(extent[axis]);
            if end > capacity {
                return Err(Error::Region {
                    what,
                    axis,
                    start,
                    end,
                    capacity,
                });
            }
        }
        Ok(())
    }

    /// The memory from the first to the last value of a box within it, which work uses.
    fn used<T>(&self, extent: [usize; 3], effect: Effect) -> Option<Use<'a>> {
        // No box has no place, which could be anywhere.
        if extent.contains(&0) {
            return None;
        }
        let row = |[_, y, z]: [usize; 3]| z * self.capacity[1] + y;
        let byte = |at: [usize; 3]| row(at) * self.pitch + at[0] * size_of::<T>();
        let last = std::array::from_fn(|axis| self.origin[axis] + extent[axis].saturating_sub(1));
        let (first, end) = (byte(self.origin), byte(last) + size_of::<T>());
        let memory = self.memory?;
        // Pinned memory may have another address on the device, and is used as a whole.
        let part = if self.on_host {
            memory.whole()
        } else {
            Part::new(self.address + first as u64, end - first)
        };
        Some(Use {
            memory,
            part,
            effect,
        })
    }

    fn split_planes(&mut self, height: usize) -> Result<(), Error> {
        let rows = self.capacity[1].saturating_mul(self.capacity[2]);
        if height == 0 || height > rows {
            return Err(Error::Length {
                what: "rows of a plane",
                given: height,
                capacity: rows,
            });
        }
        (self.capacity[1], self.capacity[2]) = (height, rows / height);
        Ok(())
    }

    fn kind(&self) -> CUmemorytype {
        if self.on_host {
            CUmemorytype::CU_MEMORYTYPE_HOST
        } else {
            CUmemorytype::CU_MEMORYTYPE_DEVICE
        }
    }

    fn on_device(&self) -> u64 {
        if self.on_host { 0 } else { self.address }
    }

    fn on_host(&self) -> *mut std::ffi::c_void {
        if self.on_host {
            std::ptr::with_exposed_provenance_mut(self.address as usize)
        } else {
            std::ptr::null_mut()
        }
    }
}

impl<'a, T: Pod> Rows<'a, T> {
    /// Memory of the program's own as rows of `width` values.
    pub fn of_slice(values: &'a [T], width: usize) -> Result<Rows<'a, T>, Error> {
        let address = values.as_ptr().expose_provenance() as u64;
        PitchedEndpoint::unpitched::<T>(None, true, address, values.len(), width).map(Rows::of)
    }

    pub(crate) fn of(endpoint: PitchedEndpoint<'a>) -> Rows<'a, T> {
        Rows {
            endpoint,
            values: PhantomData,
        }
    }

    /// As planes of `height` rows each.
    pub fn planes(mut self, height: usize) -> Result<Rows<'a, T>, Error> {
        self.endpoint.split_planes(height)?;
        Ok(self)
    }

    pub(crate) fn endpoint(&self) -> &PitchedEndpoint<'a> {
        &self.endpoint
    }

    /// From this value of a row, row of a plane, and plane on.
    pub fn at(mut self, origin: [usize; 3]) -> Rows<'a, T> {
        self.endpoint.origin = origin;
        self
    }
}

impl<'a, T: Pod> RowsMut<'a, T> {
    /// Memory of the program's own as rows of `width` values.
    pub fn of_slice(values: &'a mut [T], width: usize) -> Result<RowsMut<'a, T>, Error> {
        let address = values.as_mut_ptr().expose_provenance() as u64;
        PitchedEndpoint::unpitched::<T>(None, true, address, values.len(), width).map(RowsMut::of)
    }

    pub(crate) fn of(endpoint: PitchedEndpoint<'a>) -> RowsMut<'a, T> {
        RowsMut {
            endpoint,
            values: PhantomData,
        }
    }

    /// As planes of `height` rows each.
    pub fn planes(mut self, height: usize) -> Result<RowsMut<'a, T>, Error> {
        self.endpoint.split_planes(height)?;
        Ok(self)
    }

    pub(crate) fn endpoint(&self) -> &PitchedEndpoint<'a> {
        &self.endpoint
    }

    /// What a copy of a box writes and reads, `None` for memory of the program's own. Fails
    /// unless both ends hold the box.
    pub(crate) fn uses(
        to: &RowsMut<'a, T>,
        from: &Rows<'a, T>,
        extent: [usize; 3],
    ) -> Result<[Option<Use<'a>>; 2], Error> {
        to.endpoint.check("copy to rows", extent)?;
        from.endpoint.check("copy from rows", extent)?;
        Ok([
            to.endpoint.used::<T>(extent, Effect::Write),
            from.endpoint.used::<T>(extent, Effect::Read),
        ])
    }

    /// From this value of a row, row of a plane, and plane on.
    pub fn at(mut self, origin: [usize; 3]) -> RowsMut<'a, T> {
        self.endpoint.origin = origin;
        self
    }

    /// Copies a box of so many values, rows and planes (`cuMemcpy2D_v2`,
    /// `cuMemcpy2DUnaligned_v2`; `cuMemcpy3D_v2` for more planes than one). It is
    /// ordered like work of the default stream.
    pub fn copy_from(self, from: Rows<'_, T>, extent: [usize; 3]) -> Result<(), Error> {
        self.copy(from, extent, None)
    }

    /// The same in stream order (`cuMemcpy2DAsync_v2`, `cuMemcpy3DAsync_v2`).
    /// Memory of the program's own is not copied so ([`Error::Pageable`]): pin it.
    pub fn copy_from_async(
        self,
        from: Rows<'_, T>,
        extent: [usize; 3],
        stream: &Stream,
    ) -> Result<(), Error> {
        if self.endpoint.memory.is_none() || from.endpoint.memory.is_none() {
            return Err(Error::Pageable);
        }
        self.copy(from, extent, Some(stream))
    }

    fn copy(
        self,
        from: Rows<'_, T>,
        extent: [usize; 3],
        stream: Option<&Stream>,
    ) -> Result<(), Error> {
        let uses = RowsMut::uses(&self, &from, extent)?;
        let (to, from) = (self.endpoint, from.endpoint);
        let memory = || to.memory.into_iter().chain(from.memory);
        let Some(context) = context_of(memory, stream)? else {
            return Err(Error::Pageable); // both ends are pageable host memory
        };
        if extent.contains(&0) || size_of::<T>() == 0 {
            return Ok(());
        }
        let api = context.bind()?;
        let guard = lock_memory(stream, uses.into_iter().flatten())?;
        let queue = stream.map(Stream::raw);
        let flat = extent[2] == 1 && to.origin[2] == 0 && from.origin[2] == 0;
        // SAFETY: both ends hold the box (checked); they are borrowed until the copy is done,
        // or kept until the stream is.
        unsafe {
            if flat {
                let copy = rectangle::<T>(&to, &from, extent);
                match queue {
                    Some(queue) => api.cuMemcpy2DAsync_v2(&copy, queue),
                    // Between device pointers `cuMemcpy2D` requires pitches from
                    // `cuMemAllocPitch`.
                    None if to.on_host || from.on_host || (to.aligned && from.aligned) => {
                        api.cuMemcpy2D_v2(&copy)
                    }
                    None => api.cuMemcpy2DUnaligned_v2(&copy),
                }
            } else {
                let copy = cuboid::<T>(&to, &from, extent);
                match queue {
                    Some(queue) => api.cuMemcpy3DAsync_v2(&copy, queue),
                    None => api.cuMemcpy3D_v2(&copy),
                }
            }
        }?;
        drop(guard);
        after(stream, "copy", extent)
    }

    /// Sets a rectangle, or one in each of several planes (`cuMemsetD2D8_v2`,
    /// `cuMemsetD2D16_v2`, `cuMemsetD2D32_v2`). Values have 1, 2 or 4 bytes, and
    /// the memory is a device's or managed.
    pub fn fill(self, value: T, extent: [usize; 3]) -> Result<(), Error> {
        self.fill_in(value, extent, None)
    }

    /// The same in stream order (`cuMemsetD2D8Async`, `cuMemsetD2D16Async`,
    /// `cuMemsetD2D32Async`).
    pub fn fill_async(self, value: T, extent: [usize; 3], stream: &Stream) -> Result<(), Error> {
        self.fill_in(value, extent, Some(stream))
    }

    fn fill_in(self, value: T, extent: [usize; 3], stream: Option<&Stream>) -> Result<(), Error> {
        let to = self.endpoint;
        let fill = FillValue::of(&value)?;
        to.check("fill of rows", extent)?;
        let memory = || to.memory.into_iter();
        let (Some(context), false) = (context_of(memory, stream)?, to.on_host) else {
            return Err(Error::Pageable);
        };
        if extent.contains(&0) {
            return Ok(());
        }
        let api = context.bind()?;
        let guard = lock_memory(stream, to.used::<T>(extent, Effect::Write))?;
        let [x, y, z] = to.origin;
        for plane in z..z + extent[2] {
            let row = plane * to.capacity[1] + y;
            let first = to.address + (row * to.pitch + x * size_of::<T>()) as u64;
            // SAFETY: the rectangle is within the memory (checked), which is kept until the
            // stream is done. Addresses and pitches are multiples of the value's size.
            unsafe { fill.fill_rows(api, stream, (first, to.pitch), [extent[0], extent[1]]) }?;
        }
        drop(guard);
        after(stream, "fill", extent)
    }
}

/// The context to call in, which can access all of the memory.
fn context_of<'a, I: Iterator<Item = &'a Arc<Allocation>>>(
    memory: impl Fn() -> I,
    stream: Option<&'a Stream>,
) -> Result<Option<&'a Context>, Error> {
    let own = memory().next().map(|memory| memory.context());
    let Some(context) = stream.map(Stream::context).or(own) else {
        return Ok(None);
    };
    // Portable memory does not determine the context.
    let context = match stream {
        Some(_) => context,
        None => memory()
            .find(|memory| !memory.is_portable())
            .map_or(context, |memory| memory.context()),
    };
    if memory().all(|memory| memory.is_reached_from(context)) {
        Ok(Some(context))
    } else {
        Err(Error::DifferentContexts {
            what: "memory and stream, or the ends of a copy",
        })
    }
}

fn after(stream: Option<&Stream>, what: &str, extent: [usize; 3]) -> Result<(), Error> {
    match stream {
        Some(stream) if stream.context().check_mode() => {
            let [width, height, depth] = extent;
            stream.wait_for_check(|| format!("{what} of {width} x {height} x {depth} values"))
        }
        _ => Ok(()),
    }
}

fn rectangle<T>(
    to: &PitchedEndpoint<'_>,
    from: &PitchedEndpoint<'_>,
    extent: [usize; 3],
) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcXInBytes: from.origin[0] * size_of::<T>(),
        srcY: from.origin[1],
        srcMemoryType: from.kind(),
        srcHost: from.on_host(),
        srcDevice: from.on_device(),
        srcArray: std::ptr::null_mut(),
        srcPitch: from.pitch,
        dstXInBytes: to.origin[0] * size_of::<T>(),
        dstY: to.origin[1],
        dstMemoryType: to.kind(),
        dstHost: to.on_host(),
        dstDevice: to.on_device(),
        dstArray: std::ptr::null_mut(),
        dstPitch: to.pitch,
        WidthInBytes: extent[0] * size_of::<T>(),
        Height: extent[1],
    }
}

fn cuboid<T>(
    to: &PitchedEndpoint<'_>,
    from: &PitchedEndpoint<'_>,
    extent: [usize; 3],
) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: from.origin[0] * size_of::<T>(),
        srcY: from.origin[1],
        srcZ: from.origin[2],
        srcLOD: 0,
        srcMemoryType: from.kind(),
        srcHost: from.on_host(),
        srcDevice: from.on_device(),
        srcArray: std::ptr::null_mut(),
        reserved0: std::ptr::null_mut(),
        srcPitch: from.pitch,
        srcHeight: from.capacity[1],
        dstXInBytes: to.origin[0] * size_of::<T>(),
        dstY: to.origin[1],
        dstZ: to.origin[2],
        dstLOD: 0,
        dstMemoryType: to.kind(),
        dstHost: to.on_host(),
        dstDevice: to.on_device(),
        dstArray: std::ptr::null_mut(),
        reserved1: std::ptr::null_mut(),
        dstPitch: to.pitch,
        dstHeight: to.capacity[1],
        WidthInBytes: extent[0] * size_of::<T>(),
        Height: extent[1],
        Depth: extent[2],
    }
}

macro_rules! linear {
    ($($buffer:ident, $on_host:literal, $address:expr;)*) => { $(
        impl<T: Pod> $buffer<T> {
            /// As rows of `width` values, for copies of rectangles and boxes.
            pub fn rows(&self, width: usize) -> Result<Rows<'_, T>, Error> {
                let address = ($address)(self);
                PitchedEndpoint::unpitched::<T>(Some(self.allocation()), $on_host, address, self.len(), width)
                    .map(Rows::of)
            }

            /// The same to write.
            pub fn rows_mut(&mut self, width: usize) -> Result<RowsMut<'_, T>, Error> {
                let address = ($address)(self);
                PitchedEndpoint::unpitched::<T>(Some(self.allocation()), $on_host, address, self.len(), width)
                    .map(RowsMut::of)
            }
        }
    )* };
}

linear! {
    DeviceBuffer, false, |buffer: &DeviceBuffer<T>| buffer.address();
    ManagedBuffer, false, |buffer: &ManagedBuffer<T>| buffer.address();
    PinnedBuffer, true, |buffer: &PinnedBuffer<T>| buffer.pointer().expose_provenance() as u64;
}
