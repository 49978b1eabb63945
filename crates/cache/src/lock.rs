//! File locks with a deadline.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An exclusive lock between processes on an open file: the system releases it
/// when the holder dies.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
    /// Whether somebody else held it at first.
    pub waited: bool,
}

impl FileLock {
    /// Locks the file at `path`; `None` where `deadline` passed first.
    pub(super) fn acquire(path: &Path, deadline: Instant) -> io::Result<Option<FileLock>> {
        let mut pause = Duration::from_micros(500);
        let mut waited = false;
        loop {
            let file = open(path)?;
            match try_lock(&file)? {
                Attempt::Locked => {
                    return Ok(Some(FileLock {
                        file,
                        path: path.to_owned(),
                        waited,
                    }));
                }
                Attempt::Removed => continue,
                Attempt::Held => waited = true,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // std has no lock with a deadline; polling costs nothing beside the
            // compile that is waited for.
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// The open file, for reading and writing.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Releases the lock and removes the file.
    pub(super) fn remove(self) {
        // Elsewhere a waiter cannot tell that the file was removed.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for FileLock {
    /// Closing the file is not enough: a process that was forked meanwhile has it
    /// open too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// The result of trying a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Locked,
    /// Somebody else holds it.
    Held,
    /// It is locked, but its last holder removed the file: the caller starts over
    /// with a new one.
    Removed,
}

/// Locks an open file without waiting, until it is closed.
pub(super) fn try_lock(file: &File) -> io::Result<Attempt> {
    match file.try_lock() {
        Ok(()) if is_removed(file)? => Ok(Attempt::Removed),
        Ok(()) => Ok(Attempt::Locked),
        Err(TryLockError::WouldBlock) => Ok(Attempt::Held),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether somebody holds the lock of the file at `path`. Who asks for it at this moment waits
/// half a millisecond.
pub(super) fn is_held(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    not_through_a_link(&mut options);
    let attempt = options.open(path).and_then(|file| {
        let attempt = try_lock(&file)?;
        let _ = file.unlock();
        Ok(attempt)
    });
    attempt.is_ok_and(|attempt| attempt == Attempt::Held)
}

/// Removes the file at `path` if nobody holds its lock; where locks do not work,
/// if it is older than `abandoned`.
pub(super) fn sweep(path: &Path, abandoned: Duration) {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    not_through_a_link(&mut options);
    let Ok(file) = options.open(path) else { return };
    let is_left = match try_lock(&file) {
        Ok(attempt) => attempt == Attempt::Locked,
        Err(_) => file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > abandoned)),
    };
    if is_left {
        let _ = std::fs::remove_file(path);
    }
}

fn not_through_a_link(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits() as i32);
    }
    #[cfg(not(unix))]
    let _ = options;
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    not_through_a_link(&mut options);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn is_removed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(not(unix))]
fn is_removed(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(30)
    }

    #[test]
    fn a_held_lock_is_waited_for_until_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l");
        let held = FileLock::acquire(&path, soon()).unwrap().unwrap();
        assert!(FileLock::acquire(&path, soon()).unwrap().is_none());
        held.remove();
        assert!(!path.exists());
        assert!(FileLock::acquire(&path, soon()).unwrap().is_some());
    }

    /// As another thread that forks leaves one to its child.
    #[test]
    fn a_lock_that_was_let_go_is_free_though_a_copy_of_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l");
        let held = FileLock::acquire(&path, soon()).unwrap().unwrap();
        let _copy = held.file().try_clone().unwrap();
        drop(held);
        assert!(FileLock::acquire(&path, soon()).unwrap().is_some());
    }

    #[test]
    fn never_two_holders_though_the_file_is_removed() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l");
        let holders = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let far = Instant::now() + Duration::from_secs(60);
                        let lock = FileLock::acquire(&path, far).unwrap().unwrap();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        lock.remove();
                    }
                });
            }
        });
    }
}
