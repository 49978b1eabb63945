//! The streams whose work may still use a resource.

use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::stream::before_capture;
use crate::driver::stream::capture::RelaxedCapture;

/// The streams whose work may still use memory.
#[derive(Debug, Default)]
pub(crate) struct Users {
    pub streams: Vec<Stream>,
    /// Whether borrowed memory was returned to its owner.
    pub ended: bool,
    /// Slices of the memory that the program has. Meanwhile no work may use it.
    pub host_slices: usize,
}

impl Users {
    /// Refuses work that the memory is not there for.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Users { ended: true, .. } => Err(Error::Ended),
            Users {
                host_slices: 1.., ..
            } => Err(Error::HostSlice),
            _ => Ok(()),
        }
    }

    /// Waits for all of them. A stream stays listed until it is known to be idle.
    pub fn wait(&mut self) -> Result<(), Error> {
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

/// The streams whose work may still use an array, texture or surface. No driver promises
/// that destroying one waits for them.
#[derive(Debug, Default)]
pub(crate) struct UsingStreams(Mutex<Vec<Stream>>);

impl UsingStreams {
    pub fn record(&self, stream: &Stream) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !streams.iter().any(|user| same_stream(user, stream)) {
            streams.push(stream.clone());
        }
    }

    /// Waits for them; whether all are done. It does not wait within a capture: what the thread
    /// does after it may be what they wait for.
    pub fn wait_until_done(&mut self) -> bool {
        let streams = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        !streams.iter().any(Stream::is_capturing) && wait_until_unused(&*streams)
    }
}

/// A stream in which work was queued.
#[derive(Clone, Debug)]
pub(crate) struct StreamOfThread {
    stream: Stream,
    /// For a per-thread default stream, its thread: in another thread the handle names
    /// another stream.
    thread: Option<ThreadId>,
}

impl StreamOfThread {
    pub fn new(stream: &Stream) -> StreamOfThread {
        StreamOfThread {
            stream: stream.clone(),
            thread: stream.is_per_thread().then(|| thread::current().id()),
        }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub fn into_stream(self) -> Stream {
        self.stream
    }

    #[inline]
    pub fn is(&self, stream: &Stream) -> bool {
        same_stream(&self.stream, stream)
            && self
                .thread
                .is_none_or(|origin| origin == thread::current().id())
    }

    /// That of the stream; none for a per-thread default stream, of which it would have to say
    /// the thread.
    pub fn identity(&self) -> *mut () {
        match self.thread {
            Some(_) => null_mut(),
            None => self.stream.identity(),
        }
    }
}

/// The streams that one call lets its stream wait for, each once.
#[derive(Debug, Default)]
pub(crate) struct Waits(Vec<Stream>);

impl Waits {
    /// Orders work queued in `after` from now on after the work already in `before`.
    pub fn wait_for(&mut self, before: &Stream, after: &Stream) -> Result<(), Error> {
        if before.is_ordered_with(after) || self.0.iter().any(|done| same_stream(done, before)) {
            return Ok(());
        }
        order_after(before, after)?;
        self.0.push(before.clone());
        Ok(())
    }
}

/// Compares handle and context, as the default streams of all contexts have the same
/// handle.
#[inline]
pub(crate) fn same_stream(one: &Stream, other: &Stream) -> bool {
    one.raw() == other.raw() && one.context() == other.context()
}

/// Waits for the work of a stream, without spoiling a capture: of a stream that is captured, for
/// what was queued before. A per-thread default stream names another stream in each thread, so its
/// whole context is waited for.
pub(crate) fn wait(stream: &Stream) -> Result<(), Error> {
    let context = stream.context();
    let _relaxed = RelaxedCapture::enter(context)?;
    if stream.is_per_thread() {
        context.synchronize()
    } else {
        before_capture::end_of(stream)?.synchronize()
    }
}

/// Orders work queued in `after` from now on after the work already in `before`.
pub(crate) fn order_after(before: &Stream, after: &Stream) -> Result<(), Error> {
    if before.is_per_thread() || after.is_per_thread() {
        return wait(before);
    }
    let event = before_capture::end_of(before)?;
    after.wait_for_recorded(&event)
}

/// Waits for the streams and returns whether none of them can use the memory any more.
pub(crate) fn wait_until_unused<'a>(streams: impl IntoIterator<Item = &'a Stream>) -> bool {
    streams.into_iter().all(|stream| {
        let result = wait(stream);
        let running = result.as_ref().is_err_and(|error| !error.is_sticky());
        report_drop(result);
        !running
    })
}
