//! A cache to go: blobs out to a folder or a tar archive, and in again.
//!
//! What is written is a cache folder: unpacked into a container image it serves
//! as a read-only folder (`PTXKIT_CACHE_READONLY`) or as `CUDA_CACHE_PATH`. Its
//! files may be read by everyone, since an image is built by one user and used
//! by another, and written by their owner alone.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracing::{debug, warn};

use super::blob::{Blob, Damage, Fixed};
use super::folder::{self, Owner};
use super::key::Key;
use super::room::{Origin, Placed};
use super::scan;
use super::store::{Found, Store};
use super::upkeep::Entry;
use super::{Cache, CacheError, FOLDER, Tier};

/// What [`Cache::export`] or [`Cache::import`] moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many blobs.
    pub blobs: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Blobs that were there already, were damaged, or found no room.
    pub skipped: u64,
    /// Those of them that were damaged.
    pub damaged: u64,
}

/// How far an export or an import is, in bytes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moving {
    /// Of the blobs that were looked at, those passed over too.
    pub done: u64,
    /// Of all of them; of an archive, its own.
    pub of: u64,
}

impl Cache {
    /// Copies the blobs that `choose` takes to `to`: a tar archive if its name
    /// ends in `.tar`, which is made anew, else a folder, which may hold others.
    /// `progress` is told of each.
    pub fn export(
        &self,
        to: &Path,
        mut choose: impl FnMut(&Entry) -> bool,
        mut progress: impl FnMut(&Moving),
    ) -> Result<Moved, CacheError> {
        let mut entries = self.entries()?;
        let mut there = HashSet::new();
        entries.retain(|entry| choose(entry) && there.insert(entry.key));
        let mut target = Target::open(to).map_err(|error| CacheError::of(to, error))?;
        let moved = self
            .copy(&entries, &mut target, &mut progress)
            .and_then(|moved| target.close().map(|()| moved));
        if moved.is_err() {
            target.give_up();
        }
        moved.map_err(|error| CacheError::of(to, error))
    }

    fn copy(
        &self,
        entries: &[Entry],
        target: &mut Target,
        mut progress: impl FnMut(&Moving),
    ) -> io::Result<Moved> {
        let mut moved = Moved::default();
        let mut now = Moving {
            done: 0,
            of: entries.iter().map(|entry| entry.size).sum(),
        };
        for entry in entries {
            match self.whole(entry) {
                Some(blob) => {
                    let written = target.add(&entry.key, blob.file(), entry.used)?;
                    moved.count(written, blob.file().len());
                }
                None => moved.skipped += 1,
            }
            now.done += entry.size;
            progress(&now);
        }
        Ok(moved)
    }

    /// Takes the blobs of what [`export`](Cache::export) wrote into the cache,
    /// each after a check of all of it. What is no whole blob is passed over with
    /// a warning; of an archive that is cut short, the blobs before the cut are
    /// taken and the rest is an error. `progress` is told of each.
    pub fn import(
        &self,
        from: &Path,
        mut progress: impl FnMut(&Moving),
    ) -> Result<Moved, CacheError> {
        let path = self.folder().ok_or(CacheError::NoFolder)?;
        let store = &Store::open(&path).map_err(|error| CacheError::of(&path, error))?;
        let mut moved = Moved::default();
        let mut error_of_store = None;
        let limit = self.policy().max_size();
        let mut put = |file| take(store, file, limit);
        let add =
            |file: Option<Vec<u8>>, now: &Moving| match file.map_or(Ok(Taken::Skipped), &mut put) {
                Ok(taken) => {
                    moved.damaged += u64::from(matches!(taken, Taken::Damaged));
                    match taken {
                        Taken::Stored(bytes) => moved.count(true, bytes),
                        Taken::Skipped | Taken::Damaged => moved.count(false, 0),
                    }
                    progress(now);
                    true
                }
                Err(error) => {
                    error_of_store = Some(error);
                    false
                }
            };
        each_file(from, limit, add).map_err(|error| CacheError::of(from, error))?;
        match error_of_store {
            Some(error) => Err(CacheError::of(store.root(), error)),
            None => Ok(moved),
        }
    }

    /// The blob of an entry, if it is whole.
    fn whole(&self, entry: &Entry) -> Option<Blob> {
        let found = match &entry.tier {
            Tier::Writable => self
                .tool(|store| store.check(&entry.key).map(Some))
                .ok()??,
            Tier::ReadOnly(path) => {
                let store = self.lower().iter().find(|store| store.root() == path)?;
                store.check(&entry.key).ok()?
            }
        };
        match found {
            Found::Blob(blob) => Some(blob),
            Found::Absent => None,
            Found::Bad(damage, _) => {
                warn!(key = %entry.key.short(), "not exported: {damage}");
                None
            }
        }
    }
}

impl Moved {
    fn count(&mut self, moved: bool, bytes: usize) {
        if moved {
            self.blobs += 1;
            self.bytes += bytes as u64;
        } else {
            self.skipped += 1;
        }
    }
}

/// What became of a file that is to be imported.
enum Taken {
    /// With the bytes of its file.
    Stored(usize),
    /// It was there, found no room, or is of another version of this program.
    Skipped,
    Damaged,
}

/// Puts the blob that `file` is.
fn take(store: &Store, file: Vec<u8>, limit: u64) -> io::Result<Taken> {
    let head = Fixed::read(&file, file.len() as u64).and_then(|fixed| fixed.head(&file));
    let key = match head {
        Ok(head) => head.key,
        Err(damage) => {
            warn!("a blob is not imported: {damage}");
            return Ok(match damage {
                Damage::Schema { .. } => Taken::Skipped,
                _ => Taken::Damaged,
            });
        }
    };
    // One that is there but damaged is replaced.
    if let Ok(Found::Blob(_)) = store.check(&key) {
        return Ok(Taken::Skipped);
    }
    let blob = match Blob::read(file, &key, false) {
        Ok(blob) => blob,
        Err(damage) => {
            warn!(key = %key.short(), "not imported: {damage}");
            return Ok(Taken::Damaged);
        }
    };
    let length = blob.file().len();
    let placed = store.put(&key, &blob, limit, Origin::Elsewhere)?;
    Ok(match placed {
        Placed::Stored(_) => Taken::Stored(length),
        _ => Taken::Skipped,
    })
}

/// Hands every blob file in a folder or an archive to `f`, and how far that is
/// with it, until `f` says no. `None` stands for one that is passed over.
fn each_file(
    from: &Path,
    limit: u64,
    mut f: impl FnMut(Option<Vec<u8>>, &Moving) -> bool,
) -> io::Result<()> {
    if from.is_dir() {
        let inside = from.join(FOLDER);
        let root = if inside.is_dir() { inside } else { from.into() };
        let blobs = scan::scan(&root)?.blobs;
        let mut now = Moving {
            done: 0,
            of: blobs.iter().map(|blob| blob.size).sum(),
        };
        for blob in blobs {
            let path = scan::path(&root, &blob.key);
            let bytes = folder::open(&path, Owner::Anyone)
                .and_then(|(file, metadata)| read(file, metadata.len(), limit))
                .unwrap_or_else(|error| {
                    warn!("{} is not imported: {error}", path.display());
                    None
                });
            now.done += blob.size;
            if !f(bytes, &now) {
                break;
            }
        }
        return Ok(());
    }
    let file = File::open(from)?;
    let of = file.metadata()?.len();
    let mut archive = tar::Archive::new(Watched {
        reader: io::BufReader::new(file),
        is_over: false,
    });
    for entry in archive.entries()? {
        let entry = entry?;
        let is_blob = entry.path()?.extension().is_some_and(|end| end == "blob");
        if is_blob && entry.header().entry_type().is_file() {
            let size = entry.size();
            let done = entry.raw_file_position().saturating_add(size).min(of);
            if !f(read(entry, size, limit)?, &Moving { done, of }) {
                return Ok(());
            }
        }
    }
    if archive.into_inner().is_over {
        let why = "the end of the archive is missing";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(())
}

/// A file of `length` bytes, unless the cache could not hold it.
fn read(file: impl Read, length: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if length > limit {
        debug!(bytes = length, limit, "not imported: larger than the cache");
        return Ok(None);
    }
    // No room is made for a length that somebody only claims.
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Notes whether all of it was read. An archive has an end of its own before
/// that of its file: one that was cut between two blobs has no other sign of it.
struct Watched<R> {
    reader: R,
    is_over: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.is_over |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

/// Where blobs are exported to.
enum Target {
    Folder(PathBuf),
    /// Written under another name, and renamed when it is complete.
    Archive {
        tar: tar::Builder<BufWriter<File>>,
        aside: PathBuf,
        path: PathBuf,
        folders: HashSet<String>,
    },
}

impl Target {
    fn open(to: &Path) -> io::Result<Target> {
        if to.extension().is_some_and(|end| end == "tar") {
            let aside = to.with_extension("tar.partial");
            return Ok(Target::Archive {
                tar: tar::Builder::new(BufWriter::new(File::create(&aside)?)),
                aside,
                path: to.to_owned(),
                folders: HashSet::new(),
            });
        }
        let root = to.join(FOLDER);
        make_readable(&root)?;
        Ok(Target::Folder(root))
    }

    /// Writes one blob; gives whether it was not there.
    fn add(&mut self, key: &Key, bytes: &[u8], used: SystemTime) -> io::Result<bool> {
        match self {
            Target::Folder(root) => {
                let path = scan::path(root, key);
                if path.exists() {
                    return Ok(false);
                }
                make_readable(path.parent().unwrap_or(root))?;
                let aside = path.with_extension("partial");
                let written = fs::write(&aside, bytes)
                    .and_then(|()| readable(&aside, 0o644))
                    .and_then(|()| fs::rename(&aside, &path));
                if written.is_err() {
                    let _ = fs::remove_file(&aside);
                }
                written?;
            }
            Target::Archive { tar, folders, .. } => {
                let path = scan::path(Path::new(FOLDER), key);
                let seconds = used
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_secs();
                let mut header = tar::Header::new_ustar();
                header.set_mtime(seconds);
                for folder in [
                    FOLDER.to_owned(),
                    format!("{FOLDER}/{}", &key.to_string()[..2]),
                ] {
                    if folders.insert(folder.clone()) {
                        header.set_entry_type(tar::EntryType::Directory);
                        header.set_mode(0o755);
                        header.set_size(0);
                        tar.append_data(&mut header, folder, io::empty())?;
                    }
                }
                header.set_entry_type(tar::EntryType::Regular);
                header.set_mode(0o644);
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, path, bytes)?;
            }
        }
        Ok(true)
    }

    fn close(&mut self) -> io::Result<()> {
        if let Target::Archive {
            tar, aside, path, ..
        } = self
        {
            tar.finish()?;
            let file = tar.get_mut();
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(aside, path)?;
        }
        Ok(())
    }

    /// Leaves no half of an archive behind, which would take the room that is
    /// missing.
    fn give_up(&self) {
        if let Target::Archive { aside, .. } = self {
            let _ = fs::remove_file(aside);
        }
    }
}

/// Makes a folder that all may read; one that is there stays as it is.
fn make_readable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    readable(path, 0o755)
}

#[cfg(unix)]
fn readable(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn readable(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}
