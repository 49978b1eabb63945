//! Memory that work uses, while the work is queued.

use std::sync::{Arc, MutexGuard};

use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::stream::retained::Capture;
use crate::driver::stream::users::{Users, Waits};
use crate::driver::stream::{EnqueueGuard, Stream};

/// Part of memory that work uses, and how.
#[derive(Clone, Debug)]
pub(crate) struct Use<'a> {
    pub memory: &'a Arc<Allocation>,
    pub part: Part,
    pub effect: Effect,
}

impl<'a> Use<'a> {
    /// Of all of the memory.
    pub fn whole(memory: &'a Arc<Allocation>, effect: Effect) -> Use<'a> {
        Use {
            memory,
            part: memory.whole(),
            effect,
        }
    }
}

/// Work of which it is not known what it does with the memory.
impl<'a> From<&'a Arc<Allocation>> for Use<'a> {
    fn from(memory: &'a Arc<Allocation>) -> Use<'a> {
        Use::whole(memory, Effect::Write)
    }
}

/// Held while work that uses memory is queued.
#[derive(Default)]
pub(crate) struct MemoryGuard<'a> {
    /// Most calls have one, which needs no list.
    #[allow(dead_code, reason = "held, not read")]
    one: Option<MutexGuard<'a, Users>>,
    #[allow(dead_code, reason = "held, not read")]
    others: Vec<MutexGuard<'a, Users>>,
    /// Dropped last.
    #[allow(dead_code, reason = "held, not read")]
    enqueue: Option<EnqueueGuard<'a>>,
}

impl MemoryGuard<'_> {
    /// The capture that records the work.
    pub fn capture(&self) -> Option<&Arc<Capture>> {
        self.enqueue.as_ref()?.capture()
    }
}

/// Orders the work that is queued next in `stream`, or in the default stream for a call without a
/// stream, after work of other streams that uses `memory`, and records it as a use.
#[inline]
pub(crate) fn lock_memory<'a, M: Into<Use<'a>>>(
    stream: Option<&'a Stream>,
    memory: impl IntoIterator<Item = M>,
) -> Result<MemoryGuard<'a>, Error> {
    lock_memory_in(stream, stream.map(Stream::begin_enqueue), memory)
}

/// The same for a caller that holds the stream's guard.
#[inline]
pub(crate) fn lock_memory_in<'a, M: Into<Use<'a>>>(
    stream: Option<&Stream>,
    enqueue: Option<EnqueueGuard<'a>>,
    memory: impl IntoIterator<Item = M>,
) -> Result<MemoryGuard<'a>, Error> {
    let memory = memory.into_iter().map(Into::into);
    if enqueue
        .as_ref()
        .is_some_and(|enqueue| enqueue.capture().is_some())
    {
        // A launch of the graph is ordered as a whole.
        let memory = memory.map(|used: Use<'a>| used.memory);
        return lock_all(stream, enqueue, memory.collect());
    }
    let (mut one, mut others) = (None, Vec::new());
    let mut waits = Waits::default();
    for used in memory {
        let Use {
            memory,
            part,
            effect,
        } = used;
        memory.keep_order(stream, part, effect, &mut waits)?;
        match one {
            _ if !memory.is_tracked() => {}
            None => one = Some(memory),
            Some(_) => others.push(memory),
        }
    }
    match one {
        Some(one) if others.is_empty() => Ok(MemoryGuard {
            one: lock_one(stream, None, one)?,
            enqueue,
            ..MemoryGuard::default()
        }),
        Some(one) => {
            others.push(one);
            lock_all(stream, enqueue, others)
        }
        None => Ok(MemoryGuard {
            enqueue,
            ..MemoryGuard::default()
        }),
    }
}

fn lock_one<'a>(
    stream: Option<&Stream>,
    capture: Option<&Arc<Capture>>,
    memory: &'a Arc<Allocation>,
) -> Result<Option<MutexGuard<'a, Users>>, Error> {
    match stream {
        Some(stream) => memory.record_use(stream, capture),
        None => memory.record_use(&Stream::default_of(memory.context()), None),
    }
}

#[cold]
fn lock_all<'a>(
    stream: Option<&Stream>,
    enqueue: Option<EnqueueGuard<'a>>,
    mut memory: Vec<&'a Arc<Allocation>>,
) -> Result<MemoryGuard<'a>, Error> {
    // All threads lock in the same order, and each lock once.
    memory.sort_by_key(|memory| Arc::as_ptr(memory));
    memory.dedup_by_key(|memory| Arc::as_ptr(memory));
    let capture = enqueue.as_ref().and_then(EnqueueGuard::capture);
    let mut others = Vec::new();
    for memory in memory {
        others.extend(lock_one(stream, capture, memory)?);
    }
    Ok(MemoryGuard {
        one: None,
        others,
        enqueue,
    })
}
