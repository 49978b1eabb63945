//! Streams that asynchronous code waits for.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context as TaskContext, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;

use ptxkit::driver::{CaptureMode, DeviceBuffer, Error, Graph, LaunchConfig, PinnedBuffer, Stream};

use crate::kernels::STRAY;
use crate::support::{alone, context, isolated, kernel};

/// Counts how often it is woken, and unparks a thread.
struct Task {
    thread: Thread,
    woken: AtomicUsize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn task() -> Arc<Task> {
    Arc::new(Task {
        thread: std::thread::current(),
        woken: AtomicUsize::new(0),
    })
}

fn poll<F: Future>(future: Pin<&mut F>, task: &Arc<Task>) -> Poll<F::Output> {
    let waker = task.clone().into();
    future.poll(&mut TaskContext::from_waker(&waker))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let (task, mut future) = (task(), pin!(future));
    loop {
        match poll(future.as_mut(), &task) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn held(stream: &Stream) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel();
    stream
        .call(move || {
            let _ = gate.recv();
        })
        .unwrap();
    open
}

#[test]
fn a_task_is_woken_when_the_stream_is_done() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed_async(&stream, 4).unwrap();
    let mut pinned = PinnedBuffer::zeroed(&context, 4).unwrap();
    let gate = held(&stream);
    buffer.fill_async(5, &stream).unwrap();
    buffer.read_async(&mut pinned, &stream).unwrap();
    let (mut finished, first, second) = (Box::pin(stream.finished()), task(), task());
    assert!(poll(finished.as_mut(), &first).is_pending());
    assert!(poll(finished.as_mut(), &second).is_pending());
    gate.send(()).unwrap();
    stream.synchronize().unwrap();
    while second.woken.load(Ordering::SeqCst) == 0 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    // The last one that asked.
    assert_eq!(first.woken.load(Ordering::SeqCst), 0);
    assert!(matches!(
        poll(finished.as_mut(), &first),
        Poll::Ready(Ok(()))
    ));
    assert_eq!(*pinned.as_slice().unwrap(), [5; 4]);
    block_on(stream.finished()).unwrap();
}

#[test]
fn a_future_that_is_dropped_lets_go_of_its_task() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let gate = held(&stream);
    let (mut finished, task) = (Box::pin(stream.finished()), task());
    assert!(poll(finished.as_mut(), &task).is_pending());
    assert_eq!(Arc::strong_count(&task), 2);
    drop(finished);
    assert_eq!(Arc::strong_count(&task), 1);
    drop(stream.finished());
    gate.send(()).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(task.woken.load(Ordering::SeqCst), 0);
}

#[test]
fn many_streams_are_waited_for_at_once() {
    let context = context();
    let tasks: Vec<_> = (0..8_u32)
        .map(|value| {
            let context = context.clone();
            async move {
                let stream = Stream::non_blocking(&context)?;
                let mut buffer = DeviceBuffer::<u32>::new_async(&stream, 16)?;
                buffer.fill_async(value, &stream)?;
                stream.finished().await?;
                buffer.to_host(&stream)
            }
        })
        .collect();
    for (task, value) in tasks.into_iter().zip(0..) {
        assert_eq!(block_on(task).unwrap(), [value; 16]);
    }
}

#[test]
fn a_capture_cannot_be_waited_for() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    Graph::capture(&stream, CaptureMode::Relaxed, |stream| {
        let finished = block_on(stream.finished());
        assert!(matches!(finished, Err(Error::CapturedOnce)), "{finished:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_fault_is_the_result() {
    isolated("finished::a_fault_is_the_result", &[], || {
        let (_context, stream, stray) = kernel(STRAY, "stray");
        unsafe { stray.launch(LaunchConfig::default(), &stream, (8_u64,)) }.unwrap();
        let error = block_on(stream.finished()).unwrap_err();
        assert!(error.is_sticky(), "{error}");
    });
}
