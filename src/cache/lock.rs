//! Waiting for a file lock, but not for ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An exclusive lock between processes, held by an open file: it frees itself
/// when the holder dies.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// The lock at `path`, or `None` where `deadline` passed first.
    pub(super) fn acquire(path: &Path, deadline: Instant) -> io::Result<Option<FileLock>> {
        let mut pause = Duration::from_micros(500);
        loop {
            let file = open(path)?;
            match file.try_lock() {
                // A holder removes the file when done. Whoever waited on the
                // removed one starts over with the new.
                Ok(()) if is_removed(&file)? => continue,
                Ok(()) => {
                    return Ok(Some(FileLock {
                        file,
                        path: path.to_owned(),
                    }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // std has no lock with a time limit; a short poll costs nothing
            // beside the compile that is waited for.
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Frees the lock and leaves no file behind.
    pub(super) fn remove(self) {
        // Elsewhere a removed file cannot be told from one that is there.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
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
