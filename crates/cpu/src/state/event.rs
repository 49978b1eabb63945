//! Events: points in the work of a stream, and when they were reached.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::capture::{self, CapturePoint};
use super::context::{self, Context};
use super::handle::Handles;
use super::node::{NodeKind, Work};
use super::queue::{Mark, Queue};
use super::shared_event::SharedEvent;
use super::status::{Result, Status};
use super::stream;

static EVENTS: Handles<Event> = Handles::new();

pub(crate) struct Event {
    context: Weak<Context>,
    pub(crate) timed: bool,
    /// The recordings of all processes, in the place of `record`.
    shared: Option<Arc<SharedEvent>>,
    /// The last recording outside of captures.
    record: Mutex<Option<Record>>,
    /// The last recording, if it was in a capturing stream.
    captured: Mutex<Option<Captured>>,
}

/// A recording in a capture.
enum Captured {
    At(CapturePoint),
    /// In a capture that has ended.
    Ended,
}

#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) mark: Mark,
    /// When; not set if a fault skipped the recording.
    pub(crate) reached: Arc<OnceLock<Instant>>,
}

impl Event {
    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last(&self) -> Option<Record> {
        self.record().clone()
    }

    /// Whether it is reached, or was never recorded.
    pub(crate) fn is_reached(&self) -> bool {
        match &self.shared {
            Some(shared) => shared.is_reached(),
            None => self.last().is_none_or(|record| record.mark.passed()),
        }
    }

    /// Waits until it is reached.
    pub(crate) fn wait(&self) {
        match &self.shared {
            Some(shared) => shared.wait(),
            None => {
                if let Some(record) = self.last() {
                    record.mark.wait();
                }
            }
        }
    }

    fn captured(&self) -> MutexGuard<'_, Option<Captured>> {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Captured::At(point)) = &*captured
            && point.capture.is_over()
        {
            *captured = Some(Captured::Ended);
        }
        captured
    }

    /// The captured work that the event was recorded after. Fails if the capture has ended.
    fn point(&self) -> Result<Option<CapturePoint>> {
        match &*self.captured() {
            None => Ok(None),
            Some(Captured::At(point)) => Ok(Some(point.clone())),
            Some(Captured::Ended) => Err(Status::INVALID_VALUE
                .because("the event was recorded in a capture that has ended; record it again")),
        }
    }

    /// Fails if it was recorded in a capture, where it is never reached. Invalidates the capture.
    pub(crate) fn refuse_captured(&self) -> Result {
        match self.point()? {
            None => Ok(()),
            Some(point) => Err(point.capture.invalidate(Status::CAPTURED_EVENT)),
        }
    }

    /// Fails for a captured event, and leaves the capture valid.
    pub(crate) fn check_uncaptured(&self) -> Result {
        match self.point()? {
            None => Ok(()),
            Some(_) => Err(Status::CAPTURED_EVENT.into()),
        }
    }

    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        Ok(self.context.upgrade().ok_or(Status::CONTEXT_IS_DESTROYED)?)
    }
}

/// Finds the event of a graph's node. A null handle is an invalid value, not an invalid handle.
fn of_node(event: usize) -> Result<Arc<Event>> {
    match event {
        0 => Err(Status::INVALID_VALUE.because("the event is null")),
        _ => find(event),
    }
}

pub(crate) fn find(event: usize) -> Result<Arc<Event>> {
    context::current()?;
    EVENTS
        .get(event)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live event has this handle"))
}

/// What a stream that waits for the event has to wait for: `None` if the event was
/// never recorded or is reached.
pub(crate) fn unfinished(event: usize) -> Result<Option<Mark>> {
    let event = find(event)?;
    if let Some(shared) = &event.shared {
        return Ok(shared.unfinished());
    }
    let mark = event.last().map(|record| record.mark);
    Ok(mark.filter(|mark| !mark.passed()))
}

/// The point of a capture that an event stands for.
pub(crate) fn captured(event: usize) -> Result<Option<CapturePoint>> {
    find(event)?.point()
}

pub(crate) fn is_recorded(event: usize) -> Result<bool> {
    let event = find(event)?;
    Ok(match &event.shared {
        Some(shared) => shared.is_recorded(),
        None => event.last().is_some(),
    })
}

/// The work of a node that records an event.
pub(crate) fn recording(event: usize) -> Result<Work> {
    let event = of_node(event)?;
    Ok(Arc::new(move |_| {
        if let Some(shared) = &event.shared {
            return shared.reach(shared.record());
        }
        let reached = Arc::new(OnceLock::new());
        let _ = reached.set(Instant::now()); // it is set nowhere else
        *event.record() = Some(Record {
            mark: Queue::new().mark(),
            reached,
        });
    }))
}

/// The work of a node that waits for what the event stands for when it runs.
pub(crate) fn waiting(event: usize) -> Result<Work> {
    let event = of_node(event)?;
    Ok(Arc::new(move |_| event.wait()))
}

/// Records an event after all work that a context has queued so far.
pub(crate) fn record_in_context(event: usize, context: &Arc<Context>) -> Result {
    let found = find(event)?;
    if !found.context()?.shares_with(context) {
        return Err(Status::INVALID_HANDLE.because("the event is of another context"));
    }
    capture::refuse_wait(context)?;
    *found.captured() = None;
    let after = context.unfinished_of_all();
    let queue = Queue::new();
    if let Some(shared) = found.shared.clone() {
        let number = shared.record();
        queue.push(after, Box::new(move || shared.reach(number)));
        return Ok(());
    }
    let reached = Arc::new(OnceLock::new());
    let (clock, owner) = (reached.clone(), context.clone());
    let record = move || {
        if owner.check().is_ok() {
            let _ = clock.set(Instant::now()); // it is set nowhere else
        }
    };
    let mark = queue.push(after, Box::new(record));
    *found.record() = Some(Record { mark, reached });
    Ok(())
}

/// Lets all later work of a context wait for an event.
pub(crate) fn wait_in_context(event: usize, context: &Arc<Context>) -> Result {
    let unfinished = unfinished(event)?;
    capture::refuse_wait(context)?;
    if let Some(mark) = unfinished {
        context.add_barrier(mark);
    }
    Ok(())
}

/// Records an event in a stream. In a capturing stream, `external` adds a node that
/// records the event with each launch of the graph.
pub(crate) fn record(event: usize, stream: usize, external: bool) -> Result {
    let found = find(event)?;
    let (context, stream) = stream::find(stream)?;
    if !found.context()?.shares_with(&context) {
        return Err(
            Status::INVALID_HANDLE.because("the event and the stream are of different contexts")
        );
    }
    if stream.may_capture() {
        if external {
            let work = recording(event)?;
            if stream.record(NodeKind::RecordEvent, || work)? {
                return Ok(());
            }
        } else if let Some(point) = stream.captured()? {
            *found.captured() = Some(Captured::At(point));
            return Ok(());
        }
    }
    if external {
        return Err(Status::ILLEGAL_STATE
            .because("the stream is not capturing; CU_EVENT_RECORD_EXTERNAL needs a capture"));
    }
    *found.captured() = None;
    if let Some(shared) = found.shared.clone() {
        let number = shared.record();
        // After a fault too: another process does not see it, and would wait for ever.
        stream.push_always(&context, None, move || shared.reach(number));
        return Ok(());
    }
    let reached = Arc::new(OnceLock::new());
    let clock = reached.clone();
    let mark = stream.run_or_push(&context, move |_| {
        let _ = clock.set(Instant::now()); // it is set nowhere else
    });
    *found.record() = Some(Record { mark, reached });
    Ok(())
}

/// Makes an event of the current context; returns its handle.
pub(crate) fn create(timed: bool) -> Result<usize> {
    create_in(&context::working()?, timed, None)
}

/// The same for an event that other processes can open.
pub(crate) fn create_shared() -> Result<usize> {
    create_in(&context::working()?, false, Some(SharedEvent::new()?))
}

/// Opens the event of another process; returns its handle here.
pub(crate) fn open(handle: &[c_char; 64]) -> Result<usize> {
    create_in(
        &context::working()?,
        false,
        Some(SharedEvent::open(handle)?),
    )
}

/// The handle by which other processes open an event.
pub(crate) fn export(event: usize) -> Result<[c_char; 64]> {
    match &find(event)?.shared {
        Some(shared) => shared.handle(),
        None => {
            Err(Status::INVALID_HANDLE.because("the event was made without CU_EVENT_INTERPROCESS"))
        }
    }
}

fn create_in(
    context: &Arc<Context>,
    timed: bool,
    shared: Option<Arc<SharedEvent>>,
) -> Result<usize> {
    let event = Event {
        context: Arc::downgrade(context),
        timed,
        shared,
        record: Mutex::default(),
        captured: Mutex::default(),
    };
    Ok(EVENTS.insert(Arc::new(event)))
}

pub(crate) fn destroy(event: usize) -> Result {
    context::working()?;
    match EVENTS.remove(event) {
        Some(_) => Ok(()),
        None => Err(Status::INVALID_HANDLE.because("no live event has this handle")),
    }
}

/// Frees the handles of a context's events.
pub(crate) fn destroy_all(context: &Arc<Context>) {
    EVENTS.remove_all(|event| std::ptr::eq(event.context.as_ptr(), &**context));
}
