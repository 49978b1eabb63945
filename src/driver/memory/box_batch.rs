//! Batches of copies of rectangles and boxes in one call.

use crate::driver::error::Error;
use crate::driver::memory::batch::check_stream;
use crate::driver::memory::location::Location;
use crate::driver::memory::region::{PitchedEndpoint, Rows, RowsMut};
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{BoxCopy, CopyOperand};

/// Copies of boxes that a stream makes in any order or at once (`cuMemcpy3DBatchAsync`, from
/// CUDA 12.8): as [`CopyBatch`](crate::driver::CopyBatch) for rows and planes. Destinations are
/// borrowed exclusively, so no copy of a batch depends on another.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{BoxBatch, Context, DeviceBuffer, Driver, Stream};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let stream = Stream::new(&context)?;
/// let image = DeviceBuffer::from_slice(&context, &[1_u8, 2, 3, 4, 5, 6, 7, 8, 9])?;
/// let mut tiles = [DeviceBuffer::<u8>::zeroed(&context, 4)?, DeviceBuffer::zeroed(&context, 4)?];
/// let mut batch = BoxBatch::new();
/// for (n, tile) in tiles.iter_mut().enumerate() {
///     batch.copy(tile.rows_mut(2)?, image.rows(3)?.at([n, n, 0]), [2, 2, 1])?;
/// }
/// batch.queue(&stream)?;
/// stream.synchronize()?;
/// assert_eq!(tiles[1].to_vec()?, [5, 6, 8, 9]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct BoxBatch<'a> {
    copies: Vec<BoxCopy>,
    memory: Vec<Use<'a>>,
}

/// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`
const IN_STREAM_ORDER: u32 = 1;
/// `CU_MEMCPY_OPERAND_TYPE_POINTER`
const MEMORY: u32 = 1;

/// An end from its first byte on. Without arrays the entry counts bytes.
fn operand<T>(end: &PitchedEndpoint<'_>) -> CopyOperand {
    let [x, y, z] = end.origin;
    let first = (z * end.capacity[1] + y) * end.pitch + x * size_of::<T>();
    CopyOperand {
        kind: MEMORY,
        place: end.address + first as u64,
        numbers: [end.pitch as u64, end.capacity[1] as u64, 0],
    }
}

impl<'a> BoxBatch<'a> {
    /// An empty batch.
    pub fn new() -> BoxBatch<'a> {
        BoxBatch::default()
    }

    /// The number of copies.
    pub fn len(&self) -> usize {
        self.copies.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Adds a copy of a box of so many values, rows and planes. Memory of the program's own is
    /// not copied so ([`Error::Pageable`]): pin it.
    pub fn copy<T: Pod>(
        &mut self,
        to: RowsMut<'a, T>,
        from: Rows<'a, T>,
        extent: [usize; 3],
    ) -> Result<&mut BoxBatch<'a>, Error> {
        let uses = RowsMut::uses(&to, &from, extent)?;
        if extent.contains(&0) || size_of::<T>() == 0 {
            return Ok(self);
        }
        let [Some(written), Some(read)] = uses else {
            return Err(Error::Pageable);
        };
        self.memory.extend([written, read]);
        self.copies.push(BoxCopy {
            from: operand::<T>(from.endpoint()),
            to: operand::<T>(to.endpoint()),
            extent: [extent[0] * size_of::<T>(), extent[1], extent[2]],
            source_order: IN_STREAM_ORDER,
            flags: 0,
        });
        Ok(self)
    }

    /// Queues the copies in a stream, which must not be a default stream and not be
    /// capturing ([`Error::Captured`]).
    pub fn queue(mut self, stream: &Stream) -> Result<(), Error> {
        let context = stream.context();
        check_stream(&self.memory, stream)?;
        let count = self.len();
        if count == 0 {
            return Ok(());
        }
        // A hint for managed memory, whose location the driver does not know.
        let here = Location::from(context.device()).raw();
        for copy in &mut self.copies {
            let hint = u64::from(here.kind) | u64::from(here.id.cast_unsigned()) << 32;
            (copy.from.numbers[2], copy.to.numbers[2]) = (hint, hint);
        }
        let (queue, copies) = (stream.raw(), self.copies.as_mut_ptr());
        let api = context.bind()?;
        let guard = lock_memory(Some(stream), self.memory)?;
        // SAFETY: as many copies as said, whose ends hold the boxes (checked) and keep them until
        // the stream is done; the flags must be 0.
        unsafe {
            match api.cuMemcpy3DBatchAsync {
                // CUDA 13 removed a parameter.
                Some(_) if api.cuMemcpy3DBatchAsync_v2.is_none() => {
                    let mut failed = 0;
                    api.cuMemcpy3DBatchAsync(count, copies, &mut failed, 0, queue)
                }
                _ => api.cuMemcpy3DBatchAsync_v2(count, copies, 0, queue),
            }
        }?;
        drop(guard);
        if context.check_mode() {
            return stream.wait_for_check(|| format!("batch of {count} copies of boxes"));
        }
        Ok(())
    }
}
