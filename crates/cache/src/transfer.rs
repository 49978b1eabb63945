//! Export of blobs to a folder or a tar archive, and import from there.
//!
//! The result is a cache folder: unpacked into a container image it serves as a
//! read-only folder (`PTXKIT_CACHE_READONLY`) or as `CUDA_CACHE_PATH`. Its files
//! are readable by everyone, since an image is built by one user and used by
//! another, and writable by their owner alone.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use input::{Input, ShowName as _};
use tracing::{debug, warn};

use super::blob::{Blob, Damage, Fixed};
use super::eviction::{Origin, Placed};
use super::folder::{self, Owner};
use super::key::Key;
use super::local::FOLDER;
use super::maintenance::Entry;
use super::scan;
use super::store::{Found, Store};
use super::{Cache, CacheError, Tier};

/// What [`Cache::export`] or [`Cache::import`] moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many blobs.
    pub blobs: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Blobs that were there already, were removed meanwhile, did not fit, or are of
    /// another version of this program.
    pub skipped: u64,
    /// Files that are not whole blobs. None of them was moved.
    pub damaged: Vec<Damaged>,
}

/// A file that is not a whole blob.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// The file, or its name in the archive.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// How far an export or an import is, in bytes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moving {
    /// Of the blobs that were read, those that were not moved too.
    pub done: u64,
    /// Of all of them; of an archive, its own.
    pub of: u64,
}

impl Cache {
    /// Copies the blobs that `choose` selects to `to`: a tar archive if its name
    /// ends in `.tar`, which is replaced, else a folder, which may hold others.
    /// Reports each to `progress`.
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
            target.remove_partial();
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
            match self.read_whole(entry) {
                Ok(Found::Blob(blob)) => {
                    let written = target.add(&entry.key, blob.file(), entry.used)?;
                    moved.count(written.then_some(blob.file().len()));
                }
                Ok(Found::Absent | Found::Bad(Damage::Schema { .. }, _)) => moved.count(None),
                Ok(Found::Bad(damage, _)) => moved.damage(&entry.path, &damage),
                Err(error) => moved.damage(&entry.path, &error),
            }
            now.done += entry.size;
            progress(&now);
        }
        Ok(moved)
    }

    /// Puts the blobs of what [`export`](Cache::export) wrote into the cache, each
    /// after a check of all of it. Reports each to `progress`.
    ///
    /// # Errors
    /// Files that are not whole blobs are no error: see [`Moved::damaged`]. An
    /// archive that is truncated is one, after the blobs before its end were put.
    ///
    /// # Safety
    /// The blobs must come from a cache that is trusted: a checksum shows damage, not
    /// who made a blob, and loads run the code in it.
    #[allow(unsafe_code, reason = "code in the cache is trusted")]
    pub unsafe fn import(
        &self,
        from: &Path,
        mut progress: impl FnMut(&Moving),
    ) -> Result<Moved, CacheError> {
        let path = self.folder().ok_or(CacheError::NoFolder)?;
        let store = &Store::open(&path).map_err(|error| CacheError::of(&path, error))?;
        let mut moved = Moved::default();
        let mut store_error = None;
        let limit = self.policy().max_size();
        let add = |file: BlobFile, now: &Moving| {
            let put = match file.contents {
                Ok(contents) => contents.map_or(Ok(Import::Skipped), |contents| {
                    import_blob(store, contents, limit)
                }),
                Err(why) => Ok(Import::Damaged(why)),
            };
            match put {
                Ok(Import::Stored(bytes)) => moved.count(Some(bytes)),
                Ok(Import::Skipped) => moved.count(None),
                Ok(Import::Damaged(why)) => moved.damage(&file.path, &why),
                Err(error) => {
                    store_error = Some(error);
                    return ControlFlow::Break(());
                }
            }
            progress(now);
            ControlFlow::Continue(())
        };
        each_blob_file(from, limit, add).map_err(|error| CacheError::of(from, error))?;
        match store_error {
            Some(error) => Err(CacheError::of(store.root(), error)),
            None => Ok(moved),
        }
    }

    /// The blob of an entry, all of it checked.
    pub(super) fn read_whole(&self, entry: &Entry) -> Result<Found, CacheError> {
        let found = match &entry.tier {
            Tier::Writable => self.tool(|store| store.check(&entry.key).map(Some))?,
            Tier::ReadOnly(path) => {
                let store = self
                    .local()
                    .lower()
                    .iter()
                    .find(|store| store.root() == path);
                store
                    .map(|store| self.of(store, store.check(&entry.key)))
                    .transpose()?
            }
        };
        Ok(found.unwrap_or(Found::Absent))
    }
}

impl Moved {
    /// Counts a whole blob: its bytes if it was moved.
    pub(super) fn count(&mut self, bytes: Option<usize>) {
        match bytes {
            Some(bytes) => {
                self.blobs += 1;
                self.bytes += bytes as u64;
            }
            None => self.skipped += 1,
        }
    }

    #[cfg(feature = "remote")]
    pub(super) fn add(&mut self, more: Moved) {
        self.blobs += more.blobs;
        self.bytes += more.bytes;
        self.skipped += more.skipped;
        self.damaged.extend(more.damaged);
    }

    pub(super) fn damage(&mut self, path: &Path, why: &dyn fmt::Display) {
        warn!("{} is not copied: {why}", path.shown());
        self.damaged.push(Damaged {
            path: path.to_owned(),
            why: why.to_string(),
        });
    }
}

/// What became of one file of an import.
enum Import {
    /// Its bytes.
    Stored(usize),
    Skipped,
    Damaged(String),
}

/// Puts the blob that a file holds. An error is the store's.
fn import_blob(store: &Store, file: Vec<u8>, limit: u64) -> io::Result<Import> {
    let head = Fixed::read(&file, file.len() as u64).and_then(|fixed| fixed.head(&file));
    let key = match head {
        Ok(head) => head.key,
        Err(Damage::Schema { .. }) => return Ok(Import::Skipped),
        Err(damage) => return Ok(Import::Damaged(damage.to_string())),
    };
    // One that is there but damaged is replaced.
    if let Ok(Found::Blob(_)) = store.check(&key) {
        return Ok(Import::Skipped);
    }
    let blob = match Blob::read(file, &key, false) {
        Ok(blob) => blob,
        Err(damage) => return Ok(Import::Damaged(damage.to_string())),
    };
    let bytes = blob.file().len();
    let placed = store.put(&[(key, &blob)], limit, Origin::Imported)?;
    for placed in placed {
        if let Placed::Stored(_) = placed? {
            return Ok(Import::Stored(bytes));
        }
    }
    Ok(Import::Skipped)
}

/// A file that is named like a blob.
struct BlobFile {
    path: PathBuf,
    /// Its bytes, `None` where it is larger than the cache; or why it cannot be read.
    contents: Result<Option<Vec<u8>>, String>,
}

/// Hands every blob file in a folder or an archive to `f`, with the progress so
/// far, until `f` breaks.
fn each_blob_file(
    from: &Path,
    limit: u64,
    mut f: impl FnMut(BlobFile, &Moving) -> ControlFlow<()>,
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
            let contents = folder::open(&path, Owner::Anyone)
                .and_then(|(file, metadata)| read(file, metadata.len(), limit))
                .map_err(|error| error.to_string());
            now.done += blob.size;
            if f(BlobFile { path, contents }, &now).is_break() {
                break;
            }
        }
        return Ok(());
    }
    let input = Input::open_any_size(from)?;
    let of = input.length();
    let mut archive = tar::Archive::new(EndDetector {
        reader: io::BufReader::new(input.file()),
        at_end: false,
    });
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.into_owned();
        let is_blob = path.extension().is_some_and(|end| end == "blob");
        if is_blob && entry.header().entry_type().is_file() {
            let size = entry.size();
            let done = entry.raw_file_position().saturating_add(size).min(of);
            let contents = Ok(read(entry, size, limit)?);
            if f(BlobFile { path, contents }, &Moving { done, of }).is_break() {
                return Ok(());
            }
        }
    }
    if archive.into_inner().at_end {
        let why = "the end of the archive is missing";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(())
}

/// Reads a file of `length` bytes, unless it is larger than the cache.
fn read(file: impl Read, length: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if length > limit {
        debug!(bytes = length, limit, "not imported: larger than the cache");
        return Ok(None);
    }
    // No memory is allocated for the length, which may be wrong.
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Detects reads at the end of the file. An archive has an end mark of its own
/// before that: one that was truncated between two blobs shows in no other way.
struct EndDetector<R> {
    reader: R,
    at_end: bool,
}

impl<R: Read> Read for EndDetector<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.at_end |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

/// Where blobs are exported to.
enum Target {
    Folder(PathBuf),
    /// Written to a temporary file, and renamed when it is complete.
    Archive {
        tar: tar::Builder<BufWriter<File>>,
        temporary: PathBuf,
        path: PathBuf,
        folders: HashSet<String>,
    },
}

impl Target {
    fn open(to: &Path) -> io::Result<Target> {
        if to.extension().is_some_and(|end| end == "tar") {
            let temporary = to.with_extension("tar.partial");
            return Ok(Target::Archive {
                tar: tar::Builder::new(BufWriter::new(File::create(&temporary)?)),
                temporary,
                path: to.to_owned(),
                folders: HashSet::new(),
            });
        }
        let root = to.join(FOLDER);
        make_readable(&root)?;
        Ok(Target::Folder(root))
    }

    /// Writes one blob; false where it is there already.
    fn add(&mut self, key: &Key, bytes: &[u8], used: SystemTime) -> io::Result<bool> {
        match self {
            Target::Folder(root) => {
                let path = scan::path(root, key);
                if path.exists() {
                    return Ok(false);
                }
                make_readable(path.parent().unwrap_or(root))?;
                let temporary = path.with_extension("partial");
                let written = fs::write(&temporary, bytes)
                    .and_then(|()| readable(&temporary, 0o644))
                    .and_then(|()| fs::rename(&temporary, &path));
                if written.is_err() {
                    let _ = fs::remove_file(&temporary);
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
            tar,
            temporary,
            path,
            ..
        } = self
        {
            tar.finish()?;
            let file = tar.get_mut();
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(temporary, path)?;
        }
        Ok(())
    }

    /// Removes an incomplete archive: on a full disk its space is needed.
    fn remove_partial(&self) {
        if let Target::Archive { temporary, .. } = self {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Creates a folder that everyone may read; an existing one stays as it is.
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
