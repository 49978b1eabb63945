//! Blobs on their way to the folder, behind the loads that took them from the store: slices of
//! a module come many at once, and a file for each would cost a load more than the network.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::blob::Blob;
use super::key::Key;
use super::local::Local;
use super::remote::DROP_WAIT;

/// With more on its way, loads wait for what they bring.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Arrivals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    blobs: HashMap<Key, Blob>,
    bytes: u64,
    /// Whether a thread is writing.
    is_writing: bool,
}

impl Arrivals {
    /// Writes the blob of `key` to the folder, later.
    pub(super) fn put(&self, folder: &Arc<Local>, key: &Key, blob: &Blob) {
        let mut waiting = self.0.waiting();
        let bytes = blob.file().len() as u64;
        if waiting.bytes.saturating_add(bytes) > MAX_BYTES {
            drop(waiting);
            folder.put(&[(*key, blob)]);
            return;
        }
        if let Entry::Vacant(vacant) = waiting.blobs.entry(*key) {
            vacant.insert(blob.clone());
            waiting.bytes += bytes;
        }
        if std::mem::replace(&mut waiting.is_writing, true) {
            return;
        }
        drop(waiting);
        let [shared, for_thread] = [(); 2].map(|()| Arc::clone(&self.0));
        let folder_of_thread = Arc::clone(folder);
        let thread = std::thread::Builder::new().name("ptxkit cache".to_owned());
        if thread
            .spawn(move || for_thread.write(&folder_of_thread))
            .is_err()
        {
            shared.write(folder);
        }
    }

    /// The blob of `key`, if it is on its way.
    pub(super) fn find(&self, key: &Key) -> Option<Blob> {
        self.0.waiting().blobs.get(key).cloned()
    }

    /// Does not give the blob of `key` again: it does not load.
    pub(super) fn forget(&self, key: &Key) {
        self.0.remove(&mut self.0.waiting(), key);
    }

    /// Waits until all are written, `wait` at most; whether they are.
    pub(super) fn wait(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let mut waiting = self.0.waiting();
        while waiting.is_writing {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            waiting = self
                .0
                .changed
                .wait_timeout(waiting, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.wait(DROP_WAIT);
    }
}

impl Shared {
    /// Writes all that is there and what comes meanwhile, all that is there with one lock on
    /// the state file.
    fn write(&self, folder: &Local) {
        let mut waiting = self.waiting();
        while !waiting.blobs.is_empty() {
            let blobs = waiting.blobs.clone();
            drop(waiting);
            folder.put(
                &blobs
                    .iter()
                    .map(|(key, blob)| (*key, blob))
                    .collect::<Vec<_>>(),
            );
            waiting = self.waiting();
            for key in blobs.keys() {
                self.remove(&mut waiting, key);
            }
        }
        waiting.is_writing = false;
        self.changed.notify_all();
    }

    fn remove(&self, waiting: &mut Waiting, key: &Key) {
        if let Some(blob) = waiting.blobs.remove(key) {
            waiting.bytes -= blob.file().len() as u64;
        }
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made state behind.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Blob;
    use crate::lock::FileLock;
    use crate::policy::Policy;
    use crate::provenance::Provenance;

    #[test]
    fn a_load_does_not_wait_for_the_folder_and_finds_what_is_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy::disabled()
            .with_enabled(true)
            .with_path(folder.path());
        let local = Arc::new(Local::new(policy));
        let store = local.writable().unwrap();
        // Whoever puts a blob waits for this lock.
        let state = store.root().join("state");
        let far = Instant::now() + Duration::from_secs(60);
        let held = FileLock::acquire(&state, far).unwrap().unwrap();

        let [first, second] = [1, 2].map(|n| Key::from_bytes([n; 32]));
        let arrivals = Arrivals::default();
        for key in [&first, &second] {
            arrivals.put(
                &local,
                key,
                &Blob::new(key, &Provenance::default(), b"code"),
            );
            assert_eq!(&*arrivals.find(key).unwrap(), b"code");
        }
        assert!(!arrivals.wait(Duration::ZERO));
        assert!(local.get(&first).is_none());
        drop(held);
        assert!(arrivals.wait(Duration::from_secs(60)));
        for key in [&first, &second] {
            assert_eq!(&*local.get(key).unwrap(), b"code");
            assert!(arrivals.find(key).is_none());
        }
        assert_eq!(arrivals.0.waiting().bytes, 0);
    }

    #[test]
    fn what_does_not_load_is_not_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy::disabled()
            .with_enabled(true)
            .with_path(folder.path());
        let local = Arc::new(Local::new(policy));
        let state = local.writable().unwrap().root().join("state");
        let far = Instant::now() + Duration::from_secs(60);
        let _held = FileLock::acquire(&state, far).unwrap().unwrap();
        let key = Key::from_bytes([1; 32]);
        let arrivals = Arrivals::default();
        let blob = Blob::new(&key, &Provenance::default(), b"code");
        arrivals.put(&local, &key, &blob);
        arrivals.forget(&key);
        assert!(arrivals.find(&key).is_none());
    }
}
