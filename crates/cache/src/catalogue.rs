//! The catalogue: a sled database with the provenance and the hits of each blob,
//! for tools that list them.
//!
//! It is derived from the blobs and saves reading each head again. It is opened
//! by whoever gets its lock, never by a load; where it is locked, damaged or
//! missing, the blobs are read instead.
//!
//! sled trusts its files, so it is given only files that it closed itself: while
//! nobody has the catalogue open a checksum of them lies beside it, and a crash
//! leaves none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::debug;
use xxhash_rust::xxh3::Xxh3;

use super::folder::{self, Owner};
use super::hit_log;
use super::key::Key;
use super::lock::FileLock;
use super::provenance::Provenance;

/// How long to wait for the lock where the blobs can be read instead.
pub(super) const SOON: Duration = Duration::from_millis(50);
/// How long whoever has the lock waits for sled's own.
const SLED_WAIT: Duration = Duration::from_secs(1);

/// What is known of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Of the file; a row with another size is of an earlier blob.
    pub size: u64,
    pub hits: u64,
    pub provenance: Provenance,
}

pub(super) struct Catalogue {
    /// Taken when it is closed.
    rows: Option<sled::Db>,
    root: PathBuf,
    _lock: FileLock,
}

impl Catalogue {
    /// Opens the catalogue of the store in `root` and adds the logged hits; `None`
    /// where another process has it, or it cannot be opened.
    pub(super) fn open(root: &Path) -> Option<Catalogue> {
        let lock = lock(root, SOON).ok()??;
        let path = root.join("catalogue");
        let said = fs::read_to_string(sum_path(root)).ok();
        // There is no checksum while the catalogue is open.
        let _ = fs::remove_file(sum_path(root));
        let is_ours = folder::check(&path, Owner::User).is_ok();
        let is_whole = is_ours && said.is_some_and(|said| sum(&path).is_ok_and(|sum| sum == said));
        if !is_whole {
            let _ = fs::remove_dir_all(&path);
            // sled would create it with the umask's mode. An error here is sled's too.
            let _ = folder::create(&path);
        }
        let open = || {
            sled::Config::new()
                .path(&path)
                .cache_capacity(8 << 20)
                .mode(sled::Mode::LowSpace)
                .open()
        };
        let deadline = Instant::now() + SLED_WAIT;
        let opened = loop {
            match open() {
                // It is intact, so it is locked: sled does not unlock it, and a child
                // that was forked meanwhile holds the lock for a while.
                Err(_) if is_whole && Instant::now() < deadline => {
                    std::thread::sleep(SOON / 10);
                }
                opened => break opened,
            }
        };
        let rows = opened.or_else(|error| {
            debug!("the catalogue is rebuilt: {error}");
            let _ = fs::remove_dir_all(&path);
            open()
        });
        match rows {
            Ok(rows) => {
                let catalogue = Catalogue {
                    rows: Some(rows),
                    root: root.to_owned(),
                    _lock: lock,
                };
                catalogue.add_hits();
                Some(catalogue)
            }
            Err(error) => {
                debug!("there is no catalogue: {error}");
                None
            }
        }
    }

    /// Removes it; false where another process has it open for longer than `wait`.
    pub(super) fn remove(root: &Path, wait: Duration) -> io::Result<bool> {
        // Where there are no locks nobody can have it open.
        let _lock = match lock(root, wait) {
            Ok(None) => return Ok(false),
            locked => locked.ok(),
        };
        let _ = fs::remove_file(sum_path(root));
        match fs::remove_dir_all(root.join("catalogue")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Row> {
        Row::read(&self.rows.as_ref()?.get(key.as_bytes()).ok()??)
    }

    pub(super) fn put(&self, key: &Key, row: &Row) {
        let Some(rows) = &self.rows else { return };
        if let Err(error) = rows.insert(key.as_bytes(), row.to_bytes()) {
            debug!(key = %key.short(), "not catalogued: {error}");
        }
    }

    /// Forgets every blob that is not in `there`.
    pub(super) fn retain(&self, there: &HashSet<Key>) {
        let Some(rows) = &self.rows else { return };
        // sled's iterator may return one error for ever.
        for key in rows.iter().keys().map_while(Result::ok) {
            let known = <[u8; 32]>::try_from(key.as_ref())
                .is_ok_and(|key| there.contains(&Key::from_bytes(key)));
            if !known {
                let _ = rows.remove(key);
            }
        }
    }

    fn add_hits(&self) {
        let hits: HashMap<Key, u64> = hit_log::take(&self.root).unwrap_or_default();
        for (key, count) in hits {
            // A row without a size is of a blob that was not read yet.
            let mut row = self.get(&key).unwrap_or_default();
            row.hits = row.hits.saturating_add(count);
            self.put(&key, &row);
        }
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        let flushed = self.rows.take().is_some_and(|rows| rows.flush().is_ok());
        if flushed && let Ok(sum) = sum(&self.root.join("catalogue")) {
            let _ = fs::write(sum_path(&self.root), sum);
        }
    }
}

impl Row {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.size.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.hits.to_le_bytes());
        bytes.extend_from_slice(self.provenance.to_text().as_bytes());
        bytes
    }

    fn read(mut bytes: &[u8]) -> Option<Row> {
        fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(*number)
        }
        let size = u64::from_le_bytes(number(&mut bytes)?);
        let hits = u64::from_le_bytes(number(&mut bytes)?);
        Some(Row {
            size,
            hits,
            provenance: Provenance::from_bytes(bytes),
        })
    }
}

/// This crate's own lock, so that an error of sled's open means damage and never
/// just another process.
fn lock(root: &Path, wait: Duration) -> io::Result<Option<FileLock>> {
    FileLock::acquire(&root.join("catalogue.lock"), Instant::now() + wait)
}

fn sum_path(root: &Path) -> PathBuf {
    root.join("catalogue.sum")
}

/// A checksum of the names and the bytes of all files in a folder, but not of its
/// path: containers reach one cache by many paths.
fn sum(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 16];
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path);
        hash.update(name.as_os_str().as_encoded_bytes());
        let mut file = fs::File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => hash.update(&buffer[..length]),
            }
        }
    }
    Ok(format!("{:032x}", hash.digest128()))
}
