//! The order of work of several streams that uses the same memory.
//!
//! Work that writes memory runs after all work of other streams that uses it, and work that reads
//! it after all that writes it. So each allocation has a list of the parts that streams use. One
//! stream comes first: it waits for nothing, and nothing is recorded for it. When a second stream
//! comes, an event is recorded in the first, and the second waits for it.

use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::stream::users::{StreamOfThread, Waits};
use api::CUdeviceptr;

/// What work does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
    /// It waits for values that other work writes, or writes what other work waits for: that is
    /// the order.
    Synchronizes,
}

/// Addresses that work uses, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part(Range<CUdeviceptr>);

impl Part {
    #[inline]
    pub fn new(address: CUdeviceptr, bytes: usize) -> Part {
        Part(address..address.saturating_add(bytes as u64))
    }

    #[inline]
    pub fn start(&self) -> CUdeviceptr {
        self.0.start
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, other: &Part) -> bool {
        self.0.start <= other.0.start && other.0.end <= self.0.end
    }

    pub fn overlaps(&self, other: &Part) -> bool {
        self.0.start < other.0.end && other.0.start < self.0.end
    }

    /// Whether both together are one part.
    fn touches(&self, other: &Part) -> bool {
        self.0.start <= other.0.end && other.0.start <= self.0.end
    }

    fn join(&mut self, other: &Part) {
        self.0.start = self.0.start.min(other.0.start);
        self.0.end = self.0.end.max(other.0.end);
    }
}

/// Which streams use which parts of an allocation.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Order {
    /// The [identity](Stream::identity) of the stream whose use is the only one in the list, and
    /// a write of all of the memory, if the memory keeps no other record of it: nothing is to be
    /// noted of its work. Launches read it where a lock would cost too much.
    only: AtomicPtr<()>,
    /// The same of a stream of which all of the memory is in the list: nothing is to be noted of
    /// its reads. It is `only` where that is a stream.
    reader: AtomicPtr<()>,
    uses: Mutex<Vec<StreamUse>>,
}

/// Work of a stream so far that uses a part. Writes of a part are after all other uses of it, so
/// they replace those.
#[derive(Clone, Debug)]
struct StreamUse {
    stream: StreamOfThread,
    part: Part,
    effect: Effect,
}

/// With more entries than these, the next stream waits for all of them and is alone then.
const MOST_USES: usize = 64;

impl Order {
    /// Whether work of the stream with this identity is in order and noted.
    #[inline(always)]
    pub fn is_kept(&self, identity: *mut (), effect: Effect) -> bool {
        let noted = match effect {
            Effect::Read => &self.reader,
            Effect::Write | Effect::Synchronizes => &self.only,
        };
        noted.load(Ordering::Acquire) == identity
    }

    /// Has the next work noted anew, as the memory may keep other records of it now.
    pub fn forget_noted(&mut self) {
        *self.only.get_mut() = null_mut();
        *self.reader.get_mut() = null_mut();
    }

    /// Lets work that is queued next in `stream` wait for that of other streams, and enters it
    /// into the list. `is_all` says whether the memory keeps no other record of work in `stream`.
    ///
    /// Work of another thread that is not queued yet may be in the list. Then it uses other
    /// parts, or both read: else the borrows of the memory would exclude one another.
    #[cold]
    pub fn keep(
        &self,
        stream: &Stream,
        mut part: Part,
        mut effect: Effect,
        whole: Part,
        is_all: bool,
        waits: &mut Waits,
    ) -> Result<(), Error> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= MOST_USES {
            (part, effect) = (whole.clone(), Effect::Write);
        }
        let conflicts = |used: &&StreamUse| {
            used.part.overlaps(&part)
                && (effect == Effect::Write || used.effect == Effect::Write)
                && !used.stream.is(stream)
        };
        let is_entered = |used: &&StreamUse| {
            used.part.has(&part)
                && (effect == Effect::Read || used.effect == Effect::Write)
                && used.stream.is(stream)
        };
        if let Some(used) = uses.iter().find(is_entered)
            && (effect == Effect::Read || !uses.iter().any(|used| conflicts(&used)))
        {
            if is_all && used.part.has(&whole) {
                self.reader.store(used.stream.identity(), Ordering::Release);
            }
            return Ok(());
        }
        for used in uses.iter().filter(conflicts) {
            waits.wait_for(used.stream.stream(), stream)?;
        }
        // Before streams that they name may be dropped.
        self.only.store(null_mut(), Ordering::Release);
        self.reader.store(null_mut(), Ordering::Release);
        let mut entry = StreamUse {
            stream: StreamOfThread::new(stream),
            part,
            effect,
        };
        if effect == Effect::Write {
            remove(&mut uses, &entry.part);
        }
        uses.retain(|used| {
            let joins =
                used.effect == effect && used.part.touches(&entry.part) && used.stream.is(stream);
            if joins {
                entry.part.join(&used.part);
            }
            !joins
        });
        if is_all && entry.part.has(&whole) {
            let identity = entry.stream.identity();
            self.reader.store(identity, Ordering::Release);
            if effect == Effect::Write && uses.is_empty() {
                self.only.store(identity, Ordering::Release);
            }
        }
        uses.push(entry);
        Ok(())
    }
}

/// Removes a part from all uses.
fn remove(uses: &mut Vec<StreamUse>, part: &Part) {
    let Range { start, end } = part.0;
    for index in (0..uses.len()).rev() {
        let used = &mut uses[index];
        if !used.part.overlaps(part) {
            continue;
        }
        let after = Part(end..used.part.0.end);
        used.part.0.end = start;
        match (used.part.is_empty(), after.is_empty()) {
            (false, true) => {}
            (true, false) => used.part = after,
            (true, true) => drop(uses.swap_remove(index)),
            (false, false) => {
                let after = StreamUse {
                    part: after,
                    ..used.clone()
                };
                uses.push(after);
            }
        }
    }
}
