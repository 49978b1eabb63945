//! Blobs as files: `ab/cdef….blob` for the key `abcdef…`.
//!
//! A blob is written aside, synced and renamed, so that a reader sees all of
//! it or none. The folder is not synced: a name lost with the power is a miss,
//! nothing worse. Nothing here takes a lock on the way of a hit.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tracing::debug;

use super::blob::{Blob, FIXED, Header, Provenance};
use super::folder;
use super::key::Key;
use super::lock::FileLock;
use super::policy::LARGEST_MAX_SIZE;

/// A hit marks the blob as used, but a blob in steady use is not written to
/// on each: eviction need not know the time of use better than this.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// A file written aside that is older than this has lost its writer.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Eviction goes on without its lock after this.
const EVICTION_WAIT: Duration = Duration::from_secs(5);

/// What a read of a key found.
#[derive(Debug)]
pub(super) enum Found {
    Blob(Blob),
    Absent,
    /// Something is there that must not be used, and why.
    Bad(String),
}

/// One file of the store, as a scan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub path: PathBuf,
    pub kind: EntryKind,
    pub size: u64,
    pub used: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryKind {
    /// A bad blob that was set aside.
    Bad,
    Blob(Key),
    /// Being written, or left by a writer that died.
    Unfinished,
}

#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    /// The store in `root`, which is made if it is missing.
    pub(super) fn open(root: &Path) -> io::Result<Store> {
        folder::create(root)?;
        Store::existing(root)
    }

    /// The store in `root`, which must be there.
    pub(super) fn existing(root: &Path) -> io::Result<Store> {
        // A relative one would lead elsewhere once the process changes its folder.
        let root = std::path::absolute(root)?;
        folder::check(&root)?;
        Ok(Store { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        let digits = key.to_string();
        self.root
            .join(&digits[..2])
            .join(format!("{}.{extension}", &digits[2..]))
    }

    /// The file that guards the compiling of `key`.
    pub(super) fn lock_path(&self, key: &Key) -> io::Result<PathBuf> {
        let path = self.path(key, "lock");
        self.fan(&path)?;
        Ok(path)
    }

    /// Makes the folder that `path` lies in.
    fn fan(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        match folder::check(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::create(parent)?;
                folder::check(parent)
            }
            checked => checked,
        }
    }

    pub(super) fn get(&self, key: &Key) -> io::Result<Found> {
        let (mut file, metadata) = match folder::open(&self.path(key, "blob")) {
            Ok(opened) => opened,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound => Ok(Found::Absent),
                    // A rename on another NFS client can leave a stale handle
                    // for a while: what was there is gone.
                    io::ErrorKind::StaleNetworkFileHandle => Ok(Found::Absent),
                    _ if folder::is_untrusted(&error) => Ok(Found::Bad(error.to_string())),
                    _ => Err(error),
                };
            }
        };
        // No room is made for what cannot be a blob: a broken file system may claim any length.
        if metadata.len() > LARGEST_MAX_SIZE {
            return Ok(Found::Bad(format!(
                "it has {} bytes, more than any cache holds",
                metadata.len()
            )));
        }
        // One byte more than the file had when it was opened: growth is damage.
        let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
        (&mut file)
            .take(metadata.len() + 1)
            .read_to_end(&mut bytes)?;
        match Blob::read(bytes, key) {
            Ok(blob) => {
                mark_used(&file, metadata.modified().ok());
                Ok(Found::Blob(blob))
            }
            Err(damage) => Ok(Found::Bad(damage.to_string())),
        }
    }

    /// Takes a bad blob out of the way, but keeps it to be looked at.
    pub(super) fn set_aside(&self, key: &Key) -> io::Result<()> {
        let aside = self.root.join("bad");
        folder::create(&aside)?;
        match fs::rename(self.path(key, "blob"), aside.join(format!("{key}.blob"))) {
            // Somebody else who found it bad was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    /// Writes `blob` and makes room for it under `limit`. Gives the keys that
    /// had to go.
    pub(super) fn put(&self, key: &Key, blob: &Blob, limit: u64) -> io::Result<Vec<Key>> {
        let path = self.path(key, "blob");
        self.fan(&path)?;
        let (file, aside) = create_aside(&path)?;
        let written = write_synced(file, blob.file()).and_then(|()| {
            // Room is made and taken under one lock, so that two writers do
            // not both count on the same room.
            let lock = self.lock_eviction();
            let evicted = self.make_room(blob.file().len() as u64, limit, key)?;
            fs::rename(&aside, &path)?;
            drop(lock);
            Ok(evicted)
        });
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }

    /// Where locks do not work, or one is stuck, the limit may be exceeded for
    /// a while; that is better than no cache.
    fn lock_eviction(&self) -> Option<FileLock> {
        let path = self.root.join("evict.lock");
        match FileLock::acquire(&path, Instant::now() + EVICTION_WAIT) {
            Ok(lock) => lock,
            Err(error) => {
                debug!("eviction goes on without a lock: {error}");
                None
            }
        }
    }

    /// Removes blobs, the longest unused first, until `need` more bytes fit.
    fn make_room(&self, need: u64, limit: u64, replaced: &Key) -> io::Result<Vec<Key>> {
        let now = SystemTime::now();
        let mut entries = self.scan()?;
        entries.retain(|entry| match entry.kind {
            EntryKind::Unfinished => {
                if now
                    .duration_since(entry.used)
                    .is_ok_and(|age| age > ABANDONED)
                {
                    let _ = fs::remove_file(&entry.path);
                }
                false
            }
            EntryKind::Blob(key) => key != *replaced,
            EntryKind::Bad => true,
        });
        let mut total: u64 = entries.iter().map(|entry| entry.size).sum();
        // What was set aside goes before anything that can still be used.
        entries.sort_by_key(|entry| (entry.kind != EntryKind::Bad, entry.used));
        let mut evicted = Vec::new();
        for entry in entries {
            if total.saturating_add(need) <= limit {
                break;
            }
            match fs::remove_file(&entry.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            total -= entry.size;
            if let EntryKind::Blob(key) = entry.kind {
                evicted.push(key);
            }
        }
        Ok(evicted)
    }

    /// Every file of the store. What vanishes meanwhile is passed over.
    pub(super) fn scan(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for fan in fs::read_dir(&self.root)? {
            let fan = fan?;
            let name = fan.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_fan = name.len() == 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
            if !(is_fan || name == "bad") || !fan.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(files) = fs::read_dir(fan.path()) else {
                continue;
            };
            for file in files {
                let file = file?;
                let file_name = file.file_name();
                let Some(file_name) = file_name.to_str() else {
                    continue;
                };
                let kind = if name == "bad" {
                    EntryKind::Bad
                } else if let Some(rest) = file_name.strip_suffix(".blob") {
                    match Key::parse(&format!("{name}{rest}")) {
                        Some(key) => EntryKind::Blob(key),
                        None => continue,
                    }
                } else if file_name.ends_with(".tmp") {
                    EntryKind::Unfinished
                } else {
                    continue;
                };
                // Of a link, the link: `DirEntry::metadata` does not follow.
                let Ok(metadata) = file.metadata() else {
                    continue;
                };
                entries.push(Entry {
                    path: file.path(),
                    kind,
                    size: metadata.len(),
                    used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                });
            }
        }
        Ok(entries)
    }

    /// The provenance of a blob, without reading or checking its payload.
    pub(super) fn provenance(&self, key: &Key) -> io::Result<Provenance> {
        let (mut file, metadata) = folder::open(&self.path(key, "blob"))?;
        let mut start = [0; FIXED];
        file.read_exact(&mut start)?;
        let header = Header::read(&start, metadata.len()).map_err(io::Error::other)?;
        let mut text = vec![0; header.provenance.len()];
        file.read_exact(&mut text)?;
        Ok(Provenance::from_text(&String::from_utf8_lossy(&text)))
    }

    /// Removes every blob and what was set aside; gives how many and how large.
    pub(super) fn clear(&self) -> io::Result<(u64, u64)> {
        let lock = self.lock_eviction();
        let (mut count, mut bytes) = (0, 0);
        for entry in self.scan()? {
            match fs::remove_file(&entry.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            if matches!(entry.kind, EntryKind::Blob(_)) {
                count += 1;
                bytes += entry.size;
            }
        }
        drop(lock);
        Ok((count, bytes))
    }
}

/// A new file beside `path`, of a name that nobody has: neither a process of
/// this number that died nor one in another container.
fn create_aside(path: &Path) -> io::Result<(File, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let aside = path.with_extension(format!("{}-{count}.tmp", std::process::id()));
        match folder::create_file(&aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((created?, aside)),
        }
    }
}

fn write_synced(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Sets the time of use, which is the file's modification time. A clock that
/// was set back leaves times in the future: those are set too.
fn mark_used(file: &File, used: Option<SystemTime>) {
    let now = SystemTime::now();
    let recent = used
        .and_then(|used| now.duration_since(used).ok())
        .is_some_and(|age| age < TOUCH_EVERY);
    if !recent && let Err(error) = file.set_modified(now) {
        // A cache on a read-only file system is still a cache.
        debug!("the time of use could not be set: {error}");
    }
}
