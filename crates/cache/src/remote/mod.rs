//! A store that machines share, behind the folders: what one machine compiled, no other
//! compiles.
//!
//! The store is one that operators run already; OpenDAL talks to it. What lies in it is code,
//! so each blob is signed, and a machine loads what a key that it trusts has signed. The
//! store never makes a load fail: a lookup has a deadline, and a store that fails is left
//! alone for a while. Blobs are written behind the load that compiled them.
//!
//! The key of a blob in the store is `{prefix}/{namespace}/v{schema}/{key}`.

mod address;
mod breaker;
mod client;
mod config;
mod connection;
mod keys;
mod queue;
mod secret;
mod signed;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use super::blob::Blob;
use super::counters::RemoteCounts;
use super::key::{Key, KeyParts, SCHEMA};
use ptx::Digest;

pub use config::{RemoteConfig, RemoteConfigError};
pub use keys::{KeyFileError, NotAPublicKey, PublicKey, SigningKey, Trust};

pub(super) use config::Variables;
pub(super) use connection::NoAnswer;

use breaker::Breaker;
use config::LONGEST_WAIT;
use connection::Connection;
use queue::Queue;
use signed::{Rejected, TRAILER};

/// How long a tool waits for one answer.
const TOOL_WAIT: Duration = Duration::from_secs(60);
/// Writes at a time, behind loads.
const WRITES: usize = 4;
/// How long one may take, with its wait for those before it.
const LONGEST_WRITE: Duration = Duration::from_secs(10);
/// How long [`Cache::flush`](super::Cache::flush) waits.
pub(super) const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// How long the end of a cache waits.
pub(super) const DROP_WAIT: Duration = Duration::from_millis(500);

const CPU_NEEDS_A_KEY: &str = "code for the CPU device is not taken from it: PTXKIT_REMOTE_TRUST=none trusts nobody with that";

/// What a tool finds under a key.
#[derive(Debug)]
pub(super) enum Fetched {
    Blob(Blob),
    Absent,
    /// Why it is not loaded.
    Rejected(String),
}

/// The store, as lookups and puts use it.
#[derive(Debug)]
pub(super) struct Remote {
    config: RemoteConfig,
    trust: Trust,
    signer: Option<Arc<SigningKey>>,
    connection: Connection,
    shared: Arc<Shared>,
    queue: Queue,
    /// So many writes at a time leave connections for lookups.
    writes: Arc<Semaphore>,
    /// Keys whose blobs do not load.
    ignored: Mutex<BTreeSet<Key>>,
}

/// What the thread of the requests has too.
#[derive(Debug)]
struct Shared {
    store: String,
    breaker: Breaker,
    counts: Arc<RemoteCounts>,
    /// What a warning was given of.
    warned: Mutex<BTreeSet<&'static str>>,
}

impl Remote {
    /// For lookups and puts; `None` where nobody is trusted. `stamp` is the file that processes
    /// share the state of the breaker in.
    pub(super) fn open(
        config: &RemoteConfig,
        stamp: Option<PathBuf>,
        counts: Arc<RemoteCounts>,
    ) -> Option<Remote> {
        let store = config.store();
        let nobody = Trust::Keys(Vec::new());
        let Some(trust) = config.trust().filter(|trust| **trust != nobody) else {
            warn!(
                "the remote cache {store} is not used: PTXKIT_REMOTE_TRUST names nobody whose code may be loaded"
            );
            return None;
        };
        if *trust == Trust::Network {
            info!("the remote cache {store} is trusted with its network");
        }
        let signer = config.signer().map(SigningKey::read).transpose();
        let signer = signer.unwrap_or_else(|error| {
            warn!("nothing is written to the remote cache {store}: {error}");
            None
        });
        Some(Remote::new(config, trust.clone(), signer, stamp, counts))
    }

    /// For a tool, which gets every error.
    pub(super) fn for_tool(config: &RemoteConfig) -> Result<Remote, KeyFileError> {
        let trust = config.trust().cloned().unwrap_or(Trust::Keys(Vec::new()));
        let signer = config.signer().map(SigningKey::read).transpose()?;
        Ok(Remote::new(config, trust, signer, None, Arc::default()))
    }

    fn new(
        config: &RemoteConfig,
        trust: Trust,
        signer: Option<SigningKey>,
        stamp: Option<PathBuf>,
        counts: Arc<RemoteCounts>,
    ) -> Remote {
        Remote {
            trust,
            signer: signer.map(Arc::new),
            connection: Connection::new(&config.address),
            shared: Arc::new(Shared {
                store: config.store().to_owned(),
                breaker: Breaker::new(stamp, config.store()),
                counts,
                warned: Mutex::default(),
            }),
            queue: Queue::default(),
            writes: Arc::new(Semaphore::new(WRITES)),
            ignored: Mutex::default(),
            config: config.clone(),
        }
    }

    /// The blob of `key`, all of it checked. Takes a microsecond for each of `source_bytes` at
    /// most, within bounds.
    pub(super) fn get(&self, key: &Key, source_bytes: usize, largest: u64) -> Option<Blob> {
        if self.trust == Trust::Network && is_of_cpu_device(key) {
            self.shared.warn_once("cpu", || CPU_NEEDS_A_KEY.to_owned());
            return None;
        }
        if lock(&self.ignored).contains(key) || !self.shared.breaker.allows() {
            return None;
        }
        let counts = &self.shared.counts;
        let started = Instant::now();
        let wait = Duration::from_micros(source_bytes as u64);
        let wait = wait.max(self.config.wait()).min(LONGEST_WAIT);
        let largest = largest.min(self.config.largest());
        let answer = self.read(key, largest, wait);
        let waited = started.elapsed();
        counts.wait_us.add_us(waited);
        match answer {
            Ok(None) => {
                self.shared.breaker.succeeded();
                counts.misses.one();
                debug!(%key, us = waited.as_micros(), "not in the remote cache");
                None
            }
            Ok(Some(bytes)) => {
                self.shared.breaker.succeeded();
                counts.bytes_read.add(bytes.len() as u64);
                self.check(key, bytes)
            }
            Err(no_answer) => {
                self.shared.failed("read", &no_answer);
                None
            }
        }
    }

    fn check(&self, key: &Key, bytes: Vec<u8>) -> Option<Blob> {
        match signed::open(bytes, self.config.namespace(), key, &self.trust) {
            Ok(blob) => {
                self.shared.counts.hits.one();
                info!(key = %key.short(), "remote cache hit");
                Some(blob)
            }
            Err(why) => {
                self.shared.rejected(key, &why);
                None
            }
        }
    }

    /// Writes the blob of `key`, later, where a private key allows it.
    pub(super) fn put(&self, key: &Key, blob: &Blob) {
        let Some(signer) = &self.signer else { return };
        let (signer, blob, key) = (Arc::clone(signer), blob.clone(), *key);
        let shared = Arc::clone(&self.shared);
        let bytes = blob.file().len() as u64;
        let why = if !self.takes(&blob) {
            Some("it is larger than the store takes")
        } else if self.shared.breaker.open_for().is_some() {
            Some("the store is left alone for a while")
        } else {
            None
        };
        let place = why.map_or_else(
            || self.queue.enter(bytes).ok_or("too many wait to be written"),
            Err,
        );
        let place = match place {
            Ok(place) => place,
            Err(why) => {
                self.shared.counts.drops.one();
                debug!(%key, bytes, "not written to the remote cache: {why}");
                return;
            }
        };
        let namespace = self.config.namespace().to_owned();
        let path = self.path(&key);
        let writes = Arc::clone(&self.writes);
        let write = move |operator| async move {
            let _one = writes.acquire().await;
            // Hashing takes milliseconds, in which the thread could serve lookups.
            let sign = move || signed::sign(&blob, &namespace, &key, &signer);
            let bytes = tokio::task::spawn_blocking(sign).await;
            let bytes = bytes.map_err(|error| {
                opendal::Error::new(opendal::ErrorKind::Unexpected, error.to_string())
            })?;
            let length = bytes.len() as u64;
            client::write(operator, path, bytes).await?;
            Ok(length)
        };
        let then = move |written: Result<u64, NoAnswer>| {
            match written {
                // Does not close the breaker: lookups may be late all the same.
                Ok(bytes) => {
                    shared.counts.puts.one();
                    shared.counts.bytes_written.add(bytes);
                    debug!(%key, bytes, "written to the remote cache");
                }
                Err(no_answer) => {
                    shared.counts.drops.one();
                    shared.failed("write", &no_answer);
                }
            }
            drop(place);
        };
        if let Err(no_answer) = self.connection.start(LONGEST_WRITE, write, then) {
            self.shared.failed("write", &no_answer);
        }
    }

    /// Waits until all puts are written, `wait` at most; whether they are.
    pub(super) fn flush(&self, wait: Duration) -> bool {
        self.queue.wait(wait)
    }

    /// Does not take the blob of `key` again: it does not load.
    pub(super) fn ignore(&self, key: &Key) {
        lock(&self.ignored).insert(*key);
    }

    /// How long the store is left alone.
    pub(super) fn open_for(&self) -> Option<Duration> {
        self.shared.breaker.open_for()
    }

    /// The key that blobs are signed with.
    pub(super) fn signer(&self) -> Option<PublicKey> {
        self.signer.as_ref().map(|signer| signer.public())
    }

    /// Whether there is something under `key`: for tools.
    pub(super) fn contains(&self, key: &Key) -> Result<bool, NoAnswer> {
        let path = self.path(key);
        self.connection
            .request(TOOL_WAIT, move |operator| client::exists(operator, path))
    }

    /// The blob of `key`, or why it is not loaded: for tools.
    pub(super) fn fetch(&self, key: &Key, largest: u64) -> Result<Fetched, NoAnswer> {
        if self.trust == Trust::Network && is_of_cpu_device(key) {
            return Ok(Fetched::Rejected(CPU_NEEDS_A_KEY.to_owned()));
        }
        let bytes = match self.read(key, largest, TOOL_WAIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Fetched::Absent),
            Err(NoAnswer::TooLarge) => {
                return Ok(Fetched::Rejected(NoAnswer::TooLarge.to_string()));
            }
            Err(no_answer) => return Err(no_answer),
        };
        let opened = signed::open(bytes, self.config.namespace(), key, &self.trust);
        Ok(opened.map_or_else(|why| Fetched::Rejected(why.to_string()), Fetched::Blob))
    }

    /// Writes a blob, if the store takes as many bytes and there is a private key: for tools.
    pub(super) fn write(&self, key: &Key, blob: &Blob) -> Result<bool, NoAnswer> {
        let Some(signer) = &self.signer else {
            return Ok(false);
        };
        if !self.takes(blob) {
            return Ok(false);
        }
        let bytes = signed::sign(blob, self.config.namespace(), key, signer);
        let path = self.path(key);
        self.connection.request(TOOL_WAIT, move |operator| {
            client::write(operator, path, bytes)
        })?;
        Ok(true)
    }

    /// The keys in the store, with the bytes of what lies under each; `None` where the store
    /// cannot list.
    pub(super) fn list(&self) -> Result<Option<Vec<(Key, u64)>>, NoAnswer> {
        let folder = self.folder();
        let objects = self
            .connection
            .request(TOOL_WAIT, move |operator| client::list(operator, folder))?;
        let keys = |objects: Vec<client::Object>| {
            let keys = objects.into_iter();
            let keys = keys.filter_map(|object| Some((Key::parse(&object.name)?, object.size)));
            keys.collect()
        };
        Ok(objects.map(keys))
    }

    fn takes(&self, blob: &Blob) -> bool {
        blob.file().len() as u64 + TRAILER as u64 <= self.config.largest()
    }

    fn read(&self, key: &Key, largest: u64, wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer> {
        let path = self.path(key);
        let limit = largest.saturating_add(TRAILER as u64);
        self.connection
            .request(wait, move |operator| client::read(operator, path, limit))
    }

    fn path(&self, key: &Key) -> String {
        format!("{}{key}", self.folder())
    }

    fn folder(&self) -> String {
        format!("{}/v{SCHEMA}/", self.config.namespace())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.flush(DROP_WAIT);
    }
}

impl Shared {
    /// Counts a request without an answer, and leaves the store alone if there were several.
    fn failed(&self, operation: &'static str, no_answer: &NoAnswer) {
        let store = &self.store;
        match no_answer {
            NoAnswer::TooLarge => {
                self.counts.rejected.one();
                self.warn_once("large", || no_answer.to_string());
                return;
            }
            NoAnswer::Late => {
                self.counts.timeouts.one();
                self.warn_once("late", || {
                    format!("it does not {operation} in time (`ptxkit cache remote status` asks with more)")
                });
            }
            NoAnswer::Failed(why) => {
                self.counts.errors.one();
                self.warn_once(operation, || format!("it cannot {operation}: {why}"));
            }
        }
        if self.breaker.failed() {
            self.counts.breaker_opens.one();
            info!("the remote cache {store} is left alone for a while");
        }
    }

    fn rejected(&self, key: &Key, why: &Rejected) {
        self.counts.rejected.one();
        let kind = match why {
            Rejected::NotSigned => "not signed",
            Rejected::Version(_) => "version",
            Rejected::Signer => "signer",
            Rejected::Signature => "signature",
            Rejected::Damaged(_) => "damaged",
        };
        self.warn_once(kind, || {
            format!("the blob of {} is not used: {why}", key.short())
        });
    }

    /// One warning of each kind; what is worth one may happen at every load.
    fn warn_once(&self, kind: &'static str, what: impl FnOnce() -> String) {
        let store = &self.store;
        let what = what();
        if lock(&self.warned).insert(kind) {
            warn!("the remote cache {store}: {what}; loads go on without it")
        } else {
            debug!("the remote cache {store}: {what}")
        }
    }
}

/// Whether the blob of `key` is code of the CPU device, which runs in the process itself: a
/// key repeats whose compiler it is of.
fn is_of_cpu_device(key: &Key) -> bool {
    static CPU: OnceLock<u16> = OnceLock::new();
    let cpu = CPU.get_or_init(|| {
        let parts = KeyParts {
            source: Digest::of(b""),
            target: "",
            driver_version: 0,
            compiler: "ptxkit",
            options: b"",
        };
        Key::new(&parts).generation().family
    });
    key.generation().family == *cpu
}

/// A poisoned lock is used as it is: no code under these locks leaves a half-made state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
