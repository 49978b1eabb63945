//! What this process has seen of the blobs, and how often it used them.
//!
//! A blob is checked in full the first time; after that its file is known by
//! its identity, which changes when another is renamed over it. Uses are
//! tallied here and go to the folder many at a time: a service writes them
//! every few minutes, a short process once at its end.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::key::Key;

/// How long uses may wait to be written where no put or end comes first.
const WRITE_EVERY: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Seen(Mutex<Book>);

#[derive(Debug)]
struct Book {
    blobs: HashMap<Key, Sight>,
    /// Bad ones that cannot be set aside.
    shunned: HashSet<Key>,
    written: Instant,
}

#[derive(Debug)]
struct Sight {
    file: Identity,
    /// Not written to the folder yet.
    uses: u64,
}

/// What tells the file of a blob from another that replaced it. Its times of
/// change are no help: marking a use changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    number: u64,
    device: u64,
    length: u64,
    born: Option<SystemTime>,
}

impl Identity {
    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt;
        Identity {
            number: metadata.ino(),
            device: metadata.dev(),
            length: metadata.len(),
            born: metadata.created().ok(),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(metadata: &Metadata) -> Identity {
        Identity {
            number: 0,
            device: 0,
            length: metadata.len(),
            born: metadata.created().ok(),
        }
    }
}

impl Default for Seen {
    fn default() -> Seen {
        Seen(Mutex::new(Book {
            blobs: HashMap::new(),
            shunned: HashSet::new(),
            written: Instant::now(),
        }))
    }
}

impl Seen {
    /// Whether this file was found whole before.
    pub(super) fn knows(&self, key: &Key, file: Identity) -> bool {
        self.book()
            .blobs
            .get(key)
            .is_some_and(|sight| sight.file == file)
    }

    /// Notes a use of a file that is whole. Gives what is to be written, now
    /// and then.
    pub(super) fn used(&self, key: &Key, file: Identity) -> Vec<(Key, u64)> {
        let mut book = self.book();
        let sight = book.blobs.entry(*key).or_insert(Sight { file, uses: 0 });
        sight.file = file;
        sight.uses += 1;
        if book.written.elapsed() < WRITE_EVERY {
            return Vec::new();
        }
        drop(book);
        self.unwritten()
    }

    /// Notes a use by nobody, of which nothing stays.
    #[cfg(feature = "driver")]
    pub(super) fn rehearse(&self, key: &Key, file: Identity) {
        let mut book = self.book();
        book.blobs.insert(*key, Sight { file, uses: 0 });
        book.blobs.remove(key);
    }

    /// Passes over the blob of `key` from now on.
    pub(super) fn shun(&self, key: &Key) {
        self.book().shunned.insert(*key);
    }

    pub(super) fn shuns(&self, key: &Key) -> bool {
        self.book().shunned.contains(key)
    }

    pub(super) fn forget(&self, key: &Key) {
        self.book().blobs.remove(key);
    }

    /// Takes the blob of `key` again: it is another one now.
    pub(super) fn welcome(&self, key: &Key) {
        self.book().shunned.remove(key);
    }

    /// The uses that nobody wrote yet; the caller writes them.
    pub(super) fn unwritten(&self) -> Vec<(Key, u64)> {
        let mut book = self.book();
        book.written = Instant::now();
        book.blobs
            .iter_mut()
            .filter(|(_, sight)| sight.uses > 0)
            .map(|(key, sight)| (*key, std::mem::take(&mut sight.uses)))
            .collect()
    }

    /// No code runs under this lock that could leave half a state behind.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
