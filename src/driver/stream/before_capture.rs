//! Events before captures: what work of other streams waits for while a stream is captured.
//!
//! An event that is recorded in a stream during its capture is part of the graph. So one is
//! recorded before. The default stream takes no work while a stream that keeps order with it is
//! captured, not even an event: it has one too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::stream::event::Event;
use crate::driver::stream::retained::Capture;

/// The end of the work in a context's default stream, while captures keep it from more.
struct DefaultStreamEnd {
    captures: Vec<Arc<Capture>>,
    event: Arc<Event>,
}

static DEFAULT_STREAM_ENDS: Mutex<Vec<DefaultStreamEnd>> = Mutex::new(Vec::new());

fn default_stream_ends() -> MutexGuard<'static, Vec<DefaultStreamEnd>> {
    let ends = DEFAULT_STREAM_ENDS.lock();
    ends.unwrap_or_else(PoisonError::into_inner)
}

/// Records the events before a stream, which the caller holds exclusively, is captured.
pub(crate) fn record(stream: &Stream, capture: &Arc<Capture>) -> Result<(), Error> {
    let own = record_end(stream)?;
    if stream.waits_for_default()? {
        let context = stream.context();
        let mut ends = default_stream_ends();
        let existing = ends
            .iter_mut()
            .find(|end| end.event.context() == context && end.is_active());
        match existing {
            Some(end) => end.captures.push(capture.clone()),
            None => ends.push(DefaultStreamEnd {
                event: record_end(&Stream::default_of(context))?,
                captures: vec![capture.clone()],
            }),
        }
    }
    stream.set_before_capture(own);
    Ok(())
}

/// Drops those that are no longer needed.
pub(crate) fn forget_ended() {
    let ended: Vec<_> = default_stream_ends()
        .extract_if(.., |end| !end.is_active())
        .collect();
    // Outside of the lock: this may destroy a context.
    drop(ended);
}

/// An event after the work in a stream so far, of which what a capture records is no part. A
/// per-thread default stream has the events of this thread.
pub(crate) fn end_of(stream: &Stream) -> Result<Arc<Event>, Error> {
    // No capture of the stream begins or ends meanwhile.
    let enqueue = stream.begin_enqueue();
    if enqueue.capture().is_some()
        && let Some(event) = stream.before_capture()
    {
        return Ok(event);
    }
    if !stream.raw().is_null() {
        return record_end(stream);
    }
    // Locked while the event is recorded: a capture that keeps the stream from it begins later.
    let ends = default_stream_ends();
    let active = ends
        .iter()
        .find(|end| end.event.context() == stream.context() && end.is_active());
    match active {
        Some(end) => Ok(end.event.clone()),
        None => record_end(stream),
    }
}

impl DefaultStreamEnd {
    fn is_active(&self) -> bool {
        self.captures.iter().any(|capture| !capture.is_over())
    }
}

fn record_end(stream: &Stream) -> Result<Arc<Event>, Error> {
    let event = Event::without_timing(stream.context())?;
    let api = stream.context().bind()?;
    // SAFETY: event and stream are live and of one context.
    unsafe { api.cuEventRecord(event.raw(), stream.raw()) }?;
    Ok(Arc::new(event))
}
