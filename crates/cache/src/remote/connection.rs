//! Requests with a deadline: a thread with its own runtime makes them, and callers wait on a
//! channel.
//!
//! The deadline is outside of the store's client, whose connections and pools have waits of
//! their own. A request that its caller no longer waits for goes on for a while: a connection
//! that takes longer to open than one lookup may take serves the next one.

use std::future::Future;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use opendal::Operator;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tracing::debug;

use super::address::Address;
use super::client::{self, Fault};

/// How long a request may go on though nobody waits for it.
const LINGER: Duration = Duration::from_secs(2);

/// Threads for what blocks: signatures and the file system.
const BLOCKING: usize = 8;

#[derive(Debug)]
pub(super) struct Connection {
    client: Arc<Client>,
    thread: OnceLock<Option<Thread>>,
}

#[derive(Debug)]
struct Client {
    address: Address,
    operator: Mutex<Option<Operator>>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("no answer came in time")]
    Late,
    /// What the client says, without secrets.
    #[error("{0}")]
    Failed(String),
    #[error("it has more bytes than any blob")]
    TooLarge,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    stop: Arc<Notify>,
}

impl Connection {
    pub(super) fn new(address: &Address) -> Connection {
        Connection {
            client: Arc::new(Client {
                address: address.clone(),
                operator: Mutex::default(),
            }),
            thread: OnceLock::new(),
        }
    }

    /// Makes a request and waits for the answer, `wait` at most.
    pub(super) fn request<T: Send + 'static, F>(
        &self,
        wait: Duration,
        make: impl FnOnce(Operator) -> F + Send + 'static,
    ) -> Result<T, NoAnswer>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (sender, answer) = sync_channel(1);
        let longest = wait.max(LINGER);
        self.start(longest, make, move |result| drop(sender.send(result)))?;
        receive(&answer, wait)
    }

    /// Makes a request and hands the answer to `then`, in the thread of the requests.
    pub(super) fn start<T: Send + 'static, F>(
        &self,
        longest: Duration,
        make: impl FnOnce(Operator) -> F + Send + 'static,
        then: impl FnOnce(Result<T, NoAnswer>) + Send + 'static,
    ) -> Result<(), NoAnswer>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let thread = self.thread.get_or_init(Thread::start).as_ref();
        let why = || NoAnswer::Failed("no thread can be started".to_owned());
        let client = Arc::clone(&self.client);
        let request = async move {
            // Of its own, so that a panic of the client is an answer too.
            let request = tokio::spawn({
                let client = Arc::clone(&client);
                async move { client.request(longest, make).await }
            });
            then(request.await.unwrap_or_else(|error| {
                client.forget();
                Err(NoAnswer::Failed(client.address.redact(&error.to_string())))
            }));
        };
        thread.ok_or_else(why)?.runtime.spawn(request);
        Ok(())
    }
}

fn receive<T>(answer: &Receiver<Result<T, NoAnswer>>, wait: Duration) -> Result<T, NoAnswer> {
    match answer.recv_timeout(wait) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(NoAnswer::Late),
        Err(RecvTimeoutError::Disconnected) => {
            Err(NoAnswer::Failed("the request was dropped".to_owned()))
        }
    }
}

impl Client {
    async fn request<T, F>(
        &self,
        longest: Duration,
        make: impl FnOnce(Operator) -> F,
    ) -> Result<T, NoAnswer>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let operator = self
            .operator()
            .map_err(|error| self.no_answer(Fault::Store(error)))?;
        match tokio::time::timeout(longest, make(operator)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(fault)) => {
                self.forget();
                Err(self.no_answer(fault))
            }
            Err(_) => {
                self.forget();
                Err(NoAnswer::Late)
            }
        }
    }

    /// The client, opened by the first request.
    fn operator(&self) -> opendal::Result<Operator> {
        let mut operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(operator) = &*operator {
            return Ok(operator.clone());
        }
        Ok(operator.insert(client::open(&self.address)?).clone())
    }

    /// The next request opens a new client: the connections of this one may have an answer in
    /// them that nobody has read.
    fn forget(&self) {
        let mut operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        *operator = None;
    }

    fn no_answer(&self, fault: Fault) -> NoAnswer {
        match fault {
            Fault::TooLarge => NoAnswer::TooLarge,
            Fault::Store(error) => {
                let mut text = format!("{}: {}", error.kind(), error.message());
                if let Some(source) = std::error::Error::source(&error) {
                    text = format!("{text}: {source}");
                }
                NoAnswer::Failed(self.address.redact(&text))
            }
        }
    }
}

impl Thread {
    fn start() -> Option<Thread> {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let started = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .build()
            .and_then(|runtime| {
                let handle = runtime.handle().clone();
                let run = move || {
                    runtime.block_on(stopped.notified());
                    // Requests that block are not waited for.
                    runtime.shutdown_background();
                };
                let thread = std::thread::Builder::new().name("ptxkit-remote".to_owned());
                thread.spawn(run)?;
                Ok(handle)
            });
        match started {
            Ok(runtime) => Some(Thread { runtime, stop }),
            Err(error) => {
                debug!("no thread for the remote cache: {error}");
                None
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
