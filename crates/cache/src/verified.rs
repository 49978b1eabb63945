//! What this process knows of the blobs: which files it verified, how often it
//! used them, and which it must not use.
//!
//! A blob is verified in full the first time; after that its file is known by
//! its identity, which changes when another is renamed over it. Hits are counted
//! here and appended to the folder's log many at a time: a service writes them
//! every few minutes, a short process once at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::key::Key;

/// How long hits may wait to be written where no put and no end comes first.
const WRITE_EVERY: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Verified(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Ordered: a hash map asks the system for random keys first, which shows in the
    /// first hit of a process.
    blobs: BTreeMap<Key, File>,
    /// Bad ones that cannot be quarantined.
    ignored: BTreeSet<Key>,
    written: Instant,
}

#[derive(Debug)]
struct File {
    identity: Identity,
    /// Not written to the log yet.
    hits: u64,
}

/// Distinguishes the file of a blob from another that replaced it. Its time of
/// change does not serve: recording a use changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    inode: u64,
    device: u64,
    length: u64,
    created: Option<SystemTime>,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Identity {
        #[cfg(unix)]
        let (inode, device) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), metadata.dev())
        };
        #[cfg(not(unix))]
        let (inode, device) = (0, 0);
        Identity {
            inode,
            device,
            length: metadata.len(),
            created: metadata.created().ok(),
        }
    }
}

impl Default for Verified {
    fn default() -> Verified {
        Verified(Mutex::new(State {
            blobs: BTreeMap::new(),
            ignored: BTreeSet::new(),
            written: Instant::now(),
        }))
    }
}

impl Verified {
    /// Whether this file was verified before.
    pub(super) fn contains(&self, key: &Key, identity: Identity) -> bool {
        let state = self.state();
        let file = state.blobs.get(key);
        file.is_some_and(|file| file.identity == identity)
    }

    /// Counts a hit on a file that is verified. Returns the hits to be written,
    /// where it is time for that.
    pub(super) fn record_hit(&self, key: &Key, identity: Identity) -> Vec<(Key, u64)> {
        let mut state = self.state();
        let file = state
            .blobs
            .entry(*key)
            .or_insert(File { identity, hits: 0 });
        file.identity = identity;
        file.hits += 1;
        if state.written.elapsed() < WRITE_EVERY {
            return Vec::new();
        }
        drop(state);
        self.take_hits()
    }

    /// Ignores the blob of `key` from now on.
    pub(super) fn ignore(&self, key: &Key) {
        self.state().ignored.insert(*key);
    }

    pub(super) fn ignores(&self, key: &Key) -> bool {
        self.state().ignored.contains(key)
    }

    /// Ends [`ignore`](Verified::ignore): the blob was replaced.
    pub(super) fn stop_ignoring(&self, key: &Key) {
        self.state().ignored.remove(key);
    }

    pub(super) fn forget(&self, key: &Key) {
        self.state().blobs.remove(key);
    }

    /// The hits that are not written yet, for the caller to write.
    pub(super) fn take_hits(&self) -> Vec<(Key, u64)> {
        let mut state = self.state();
        state.written = Instant::now();
        state
            .blobs
            .iter_mut()
            .filter(|(_, file)| file.hits > 0)
            .map(|(key, file)| (*key, std::mem::take(&mut file.hits)))
            .collect()
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made
    /// state behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
