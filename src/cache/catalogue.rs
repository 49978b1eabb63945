//! What the tools show without reading each blob: a sled database derived from
//! the blobs.
//!
//! The blobs are the truth. The catalogue saves reading each head again and
//! keeps how often a blob was used; it is opened only by whoever gets its lock,
//! never on the way of a load, and where it is locked, broken or missing the
//! blobs are read instead.
//!
//! sled trusts its files, so they are not handed to it unless they are those
//! that it closed: a checksum of them lies beside the folder while nobody has
//! it open, and a crash leaves none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::debug;
use twox_hash::XxHash3_128;

use super::folder::{self, Owner};
use super::key::Key;
use super::lock::FileLock;
use super::provenance::Provenance;
use super::uses;

/// How long whoever can do without it waits for it.
pub(super) const SOON: Duration = Duration::from_millis(50);
/// How long whoever has the lock waits for sled's.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Of the file; another one means that the row is of another blob.
    pub size: u64,
    pub hits: u64,
    pub parts: Vec<String>,
    pub provenance: Provenance,
}

pub(super) struct Catalogue {
    /// Taken when it is closed.
    rows: Option<sled::Db>,
    root: PathBuf,
    _lock: FileLock,
}

impl Catalogue {
    /// Opens the catalogue of the store in `root` and takes in what was used;
    /// `None` where somebody else has it, or it cannot be had.
    pub(super) fn open(root: &Path) -> Option<Catalogue> {
        let lock = lock(root, SOON).ok()??;
        let path = root.join("catalogue");
        let said = fs::read_to_string(sum_path(root)).ok();
        // From here to its close there is none.
        let _ = fs::remove_file(sum_path(root));
        let is_ours = folder::check(&path, Owner::User).is_ok();
        let is_whole = is_ours && said.is_some_and(|said| sum(&path).is_ok_and(|sum| sum == said));
        if !is_whole {
            let _ = fs::remove_dir_all(&path);
            // sled would make it as the umask has it; where this fails, it tells why.
            let _ = folder::create(&path);
        }
        let open = || {
            sled::Config::new()
                .path(&path)
                .cache_capacity(8 << 20)
                .mode(sled::Mode::LowSpace)
                .open()
        };
        let deadline = Instant::now() + PATIENCE;
        let opened = loop {
            match open() {
                // What is whole opens, unless somebody has it: sled does not unlock
                // it, so a child that was forked meanwhile keeps it for a while.
                Err(_) if is_whole && Instant::now() < deadline => {
                    std::thread::sleep(SOON / 10);
                }
                opened => break opened,
            }
        };
        let rows = opened.or_else(|error| {
            debug!("the catalogue is made anew: {error}");
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
                catalogue.take_in_uses();
                Some(catalogue)
            }
            Err(error) => {
                debug!("going on without a catalogue: {error}");
                None
            }
        }
    }

    /// Removes it, unless somebody has it open for longer than `wait`.
    pub(super) fn remove(root: &Path, wait: Duration) -> io::Result<bool> {
        // Where it cannot be locked nobody can have it open.
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
        // An iterator of sled's may give one error for ever.
        for key in rows.iter().keys().map_while(Result::ok) {
            let known = <[u8; 32]>::try_from(key.as_ref())
                .is_ok_and(|key| there.contains(&Key::from_bytes(key)));
            if !known {
                let _ = rows.remove(key);
            }
        }
    }

    fn take_in_uses(&self) {
        let uses: HashMap<Key, u64> = uses::take(&self.root).unwrap_or_default();
        for (key, count) in uses {
            // A row without a size is one of a blob that was not looked at yet.
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
        bytes.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        for part in &self.parts {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
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
        let mut parts = Vec::new();
        for _ in 0..u32::from_le_bytes(number(&mut bytes)?) {
            let length = u32::from_le_bytes(number(&mut bytes)?) as usize;
            let (part, rest) = bytes.split_at_checked(length)?;
            parts.push(String::from_utf8_lossy(part).into_owned());
            bytes = rest;
        }
        Some(Row {
            size,
            hits,
            parts,
            provenance: Provenance::from_text(&String::from_utf8_lossy(bytes)),
        })
    }
}

/// The lock is this crate's own, so that an error of sled's open means damage
/// and never just another process.
fn lock(root: &Path, wait: Duration) -> io::Result<Option<FileLock>> {
    FileLock::acquire(&root.join("catalogue.lock"), Instant::now() + wait)
}

fn sum_path(root: &Path) -> PathBuf {
    root.join("catalogue.sum")
}

/// Of the names and the bytes of all files in a folder, wherever that lies: one
/// cache is reached by many paths, from containers above all.
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
    let mut hash = XxHash3_128::new();
    let mut buffer = vec![0; 1 << 16];
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path);
        hash.write(name.as_os_str().as_encoded_bytes());
        let mut file = fs::File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => hash.write(&buffer[..length]),
            }
        }
    }
    Ok(format!("{:032x}", hash.finish_128()))
}
