//! Parts of pinned memory: what copies read and write of it.

use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::length;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::uses::Use;
use crate::driver::pod::Pod;

/// Part of a [`PinnedBuffer`], which [`copy_async`](crate::driver::copy_async) reads.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver, PinnedBuffer, Stream, copy_async};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let streams = [Stream::non_blocking(&context)?, Stream::non_blocking(&context)?];
/// let numbers = PinnedBuffer::from_slice(&context, &[1_u32, 2, 3, 4, 5])?;
/// let mut buffer = DeviceBuffer::new(&context, 5)?;
/// // Each stream copies every other part, and waits for no other one.
/// let mut to = buffer.all_mut();
/// let parts = to.chunks_mut(2).zip(numbers.chunks(2));
/// for ((mut to, from), stream) in parts.zip(streams.iter().cycle()) {
///     copy_async(&mut to, &from, stream)?;
/// }
/// assert_eq!(buffer.to_vec()?, [1, 2, 3, 4, 5]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct PinnedPart<'a, T> {
    buffer: &'a PinnedBuffer<T>,
    start: usize,
    len: usize,
}

/// The same to write: no other part that is there meanwhile has memory of it.
#[derive(Debug)]
pub struct PinnedPartMut<'a, T>(PinnedPart<'a, T>);

impl<T: Pod> PinnedBuffer<T> {
    /// Part of it, for copies that read it.
    pub fn part(&self, range: impl RangeBounds<usize>) -> Result<PinnedPart<'_, T>, Error> {
        let (start, len) = length::range("part of pinned memory", range, self.len())?;
        Ok(PinnedPart {
            buffer: self,
            start,
            len,
        })
    }

    /// The same for copies that write it.
    pub fn part_mut(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<PinnedPartMut<'_, T>, Error> {
        self.part(range).map(PinnedPartMut)
    }

    /// Parts of `len` values in a row, of which the last may have fewer; 0 counts as 1.
    pub fn chunks(&self, len: usize) -> impl Iterator<Item = PinnedPart<'_, T>> {
        let (len, end) = (len.max(1), self.len());
        (0..end).step_by(len).map(move |start| PinnedPart {
            buffer: self,
            start,
            len: len.min(end - start),
        })
    }

    /// The same to write.
    pub fn chunks_mut(&mut self, len: usize) -> impl Iterator<Item = PinnedPartMut<'_, T>> {
        self.chunks(len).map(PinnedPartMut)
    }
}

impl<T: Pod> PinnedPart<'_, T> {
    /// How many values it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of its first value for the host.
    pub(crate) fn host_address(&self) -> u64 {
        let buffer = self.buffer.pointer().expose_provenance();
        (buffer + self.start * size_of::<T>()) as u64
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        self.buffer.allocation()
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        let start = (self.start * size_of::<T>()) as u64;
        Use {
            memory: self.buffer.allocation(),
            part: Part::new(
                self.buffer.device_address() + start,
                self.len * size_of::<T>(),
            ),
            effect,
        }
    }
}

impl<T: Pod> PinnedPartMut<'_, T> {
    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        self.0.used(effect)
    }
}

impl<'a, T> Deref for PinnedPartMut<'a, T> {
    type Target = PinnedPart<'a, T>;

    fn deref(&self) -> &PinnedPart<'a, T> {
        &self.0
    }
}
