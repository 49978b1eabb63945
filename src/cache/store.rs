//! Blobs as files: `ab/cdef….blob` for the key `abcdef…`.
//!
//! A blob is written aside, synced and renamed, so that a reader sees all of
//! it or none. The folder is not synced: a name lost with the power is a miss,
//! nothing worse. Nothing here takes a lock on the way of a hit.
//!
//! | in the folder | what |
//! |---|---|
//! | `ab/` … | the blobs, by the first two digits of their keys |
//! | `bad/` | blobs that were found damaged, until room is needed |
//! | `tmp/` | blobs that are being written, locked by their writers |
//! | `locks/` | one file a key that is being compiled |
//! | `guesses` | the digests that large texts had, by a hash that is faster |
//! | `ledger`, `queue` | what the blobs take together, and what goes next |
//! | `uses`, `catalogue*` | for tools: how often blobs were used, and from where they come |

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tracing::debug;

use super::blob::{Blob, Damage, Fixed, Head};
use super::folder::{self, Owner};
use super::key::Key;
use super::lock::{self, Attempt};
use super::memory::{Memory, Spare};
use super::policy::LARGEST_MAX_SIZE;
use super::provenance::Provenance;
use super::scan;
use super::seen::{Identity, Seen};
use super::uses;

/// A hit marks the blob as used by its modification time, but a blob in steady
/// use is not written to on each: eviction need not know better than this. The
/// access time would be moved by every backup, and stands still on many mounts.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// Longer than what checksums treat as short.
#[cfg(feature = "driver")]
const REHEARSED: usize = 4 << 10;
/// Where files cannot be locked, one written aside that is older than this has
/// lost its writer.
const ABANDONED: Duration = Duration::from_secs(3600);

/// What a read of a key found.
#[derive(Debug)]
pub(super) enum Found {
    Blob(Blob),
    Absent,
    /// Something is there that must not be used, why, and which file it is, if
    /// that could be opened.
    Bad(Damage, Option<Identity>),
}

#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    owner: Owner,
    /// The fans that were found trustworthy: each is looked at once.
    fans: Vec<AtomicBool>,
    seen: Seen,
    spare: Arc<Spare>,
    swept: AtomicBool,
    /// Whether somebody held the ledger for too long when it was last wanted.
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
            fans: (0..256).map(|_| AtomicBool::new(false)).collect(),
            seen: Seen::default(),
            spare: Arc::default(),
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

    /// The file that guards the compiling of `key`.
    pub(super) fn lock_path(&self, key: &Key) -> io::Result<PathBuf> {
        Ok(self.inner("locks")?.join(format!("{key}.lock")))
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

    /// Checks the folder that blobs like `key` lie in, once.
    fn check_fan(&self, key: &Key) -> io::Result<()> {
        let first = key.as_bytes()[0];
        let checked = &self.fans[usize::from(first)];
        if !checked.load(Ordering::Relaxed) {
            folder::check(&self.root.join(format!("{first:02x}")), self.owner)?;
            checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes that folder if it is missing. Who writes looks each time: somebody
    /// may have removed the whole store under a running program.
    fn make_fan(&self, key: &Key) -> io::Result<()> {
        self.inner(&format!("{:02x}", key.as_bytes()[0])).map(drop)
    }

    /// Opens the file of `key`: `None` where there is none.
    fn open_blob(&self, key: &Key) -> io::Result<Option<(File, fs::Metadata)>> {
        let opened = self
            .check_fan(key)
            .and_then(|()| folder::open(&self.path(key), self.owner));
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => Ok(None),
                // A rename on another NFS client can leave a stale handle for
                // a while: what was there is gone.
                io::ErrorKind::StaleNetworkFileHandle => Ok(None),
                _ => Err(error),
            },
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        !self.seen.shuns(key) && self.check_fan(key).is_ok() && self.path(key).is_file()
    }

    /// Reads the blob of `key`, checks it if this process has not seen it, and
    /// notes the use.
    pub(super) fn get(&self, key: &Key) -> io::Result<Found> {
        if self.seen.shuns(key) {
            return Ok(Found::Absent);
        }
        self.read(key, true)
    }

    /// Does what a hit of `key` does, but reads a file that is no blob, and checks
    /// one that was just made.
    #[cfg(feature = "driver")]
    pub(super) fn rehearse(&self, key: &Key) -> io::Result<Blob> {
        let (mut file, metadata) = folder::open(&self.root.join("ledger"), self.owner)?;
        let identity = Identity::of(&metadata);
        let length = (metadata.len() as usize).min(REHEARSED);
        let read = Memory::read(&mut file, length, &self.spare)?;
        let known = self.seen.knows(key, identity);
        let provenance = Provenance {
            kernels: vec!["nobody's".to_owned(); 16],
            image: "PTX of nobody's".to_owned(),
            ..Provenance::default()
        };
        // An array would be a page of the program, which has to be found first.
        let made = Blob::new(key, &provenance, &[("", &[1].repeat(REHEARSED))]);
        let blob = Blob::read(made.file().to_vec(), key, known).map_err(io::Error::other)?;
        self.seen.rehearse(key, identity);
        std::hint::black_box((read, made));
        Ok(blob)
    }

    /// The same for tools: all of it is checked, and no use is noted.
    pub(super) fn check(&self, key: &Key) -> io::Result<Found> {
        self.read(key, false)
    }

    fn read(&self, key: &Key, is_use: bool) -> io::Result<Found> {
        let (mut file, metadata) = match self.open_blob(key) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(Found::Absent),
            // What an untrusted folder holds is nobody's blob: only the file itself is bad.
            Err(error) if folder::is_untrusted(&error) && self.check_fan(key).is_ok() => {
                return Ok(Found::Bad(Damage::Untrusted(error.to_string()), None));
            }
            Err(error) => return Err(error),
        };
        let identity = Identity::of(&metadata);
        // No room is made for what cannot be a blob: a broken file system may claim any length.
        if metadata.len() > LARGEST_MAX_SIZE {
            let damage = Damage::TooLong(metadata.len());
            return Ok(Found::Bad(damage, Some(identity)));
        }
        // A file that has grown since it was opened is damaged.
        let bytes = Memory::read(&mut file, metadata.len() as usize, &self.spare)?;
        let known = is_use && self.seen.knows(key, identity);
        let blob = match Blob::read(bytes, key, known) {
            Ok(blob) => blob,
            Err(damage) => return Ok(Found::Bad(damage, Some(identity))),
        };
        if is_use {
            let uses = self.seen.used(key, identity);
            if !self.is_read_only() {
                self.write_uses(&uses);
                mark_used(&file, metadata.modified().ok());
            }
        }
        Ok(Found::Blob(blob))
    }

    /// Opens a blob to read parts of it; its head is checked. Whether that is a
    /// use of it, or a tool's look at it, the caller says.
    pub(super) fn open_parts(
        &self,
        key: &Key,
        is_use: bool,
    ) -> io::Result<Option<(File, Head, Provenance)>> {
        let Some((mut file, metadata)) = self.open_blob(key)? else {
            return Ok(None);
        };
        let (head, provenance) = read_head(&mut file, metadata.len())?;
        if head.key != *key {
            return Err(folder::untrusted("it holds the blob of another key".into()));
        }
        if is_use && !self.is_read_only() {
            mark_used(&file, metadata.modified().ok());
        }
        Ok(Some((file, head, provenance)))
    }

    /// Takes a bad blob out of the way, but keeps it to be looked at; what is
    /// read-only, or cannot be moved, is passed over from now on. Where `file` is
    /// said, one that was put in its place meanwhile stays.
    pub(super) fn set_aside(&self, key: &Key, file: Option<Identity>) -> io::Result<()> {
        if self.is_read_only() {
            self.seen.shun(key);
            return Ok(());
        }
        self.seen.forget(key);
        let is_another = |now: fs::Metadata| file.is_some_and(|file| file != Identity::of(&now));
        if fs::symlink_metadata(self.path(key)).is_ok_and(is_another) {
            return Ok(());
        }
        let moved = self.move_aside(key);
        if moved.is_err() {
            self.seen.shun(key);
        }
        moved
    }

    fn move_aside(&self, key: &Key) -> io::Result<()> {
        let aside = self.inner("bad")?.join(format!("{key}.blob"));
        let replaced = fs::symlink_metadata(&aside).map_or(0, |metadata| metadata.len());
        match fs::rename(self.path(key), aside) {
            // Somebody else who found it bad was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) if replaced == 0 => Ok(()),
            // One that was set aside before is gone now.
            Ok(()) => self.forget_bytes(replaced),
        }
    }

    /// Writes `blob` aside and hands it to `place`, which gives it its name.
    pub(super) fn write_aside<T>(
        &self,
        key: &Key,
        blob: &Blob,
        place: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.sweep();
        }
        let (file, aside) = self.create_aside()?;
        // `file` stays open, and locked, until the blob has its name.
        let placed = self
            .make_fan(key)
            .and_then(|()| (&file).write_all(blob.file()))
            .and_then(|()| file.sync_all())
            .and_then(|()| place(&aside));
        match placed {
            // What was passed over is replaced.
            Ok(_) => self.seen.welcome(key),
            Err(_) => drop(fs::remove_file(&aside)),
        }
        placed
    }

    /// A new file of a name that nobody has: neither a process of this number
    /// that died nor one in another container. Its lock says that its writer
    /// lives.
    fn create_aside(&self) -> io::Result<(File, PathBuf)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = self.inner("tmp")?;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let aside = folder.join(format!("{}-{count}.tmp", std::process::id()));
            match folder::create_file(&aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => match lock::try_lock(&file) {
                    // A sweep came between: it takes the file for a dead one's.
                    Ok(Attempt::Held | Attempt::Removed) => {}
                    // Without locks the sweep goes by age.
                    Ok(Attempt::Locked) | Err(_) => return Ok((file, aside)),
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

    /// Writes the uses that this process still has in mind.
    pub(super) fn settle(&self) {
        if !self.is_read_only() {
            self.write_uses(&self.seen.unwritten());
        }
    }

    fn write_uses(&self, uses: &[(Key, u64)]) {
        if let Err(error) = uses::append(&self.root, uses) {
            debug!("uses are not counted: {error}");
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Reads the head of a blob file, without its parts.
fn read_head(file: &mut File, length: u64) -> io::Result<(Head, Provenance)> {
    // Most heads are shorter than this: one read is enough.
    let mut start = Vec::with_capacity(4096);
    file.take(4096).read_to_end(&mut start)?;
    let fixed = Fixed::read(&start, length).map_err(io::Error::other)?;
    if fixed.length > start.len() {
        let more = (fixed.length - start.len()) as u64;
        file.take(more).read_to_end(&mut start)?;
    }
    let head = fixed.head(&start).map_err(io::Error::other)?;
    // The head lies within `start`, and the text within the head.
    let provenance = Provenance::from_text(&String::from_utf8_lossy(&start[head.text.clone()]));
    Ok((head, provenance))
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
