//! What tools do with the store that machines share: status, list, push, pull.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::blob::{Blob, Damage};
use super::eviction::{Origin, Placed};
use super::key::Key;
use super::maintenance::Entry;
use super::remote::{FLUSH_WAIT, Fetched, KeyFileError, NoAnswer, PublicKey, Remote, Trust};
use super::store::{Found, Store};
use super::transfer::{Moved, Moving};
use super::{Cache, CacheError};

/// Requests at a time: each waits for the network.
const AT_ONCE: usize = 8;

/// How the store that machines share is set up, and whether it answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteStatus {
    /// Its URL, without user, password and options.
    pub store: String,
    /// The part of it that blobs lie in.
    pub namespace: String,
    /// Whose blobs are loaded; `None` where nobody's are.
    pub trust: Option<Trust>,
    /// The key that blobs are signed with; `None` where none are written.
    pub signer: Option<PublicKey>,
    /// The time of one request, with connecting; or why it failed.
    pub answer: Result<Duration, String>,
    /// How long loads leave it alone still, after failures.
    pub open_for: Option<Duration>,
}

/// Something in the store that machines share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteEntry {
    /// Its key.
    pub key: Key,
    /// Its bytes in the store: the blob's file and a signature.
    pub size: u64,
}

/// Why a tool cannot use the store that machines share. Loads never see it, and no message
/// has a password.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    #[error("there is no remote cache: set PTXKIT_REMOTE")]
    NotConfigured,
    #[error("nobody's code may be loaded from {store}: PTXKIT_REMOTE_TRUST lists public keys")]
    NoTrust { store: String },
    #[error(
        "nothing can be written to {store} without a private key: PTXKIT_REMOTE_SIGN names its file"
    )]
    NoSigner { store: String },
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error("{store} cannot list what it has: name the keys")]
    CannotList { store: String },
    #[error("{store}: {what}")]
    Store { store: String, what: String },
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// What became of one blob.
enum Step {
    Moved(usize),
    Skipped,
    Damaged(PathBuf, String),
}

impl Cache {
    /// Waits until what was compiled is written to the store that machines share, and what
    /// came from there to the folder, two seconds at most; whether it is. Without such a store
    /// there is nothing to wait for.
    pub fn flush(&self) -> bool {
        let started = Instant::now();
        let remote = self.shared.remote.get().and_then(Option::as_ref);
        let written = remote.is_none_or(|remote| remote.flush(FLUSH_WAIT));
        let left = FLUSH_WAIT.saturating_sub(started.elapsed());
        self.shared.arrivals.wait(left) && written
    }

    /// Asks the store that machines share for an answer.
    ///
    /// # Errors
    /// [`RemoteError::NotConfigured`] and [`RemoteError::KeyFile`]. A store that does not
    /// answer is no error: see [`RemoteStatus::answer`].
    pub fn remote_status(&self) -> Result<RemoteStatus, RemoteError> {
        let config = self.policy().remote().ok_or(RemoteError::NotConfigured)?;
        let remote = Remote::for_tool(config)?;
        let started = Instant::now();
        let answer = remote.contains(&Key::from_bytes([0; 32]));
        Ok(RemoteStatus {
            store: config.store().to_owned(),
            namespace: config.namespace().to_owned(),
            trust: config.trust().cloned(),
            signer: remote.signer(),
            answer: match answer {
                Ok(_) => Ok(started.elapsed()),
                Err(no_answer) => Err(no_answer.to_string()),
            },
            open_for: self.remote().and_then(Remote::open_for),
        })
    }

    /// What the store that machines share has for this version of the library.
    ///
    /// # Errors
    /// [`RemoteError::CannotList`] for Redis and memcached.
    pub fn remote_entries(&self) -> Result<Vec<RemoteEntry>, RemoteError> {
        let (remote, store) = self.remote_for_tool()?;
        let listed = remote
            .list()
            .map_err(|no_answer| failed(&store, &no_answer))?;
        let listed = listed.ok_or(RemoteError::CannotList { store })?;
        let entry = |(key, size)| RemoteEntry { key, size };
        let mut entries: Vec<_> = listed.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.key);
        Ok(entries)
    }

    /// Writes the blobs that `choose` selects to the store that machines share. One that is
    /// there stays, unless `replace`. Reports each to `progress`, from any thread.
    ///
    /// # Errors
    /// [`RemoteError::NoSigner`], [`RemoteError::Store`] and those of the folder.
    pub fn push(
        &self,
        mut choose: impl FnMut(&Entry) -> bool,
        replace: bool,
        progress: impl FnMut(&Moving) + Send,
    ) -> Result<Moved, RemoteError> {
        let (remote, store) = self.remote_for_tool()?;
        if remote.signer().is_none() {
            return Err(RemoteError::NoSigner { store });
        }
        let mut entries = self.entries()?;
        entries.retain(|entry| choose(entry));
        entries.sort_by_key(|entry| entry.key);
        entries.dedup_by_key(|entry| entry.key);
        let of = entries.iter().map(|entry| entry.size).sum();
        let push = |entry: &Entry| {
            if !replace && remote.contains(&entry.key)? {
                return Ok(Step::Skipped);
            }
            let damaged = |why: String| Ok(Step::Damaged(entry.path.clone(), why));
            match self.read_whole(entry) {
                Ok(Found::Blob(blob)) => Ok(if remote.write(&entry.key, &blob)? {
                    Step::Moved(blob.file().len())
                } else {
                    Step::Skipped
                }),
                Ok(Found::Absent | Found::Bad(Damage::Schema { .. }, _)) => Ok(Step::Skipped),
                Ok(Found::Bad(damage, _)) => damaged(damage.to_string()),
                Err(error) => damaged(error.to_string()),
            }
        };
        let size = |entry: &Entry| entry.size;
        each(&entries, of, size, progress, push).map_err(|no_answer| failed(&store, &no_answer))
    }

    /// Takes blobs from the store that machines share into the folder, each after a check of
    /// all of it: those of `keys` and the slices that they name, or all that the store lists.
    /// Reports each to `progress`, from any thread.
    ///
    /// # Errors
    /// [`RemoteError::NoTrust`], [`RemoteError::CannotList`], [`RemoteError::Store`] and those
    /// of the folder. Blobs that are rejected are no error: see [`Moved::damaged`].
    pub fn pull(
        &self,
        keys: Option<&[Key]>,
        mut progress: impl FnMut(&Moving) + Send,
    ) -> Result<Moved, RemoteError> {
        let (remote, store) = self.remote_for_tool()?;
        let config = self.policy().remote();
        if config.is_none_or(|config| config.trust().is_none()) {
            return Err(RemoteError::NoTrust { store });
        }
        let path = self.folder().ok_or(CacheError::NoFolder)?;
        let folder = Store::open(&path).map_err(|error| CacheError::of(&path, error))?;
        let mut next: Vec<(Key, u64)> = match keys {
            Some(keys) => keys.iter().map(|key| (*key, 1)).collect(),
            None => {
                let entries = self.remote_entries()?;
                entries
                    .iter()
                    .map(|entry| (entry.key, entry.size))
                    .collect()
            }
        };
        let mut moved = Moved::default();
        // The slices of an index are known once it is here.
        while !next.is_empty() {
            let slices = Mutex::new(Vec::new());
            let of = next.iter().map(|(_, size)| size).sum();
            let pull = |(key, _): &(Key, u64)| {
                let (step, blob) = self.pull_one(&remote, &folder, key)?;
                if keys.is_some()
                    && let Some(blob) = blob
                {
                    let found = blob.provenance().slices.into_iter().map(|slice| (slice, 1));
                    lock(&slices).extend(found);
                }
                Ok(step)
            };
            let size = |(_, size): &(Key, u64)| *size;
            let more = each(&next, of, size, &mut progress, pull);
            moved.add(more.map_err(|no_answer| failed(&store, &no_answer))?);
            next = slices.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        Ok(moved)
    }

    /// Also the blob, where it is here now.
    fn pull_one(
        &self,
        remote: &Remote,
        folder: &Store,
        key: &Key,
    ) -> Result<(Step, Option<Blob>), NoAnswer> {
        if let Ok(Found::Blob(blob)) = folder.check(key) {
            return Ok((Step::Skipped, Some(blob)));
        }
        let limit = self.policy().max_size();
        let name = PathBuf::from(key.to_string());
        let blob = match remote.fetch(key, limit)? {
            Fetched::Blob(blob) => blob,
            Fetched::Absent => return Ok((Step::Skipped, None)),
            Fetched::Rejected(why) => return Ok((Step::Damaged(name, why), None)),
        };
        let put = folder.put(&[(*key, &blob)], limit, Origin::Imported);
        let placed = put.and_then(|placed| placed.into_iter().collect::<Result<Vec<_>, _>>());
        let step = match placed.as_deref() {
            Ok([Placed::Stored(_)]) => Step::Moved(blob.file().len()),
            Ok(_) => Step::Skipped,
            Err(error) => Step::Damaged(name, format!("it cannot be written: {error}")),
        };
        Ok((step, Some(blob)))
    }

    fn remote_for_tool(&self) -> Result<(Remote, String), RemoteError> {
        let config = self.policy().remote().ok_or(RemoteError::NotConfigured)?;
        Ok((Remote::for_tool(config)?, config.store().to_owned()))
    }
}

/// Does `step` on each of `items`, several at a time, until one has no answer.
fn each<T: Sync>(
    items: &[T],
    of: u64,
    size: impl Fn(&T) -> u64 + Sync,
    progress: impl FnMut(&Moving) + Send,
    step: impl Fn(&T) -> Result<Step, NoAnswer> + Sync,
) -> Result<Moved, NoAnswer> {
    let next = AtomicUsize::new(0);
    let state = Mutex::new((Moved::default(), Moving { done: 0, of }, progress, None));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = step(item);
                    let (moved, now, progress, failed) = &mut *lock(&state);
                    match result {
                        Ok(Step::Moved(bytes)) => moved.count(Some(bytes)),
                        Ok(Step::Skipped) => moved.count(None),
                        Ok(Step::Damaged(path, why)) => moved.damage(&path, &why),
                        Err(no_answer) => {
                            next.store(items.len(), Ordering::Relaxed);
                            *failed = Some(no_answer);
                            return;
                        }
                    }
                    now.done += size(item);
                    progress(now);
                }
            });
        }
    });
    let (moved, _, _, failed) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed {
        Some(no_answer) => Err(no_answer),
        None => Ok(moved),
    }
}

fn failed(store: &str, no_answer: &NoAnswer) -> RemoteError {
    RemoteError::Store {
        store: store.to_owned(),
        what: no_answer.to_string(),
    }
}

/// A poisoned lock is used as it is: what `progress` left when it panicked is counted right.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
