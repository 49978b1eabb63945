//! Room for a new blob: what the limit allows, and what has to go for it.
//!
//! Whoever puts locks the ledger, so that no two count on the same room. What
//! has to go is read off a queue: the records of the blobs that were used
//! longest ago when the folder was last counted, an eighth of all. A blob whose
//! time has changed since is passed over. When the queue is used up the folder
//! is counted again, so that a put reads the folder once in thousands of times.
//!
//! First goes what was set aside, then what an older driver made, then what
//! was used longest ago.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tracing::debug;

use super::blob::Blob;
use super::folder::{self, Owner};
use super::key::Key;
use super::ledger::{self, Ledger};
use super::lock::FileLock;
use super::scan::{self, Bad, Scan, Scanned};
use super::store::Store;

/// How long a put waits for those of others. They are short, but for one that
/// has to count a large folder.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of a record of the queue: key, time of use, size.
const RECORD: usize = 32 + 16 + 8;
/// The shortest queue, where there are as many blobs.
const LEAST_QUEUE: usize = 1024;

/// Where a blob that is put comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Compiled just now: its driver is at work here.
    Compiled,
    /// From another cache, which may serve other drivers.
    Elsewhere,
}

/// What came of a put.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is there, and these had to go for it.
    Stored(Vec<Key>),
    /// Others were at it for too long.
    Busy,
    /// Nothing more can be removed, and still there is no room.
    NoRoom,
}

impl Store {
    /// Writes `blob` and makes room for it under `limit`.
    pub(super) fn put(
        &self,
        key: &Key,
        blob: &Blob,
        limit: u64,
        origin: Origin,
    ) -> io::Result<Placed> {
        let size = blob.file().len() as u64;
        self.write_aside(key, blob, |aside| match self.enter(WAIT) {
            Entered::Room(mut room) => {
                room.check_count()?;
                if origin == Origin::Compiled {
                    room.ledger.note(key.generation());
                }
                room.place(key, size, limit, aside)
            }
            Entered::Busy => {
                fs::remove_file(aside)?;
                Ok(Placed::Busy)
            }
            Entered::NoLocks => self.place_without_lock(key, size, limit, aside),
        })
    }

    /// Locks the ledger.
    pub(super) fn enter(&self, wait: Duration) -> Entered<'_> {
        // Somebody who was stopped in the middle is not waited for again and again.
        let wait = if self.stuck.load(Ordering::Relaxed) {
            wait / 100
        } else {
            wait
        };
        let path = self.root().join("ledger");
        match FileLock::acquire(&path, Instant::now() + wait) {
            Ok(Some(lock)) => {
                self.stuck.store(false, Ordering::Relaxed);
                let ledger = Ledger::read(lock.file());
                let before_start = || {
                    lock.file()
                        .metadata()
                        .and_then(|metadata| metadata.modified())
                        .is_ok_and(ledger::is_of_before_start)
                };
                let counted = ledger.as_ref().is_some_and(Ledger::is_current) && !before_start();
                Entered::Room(Room {
                    store: self,
                    lock,
                    ledger: ledger.unwrap_or_default(),
                    counted,
                    queue: None,
                })
            }
            Ok(None) => {
                self.stuck.store(true, Ordering::Relaxed);
                Entered::Busy
            }
            Err(error) => {
                debug!("going on without the ledger: {error}");
                Entered::NoLocks
            }
        }
    }

    /// Takes bytes off the sum that are no longer there.
    pub(super) fn forget_bytes(&self, bytes: u64) -> io::Result<()> {
        // Where the ledger cannot be had, it holds too much until the next count.
        if let Entered::Room(mut room) = self.enter(WAIT / 100) {
            room.check_count()?;
            room.ledger.total = room.ledger.total.saturating_sub(bytes);
            room.close()?;
        }
        Ok(())
    }

    /// Without locks the folder is counted each time, and two writers may each
    /// take the room that the other counted on.
    fn place_without_lock(
        &self,
        key: &Key,
        size: u64,
        limit: u64,
        aside: &Path,
    ) -> io::Result<Placed> {
        let _ = fs::remove_file(self.root().join("ledger"));
        let mut scan = scan::scan(self.root())?;
        scan.blobs.retain(|blob| blob.key != *key);
        let (evicted, _) = self.reduce(scan, size, limit, |_| false)?;
        fs::rename(aside, self.path(key))?;
        Ok(Placed::Stored(evicted))
    }

    /// Removes what `goes` names, then the longest unused until `need` more
    /// bytes fit, by what `scan` found. Gives their keys and bytes.
    pub(super) fn reduce(
        &self,
        mut scan: Scan,
        need: u64,
        limit: u64,
        goes: impl Fn(&Scanned) -> bool,
    ) -> io::Result<(Vec<Key>, u64)> {
        let before = scan.total();
        let mut total = before;
        in_order(&mut scan.blobs, &Ledger::default());
        let mut evicted = Vec::new();
        for bad in &scan.bad {
            if total.saturating_add(need) > limit {
                remove(&bad.path)?;
                total = total.saturating_sub(bad.size);
            }
        }
        for blob in &scan.blobs {
            if total.saturating_add(need) > limit || goes(blob) {
                remove(&self.path(&blob.key))?;
                total = total.saturating_sub(blob.size);
                evicted.push(blob.key);
            }
        }
        Ok((evicted, before - total))
    }

    /// What the ledger says, for tools that only read.
    pub(super) fn ledger(&self) -> Ledger {
        File::open(self.root().join("ledger"))
            .ok()
            .and_then(|file| Ledger::read(&file))
            .unwrap_or_default()
    }
}

pub(super) enum Entered<'a> {
    Room(Room<'a>),
    Busy,
    NoLocks,
}

/// The right to change what the store holds, with the ledger open.
#[derive(Debug)]
pub(super) struct Room<'a> {
    store: &'a Store,
    lock: FileLock,
    pub ledger: Ledger,
    counted: bool,
    /// Open once something has to go.
    queue: Option<File>,
}

impl Room<'_> {
    /// Sees to it that the total is right.
    pub(super) fn check_count(&mut self) -> io::Result<()> {
        if !self.counted {
            return self.count().map(drop);
        }
        // Whoever named this blob as pending is dead, or the lock would not be ours.
        if let Some((key, bytes)) = self.ledger.pending.take() {
            self.ledger.total = self
                .ledger
                .total
                .saturating_sub(bytes)
                .saturating_add(self.size_of(&key));
        }
        Ok(())
    }

    /// Counts the folder, and writes the queue of what goes next.
    pub(super) fn count(&mut self) -> io::Result<Scan> {
        let started = Instant::now();
        self.store.sweep();
        let mut scan = scan::scan(self.store.root())?;
        in_order(&mut scan.blobs, &self.ledger);
        let queued = (scan.blobs.len() / 8)
            .max(LEAST_QUEUE)
            .min(scan.blobs.len());
        self.queue = None;
        // What is not in the queue is written before what says how long it is.
        self.write_queue(&scan.blobs[..queued])?;
        self.ledger.recounted(scan.total(), queued as u64);
        self.ledger.write(self.lock.file())?;
        self.counted = true;
        debug!(
            blobs = scan.blobs.len(),
            bytes = self.ledger.total,
            us = started.elapsed().as_micros(),
            "cache counted"
        );
        Ok(scan)
    }

    /// Makes room and gives the file at `aside` its name.
    fn place(&mut self, key: &Key, size: u64, limit: u64, aside: &Path) -> io::Result<Placed> {
        let path = self.store.path(key);
        let replaced = self.size_of(key);
        let need = size.saturating_sub(replaced);
        let Some(evicted) = self.make_room(need, limit, Some(key))? else {
            fs::remove_file(aside)?;
            return Ok(Placed::NoRoom);
        };
        self.ledger.pending = Some((*key, replaced));
        self.ledger.write(self.lock.file())?;
        fs::rename(aside, &path)?;
        self.ledger.pending = None;
        self.ledger.total = self
            .ledger
            .total
            .saturating_sub(replaced)
            .saturating_add(size);
        // The blob is there: what is not written now is still pending there.
        if let Err(error) = self.ledger.write(self.lock.file()) {
            debug!("the ledger is not written: {error}");
        }
        Ok(Placed::Stored(evicted))
    }

    /// Removes blobs until `need` more bytes fit, but never `but`. `None` where
    /// that cannot be.
    pub(super) fn make_room(
        &mut self,
        need: u64,
        limit: u64,
        but: Option<&Key>,
    ) -> io::Result<Option<Vec<Key>>> {
        let mut evicted = Vec::new();
        let fits = |ledger: &Ledger| ledger.total.saturating_add(need) <= limit;
        if fits(&self.ledger) {
            return Ok(Some(evicted));
        }
        for bad in scan::bad(self.store.root())? {
            if !fits(&self.ledger) {
                self.remove_bad(&bad)?;
            }
        }
        let mut gone_since_count = true;
        while !fits(&self.ledger) {
            match self.next_in_queue()? {
                Some(next) if but == Some(&next.key) => {}
                Some(next) => {
                    if self.evict(&next)? {
                        gone_since_count = true;
                        evicted.push(next.key);
                    }
                }
                None if gone_since_count => {
                    self.count()?;
                    gone_since_count = false;
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

    /// Removes the blob of `key`, of `bytes`, and says so in the ledger.
    pub(super) fn remove(&mut self, key: &Key, bytes: u64) -> io::Result<()> {
        self.ledger.pending = Some((*key, bytes));
        self.ledger.write(self.lock.file())?;
        let removed = remove(&self.store.path(key));
        self.ledger.pending = None;
        if removed.is_ok() {
            self.ledger.total = self.ledger.total.saturating_sub(bytes);
        }
        removed
    }

    /// Removes what was set aside.
    pub(super) fn remove_bad(&mut self, bad: &Bad) -> io::Result<()> {
        remove(&bad.path)?;
        self.ledger.total = self.ledger.total.saturating_sub(bad.size);
        self.ledger.write(self.lock.file())
    }

    /// Writes the ledger after removals, which are only pending until then.
    pub(super) fn close(self) -> io::Result<()> {
        self.ledger.write(self.lock.file())
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
        let (next, length) = self.ledger.queue;
        if next >= length {
            return Ok(None);
        }
        let mut queue = match self.queue.take() {
            Some(queue) => queue,
            None => {
                let path = self.store.root().join("queue");
                let Ok((mut queue, _)) = folder::open(&path, Owner::User) else {
                    self.ledger.queue = (0, 0);
                    return Ok(None);
                };
                queue.seek(SeekFrom::Start(next * RECORD as u64))?;
                queue
            }
        };
        let mut record = [0; RECORD];
        if queue.read_exact(&mut record).is_err() {
            // Cut short or gone: counting makes a new one.
            self.ledger.queue = (0, 0);
            return Ok(None);
        }
        self.queue = Some(queue);
        self.ledger.queue.0 = next + 1;
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

/// What goes first comes first.
fn in_order(blobs: &mut [Scanned], ledger: &Ledger) {
    let now = SystemTime::now();
    blobs.sort_by_cached_key(|blob| {
        // A time in the future is of before the clock was set back, so older
        // than any that is not.
        let stale = ledger.is_stale(blob.key.generation(), blob.used);
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
    use crate::cache::provenance::Provenance;

    const FAR: Duration = Duration::from_secs(60);

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    /// A store with three blobs, and the bytes of each.
    fn store(folder: &Path) -> (Store, u64) {
        let store = Store::open(&folder.join("store")).unwrap();
        let mut size = 0;
        for n in 1..=3 {
            let blob = Blob::new(&key(n), &Provenance::default(), &[("", &[n; 1000])]);
            size = blob.file().len() as u64;
            let placed = store.put(&key(n), &blob, u64::MAX, Origin::Compiled);
            assert_eq!(placed.unwrap(), Placed::Stored(Vec::new()));
        }
        (store, size)
    }

    fn room(store: &Store) -> Room<'_> {
        match store.enter(FAR) {
            Entered::Room(mut room) => {
                room.check_count().unwrap();
                room
            }
            _ => panic!("nobody else has it"),
        }
    }

    /// Leaves the ledger as a process does that is killed in the middle.
    fn killed(store: &Store, pending: (Key, u64), total: u64) {
        let mut room = room(store);
        room.ledger.pending = Some(pending);
        room.ledger.total = total;
        room.close().unwrap();
    }

    #[test]
    fn the_sum_is_right_after_a_kill_at_any_step() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        assert_eq!(room(&store).ledger.total, 3 * size);
        // About to put a fourth one, which never got its name.
        killed(&store, (key(4), 0), 3 * size);
        assert_eq!(room(&store).ledger.total, 3 * size);
        // The third one has its name, but is not in the sum.
        killed(&store, (key(3), 0), 2 * size);
        assert_eq!(room(&store).ledger.total, 3 * size);
        // It replaced one of half its size.
        killed(&store, (key(3), size / 2), 2 * size + size / 2);
        assert_eq!(room(&store).ledger.total, 3 * size);
        // About to remove one that is there still, and one that is not.
        killed(&store, (key(2), size), 3 * size);
        assert_eq!(room(&store).ledger.total, 3 * size);
        fs::remove_file(store.path(&key(2))).unwrap();
        killed(&store, (key(2), size), 3 * size);
        assert_eq!(room(&store).ledger.total, 2 * size);
    }

    #[test]
    fn what_is_set_aside_again_and_again_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        let blob = Blob::new(&key(1), &Provenance::default(), &[("", &[1; 1000])]);
        for _ in 0..5 {
            store.set_aside(&key(1), None).unwrap();
            store
                .put(&key(1), &blob, u64::MAX, Origin::Compiled)
                .unwrap();
        }
        assert_eq!(room(&store).ledger.total, 4 * size);
        assert_eq!(scan::scan(store.root()).unwrap().total(), 4 * size);
    }

    #[test]
    fn a_queue_that_is_used_up_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (store, size) = store(folder.path());
        let mut room = room(&store);
        room.count().unwrap();
        assert_eq!(room.ledger.queue, (0, 3));
        // Used since it was queued: passed over, and found by the next count.
        for n in 1..=3 {
            let file = File::options().write(true).open(store.path(&key(n)));
            let earlier = SystemTime::now() - Duration::from_secs(1000 - u64::from(n));
            file.unwrap().set_modified(earlier).unwrap();
        }
        let evicted = room.make_room(0, 2 * size, None).unwrap();
        assert_eq!(evicted, Some(vec![key(1)]));
        assert_eq!(room.make_room(0, 2 * size, None).unwrap(), Some(Vec::new()));
        // More than there is room for at all.
        assert_eq!(room.make_room(1, 0, None).unwrap(), None);
        assert_eq!(room.ledger.total, 0);
    }
}
