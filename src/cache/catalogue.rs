//! What the cache holds, for tools: a sled database derived from the blobs.
//!
//! The blobs are the truth. The catalogue saves reading each blob's header
//! again; it is opened only by whoever gets its lock, never on the way of a
//! load, and where it is locked, broken or missing the blobs are read instead.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tracing::debug;

use super::blob::Provenance;
use super::key::Key;
use super::lock::FileLock;
use super::store::{EntryKind, Store};

/// One blob, as the tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is found by.
    pub key: Key,
    /// Bytes of the file.
    pub size: u64,
    /// The time of the last use, known to the minute.
    pub used: SystemTime,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// Every blob of `store`, the last used first.
pub(super) fn list(store: &Store) -> io::Result<Vec<Listed>> {
    let catalogue = Catalogue::open(store.root());
    let mut listed = Vec::new();
    for entry in store.scan()? {
        let EntryKind::Blob(key) = entry.kind else {
            continue;
        };
        let known = catalogue
            .as_ref()
            .and_then(|catalogue| catalogue.get(&key, entry.size));
        let provenance = match known {
            Some(provenance) => provenance,
            // Evicted meanwhile, or bad: a read of it will tell.
            None => match store.provenance(&key) {
                Ok(provenance) => {
                    if let Some(catalogue) = &catalogue {
                        catalogue.put(&key, entry.size, &provenance);
                    }
                    provenance
                }
                Err(error) => {
                    debug!(key = %key.short(), "the header cannot be read: {error}");
                    continue;
                }
            },
        };
        listed.push(Listed {
            key,
            size: entry.size,
            used: entry.used,
            provenance,
        });
    }
    if let Some(catalogue) = catalogue {
        catalogue.retain(&listed);
    }
    listed.sort_by_key(|blob| std::cmp::Reverse(blob.used));
    Ok(listed)
}

/// Removes the catalogue, unless somebody has it open.
pub(super) fn remove(store: &Store) {
    if let Some(_lock) = lock(store.root()) {
        let _ = fs::remove_dir_all(store.root().join("catalogue"));
    }
}

/// The lock is this crate's own, so that an error of sled's open means damage
/// and never just another process.
fn lock(root: &Path) -> Option<FileLock> {
    let soon = Instant::now() + Duration::from_millis(50);
    FileLock::acquire(&root.join("catalogue.lock"), soon)
        .ok()
        .flatten()
}

struct Catalogue {
    // Fields drop in this order: the database closes before the lock goes.
    entries: sled::Db,
    _lock: FileLock,
}

impl Catalogue {
    fn open(root: &Path) -> Option<Catalogue> {
        let lock = lock(root)?;
        let path = root.join("catalogue");
        let open = || {
            sled::Config::new()
                .path(&path)
                .cache_capacity(8 << 20)
                .mode(sled::Mode::LowSpace)
                .open()
        };
        let entries = open().or_else(|error| {
            debug!("the catalogue is made anew: {error}");
            let _ = fs::remove_dir_all(&path);
            open()
        });
        match entries {
            Ok(entries) => Some(Catalogue {
                entries,
                _lock: lock,
            }),
            Err(error) => {
                debug!("going on without a catalogue: {error}");
                None
            }
        }
    }

    /// What is known of a blob, if it is still the one that was catalogued.
    fn get(&self, key: &Key, size: u64) -> Option<Provenance> {
        let value = self.entries.get(key.as_bytes()).ok()??;
        let (known, text) = value.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*known) == size)
            .then(|| Provenance::from_text(&String::from_utf8_lossy(text)))
    }

    fn put(&self, key: &Key, size: u64, provenance: &Provenance) {
        let mut value = size.to_le_bytes().to_vec();
        value.extend_from_slice(provenance.to_text().as_bytes());
        if let Err(error) = self.entries.insert(key.as_bytes(), value) {
            debug!(key = %key.short(), "not catalogued: {error}");
        }
    }

    /// Forgets every blob that is not in `listed`.
    fn retain(&self, listed: &[Listed]) {
        let there: std::collections::HashSet<&[u8; 32]> =
            listed.iter().map(|blob| blob.key.as_bytes()).collect();
        // An iterator of sled's may give one error for ever.
        for key in self.entries.iter().keys().map_while(Result::ok) {
            let known = <&[u8; 32]>::try_from(key.as_ref()).is_ok_and(|key| there.contains(key));
            if !known {
                let _ = self.entries.remove(key);
            }
        }
        let _ = self.entries.flush();
    }
}
