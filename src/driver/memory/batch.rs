//! Batches of copies in one call.

use crate::driver::error::Error;
use crate::driver::memory::copy::{Linear, LinearMut};
use crate::driver::memory::length;
use crate::driver::memory::location::Location;
use crate::driver::memory::order::Effect;
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{CUdeviceptr, CopyAttributes};

/// Copies that a stream makes in any order or at once (`cuMemcpyBatchAsync`, from CUDA
/// 12.8): for many short copies one call is cheaper than one per copy. Destinations are
/// borrowed exclusively, so no copy of a batch depends on another.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, CopyBatch, DeviceBuffer, Driver, PinnedBuffer, Stream};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let stream = Stream::new(&context)?;
/// let parts = [[1_u32, 2], [3, 4]];
/// let from = parts.map(|part| PinnedBuffer::from_slice(&context, &part));
/// let mut to = [DeviceBuffer::<u32>::new(&context, 2)?, DeviceBuffer::new(&context, 2)?];
///
/// let mut batch = CopyBatch::new();
/// for (to, from) in to.iter_mut().zip(&from) {
///     batch.copy(to, from.as_ref().map_err(Clone::clone)?)?;
/// }
/// batch.queue(&stream)?;
/// stream.synchronize()?;
/// assert_eq!(to[1].to_vec()?, [3, 4]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct CopyBatch<'a> {
    to: Vec<CUdeviceptr>,
    from: Vec<CUdeviceptr>,
    bytes: Vec<usize>,
    memory: Vec<Use<'a>>,
}

/// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`
const IN_STREAM_ORDER: u32 = 1;

impl<'a> CopyBatch<'a> {
    /// An empty batch.
    pub fn new() -> CopyBatch<'a> {
        CopyBatch::default()
    }

    /// The number of copies.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a copy of a whole array to another of the same length, in memory of any kind.
    pub fn copy<T: Pod>(
        &mut self,
        to: &'a mut impl LinearMut<T>,
        from: &'a impl Linear<T>,
    ) -> Result<&mut CopyBatch<'a>, Error> {
        length::check_equal("copy of a batch", from.count(), to.count())?;
        let to = &*to;
        let bytes = to.count() * size_of::<T>(); // the array is in memory
        if bytes > 0 {
            self.to.push(to.unified_address());
            self.from.push(from.unified_address());
            self.bytes.push(bytes);
            self.memory
                .extend([to.used(Effect::Write), from.used(Effect::Read)]);
        }
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
        // Location hints matter only for managed memory, whose location the driver does not
        // know.
        let here = Location::from(context.device()).raw();
        let mut attributes = CopyAttributes {
            source_order: IN_STREAM_ORDER,
            source: here,
            target: here,
            flags: 0,
        };
        let (mut first, queue) = (0, stream.raw());
        let api = context.bind()?;
        let guard = lock_memory(Some(stream), self.memory)?;
        let [to, from] = [&mut self.to, &mut self.from].map(Vec::as_mut_ptr);
        let (bytes, attributes) = (self.bytes.as_mut_ptr(), &raw mut attributes);
        // SAFETY: as many ends as said, which have those bytes and keep them until the stream
        // is done; one set of attributes, from the first copy on.
        unsafe {
            match api.cuMemcpyBatchAsync {
                // CUDA 13 removed a parameter.
                Some(_) if api.cuMemcpyBatchAsync_v2.is_none() => {
                    let mut failed = 0;
                    api.cuMemcpyBatchAsync(
                        to,
                        from,
                        bytes,
                        count,
                        attributes,
                        &mut first,
                        1,
                        &mut failed,
                        queue,
                    )
                }
                _ => api.cuMemcpyBatchAsync_v2(
                    to, from, bytes, count, attributes, &mut first, 1, queue,
                ),
            }
        }?;
        drop(guard);
        if context.check_mode() {
            return stream.wait_for_check(|| format!("batch of {count} copies"));
        }
        Ok(())
    }
}

/// Checks that a stream can make the copies of a batch: its context reaches the memory, and it
/// is not capturing.
pub(super) fn check_stream(memory: &[Use<'_>], stream: &Stream) -> Result<(), Error> {
    let context = stream.context();
    let reached = |used: &Use<'_>| used.memory.is_reached_from(context);
    if !memory.iter().all(reached) {
        return Err(Error::DifferentContexts {
            what: "the copies of a batch and the stream",
        });
    }
    if stream.is_capturing() {
        return Err(Error::Captured {
            what: "a batch of copies",
        });
    }
    Ok(())
}
