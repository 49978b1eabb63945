//! Events: points in the work of a stream, and when they were reached.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::capture::Part;
use super::context::{self, Context};
use super::entry::{Given, entries};
use super::graph::{Kind, Work};
use super::handle::{Handles, pointer};
use super::queue::{Mark, Queue};
use super::status::{Answer, Status};
use super::stream;
use api::{CUevent, CUstream};

static EVENTS: Handles<Event> = Handles::new();

const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
const KNOWN_FLAGS: c_uint = 7;

pub(super) struct Event {
    context: Weak<Context>,
    timed: bool,
    /// Where it was recorded last.
    record: Mutex<Option<Record>>,
    /// Where it was recorded last, if a stream captured then.
    captured: Mutex<Option<Part>>,
}

#[derive(Clone)]
struct Record {
    mark: Mark,
    reached: Arc<OnceLock<Instant>>,
}

impl Event {
    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Option<Record> {
        self.record().clone()
    }

    fn captured(&self) -> MutexGuard<'_, Option<Part>> {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if captured.as_ref().is_some_and(|part| part.capture.is_over()) {
            *captured = None;
        }
        captured
    }

    /// Fails where it stands for a place in a capture, which is never reached.
    fn check_captured(&self) -> Answer {
        match *self.captured() {
            None => Ok(()),
            Some(_) => Err(Status::CAPTURED_EVENT.into()),
        }
    }

    fn context(&self) -> Answer<Arc<Context>> {
        Ok(self.context.upgrade().ok_or(Status::CONTEXT_IS_DESTROYED)?)
    }
}

pub(super) fn find<H>(event: Given<H>) -> Answer<Arc<Event>> {
    context::current()?;
    EVENTS
        .get(event)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live event has this handle"))
}

/// What a stream that waits for the event has to wait for: nothing where it
/// was never recorded or is reached.
pub(super) fn pending<H>(event: Given<H>) -> Answer<Option<Mark>> {
    let record = find(event)?.last();
    Ok(record
        .map(|record| record.mark)
        .filter(|mark| !mark.passed()))
}

/// The place in a capture that an event stands for.
pub(super) fn captured<H>(event: Given<H>) -> Answer<Option<Part>> {
    Ok(find(event)?.captured().clone())
}

pub(super) fn is_recorded<H>(event: Given<H>) -> Answer<bool> {
    Ok(find(event)?.last().is_some())
}

/// Recording an event each time that a graph is launched.
pub(super) fn recording<H>(event: Given<H>) -> Answer<Work> {
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

/// Waiting for what an event stood for when the graph was launched.
pub(super) fn waiting<H>(event: Given<H>) -> Answer<Work> {
    let event = find(event)?;
    Ok(Arc::new(move |_| {
        if let Some(record) = event.last() {
            record.mark.wait();
        }
    }))
}

/// Records an event in a stream. From a captured stream, `external` makes it a
/// node of its own, which each launch of the graph records.
pub(super) fn record<H, S>(event: Given<H>, stream: Given<S>, external: bool) -> Answer {
    let found = find(event)?;
    let (context, stream) = stream::find(stream)?;
    if !Arc::ptr_eq(&found.context()?, &context) {
        return Err(
            Status::INVALID_HANDLE.because("the event and the stream are of different contexts")
        );
    }
    if stream.may_capture() {
        if external {
            let work = recording(event)?;
            if stream.record(Kind::RecordEvent, || work)? {
                return Ok(());
            }
        } else if let Some(part) = stream.captured()? {
            *found.captured() = Some(part);
            return Ok(());
        }
    }
    let reached = Arc::new(OnceLock::new());
    let clock = reached.clone();
    let mark = stream.soon(&context, move |_| {
        let _ = clock.set(Instant::now()); // it is set nowhere else
    });
    *found.captured() = None;
    *found.record() = Some(Record { mark, reached });
    Ok(())
}

/// Frees the handles of a context's events.
pub(super) fn destroy_all(context: &Arc<Context>) {
    EVENTS.remove_all(|event| std::ptr::eq(event.context.as_ptr(), &**context));
}

entries! {
    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        let context = context::working()?;
        if event.is_null() || flags & !KNOWN_FLAGS != 0 {
            return Err(
                Status::INVALID_VALUE.because("unknown event flags, or nowhere to put the event")
            );
        }
        if flags & INTERPROCESS != 0 {
            return Err(
                Status::NOT_SUPPORTED.because("the CPU device has no events between processes")
            );
        }
        let made = Event {
            context: Arc::downgrade(&context),
            timed: flags & DISABLE_TIMING == 0,
            record: Mutex::default(),
            captured: Mutex::default(),
        };
        event.put(pointer(EVENTS.insert(Arc::new(made))))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        context::working()?;
        match EVENTS.remove(event.addr()) {
            Some(_) => Ok(()),
            None => Err(Status::INVALID_HANDLE.because("no live event has this handle")),
        }
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) {
        record(event, stream, false)
    }

    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuEventRecordWithFlags"));
        }
        record(event, stream, flags == 1)
    }

    fn cuEventSynchronize(event: CUevent) {
        let event = find(event)?;
        event.check_captured()?;
        if let Some(record) = event.last() {
            record.mark.wait();
        }
        event.context()?.settle()
    }

    fn cuEventQuery(event: CUevent) {
        let event = find(event)?;
        event.context()?.check()?;
        event.check_captured()?;
        match event.last() {
            Some(record) if !record.mark.passed() => Err(Status::NOT_READY.into()),
            _ => event.context()?.check(),
        }
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        let (start, end) = (find(start)?, find(end)?);
        start.context()?.check()?;
        start.check_captured()?;
        end.check_captured()?;
        if !start.timed || !end.timed {
            return Err(Status::INVALID_HANDLE
                .because("an event made with CU_EVENT_DISABLE_TIMING has no time"));
        }
        let (Some(first), Some(last)) = (start.last(), end.last()) else {
            return Err(
                Status::INVALID_HANDLE.because("an event that was never recorded has no time")
            );
        };
        if !first.mark.passed() || !last.mark.passed() {
            return Err(Status::NOT_READY.into());
        }
        // A fault passes the recording over.
        let (Some(first), Some(last)) = (first.reached.get(), last.reached.get()) else {
            return start.context()?.settle();
        };
        let seconds = match last.checked_duration_since(*first) {
            Some(ahead) => ahead.as_secs_f64(),
            None => -first.duration_since(*last).as_secs_f64(),
        };
        milliseconds.put((seconds * 1e3) as f32)
    }
}
