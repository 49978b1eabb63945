//! What is freed once nobody uses it, and the streams whose work may still use it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::graph::memory::OwnMemory;
use crate::driver::memory::growable::Mappings;
use crate::driver::memory::pool::MemoryPool;
use crate::driver::memory::virtual_memory::Mapping;
use crate::driver::stream::event::Event;
use crate::driver::stream::keep::{Capture, Keep};
use crate::driver::stream::{Stream, Turn};
use api::CUdeviceptr;

/// Memory of any kind: what buffers own, and graphs share.
#[derive(Debug)]
pub(crate) struct Allocation {
    context: Context,
    /// As kernels see it.
    address: CUdeviceptr,
    bytes: usize,
    /// Whether every context of its driver reaches it.
    portable: bool,
    release: Release,
    /// Where freeing does not wait for all work by itself, or the host reaches
    /// the bytes. Who holds the lock keeps work from being queued.
    users: Option<Mutex<Users>>,
    /// Other contexts whose work was given it as peers: freeing waits for them too.
    peers: Mutex<Vec<Context>>,
}

/// Who may still use memory.
#[derive(Debug, Default)]
pub(crate) struct Users {
    streams: Vec<Stream>,
    /// Borrowed memory went back to its owner.
    ended: bool,
}

/// How memory is given back.
#[derive(Debug)]
pub(crate) enum Release {
    /// Not at all: there are no bytes, or they were moved away.
    Nothing,
    /// `cuMemFree_v2`, which waits for all work.
    Free,
    /// `cuMemFreeAsync` in the stream in which it was allocated.
    InOrder(Home),
    /// `cuMemFreeHost`
    Host(HostPointer),
    /// By a node of the graph that allocates it.
    InGraph(OwnMemory),
    /// With the mappings, which wait for the work of their context.
    Mapped(Mappings),
    /// Another process's, found in a pool or by itself: closed once the work of its
    /// context is done.
    Ipc(Option<MemoryPool>),
    /// `cuMemHostUnregister`, and then the values are dropped, if they are owned.
    Registered(HostPointer, Option<Values>),
}

/// The stream in whose order memory comes and goes.
#[derive(Debug)]
pub(crate) struct Home {
    stream: Stream,
    /// Whose default stream it is: the same name means another in another thread.
    thread: Option<ThreadId>,
}

impl Home {
    pub fn new(stream: &Stream) -> Home {
        Home {
            stream: stream.clone(),
            thread: stream.is_per_thread().then(|| thread::current().id()),
        }
    }

    fn is(&self, stream: &Stream) -> bool {
        same(&self.stream, stream)
            && self
                .thread
                .is_none_or(|home| home == thread::current().id())
    }
}

/// An address of the host's.
#[derive(Clone, Copy)]
pub(crate) struct HostPointer(pub *mut u8);

// SAFETY: the memory belongs to the process, not to a thread, and is reached
// under the lock of its users only.
unsafe impl Send for HostPointer {}
// SAFETY: as above.
unsafe impl Sync for HostPointer {}

impl fmt::Debug for HostPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A vector in pieces: its bytes are the device's to write, so no reference to
/// them may be alive.
#[derive(Debug)]
pub(crate) struct Values {
    pub pointer: HostPointer,
    pub len: usize,
    pub capacity: usize,
    /// Makes the vector again, and drops it.
    pub free: unsafe fn(*mut u8, usize, usize),
}

impl Drop for Values {
    fn drop(&mut self) {
        // SAFETY: the pieces are of one vector, which nobody else makes again.
        unsafe { (self.free)(self.pointer.0, self.len, self.capacity) }
    }
}

/// The default streams of all contexts have one handle: the contexts tell them apart.
pub(crate) fn same(one: &Stream, other: &Stream) -> bool {
    one.raw() == other.raw() && one.context() == other.context()
}

fn wait(stream: &Stream) -> Result<(), Error> {
    match stream.is_per_thread() {
        true => stream.context().synchronize(),
        false => stream.synchronize(),
    }
}

/// Lets work queued in `after` from now on come after what `before` has.
fn order(before: &Stream, after: &Stream) -> Result<(), Error> {
    let turn = before.turn();
    if turn.capture().is_some() {
        return Err(Error::Captured {
            what: "work outside of a graph that waits for a stream within it",
        });
    }
    if before.is_per_thread() || after.is_per_thread() {
        drop(turn);
        return wait(before);
    }
    let event = Event::without_timing(before.context())?;
    event.record_in(before, &turn)?;
    drop(turn);
    after.wait_for_recorded(&event)
}

impl Allocation {
    /// Memory of a device, which is freed as such.
    pub fn device(context: &Context, address: CUdeviceptr, bytes: usize) -> Arc<Allocation> {
        let release = match address {
            0 => Release::Nothing,
            _ => Release::Free,
        };
        Allocation::new(context, address, bytes, false, release, false)
    }

    pub fn new(
        context: &Context,
        address: CUdeviceptr,
        bytes: usize,
        portable: bool,
        release: Release,
        has_users: bool,
    ) -> Arc<Allocation> {
        Arc::new(Allocation {
            context: context.clone(),
            address,
            bytes,
            portable,
            release,
            users: has_users.then(Mutex::default),
            peers: Mutex::default(),
        })
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    #[inline]
    pub fn address(&self) -> &CUdeviceptr {
        &self.address
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For memory that must be owned before it can be asked for its address.
    pub fn set_address(&mut self, address: CUdeviceptr) {
        self.address = address;
    }

    /// Whether it is a vector that was registered.
    pub fn is_vector(&self) -> bool {
        matches!(self.release, Release::Registered(_, Some(_)))
    }

    /// Whether every context of its driver reaches it.
    pub fn is_portable(&self) -> bool {
        self.portable
    }

    /// Whether work in `context` may use it.
    #[inline]
    pub fn is_reached_from(&self, context: &Context) -> bool {
        &self.context == context || self.portable && self.context.has_driver_of(context)
    }

    /// Notes that work of a context that is a peer uses it.
    pub fn used_by(&self, peer: &Context) {
        if self.is_reached_from(peer) {
            return;
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(peer) {
            peers.push(peer.clone());
        }
    }

    /// Whether it wants to hear of work that uses it.
    #[inline]
    pub fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Whether work in `stream` may use it, and nobody is to hear of it.
    #[inline]
    pub fn is_only_passed(&self, stream: &Stream) -> bool {
        self.context.shares_with(stream.context()) && (!self.has_users() || self.is_of(stream))
    }

    /// Whether it was allocated in the order of this stream, which frees it too.
    fn is_of(&self, stream: &Stream) -> bool {
        matches!(&self.release, Release::InOrder(home) if home.is(stream))
    }

    /// Called before work that uses it is queued in `stream`; what comes back is
    /// held until it is. The graph of a capture keeps the memory.
    fn used_in(
        self: &Arc<Allocation>,
        stream: &Stream,
        capture: Option<&Arc<Capture>>,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.refuse_of_graph()?;
        let Some(capture) = capture else {
            return self.queued_in(stream);
        };
        self.refuse_borrowed()?;
        capture.add(self.clone());
        Ok(None)
    }

    fn queued_in(&self, stream: &Stream) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        let Some(users) = self.users.as_ref().filter(|_| !self.is_of(stream)) else {
            return Ok(None);
        };
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.ended {
            return Err(Error::Ended);
        }
        let is_new = !users.streams.iter().any(|user| same(user, stream));
        if is_new && let Release::InOrder(home) = &self.release {
            order(&home.stream, stream)?;
        }
        if is_new {
            users.streams.push(stream.clone());
        }
        Ok(Some(users))
    }

    /// Memory of a graph is there for its nodes alone.
    pub fn refuse_of_graph(&self) -> Result<(), Error> {
        match self.release {
            Release::InGraph(_) => Err(Error::GraphMemory),
            _ => Ok(()),
        }
    }

    /// What a graph may keep: memory that is borrowed for a while is not.
    pub fn refuse_borrowed(&self) -> Result<(), Error> {
        match self.release {
            Release::Registered(_, None) => Err(Error::Captured {
                what: "memory that is borrowed for a while",
            }),
            _ => Ok(()),
        }
    }

    /// Waits for the work that uses it. None begins while the result lives.
    pub fn idle(&self) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        let Some(users) = &self.users else {
            return Ok(None);
        };
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.ended {
            return Err(Error::Ended);
        }
        users.wait()?;
        Ok(Some(users))
    }

    /// Gives borrowed memory back to its owner, whoever still holds this.
    pub fn end(&self) {
        let (Some(users), Release::Registered(HostPointer(pointer), None)) =
            (&self.users, &self.release)
        else {
            return;
        };
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.ended {
            return;
        }
        if let Err(error) = users.wait()
            && !error.is_sticky()
        {
            // The device may still write what its owner would read as its own.
            eprintln!("ptxkit: borrowed memory cannot be given back while it is used: {error}");
            std::process::abort();
        }
        users.ended = true;
        report_drop(
            self.context
                .bind()
                // SAFETY: registered once, and ended once.
                .and_then(|api| unsafe { Ok(api.cuMemHostUnregister(pointer.cast())?) }),
        );
    }

    /// Lets a mapping end with the memory that it is a part of.
    pub fn keep_mapping(&self, mapping: Mapping) {
        if let Release::Mapped(mappings) = &self.release {
            mappings.push(mapping);
        }
    }

    /// From now on freed in another stream, after the work of the former one.
    pub fn move_to(&mut self, stream: &Stream) {
        let Release::InOrder(home) = &mut self.release else {
            return;
        };
        let is_another = !home.is(stream);
        let former = std::mem::replace(home, Home::new(stream));
        if let Some(users) = &mut self.users
            && is_another
        {
            let users = users.get_mut().unwrap_or_else(PoisonError::into_inner);
            users.streams.push(former.stream);
        }
    }

    /// The vector that was registered, once nothing uses it.
    pub fn into_values(mut self) -> Option<Values> {
        let Release::Registered(pointer, values) = &mut self.release else {
            return None;
        };
        let (pointer, values) = (*pointer, values.take()?);
        let streams = self.take_users();
        self.release = Release::Nothing;
        match unregister(&self.context, &streams, pointer) {
            true => Some(values),
            false => {
                std::mem::forget(values);
                None
            }
        }
    }

    fn take_users(&mut self) -> Vec<Stream> {
        let users = self.users.as_mut().map(|users| {
            let users = users.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut users.streams)
        });
        users.unwrap_or_default()
    }
}

impl Users {
    /// A stream stays listed until it is known to be done.
    fn wait(&mut self) -> Result<(), Error> {
        while let Some(stream) = self.streams.last() {
            let result = wait(stream);
            let lost = result.as_ref().is_err_and(Error::is_sticky);
            if result.is_ok() || lost {
                self.streams.pop();
            }
            result?;
        }
        Ok(())
    }
}

/// Held while work that uses memory is queued.
#[derive(Default)]
pub(crate) struct Held<'a> {
    /// Most calls have one, for which no list is made.
    #[allow(dead_code, reason = "held, not read")]
    one: Option<MutexGuard<'a, Users>>,
    #[allow(dead_code, reason = "held, not read")]
    others: Vec<MutexGuard<'a, Users>>,
    /// Let go last.
    #[allow(dead_code, reason = "held, not read")]
    turn: Option<Turn<'a>>,
}

impl Held<'_> {
    /// What the work is captured by.
    pub fn capture(&self) -> Option<&Arc<Capture>> {
        self.turn.as_ref()?.capture()
    }
}

/// Tells memory of work that is queued next in `stream`, or by a call that names
/// none and is ordered like the default stream.
#[inline]
pub(crate) fn hold<'a>(
    stream: Option<&'a Stream>,
    memory: impl IntoIterator<Item = &'a Arc<Allocation>>,
) -> Result<Held<'a>, Error> {
    hold_in(stream, stream.map(Stream::turn), memory)
}

/// The same for who has its turn in the stream already.
#[inline]
pub(crate) fn hold_in<'a>(
    stream: Option<&Stream>,
    turn: Option<Turn<'a>>,
    memory: impl IntoIterator<Item = &'a Arc<Allocation>>,
) -> Result<Held<'a>, Error> {
    let memory = memory.into_iter();
    if turn.as_ref().is_some_and(|turn| turn.capture().is_some()) {
        return hold_all(stream, turn, memory.collect());
    }
    let mut with_users = memory.filter(|memory| memory.has_users());
    match (with_users.next(), with_users.next()) {
        (None, _) => Ok(Held {
            turn,
            ..Held::default()
        }),
        (Some(only), None) => Ok(Held {
            one: hold_one(stream, None, only)?,
            turn,
            ..Held::default()
        }),
        (Some(one), Some(other)) => {
            let others = [one, other].into_iter().chain(with_users);
            hold_all(stream, turn, others.collect())
        }
    }
}

fn hold_one<'a>(
    stream: Option<&Stream>,
    capture: Option<&Arc<Capture>>,
    memory: &'a Arc<Allocation>,
) -> Result<Option<MutexGuard<'a, Users>>, Error> {
    match stream {
        Some(stream) => memory.used_in(stream, capture),
        None => memory.used_in(&Stream::default_of(memory.context()), None),
    }
}

#[cold]
fn hold_all<'a>(
    stream: Option<&Stream>,
    turn: Option<Turn<'a>>,
    mut memory: Vec<&'a Arc<Allocation>>,
) -> Result<Held<'a>, Error> {
    // One order for all threads, and no lock twice.
    memory.sort_by_key(|memory| Arc::as_ptr(memory));
    memory.dedup_by_key(|memory| Arc::as_ptr(memory));
    let capture = turn.as_ref().and_then(Turn::capture);
    let mut others = Vec::new();
    for memory in memory {
        others.extend(hold_one(stream, capture, memory)?);
    }
    Ok(Held {
        one: None,
        others,
        turn,
    })
}

impl Keep for Allocation {
    fn launching(&self, stream: &Stream) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.queued_in(stream)
    }

    fn of_graph(&self) -> Option<&OwnMemory> {
        match &self.release {
            Release::InGraph(own) => Some(own),
            _ => None,
        }
    }
}

/// Waits for the streams; whether none of them can use memory any more.
pub(crate) fn is_unused(streams: &[Stream]) -> bool {
    streams.iter().all(|stream| {
        let result = wait(stream);
        let running = result.as_ref().is_err_and(|error| !error.is_sticky());
        report_drop(result);
        !running
    })
}

/// Whether the memory is the host's alone again.
fn unregister(context: &Context, streams: &[Stream], HostPointer(pointer): HostPointer) -> bool {
    if !is_unused(streams) {
        return false;
    }
    report_drop(
        context
            .bind()
            // SAFETY: registered once, and taken out of its allocation once.
            .and_then(|api| unsafe { Ok(api.cuMemHostUnregister(pointer.cast())?) }),
    );
    true
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let release = std::mem::replace(&mut self.release, Release::Nothing);
        let is_ended = |users: &mut Mutex<Users>| {
            let users = users.get_mut().unwrap_or_else(PoisonError::into_inner);
            users.ended
        };
        if matches!(release, Release::Nothing | Release::InGraph(_))
            || self.users.as_mut().is_some_and(is_ended)
        {
            return;
        }
        let peers = self.peers.get_mut();
        for peer in peers.unwrap_or_else(PoisonError::into_inner).drain(..) {
            report_drop(peer.synchronize());
        }
        let users = self.take_users();
        let home = match &release {
            Release::InOrder(home) => Some(&home.stream),
            _ => None,
        };
        // A stream that captures takes no work outside of its graph: with that it is freed.
        if !matches!(release, Release::Free | Release::Mapped(_))
            && let Some(capture) = users.iter().chain(home).find_map(Stream::capture)
        {
            capture.add(Arc::new(Allocation {
                context: self.context.clone(),
                address: self.address,
                bytes: self.bytes,
                portable: self.portable,
                release,
                users: Some(Mutex::new(Users {
                    streams: users,
                    ended: false,
                })),
                peers: Mutex::default(),
            }));
            return;
        }
        let bound = self.context.bind();
        match release {
            Release::Nothing | Release::InGraph(_) => {}
            Release::Mapped(mappings) => drop(mappings),
            Release::Ipc(pool) => {
                let closed = self.context.synchronize().and_then(|()| {
                    let api = self.context.bind()?;
                    // SAFETY: opened once, closed once, when nothing uses it any more.
                    unsafe {
                        match pool {
                            None => Ok(api.cuIpcCloseMemHandle(self.address)?),
                            Some(_) => Ok(api.cuMemFree_v2(self.address)?),
                        }
                    }
                });
                report_drop(closed);
            }
            // SAFETY: allocated once, freed once.
            Release::Free => {
                report_drop(bound.and_then(|api| unsafe { Ok(api.cuMemFree_v2(self.address)?) }));
            }
            Release::InOrder(home) => report_drop(bound.and_then(|api| {
                let home = &home.stream;
                for user in &users {
                    order(user, home)?;
                }
                if home.is_per_thread() {
                    wait(home)?;
                }
                let turn = home.turn();
                if turn.capture().is_some() {
                    return Err(Error::Captured {
                        what: "the end of memory",
                    });
                }
                // SAFETY: allocated once, freed once, after all that uses it.
                unsafe { Ok(api.cuMemFreeAsync(self.address, home.raw())?) }
            })),
            // Memory that a copy may still reach is better lost than given to others.
            Release::Host(HostPointer(pointer)) if is_unused(&users) => {
                // SAFETY: allocated once, freed once, no copy uses it any more.
                report_drop(
                    bound.and_then(|api| unsafe { Ok(api.cuMemFreeHost(pointer.cast())?) }),
                );
            }
            Release::Host(_) => {}
            Release::Registered(pointer, values) => {
                if !unregister(&self.context, &users, pointer) {
                    std::mem::forget(values);
                }
            }
        }
    }
}
