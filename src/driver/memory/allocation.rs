//! Memory that is freed after its last use, and the streams whose work may still use it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::error::Error;
use crate::driver::memory::order::{Effect, Order, Part};
use crate::driver::memory::pool::MemoryPool;
use crate::driver::memory::virtual_memory::{Mapping, Mappings};
use crate::driver::stream::Stream;
use crate::driver::stream::capture::RelaxedCapture;
use crate::driver::stream::retained::{Capture, NodeMemory, Retained};
use crate::driver::stream::users::{
    StreamOfThread, Users, Waits, order_after, same_stream, wait, wait_until_unused,
};
use api::CUdeviceptr;

/// Memory of any kind, owned by buffers and shared with graphs. What each launch reads comes
/// first, in one cache line, as in a kernel.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Allocation {
    /// The device address.
    address: CUdeviceptr,
    /// What work of which streams uses it, for work of others to wait for.
    order: Order,
    context: Context,
    bytes: usize,
    /// Whether every context of its driver reaches it.
    portable: bool,
    release: Release,
    /// The streams that use it, if freeing does not wait by itself or the host accesses the
    /// bytes. While the lock is held no such work is queued.
    users: Option<Mutex<Users>>,
    /// Peer contexts whose work uses it. Freeing waits for them too.
    peers: Mutex<Vec<Context>>,
}

/// How memory is released.
#[derive(Debug)]
pub(crate) enum Release {
    /// Nothing to release: there are no bytes, or they were moved out.
    Nothing,
    /// `cuMemFree_v2`, which waits for all work.
    Free,
    /// `cuMemFreeAsync` in the stream in which it was allocated.
    InOrder(StreamOfThread),
    /// `cuMemFreeHost`
    Host(HostPointer),
    /// By a free node of the graph that allocates it.
    InGraph(Arc<dyn NodeMemory>),
    /// By unmapping, which waits for the work of the context.
    Mapped(Mappings),
    /// Memory of another process, opened by handle or in an imported pool. It is closed
    /// after the work of its context.
    Ipc(Option<MemoryPool>),
    /// `cuMemFree_v2` after the work of the context; then what is mapped, memory of another
    /// library, goes.
    External(Owner),
    /// `cuMemHostUnregister`; then the vector is dropped, if it is owned.
    Registered(HostPointer, Option<VecParts>),
}

/// A host address.
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

/// The parts of a `Vec`. As the device may write its elements, no reference to them may
/// exist.
#[derive(Debug)]
pub(crate) struct VecParts {
    pub pointer: HostPointer,
    pub len: usize,
    pub capacity: usize,
    /// Rebuilds the `Vec` and drops it.
    pub free: unsafe fn(*mut u8, usize, usize),
}

impl Drop for VecParts {
    fn drop(&mut self) {
        // SAFETY: the pieces are of one vector, which nobody else makes again.
        unsafe { (self.free)(self.pointer.0, self.len, self.capacity) }
    }
}

impl Allocation {
    /// Device memory, freed by an entry that waits for all work.
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
        is_tracked: bool,
    ) -> Arc<Allocation> {
        Arc::new(Allocation {
            context: context.clone(),
            address,
            bytes,
            portable,
            release,
            users: is_tracked.then(Mutex::default),
            peers: Mutex::default(),
            order: Order::default(),
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

    /// For memory whose address is only known after it is owned.
    pub fn set_address(&mut self, address: CUdeviceptr) {
        self.address = address;
    }

    /// Whether it is a registered `Vec`.
    pub fn is_vector(&self) -> bool {
        matches!(self.release, Release::Registered(_, Some(_)))
    }

    /// Whether every context of its driver reaches it.
    pub fn is_portable(&self) -> bool {
        self.portable
    }

    /// Whether work in `context` can access it without peer access.
    #[inline]
    pub fn is_reached_from(&self, context: &Context) -> bool {
        &self.context == context || self.portable && self.context.is_same_driver(context)
    }

    /// Records that work of a peer context uses it.
    pub fn record_peer(&self, peer: &Context) {
        if self.is_reached_from(peer) {
            return;
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(peer) {
            peers.push(peer.clone());
        }
    }

    /// Whether the streams that use it are recorded.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.users.is_some()
    }

    /// Whether nothing is to be noted of work in `stream`, which has this identity.
    #[inline(always)]
    pub fn needs_no_tracking(&self, stream: &Stream, identity: *mut (), effect: Effect) -> bool {
        self.order.is_kept(identity, effect) || self.is_unordered(stream)
    }

    /// The same where no order is kept.
    #[cold]
    fn is_unordered(&self, stream: &Stream) -> bool {
        !self.context.is_event_tracking() && self.needs_no_record(stream)
    }

    /// Whether work in `stream` is recorded by its order alone.
    fn needs_no_record(&self, stream: &Stream) -> bool {
        self.context.is_clone_of(stream.context()) && (!self.is_tracked() || self.is_of(stream))
    }

    /// All of it.
    #[inline]
    pub fn whole(&self) -> Part {
        Part::new(self.address, self.bytes)
    }

    /// Lets work that is queued next in `stream`, or in the default stream, wait for work of
    /// other streams that uses the same part.
    #[inline]
    pub fn keep_order(
        &self,
        stream: Option<&Stream>,
        part: Part,
        effect: Effect,
        waits: &mut Waits,
    ) -> Result<(), Error> {
        let identity = stream.map_or_else(|| self.context.identity(), Stream::identity);
        if self.order.is_kept(identity, effect)
            || effect == Effect::Synchronizes
            || part.is_empty()
            || !self.context.is_event_tracking()
            || matches!(self.release, Release::InGraph(_))
        {
            return Ok(());
        }
        let whole = self.whole();
        match stream {
            Some(stream) => {
                let is_all = self.needs_no_record(stream);
                self.order.keep(stream, part, effect, whole, is_all, waits)
            }
            None => {
                let stream = Stream::default_of(&self.context);
                let is_all = self.needs_no_record(&stream);
                self.order
                    .keep(&stream, part, effect, whole, is_all, &mut Waits::default())
            }
        }
    }

    /// Whether it was allocated, and will be freed, in the order of this stream.
    fn is_of(&self, stream: &Stream) -> bool {
        matches!(&self.release, Release::InOrder(origin) if origin.is(stream))
    }

    /// Records work in `stream` before it is queued. The guard is held until then. In a
    /// capture, the graph retains the memory instead.
    pub fn record_use(
        self: &Arc<Allocation>,
        stream: &Stream,
        capture: Option<&Arc<Capture>>,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.refuse_graph_memory()?;
        let Some(capture) = capture else {
            return self.record_stream(stream);
        };
        self.refuse_borrowed()?;
        capture.retain(self.clone());
        Ok(None)
    }

    fn record_stream(&self, stream: &Stream) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        let Some(users) = self.users.as_ref().filter(|_| !self.is_of(stream)) else {
            return Ok(None);
        };
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        users.check()?;
        let is_new = !users.streams.iter().any(|user| same_stream(user, stream));
        if is_new && let Release::InOrder(origin) = &self.release {
            order_after(origin.stream(), stream)?;
        }
        if is_new {
            users.streams.push(stream.clone());
        }
        Ok(Some(users))
    }

    /// Refuses memory of a graph, which only its nodes may use.
    pub fn refuse_graph_memory(&self) -> Result<(), Error> {
        match self.release {
            Release::InGraph(_) => Err(Error::GraphMemory),
            _ => Ok(()),
        }
    }

    /// Refuses borrowed memory, which a graph cannot retain.
    pub fn refuse_borrowed(&self) -> Result<(), Error> {
        match self.release {
            Release::Registered(_, None) => Err(Error::Captured {
                what: "memory that is borrowed for a while",
            }),
            _ => Ok(()),
        }
    }

    /// Waits for the work that uses it. None is queued while the guard lives.
    pub fn wait_idle(&self) -> Result<Option<MutexGuard<'_, Users>>, Error> {
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

    /// Waits for the work that uses it, and refuses other work until
    /// [`end_host_slice`](Allocation::end_host_slice).
    pub fn begin_host_slice(&self) -> Result<(), Error> {
        if matches!(self.release, Release::Registered(_, None)) {
            // The buffer may be leaked, and its slice with it: the owner's would be another.
            return Err(Error::HostSlice);
        }
        if let Some(mut users) = self.wait_idle()? {
            users.host_slices += 1;
        }
        Ok(())
    }

    /// Takes work again.
    pub fn end_host_slice(&self) {
        if let Some(users) = &self.users {
            let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
            users.host_slices -= 1;
        }
    }

    /// Returns borrowed memory to its owner, even if this is still referenced.
    pub fn end_borrow(&self) {
        let (Some(users), Release::Registered(HostPointer(pointer), None)) =
            (&self.users, &self.release)
        else {
            return;
        };
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.ended {
            return;
        }
        // Other threads may capture meanwhile. Without the entry this is as it was.
        let _relaxed = RelaxedCapture::enter(&self.context);
        if let Err(error) = users.wait()
            && !error.is_sticky()
        {
            // The device may still write memory that its owner would access.
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

    /// Keeps a mapping until the memory is released.
    pub fn retain_mapping(&self, mapping: Mapping) {
        if let Release::Mapped(mappings) = &self.release {
            mappings.push(mapping);
        }
    }

    /// Changes the stream that frees it, after the work of the former one.
    pub fn move_to(&mut self, stream: &Stream) {
        let Release::InOrder(origin) = &mut self.release else {
            return;
        };
        let is_another = !origin.is(stream);
        let former = std::mem::replace(origin, StreamOfThread::new(stream));
        if let Some(users) = &mut self.users
            && is_another
        {
            let users = users.get_mut().unwrap_or_else(PoisonError::into_inner);
            users.streams.push(former.into_stream());
        }
        if is_another {
            self.order.forget_noted();
        }
    }

    /// The registered `Vec`, after the work that uses it.
    pub fn into_vec_parts(mut self) -> Option<VecParts> {
        let Release::Registered(pointer, values) = &mut self.release else {
            return None;
        };
        let (pointer, values) = (*pointer, values.take()?);
        let streams = self.take_users();
        self.release = Release::Nothing;
        if unregister(&self.context, &streams, pointer) {
            Some(values)
        } else {
            std::mem::forget(values);
            None
        }
    }

    /// Waits for the work of peer contexts, which freeing does not wait for; whether none can use
    /// the memory any more.
    fn wait_for_peers(&mut self) -> bool {
        let peers = self.peers.get_mut();
        let peers = std::mem::take(peers.unwrap_or_else(PoisonError::into_inner));
        peers.iter().all(|peer| {
            let result = peer.synchronize();
            let is_running = result.as_ref().is_err_and(|error| !error.is_sticky());
            report_drop(result);
            !is_running
        })
    }

    fn take_users(&mut self) -> Vec<Stream> {
        let users = self.users.as_mut().map(|users| {
            let users = users.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut users.streams)
        });
        users.unwrap_or_default()
    }
}

impl Retained for Allocation {
    fn before_launch(
        &self,
        stream: &Stream,
        waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        // The driver refuses a launch into a capture.
        if !stream.is_capturing() {
            // Which nodes read it, and which parts, is not known.
            self.keep_order(Some(stream), self.whole(), Effect::Write, waits)?;
        }
        // Nodes of a graph that is launched here may be of another context.
        self.record_peer(stream.context());
        self.record_stream(stream)
    }

    fn node_memory(&self) -> Option<&dyn NodeMemory> {
        match &self.release {
            Release::InGraph(memory) => Some(&**memory),
            _ => None,
        }
    }
}

/// Unregisters memory after the work that uses it; returns whether the device can no longer
/// access it.
fn unregister(context: &Context, streams: &[Stream], HostPointer(pointer): HostPointer) -> bool {
    if !wait_until_unused(streams) {
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
        if !self.wait_for_peers() {
            // Better lost than taken away from under work.
            return std::mem::forget(release);
        }
        let users = self.take_users();
        let origin = match &release {
            Release::InOrder(origin) => Some(origin.stream()),
            _ => None,
        };
        // Every context reaches managed memory, and freeing waits for the work of one.
        let is_managed = self.portable && matches!(release, Release::Free);
        // A capturing stream takes no work outside of its graph, so the memory is freed
        // with the graph.
        if (is_managed || !matches!(release, Release::Free | Release::Mapped(_)))
            && let Some(capture) = users.iter().chain(origin).find_map(Stream::capture)
        {
            capture.retain(Arc::new(Allocation {
                context: self.context.clone(),
                address: self.address,
                bytes: self.bytes,
                portable: self.portable,
                release,
                users: Some(Mutex::new(Users {
                    streams: users,
                    ..Users::default()
                })),
                peers: Mutex::default(),
                order: Order::default(),
            }));
            return;
        }
        let others = users.iter().filter(|user| user.context() != &self.context);
        if is_managed && !wait_until_unused(others) {
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
            Release::External(memory) => {
                let freed = self.context.synchronize().and_then(|()| {
                    let api = self.context.bind()?;
                    // SAFETY: mapped once, freed once, when nothing uses it any more.
                    unsafe { Ok(api.cuMemFree_v2(self.address)?) }
                });
                if freed.as_ref().is_err_and(|error| !error.is_sticky()) {
                    // It is still mapped.
                    std::mem::forget(memory);
                }
                report_drop(freed);
            }
            Release::Free => report_drop(bound.and_then(|api| {
                // SAFETY: allocated once, freed once.
                unsafe { Ok(api.cuMemFree_v2(self.address)?) }
            })),
            Release::InOrder(origin) => report_drop(bound.and_then(|api| {
                let origin = origin.stream();
                for user in &users {
                    order_after(user, origin)?;
                }
                if origin.is_per_thread() {
                    wait(origin)?;
                }
                let enqueue = origin.begin_enqueue();
                if enqueue.capture().is_some() {
                    return Err(Error::Captured {
                        what: "the end of memory",
                    });
                }
                // SAFETY: allocated once, freed once, after all that uses it.
                unsafe { Ok(api.cuMemFreeAsync(self.address, origin.raw())?) }
            })),
            // If a copy may still access it, it is leaked instead.
            Release::Host(HostPointer(pointer)) if wait_until_unused(&users) => {
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
