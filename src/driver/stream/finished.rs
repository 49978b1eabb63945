//! Waiting for a stream in asynchronous code.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use crate::driver::error::Error;
use crate::driver::stream::Stream;
use api::{CudaError, DriverError};

/// Ready when the work that was queued in a stream before it was made is done:
/// [`Stream::finished`].
///
/// It may be dropped at any time, which stops nothing.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Finished {
    stream: Stream,
    state: Result<Arc<Mutex<State>>, Error>,
}

#[derive(Debug)]
enum State {
    /// The task to wake, if it waits already.
    Waiting(Option<Waker>),
    Done(Result<(), CudaError>),
}

impl Stream {
    /// Ready when all work queued so far is done, with its error if it failed. The stream calls
    /// a function then (`cuStreamAddCallback`, which is called after an error too), and that
    /// wakes the task: no thread waits, and any executor will do.
    ///
    /// Work that is queued later waits for the function, which takes microseconds. A capturing
    /// stream refuses it ([`Error::CapturedOnce`]).
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Error, PinnedBuffer, Stream};
    ///
    /// async fn sum(stream: &Stream, buffer: &DeviceBuffer<u32>) -> Result<u32, Error> {
    ///     let mut values = PinnedBuffer::zeroed(buffer.context(), buffer.len())?;
    ///     buffer.read_async(&mut values, stream)?;
    ///     stream.finished().await?;
    ///     Ok(values.as_slice()?.iter().sum()) // which does not wait any more
    /// }
    ///
    /// # struct Unpark(std::thread::Thread);
    /// # impl std::task::Wake for Unpark {
    /// #     fn wake(self: std::sync::Arc<Self>) { self.0.unpark(); }
    /// # }
    /// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut task = std::task::Context::from_waker(&waker);
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut task) {
    /// #             std::task::Poll::Ready(output) => return output,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let stream = Stream::non_blocking(&context)?;
    /// let numbers = DeviceBuffer::from_slice(&context, &[1, 2, 3])?;
    /// assert_eq!(block_on(sum(&stream, &numbers))?, 6);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn finished(&self) -> Finished {
        let state = Arc::new(Mutex::new(State::Waiting(None)));
        let told = state.clone();
        let queued = self.add_callback(move |result| {
            let before = std::mem::replace(&mut *lock(&told), State::Done(result));
            if let State::Waiting(Some(waker)) = before {
                waker.wake();
            }
        });
        Finished {
            stream: self.clone(),
            state: queued.map(|()| state),
        }
    }
}

impl Future for Finished {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        let state = match &self.state {
            Err(error) => return Poll::Ready(Err(error.clone())),
            Ok(state) => state,
        };
        let waker = task.waker().clone();
        // Outlives the lock: dropping it may drop a task.
        let _replaced;
        let result = match &mut *lock(state) {
            State::Done(result) => *result,
            State::Waiting(waiting) => {
                _replaced = waiting.replace(waker);
                return Poll::Pending;
            }
        };
        Poll::Ready(result.map_err(|code| self.describe(code)))
    }
}

impl Finished {
    /// The error of work that is done. The driver says more of it than the function was told.
    fn describe(&self, code: CudaError) -> Error {
        match self.stream.synchronize() {
            Err(error) if error.code() == Some(code) => error,
            _ => DriverError::new("cuStreamAddCallback", code.0, None).into(),
        }
    }
}

/// The task is not kept until the stream is done.
impl Drop for Finished {
    fn drop(&mut self) {
        if let Ok(state) = &self.state {
            // The lock is let go of first, as in `poll`.
            let waker = match &mut *lock(state) {
                State::Waiting(waker) => waker.take(),
                State::Done(_) => None,
            };
            drop(waker);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
