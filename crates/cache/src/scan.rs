//! Every file of a store, by reading its folders.

use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::key::Key;

/// What a store holds.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub blobs: Vec<Scanned>,
    pub bad: Vec<Bad>,
}

/// A blob, by its directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    pub key: Key,
    pub size: u64,
    pub used: SystemTime,
}

/// A quarantined file.
#[derive(Debug)]
pub(super) struct Bad {
    pub path: PathBuf,
    pub size: u64,
    pub used: SystemTime,
}

impl Scan {
    /// Bytes of all of it.
    pub(super) fn total(&self) -> u64 {
        let blobs: u64 = self.blobs.iter().map(|blob| blob.size).sum();
        let bad: u64 = self.bad.iter().map(|bad| bad.size).sum();
        blobs + bad
    }
}

/// The file of `key` in the store at `root`.
pub(super) fn path(root: &Path, key: &Key) -> PathBuf {
    let digits = key.digits();
    let (shard, rest) = digits.split_at(2);
    // `join` would parse the root again, which takes as long as all the rest.
    let mut path = OsString::with_capacity(root.as_os_str().len() + 71);
    path.push(root);
    for part in ["/", shard, "/", rest, ".blob"] {
        path.push(part);
    }
    path.into()
}

/// Everything in the store at `root`. What vanishes meanwhile is skipped.
pub(super) fn scan(root: &Path) -> io::Result<Scan> {
    let mut found = Scan::default();
    for folder in fs::read_dir(root)? {
        let folder = folder?;
        let name = folder.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_shard = name.len() == 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
        if is_shard && folder.file_type().is_ok_and(|kind| kind.is_dir()) {
            shard(&folder.path(), name, &mut found.blobs)?;
        }
    }
    found.bad = bad(root)?;
    Ok(found)
}

/// The blobs whose keys start with `digits`, two of them at least.
pub(super) fn with_prefix(root: &Path, digits: &str) -> io::Result<Vec<Scanned>> {
    let mut found = Vec::new();
    if let Some(name) = digits.get(..2) {
        shard(&root.join(name), name, &mut found)?;
        found.retain(|blob| blob.key.to_string().starts_with(digits));
    }
    Ok(found)
}

fn shard(path: &Path, name: &str, blobs: &mut Vec<Scanned>) -> io::Result<()> {
    for file in files(path)? {
        let file = file?;
        let file_name = file.file_name();
        let key = file_name
            .to_str()
            .and_then(|name| name.strip_suffix(".blob"))
            .and_then(|rest| Key::parse(&format!("{name}{rest}")));
        if let Some(key) = key
            && let Some((size, used)) = size_and_time(&file)
        {
            blobs.push(Scanned { key, size, used });
        }
    }
    Ok(())
}

/// The quarantined files, the oldest first.
pub(super) fn bad(root: &Path) -> io::Result<Vec<Bad>> {
    let mut found = Vec::new();
    for file in files(&root.join("bad"))? {
        let file = file?;
        if let Some((size, used)) = size_and_time(&file) {
            let path = file.path();
            found.push(Bad { path, size, used });
        }
    }
    found.sort_by_key(|bad| bad.used);
    Ok(found)
}

/// The files in a folder; one that is not there has none.
fn files(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<DirEntry>>> {
    match fs::read_dir(folder) {
        Ok(files) => Ok(Some(files).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

/// Of a link, the link's: `DirEntry::metadata` does not follow.
fn size_and_time(file: &DirEntry) -> Option<(u64, SystemTime)> {
    let metadata = file.metadata().ok()?;
    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some((metadata.len(), used))
}
