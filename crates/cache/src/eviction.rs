//! Puts under the size limit, and what is evicted for them.
//!
//! Whoever puts locks the state file, so that no two writers count on the same
//! space. What to evict is read from a queue file: the eighth of all blobs that
//! were least recently used when the folder was last listed. A blob that was used
//! since is skipped. When the queue is used up the folder is listed again, so
//! that one put in thousands reads the folder.
//!
//! First to go are quarantined blobs, then those of replaced drivers, then the
//! least recently used.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tracing::debug;

use super::blob::Blob;
use super::folder::{self, Owner};
use super::key::Key;
use super::lock::FileLock;
use super::scan::{self, Bad, Scan, Scanned};
use super::state::{self, State};
use super::store::{Store, Temporary};

/// How long a put waits for others, which are short unless one lists a large
/// folder.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of a record of the queue: key, time of use, size.
const RECORD: usize = 32 + 16 + 8;
/// The queue has at least so many records, where there are as many blobs.
const MIN_QUEUE: usize = 1024;

/// Where a blob that is put comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Compiled just now: its driver is active here.
    Compiled,
    /// Imported from another cache, which may serve other drivers.
    Imported,
}

/// The result of a put.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is stored, and these were evicted for it.
    Stored(Vec<Key>),
    /// The lock on the state file could not be had in time.
    Busy,
    /// It does not fit, although nothing is left to evict.
    NoRoom,
}

impl Store {
    /// Writes blobs, and evicts others to stay under `limit` bytes. The state file is
    /// locked once for all of them. An error of one keeps nobody from the others; one of
    /// the state file is that of all.
    pub(super) fn put(
        &self,
        blobs: &[(Key, &Blob)],
        limit: u64,
        origin: Origin,
    ) -> io::Result<Vec<io::Result<Placed>>> {
        // The files are written before the lock is taken.
        let written: Vec<_> = blobs
            .iter()
            .map(|(key, blob)| {
                let size = blob.file().len() as u64;
                (key, size, self.write_temporary(key, blob))
            })
            .collect();
        let mut access = self.lock_state(WAIT);
        if let Access::Locked(locked) = &mut access {
            locked.verify_total()?;
        }
        let placed = written.into_iter().map(|(key, size, temporary)| {
            let placed = match &mut access {
                Access::Locked(locked) => {
                    if origin == Origin::Compiled {
                        locked.state.record_put(key.generation());
                    }
                    locked.place(key, size, limit, temporary?)
                }
                Access::Busy => temporary.map(|_| Placed::Busy),
                Access::NoLocks => self.place_without_lock(key, size, limit, temporary?),
            };
            if let Ok(Placed::Stored(_)) = placed {
                self.replaced(key);
            }
            placed
        });
        Ok(placed.collect())
    }

    /// Locks the state file.
    pub(super) fn lock_state(&self, wait: Duration) -> Access<'_> {
        // A process that was stopped while it held the lock is not waited for again.
        let wait = if self.stuck.load(Ordering::Relaxed) {
            wait / 100
        } else {
            wait
        };
        let path = self.root().join("state");
        match FileLock::acquire(&path, Instant::now() + wait) {
            Ok(Some(lock)) => {
                self.stuck.store(false, Ordering::Relaxed);
                let state = State::read(lock.file());
                let is_before_boot = || {
                    lock.file()
                        .metadata()
                        .and_then(|metadata| metadata.modified())
                        .is_ok_and(state::is_before_boot)
                };
                let counted = state.as_ref().is_some_and(State::is_current) && !is_before_boot();
                Access::Locked(LockedState {
                    store: self,
                    lock,
                    state: state.unwrap_or_default(),
                    counted,
                    queue: None,
                })
            }
            Ok(None) => {
                self.stuck.store(true, Ordering::Relaxed);
                Access::Busy
            }
            Err(error) => {
                debug!("the state file cannot be locked: {error}");
                Access::NoLocks
            }
        }
    }

    /// Subtracts bytes that are no longer there from the total.
    pub(super) fn subtract_bytes(&self, bytes: u64) -> io::Result<()> {
        // Without the lock the total is too large until the next count.
        if let Access::Locked(mut locked) = self.lock_state(WAIT / 100) {
            locked.verify_total()?;
            locked.state.total = locked.state.total.saturating_sub(bytes);
            locked.write()?;
        }
        Ok(())
    }

    /// Without locks each put lists the folder, and two writers may count on the
    /// same space.
    fn place_without_lock(
        &self,
        key: &Key,
        size: u64,
        limit: u64,
        temporary: Temporary,
    ) -> io::Result<Placed> {
        let _ = fs::remove_file(self.root().join("state"));
        let mut scan = scan::scan(self.root())?;
        scan.blobs.retain(|blob| blob.key != *key);
        let (evicted, _) = self.reduce(scan, size, limit, |_| false)?;
        temporary.rename(&self.path(key))?;
        Ok(Placed::Stored(evicted))
    }

    /// Removes the blobs in `scan` that `is_removed` names, then the least recently
    /// used until `need` more bytes fit. Returns their keys and bytes.
    pub(super) fn reduce(
        &self,
        mut scan: Scan,
        need: u64,
        limit: u64,
        is_removed: impl Fn(&Scanned) -> bool,
    ) -> io::Result<(Vec<Key>, u64)> {
        let before = scan.total();
        let mut total = before;
        sort_for_eviction(&mut scan.blobs, &State::default());
        let mut evicted = Vec::new();
        for bad in &scan.bad {
            if total.saturating_add(need) > limit {
                remove(&bad.path)?;
                total = total.saturating_sub(bad.size);
            }
        }
        for blob in &scan.blobs {
            if total.saturating_add(need) > limit || is_removed(blob) {
                remove(&self.path(&blob.key))?;
                total = total.saturating_sub(blob.size);
                evicted.push(blob.key);
            }
        }
        Ok((evicted, before - total))
    }

    /// The state file as it is, for tools that only read.
    pub(super) fn state(&self) -> State {
        File::open(self.root().join("state"))
            .ok()
            .and_then(|file| State::read(&file))
            .unwrap_or_default()
    }
}

/// The result of locking the state file.
pub(super) enum Access<'a> {
    Locked(LockedState<'a>),
    Busy,
    /// The file system has no locks.
    NoLocks,
}

/// The locked state file: the right to add and remove blobs.
#[derive(Debug)]
pub(super) struct LockedState<'a> {
    store: &'a Store,
    lock: FileLock,
    pub state: State,
    counted: bool,
    /// Opened by the first eviction.
    queue: Option<File>,
}

impl LockedState<'_> {
    /// Makes sure that the total is right.
    pub(super) fn verify_total(&mut self) -> io::Result<()> {
        if !self.counted {
            return self.recount().map(drop);
        }
        // The process that wrote this has died, or it would hold the lock.
        if let Some((key, bytes)) = self.state.pending.take() {
            self.state.total = self
                .state
                .total
                .saturating_sub(bytes)
                .saturating_add(self.size_of(&key));
        }
        Ok(())
    }

    /// Lists the folder, and writes the total and the eviction queue.
    pub(super) fn recount(&mut self) -> io::Result<Scan> {
        let started = Instant::now();
        self.store.sweep();
        let mut scan = scan::scan(self.store.root())?;
        sort_for_eviction(&mut scan.blobs, &self.state);
        let queued = (scan.blobs.len() / 8).max(MIN_QUEUE).min(scan.blobs.len());
        self.queue = None;
        // The queue is written before the state that has its length.
        self.write_queue(&scan.blobs[..queued])?;
        self.state.recounted(scan.total(), queued as u64);
        self.state.write(self.lock.file())?;
        self.counted = true;
        debug!(
            blobs = scan.blobs.len(),
            bytes = self.state.total,
            us = started.elapsed().as_micros(),
            "cache listed"
        );
        Ok(scan)
    }

    /// Evicts what is needed, and renames the temporary file.
    fn place(
        &mut self,
        key: &Key,
        size: u64,
        limit: u64,
        temporary: Temporary,
    ) -> io::Result<Placed> {
        let path = self.store.path(key);
        let replaced = self.size_of(key);
        let need = size.saturating_sub(replaced);
        let Some(evicted) = self.evict_for(need, limit, Some(key))? else {
            return Ok(Placed::NoRoom);
        };
        self.state.pending = Some((*key, replaced));
        self.state.write(self.lock.file())?;
        temporary.rename(&path)?;
        self.state.pending = None;
        self.state.total = self
            .state
            .total
            .saturating_sub(replaced)
            .saturating_add(size);
        // The blob is stored; a state that is not written has it as pending.
        if let Err(error) = self.state.write(self.lock.file()) {
            debug!("the state file is not written: {error}");
        }
        Ok(Placed::Stored(evicted))
    }

    /// Evicts blobs until `need` more bytes fit, but never the blob `except`.
    /// `None` where that is impossible.
    pub(super) fn evict_for(
        &mut self,
        need: u64,
        limit: u64,
        except: Option<&Key>,
    ) -> io::Result<Option<Vec<Key>>> {
        let mut evicted = Vec::new();
        let fits = |state: &State| state.total.saturating_add(need) <= limit;
        if fits(&self.state) {
            return Ok(Some(evicted));
        }
        for bad in scan::bad(self.store.root())? {
            if !fits(&self.state) {
                self.remove_bad(&bad)?;
            }
        }
        let mut evicted_since_count = true;
        while !fits(&self.state) {
            match self.next_in_queue()? {
                Some(next) if except == Some(&next.key) => {}
                Some(next) => {
                    if self.evict(&next)? {
                        evicted_since_count = true;
                        evicted.push(next.key);
                    }
                }
                None if evicted_since_count => {
                    self.recount()?;
                    evicted_since_count = false;
                }
                None => return Ok(None),
            }
        }
        Ok(Some(evicted))
    }

    /// Removes a blob, unless it was used since it was queued.
    fn evict(&mut self, queued: &Scanned) -> io::Result<bool> {
        let path = self.store.path(&queued.key);
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            return Ok(false);
        };
        if metadata.modified().ok() != Some(queued.used) {
            return Ok(false);
        }
        self.remove(&queued.key, metadata.len())?;
        Ok(true)
    }

    /// Removes the blob of `key`, of `bytes`, from the folder and the total.
    pub(super) fn remove(&mut self, key: &Key, bytes: u64) -> io::Result<()> {
        self.state.pending = Some((*key, bytes));
        self.state.write(self.lock.file())?;
        let removed = remove(&self.store.path(key));
        self.state.pending = None;
        if removed.is_ok() {
            self.state.total = self.state.total.saturating_sub(bytes);
        }
        removed
    }

    /// Removes a quarantined blob.
    pub(super) fn remove_bad(&mut self, bad: &Bad) -> io::Result<()> {
        remove(&bad.path)?;
        self.state.total = self.state.total.saturating_sub(bad.size);
        self.state.write(self.lock.file())
    }

    /// Writes the state after removals, which are only pending until then.
    pub(super) fn write(self) -> io::Result<()> {
        self.state.write(self.lock.file())
    }

    fn size_of(&self, key: &Key) -> u64 {
        fs::symlink_metadata(self.store.path(key)).map_or(0, |metadata| metadata.len())
    }

    fn write_queue(&self, blobs: &[Scanned]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(blobs.len() * RECORD);
        for blob in blobs {
            bytes.extend_from_slice(blob.key.as_bytes());
            bytes.extend_from_slice(&nanoseconds(blob.used).to_le_bytes());
            bytes.extend_from_slice(&blob.size.to_le_bytes());
        }
        let path = self.store.root().join("queue");
        remove(&path)?;
        folder::create_file(&path)?.write_all(&bytes)
    }

    fn next_in_queue(&mut self) -> io::Result<Option<Scanned>> {
        let (next, length) = self.state.queue;
        if next >= length {
            return Ok(None);
        }
        let mut queue = match self.queue.take() {
            Some(queue) => queue,
            None => {
                let path = self.store.root().join("queue");
                let Ok((mut queue, _)) = folder::open(&path, Owner::User) else {
                    self.state.queue = (0, 0);
                    return Ok(None);
                };
                queue.seek(SeekFrom::Start(next * RECORD as u64))?;
                queue
            }
        };
        let mut record = [0; RECORD];
        if queue.read_exact(&mut record).is_err() {
            // Truncated: the next count writes a new one.
            self.state.queue = (0, 0);
            return Ok(None);
        }
        self.queue = Some(queue);
        self.state.queue.0 = next + 1;
        let (key, rest) = record.split_at(32);
        let (used, size) = rest.split_at(16);
        // The lengths are those of the array.
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |n, &byte| n << 8 | u128::from(byte))
        };
        Ok(key.try_into().ok().map(|key| Scanned {
            key: Key::from_bytes(key),
            used: time(number(used)),
            size: number(size) as u64,
        }))
    }
}

/// What is evicted first comes first.
fn sort_for_eviction(blobs: &mut [Scanned], state: &State) {
    let now = SystemTime::now();
    blobs.sort_by_cached_key(|blob| {
        // A time in the future is from before the clock was set back, so older
        // than any other.
        let stale = state.is_stale(blob.key.generation(), blob.used);
        (!stale, blob.used <= now, blob.used)
    });
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
}

fn time(nanoseconds: u128) -> SystemTime {
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or(0);
    let rest = (nanoseconds % 1_000_000_000) as u32;
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::new(seconds, rest))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::provenance::Provenance;

    const FAR: Duration = Duration::from_secs(60);

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    /// A store with three blobs, and the bytes of each.
    fn store(folder: &Path) -> (Store, u64) {
        let store = Store::open(&folder.join("store")).unwrap();
        let mut size = 0;
        for n in 1..=3 {
            let blob = Blob::new(&key(n), &Provenance::default(), &[n; 1000]);
            size = blob.file().len() as u64;
            let placed = store.put(&[(key(n), &blob)], u64::MAX, Origin::Compiled);
            let placed = placed.unwrap().remove(0).unwrap();
            assert_eq!(placed, Placed::Stored(Vec::new()));
        }
        (store, size)
    }

    fn locked(store: &Store) -> LockedState<'_> {
        match store.lock_state(FAR) {
            Access::Locked(mut locked) => {
                locked.verify_total().unwrap();
                locked
            }
            _ => panic!("nobody else has it"),
        }
    }

    /// Leaves the state as a process does that is killed during a put.
    fn killed(store: &Store, pending: (Key, u64), total: u64) {
        let mut locked = locked(store);
        locked.state.pending = Some(pending);
        locked.state.total = total;
        locked.write().unwrap();
    }

    #[test]
    fn the_total_is_right_after_a_kill_at_any_step() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        assert_eq!(locked(&store).state.total, 3 * size);
        // About to put a fourth one, which never got its name.
        killed(&store, (key(4), 0), 3 * size);
        assert_eq!(locked(&store).state.total, 3 * size);
        // The third one has its name, but is not in the total.
        killed(&store, (key(3), 0), 2 * size);
        assert_eq!(locked(&store).state.total, 3 * size);
        // It replaced one of half its size.
        killed(&store, (key(3), size / 2), 2 * size + size / 2);
        assert_eq!(locked(&store).state.total, 3 * size);
        // About to remove one that is there still, and one that is not.
        killed(&store, (key(2), size), 3 * size);
        assert_eq!(locked(&store).state.total, 3 * size);
        fs::remove_file(store.path(&key(2))).unwrap();
        killed(&store, (key(2), size), 3 * size);
        assert_eq!(locked(&store).state.total, 2 * size);
    }

    #[test]
    fn blobs_that_are_put_together_are_evicted_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        let blob = Blob::new(&key(1), &Provenance::default(), &[9; 1000]);
        let blobs = [(key(4), &blob), (key(5), &blob), (key(6), &blob)];
        let placed = store.put(&blobs, 4 * size, Origin::Compiled).unwrap();
        assert!(placed.iter().all(Result::is_ok), "{placed:?}");
        assert_eq!(locked(&store).state.total, 4 * size);
        assert_eq!(scan::scan(store.root()).unwrap().blobs.len(), 4);
        assert!(store.contains(&key(6)));
    }

    #[test]
    fn what_is_quarantined_again_and_again_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        let blob = Blob::new(&key(1), &Provenance::default(), &[1; 1000]);
        for _ in 0..5 {
            store.quarantine(&key(1), None).unwrap();
            store
                .put(&[(key(1), &blob)], u64::MAX, Origin::Compiled)
                .unwrap();
        }
        assert_eq!(locked(&store).state.total, 4 * size);
        assert_eq!(scan::scan(store.root()).unwrap().total(), 4 * size);
    }

    #[test]
    fn a_queue_that_is_used_up_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        let mut locked = locked(&store);
        locked.recount().unwrap();
        assert_eq!(locked.state.queue, (0, 3));
        // Used since they were queued: skipped, and found by the next count.
        for n in 1..=3 {
            let file = File::options().write(true).open(store.path(&key(n)));
            let earlier = SystemTime::now() - Duration::from_secs(1000 - u64::from(n));
            file.unwrap().set_modified(earlier).unwrap();
        }
        let evicted = locked.evict_for(0, 2 * size, None).unwrap();
        assert_eq!(evicted, Some(vec![key(1)]));
        assert_eq!(
            locked.evict_for(0, 2 * size, None).unwrap(),
            Some(Vec::new())
        );
        // More than there is room for at all.
        assert_eq!(locked.evict_for(1, 0, None).unwrap(), None);
        assert_eq!(locked.state.total, 0);
    }
}
