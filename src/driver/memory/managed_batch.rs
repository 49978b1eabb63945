//! Batches of moves and discards of managed memory.

use crate::driver::error::Error;
use crate::driver::memory::location::Location;
use crate::driver::memory::managed::ManagedBuffer;
use crate::driver::memory::order::Effect;
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::{CUdeviceptr, MemLocation};

/// Moves and discards of managed memory that a stream makes in one call each (from CUDA 13.0).
///
/// What is discarded is not kept: until it is written, its values are not said, and no page of
/// it is moved for a read. That spares the copies of memory that will be written anyway.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Attach, Context, Driver, Location, ManagedBatch, ManagedBuffer, Stream};
/// let device = Driver::cpu()?.device(0)?;
/// let context = Context::primary(&device)?;
/// let stream = Stream::new(&context)?;
/// let weights = ManagedBuffer::from_slice(&context, &[1_u32, 2], Attach::Global)?;
/// let mut scratch = ManagedBuffer::<u32>::zeroed(&context, 2, Attach::Global)?;
/// let mut batch = ManagedBatch::new();
/// batch.prefetch(&weights, Location::from(&device));
/// batch.discard_and_prefetch(&mut scratch, Location::from(&device));
/// batch.queue(&stream)?;
/// stream.synchronize()?;
/// assert_eq!(weights.to_vec()?, [1, 2]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ManagedBatch<'a> {
    prefetches: Ranges,
    discards: Ranges,
    both: Ranges,
    memory: Vec<Use<'a>>,
}

#[derive(Debug, Default)]
struct Ranges {
    addresses: Vec<CUdeviceptr>,
    bytes: Vec<usize>,
    places: Vec<MemLocation>,
}

impl Ranges {
    fn push(&mut self, address: CUdeviceptr, bytes: usize, place: Option<Location>) {
        self.addresses.push(address);
        self.bytes.push(bytes);
        self.places.extend(place.map(Location::raw));
    }
}

impl<'a> ManagedBatch<'a> {
    /// An empty batch.
    pub fn new() -> ManagedBatch<'a> {
        ManagedBatch::default()
    }

    /// How many buffers are in it.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Moves a buffer to a location (`cuMemPrefetchBatchAsync`).
    pub fn prefetch<T: Pod>(&mut self, buffer: &'a ManagedBuffer<T>, location: Location) {
        if self.uses(buffer) {
            let (address, bytes) = (buffer.address(), buffer.bytes());
            self.prefetches.push(address, bytes, Some(location));
        }
    }

    /// Gives up what a buffer has (`cuMemDiscardBatchAsync`).
    pub fn discard<T: Pod>(&mut self, buffer: &'a mut ManagedBuffer<T>) {
        let buffer = &*buffer;
        if self.uses(buffer) {
            self.discards.push(buffer.address(), buffer.bytes(), None);
        }
    }

    /// Gives up what a buffer has, and lets it be at a location
    /// (`cuMemDiscardAndPrefetchBatchAsync`).
    pub fn discard_and_prefetch<T: Pod>(
        &mut self,
        buffer: &'a mut ManagedBuffer<T>,
        location: Location,
    ) {
        let buffer = &*buffer;
        if self.uses(buffer) {
            let (address, bytes) = (buffer.address(), buffer.bytes());
            self.both.push(address, bytes, Some(location));
        }
    }

    /// Whether there is anything to move.
    fn uses<T: Pod>(&mut self, buffer: &'a ManagedBuffer<T>) -> bool {
        if buffer.is_empty() || size_of::<T>() == 0 {
            return false;
        }
        self.memory.push(buffer.used(Effect::Write));
        true
    }

    /// Queues it in a stream, which must not be the default stream.
    pub fn queue(mut self, stream: &Stream) -> Result<(), Error> {
        let context = stream.context();
        for used in &self.memory {
            context.check_same_driver(used.memory.context(), "managed memory and stream")?;
        }
        if stream.is_capturing() {
            return Err(Error::Captured {
                what: "a batch of moves",
            });
        }
        let count = self.len();
        if count == 0 {
            return Ok(());
        }
        let api = context.bind()?;
        let guard = lock_memory(Some(stream), self.memory)?;
        let queue = stream.raw();
        // One place for each range.
        let mut first: Vec<usize> = (0..count).collect();
        for (ranges, discards) in [(&mut self.prefetches, false), (&mut self.both, true)] {
            let Ranges {
                addresses,
                bytes,
                places,
            } = ranges;
            let count = addresses.len();
            if count == 0 {
                continue;
            }
            let entry = if !discards {
                api::Api::cuMemPrefetchBatchAsync
            } else {
                api::Api::cuMemDiscardAndPrefetchBatchAsync
            };
            let ranges = (addresses.as_mut_ptr(), bytes.as_mut_ptr());
            let places = (places.as_mut_ptr(), first.as_mut_ptr());
            // SAFETY: as many ranges, places and first indices as said; the memory stays until
            // the stream is done, and the values of what is discarded may be any bits.
            unsafe {
                entry(
                    api, ranges.0, ranges.1, count, places.0, places.1, count, 0, queue,
                )
            }?;
        }
        let Ranges {
            addresses, bytes, ..
        } = &mut self.discards;
        if !addresses.is_empty() {
            let count = addresses.len();
            let ranges = (addresses.as_mut_ptr(), bytes.as_mut_ptr());
            // SAFETY: as above.
            unsafe { api.cuMemDiscardBatchAsync(ranges.0, ranges.1, count, 0, queue) }?;
        }
        drop(guard);
        if context.check_mode() {
            return stream.wait_for_check(|| format!("batch of {count} moves"));
        }
        Ok(())
    }
}
