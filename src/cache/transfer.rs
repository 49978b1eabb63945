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

use super::blob::{Blob, Fixed};
use super::key::Key;
use super::policy::LARGEST_MAX_SIZE;
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
        let mut moved = Moved::default();
        let mut now = Moving {
            done: 0,
            of: entries.iter().map(|entry| entry.size).sum(),
        };
        for entry in &entries {
            match self.whole(entry) {
                Some(blob) => {
                    let written = target
                        .add(&entry.key, blob.file(), entry.used)
                        .map_err(|error| CacheError::of(to, error))?;
                    moved.count(written, blob.file().len());
                }
                None => moved.skipped += 1,
            }
            now.done += entry.size;
            progress(&now);
        }
        target.close().map_err(|error| CacheError::of(to, error))?;
        Ok(moved)
    }

    /// Takes the blobs of what [`export`](Cache::export) wrote into the cache,
    /// each after a check of all of it. `progress` is told of each.
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
        let add = |file: Vec<u8>, now: &Moving| match take(store, file, limit) {
            Ok(bytes) => {
                moved.count(bytes.is_some(), bytes.unwrap_or(0));
                progress(now);
                true
            }
            Err(error) => {
                error_of_store = Some(error);
                false
            }
        };
        each_file(from, add).map_err(|error| CacheError::of(from, error))?;
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

/// Puts the blob that `file` is, and gives its size; `None` where it is there,
/// damaged or does not fit.
fn take(store: &Store, file: Vec<u8>, limit: u64) -> io::Result<Option<usize>> {
    let head = Fixed::read(&file, file.len() as u64).and_then(|fixed| fixed.head(&file));
    let key = match head {
        Ok(head) => head.key,
        Err(damage) => {
            warn!("a blob is not imported: {damage}");
            return Ok(None);
        }
    };
    if store.contains(&key) {
        return Ok(None);
    }
    let blob = match Blob::read(file, &key, false) {
        Ok(blob) => blob,
        Err(damage) => {
            warn!(key = %key.short(), "not imported: {damage}");
            return Ok(None);
        }
    };
    let length = blob.file().len();
    if length as u64 > limit {
        debug!(key = %key.short(), "not imported: larger than the cache");
        return Ok(None);
    }
    let placed = store.put(&key, &blob, limit, Origin::Elsewhere)?;
    Ok(matches!(placed, Placed::Stored(_)).then_some(length))
}

/// Hands every blob file in a folder or an archive to `f`, and how far that is
/// with it, until `f` says no.
fn each_file(from: &Path, mut f: impl FnMut(Vec<u8>, &Moving) -> bool) -> io::Result<()> {
    if from.is_dir() {
        let inside = from.join(FOLDER);
        let root = if inside.is_dir() { inside } else { from.into() };
        let blobs = scan::scan(&root)?.blobs;
        let mut now = Moving {
            done: 0,
            of: blobs.iter().map(|blob| blob.size).sum(),
        };
        for blob in blobs {
            let bytes = read(File::open(scan::path(&root, &blob.key))?, blob.size)?;
            now.done += blob.size;
            if !f(bytes, &now) {
                break;
            }
        }
        return Ok(());
    }
    let file = File::open(from)?;
    let of = file.metadata()?.len();
    let mut archive = tar::Archive::new(io::BufReader::new(file));
    for entry in archive.entries()? {
        let entry = entry?;
        let is_blob = entry.path()?.extension().is_some_and(|end| end == "blob");
        if is_blob && entry.header().entry_type().is_file() {
            let size = entry.size();
            let done = entry.raw_file_position().saturating_add(size).min(of);
            if !f(read(entry, size)?, &Moving { done, of }) {
                break;
            }
        }
    }
    Ok(())
}

/// No room is made for a length that somebody only claims.
fn read(file: impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(length.min(LARGEST_MAX_SIZE))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
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
        fs::create_dir_all(&root)?;
        readable(&root, 0o755)?;
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
                let fan = path.parent().unwrap_or(root);
                fs::create_dir_all(fan)?;
                readable(fan, 0o755)?;
                let aside = path.with_extension("partial");
                fs::write(&aside, bytes)?;
                readable(&aside, 0o644)?;
                fs::rename(&aside, &path)?;
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

    fn close(self) -> io::Result<()> {
        if let Target::Archive {
            tar, aside, path, ..
        } = self
        {
            let mut file = tar.into_inner()?;
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(aside, path)?;
        }
        Ok(())
    }
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
