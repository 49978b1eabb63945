//! Blobs as files: `ab/cdef….blob` for the key `abcdef…`.
//!
//! A blob is written to a temporary file and renamed, so that a reader sees all
//! of it or none. Nothing is synced: what a power failure loses or tears is a
//! miss. A hit takes no lock.
//!
//! | in the folder | what |
//! |---|---|
//! | `ab/` … | the blobs, in shards by the first two digits of their keys |
//! | `bad/` | the quarantine: damaged blobs, until their space is needed |
//! | `tmp/` | blobs that are being written, locked by their writers |
//! | `locks/` | one file for each key that is being compiled |
//! | `state`, `queue` | the size of the blobs together, and what is evicted next |
//! | `hits`, `catalogue*` | for tools: how often blobs were used, and their provenance |

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tracing::debug;

use super::blob::{Blob, Damage, Fixed};
use super::contents::Contents;
use super::folder::{self, Owner};
use super::hit_log;
use super::key::Key;
use super::lock::{self, Attempt};
use super::policy::LARGEST_MAX_SIZE;
use super::provenance::Provenance;
use super::scan;
use super::verified::{Identity, Verified};

/// A hit sets the blob's modification time, which eviction goes by, at most this
/// often. The access time does not serve: every backup changes it, and many
/// mounts do not record it.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// Where files cannot be locked, a temporary file older than this is taken for
/// abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// What a read of a key found.
#[derive(Debug)]
pub(super) enum Found {
    Blob(Blob),
    Absent,
    /// There is a file that must not be used: why, and its identity if it could be
    /// opened.
    Bad(Damage, Option<Identity>),
}

#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    owner: Owner,
    /// The shards whose owner and mode were checked: each is checked once.
    /// A bit each.
    shards: [AtomicU64; 4],
    verified: Verified,
    swept: AtomicBool,
    /// Whether the last wait for the lock on the state file timed out.
    pub(super) stuck: AtomicBool,
}

impl Store {
    /// The store in `root`, which is made if it is missing.
    pub(super) fn open(root: &Path) -> io::Result<Store> {
        match Store::existing(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::create(root)?;
                Store::existing(root)
            }
            opened => opened,
        }
    }

    /// The store in `root`, which must be there.
    pub(super) fn existing(root: &Path) -> io::Result<Store> {
        Store::of(root, Owner::User)
    }

    /// The store in `root`, which is never written to.
    pub(super) fn read_only(root: &Path) -> io::Result<Store> {
        Store::of(root, Owner::UserOrRoot)
    }

    fn of(root: &Path, owner: Owner) -> io::Result<Store> {
        folder::check(root, owner)?;
        Ok(Store {
            root: root.to_owned(),
            owner,
            shards: Default::default(),
            verified: Verified::default(),
            swept: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.owner == Owner::UserOrRoot
    }

    pub(super) fn path(&self, key: &Key) -> PathBuf {
        scan::path(&self.root, key)
    }

    /// The file that is locked while `key` is compiled.
    pub(super) fn lock_path(&self, key: &Key) -> io::Result<PathBuf> {
        Ok(self.inner("locks")?.join(format!("{key}.lock")))
    }

    /// The keys whose file is locked.
    pub(super) fn compiling(&self) -> io::Result<Vec<Key>> {
        let files = match std::fs::read_dir(self.root.join("locks")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut keys = Vec::new();
        for file in files {
            let file = file?;
            let name = file.file_name();
            let key = name.to_str().and_then(|name| name.strip_suffix(".lock"));
            if let Some(key) = key.and_then(Key::parse)
                && lock::is_held(&file.path())
            {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// A folder of the store, made if it is missing.
    fn inner(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        match folder::check(&path, self.owner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::create(&path)?;
                folder::check(&path, self.owner)?;
            }
            checked => checked?,
        }
        Ok(path)
    }

    /// Checks the shard of `key`, once.
    fn check_shard(&self, key: &Key) -> io::Result<()> {
        let first = key.as_bytes()[0];
        let checked = &self.shards[usize::from(first / 64)];
        let bit = 1 << (first % 64);
        if checked.load(Ordering::Relaxed) & bit == 0 {
            folder::check(&self.root.join(format!("{first:02x}")), self.owner)?;
            checked.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the shard of `key` if it is missing. Each write checks: the whole store
    /// may have been removed under a running program.
    fn make_shard(&self, key: &Key) -> io::Result<()> {
        self.inner(&format!("{:02x}", key.as_bytes()[0])).map(drop)
    }

    /// Opens the file of `key`: `None` where there is none.
    fn open_blob(&self, key: &Key) -> io::Result<Option<(File, fs::Metadata)>> {
        let opened = self
            .check_shard(key)
            .and_then(|()| folder::open(&self.path(key), self.owner));
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => Ok(None),
                // After a rename on another NFS client: the file is gone.
                io::ErrorKind::StaleNetworkFileHandle => Ok(None),
                _ => Err(error),
            },
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        !self.verified.ignores(key) && self.check_shard(key).is_ok() && self.path(key).is_file()
    }

    /// Reads the blob of `key`, verifies it if this process has not, and records
    /// the use.
    pub(super) fn get(&self, key: &Key) -> io::Result<Found> {
        if self.verified.ignores(key) {
            return Ok(Found::Absent);
        }
        self.read(key, true)
    }

    /// The same for tools: all of it is verified, and no use is recorded.
    pub(super) fn check(&self, key: &Key) -> io::Result<Found> {
        self.read(key, false)
    }

    fn read(&self, key: &Key, is_use: bool) -> io::Result<Found> {
        let (mut file, metadata) = match self.open_blob(key) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(Found::Absent),
            // The file is bad only where its folder is trusted.
            Err(error) if folder::is_untrusted(&error) && self.check_shard(key).is_ok() => {
                return Ok(Found::Bad(Damage::Untrusted(error.to_string()), None));
            }
            Err(error) => return Err(error),
        };
        let identity = Identity::of(&metadata);
        // A broken file system may report any length: no memory is allocated for it.
        if metadata.len() > LARGEST_MAX_SIZE {
            let damage = Damage::TooLong(metadata.len());
            return Ok(Found::Bad(damage, Some(identity)));
        }
        // A file that has grown since it was opened is damaged.
        let bytes = Contents::read(&mut file, metadata.len() as usize)?;
        let verified = is_use && self.verified.contains(key, identity);
        let blob = match Blob::read(bytes, key, verified) {
            Ok(blob) => blob,
            Err(damage) => return Ok(Found::Bad(damage, Some(identity))),
        };
        if is_use {
            let hits = self.verified.record_hit(key, identity);
            if !self.is_read_only() {
                self.append_hits(&hits);
                mark_used(&file, metadata.modified().ok());
            }
        }
        Ok(Found::Blob(blob))
    }

    /// Reads where a blob comes from, without its code. No use is recorded.
    pub(super) fn provenance(&self, key: &Key) -> io::Result<Option<Provenance>> {
        let Some((mut file, metadata)) = self.open_blob(key)? else {
            return Ok(None);
        };
        // Most heads are shorter than this: one read is enough.
        let mut start = Vec::with_capacity(4096);
        Read::by_ref(&mut file).take(4096).read_to_end(&mut start)?;
        let fixed = Fixed::read(&start, metadata.len()).map_err(io::Error::other)?;
        if fixed.head > start.len() {
            let more = (fixed.head - start.len()) as u64;
            file.take(more).read_to_end(&mut start)?;
        }
        let head = fixed.head(&start).map_err(io::Error::other)?;
        if head.key != *key {
            return Err(io::Error::other(Damage::Key));
        }
        // `head` was read from `start`, and the provenance lies in it.
        Ok(Some(Provenance::from_bytes(&start[head.provenance])))
    }

    /// Moves a bad blob to the quarantine, to be examined; one that is read-only
    /// or cannot be moved is ignored from now on. With `identity`, a blob that
    /// has replaced that file meanwhile stays.
    pub(super) fn quarantine(&self, key: &Key, identity: Option<Identity>) -> io::Result<()> {
        if self.is_read_only() {
            self.verified.ignore(key);
            return Ok(());
        }
        self.verified.forget(key);
        let is_another =
            |now: fs::Metadata| identity.is_some_and(|identity| identity != Identity::of(&now));
        if fs::symlink_metadata(self.path(key)).is_ok_and(is_another) {
            return Ok(());
        }
        let moved = self.move_to_quarantine(key);
        if moved.is_err() {
            self.verified.ignore(key);
        }
        moved
    }

    fn move_to_quarantine(&self, key: &Key) -> io::Result<()> {
        let path = self.inner("bad")?.join(format!("{key}.blob"));
        let replaced = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::rename(self.path(key), path) {
            // Another process found it bad too, and was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) if replaced == 0 => Ok(()),
            // It replaced one that was quarantined before.
            Ok(()) => self.subtract_bytes(replaced),
        }
    }

    /// Writes `blob` to a temporary file, which is to be renamed.
    pub(super) fn write_temporary(&self, key: &Key, blob: &Blob) -> io::Result<Temporary> {
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.sweep();
        }
        let temporary = self.create_temporary()?;
        self.make_shard(key)?;
        (&temporary.file).write_all(blob.file())?;
        Ok(temporary)
    }

    /// Notes that the blob of `key` is another one now.
    pub(super) fn replaced(&self, key: &Key) {
        self.verified.stop_ignoring(key);
    }

    /// A new file of a name that is not taken: by a dead process of this number,
    /// or by one in another container. Its lock shows that its writer lives.
    fn create_temporary(&self) -> io::Result<Temporary> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = self.inner("tmp")?;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{count}.tmp", std::process::id()));
            match folder::create_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => match lock::try_lock(&file) {
                    // A sweep has it, which is about to remove it.
                    Ok(Attempt::Held | Attempt::Removed) => {}
                    // Without locks the sweep goes by age.
                    Ok(Attempt::Locked) | Err(_) => {
                        return Ok(Temporary {
                            file,
                            path: Some(path),
                        });
                    }
                },
            }
        }
    }

    /// Removes what dead writers and compilers left.
    pub(super) fn sweep(&self) {
        for folder in ["tmp", "locks"] {
            for file in fs::read_dir(self.root.join(folder)).into_iter().flatten() {
                let Ok(file) = file else { break };
                lock::sweep(&file.path(), ABANDONED);
            }
        }
    }

    /// Writes the hits that are not in the log yet.
    pub(super) fn write_hits(&self) {
        if !self.is_read_only() {
            self.append_hits(&self.verified.take_hits());
        }
    }

    fn append_hits(&self, hits: &[(Key, u64)]) {
        if let Err(error) = hit_log::append(&self.root, hits) {
            debug!("hits are not logged: {error}");
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.write_hits();
    }
}

/// A file without its final name: removed when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary {
    /// Open, and locked, until it is renamed.
    file: File,
    path: Option<PathBuf>,
}

impl Temporary {
    /// Gives it its name.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, to)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Sets the time of use, which is the file's modification time. Times in the
/// future, which a clock that was set back leaves, are set too.
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
