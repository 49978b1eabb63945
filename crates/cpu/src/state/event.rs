//! Events: points in the work of a stream, and when they were reached.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::capture::CapturePoint;
use super::context::{self, Context};
use super::handle::Handles;
use super::node::{NodeKind, Work};
use super::queue::{Mark, Queue};
use super::status::{Result, Status};
use super::stream;

static EVENTS: Handles<Event> = Handles::new();

pub(crate) struct Event {
    context: Weak<Context>,
    pub(crate) timed: bool,
    /// The last recording outside of captures.
    record: Mutex<Option<Record>>,
    /// The last recording, if it was in a capturing stream.
    captured: Mutex<Option<CapturePoint>>,
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

    fn captured(&self) -> MutexGuard<'_, Option<CapturePoint>> {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if captured
            .as_ref()
            .is_some_and(|point| point.capture.is_over())
        {
            *captured = None;
        }
        captured
    }

    /// Fails if it stands for a point of a capture, which is never reached.
    pub(crate) fn check_captured(&self) -> Result {
        match *self.captured() {
            None => Ok(()),
            Some(_) => Err(Status::CAPTURED_EVENT.into()),
        }
    }

    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        Ok(self.context.upgrade().ok_or(Status::CONTEXT_IS_DESTROYED)?)
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
    let record = find(event)?.last();
    Ok(record
        .map(|record| record.mark)
        .filter(|mark| !mark.passed()))
}

/// The point of a capture that an event stands for.
pub(crate) fn captured(event: usize) -> Result<Option<CapturePoint>> {
    Ok(find(event)?.captured().clone())
}

pub(crate) fn is_recorded(event: usize) -> Result<bool> {
    Ok(find(event)?.last().is_some())
}

/// The work of a node that records an event.
pub(crate) fn recording(event: usize) -> Result<Work> {
    let event = find(event)?;
    Ok(Arc::new(move |_| {
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
    let event = find(event)?;
    Ok(Arc::new(move |_| {
        if let Some(record) = event.last() {
            record.mark.wait();
        }
    }))
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
            *found.captured() = Some(point);
            return Ok(());
        }
    }
    let reached = Arc::new(OnceLock::new());
    let clock = reached.clone();
    let mark = stream.run_or_push(&context, move |_| {
        let _ = clock.set(Instant::now()); // it is set nowhere else
    });
    *found.captured() = None;
    *found.record() = Some(Record { mark, reached });
    Ok(())
}

/// Makes an event of the current context; returns its handle.
pub(crate) fn create(timed: bool) -> Result<usize> {
    let event = Event {
        context: Arc::downgrade(&context::working()?),
        timed,
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
