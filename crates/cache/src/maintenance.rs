//! What tools do with a cache: list, verify, prune, clear, rebuild.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use input::ShowName as _;
use tracing::{debug, warn};

use super::blob::Damage;
use super::catalogue::{Catalogue, Row, SOON};
use super::eviction::Access;
use super::hit_log;
use super::key::Key;
use super::provenance::Provenance;
use super::scan::{self, Scanned};
use super::store::{Found, Store};
use super::{Cache, CacheError, Tier};

/// How long a tool waits for puts to end.
const WAIT: Duration = Duration::from_secs(30);

/// One blob, as the tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    /// The time of the last use, to the minute; in a read-only folder when it was
    /// written.
    pub used: SystemTime,
    /// Hits so far that were written to the log; not counted in a read-only folder.
    pub hits: u64,
    /// Whether a newer driver puts into this cache: stale blobs are evicted first.
    pub stale: bool,
    /// The folder it lies in.
    pub tier: Tier,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// How full the cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The folder that the blobs lie in.
    pub path: PathBuf,
    /// How many there are.
    pub blobs: u64,
    /// Bytes of the blobs' files.
    pub bytes: u64,
    /// Kernels in all of them.
    pub kernels: u64,
    /// Hits on all of them.
    pub hits: u64,
    /// How many an older driver made.
    pub stale: u64,
    /// Bad blobs in the quarantine.
    pub bad: u64,
    /// The limit on the bytes of all files.
    pub max_size: u64,
    /// The read-only folders.
    pub read_only: Vec<TierStats>,
}

/// How much a read-only folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// The folder that the blobs lie in.
    pub path: PathBuf,
    /// How many there are.
    pub blobs: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What [`Cache::prune`] removes. It always removes quarantined and stale blobs,
/// and what dead processes left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Then the least recently used, until no more than these bytes are left.
    pub max_size: Option<u64>,
    /// And what was not used for this long.
    pub older_than: Option<Duration>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many blobs.
    pub blobs: u64,
    /// Bytes of their files, and of quarantined ones.
    pub bytes: u64,
}

/// A blob that [`Cache::verify`] just checked.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Checked<'a> {
    /// How many are checked, with this one.
    pub done: usize,
    /// Of how many.
    pub of: usize,
    /// Which one this is.
    pub key: &'a Key,
    /// Bytes of its file.
    pub size: u64,
    /// What was found.
    pub verdict: &'a Verdict,
}

/// The result of checking a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is as it was put.
    Good,
    /// It is damaged, and how.
    Bad(String),
    /// It is of another version of this program, which alone can check it.
    OtherSchema(u32),
}

/// What [`Cache::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// How many blobs are whole.
    pub good: u64,
    /// Those that are not, and why. They are quarantined, except in read-only
    /// folders.
    pub bad: Vec<(Key, String)>,
    /// Blobs of other versions of this program.
    pub other_schema: u64,
    /// Bytes of all files that were read.
    pub bytes: u64,
}

impl Cache {
    /// Every blob, the last used first; those of the read-only folders follow.
    pub fn entries(&self) -> Result<Vec<Entry>, CacheError> {
        self.write_behind();
        let all = |store: &Store| listed(store, scan::scan(store.root())?.blobs, true);
        let mut entries = self.tool(all)?;
        entries.extend(self.below(all));
        Ok(entries)
    }

    /// The blobs whose keys start with these hexadecimal digits.
    pub fn find(&self, prefix: &str) -> Result<Vec<Entry>, CacheError> {
        if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Err(CacheError::NotAKey(prefix.to_owned()));
        }
        let digits = prefix.to_ascii_lowercase();
        if digits.len() < 2 {
            let mut entries = self.entries()?;
            entries.retain(|entry| entry.key.to_string().starts_with(&digits));
            return Ok(entries);
        }
        self.write_behind();
        let find = |store: &Store| listed(store, scan::with_prefix(store.root(), &digits)?, false);
        let mut entries = self.tool(find)?;
        entries.extend(self.below(find));
        Ok(entries)
    }

    /// What `list` returns for the read-only folders. One that cannot be read is a
    /// warning and keeps nobody from the others.
    fn below(&self, list: impl Fn(&Store) -> io::Result<Vec<Entry>>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for store in self.local().lower() {
            match list(store) {
                Ok(more) => entries.extend(more),
                Err(error) => warn!(
                    "the read-only cache in {} cannot be listed: {error}",
                    store.root().shown()
                ),
            }
        }
        entries
    }

    /// The keys that some thread or process compiles now, with this cache.
    ///
    /// ```
    /// use ptxkit_cache::{Cache, Policy};
    ///
    /// let folder = std::env::temp_dir().join("ptxkit-nobody-compiles");
    /// let cache = Cache::new(Policy::disabled().with_path(folder).with_enabled(true));
    /// assert!(cache.compiling()?.is_empty());
    /// # Ok::<(), ptxkit_cache::CacheError>(())
    /// ```
    pub fn compiling(&self) -> Result<Vec<Key>, CacheError> {
        self.tool(Store::compiling)
    }

    /// How full the cache is.
    pub fn stats(&self) -> Result<Stats, CacheError> {
        let mut stats = Stats {
            path: self.folder().unwrap_or_default(),
            max_size: self.policy().max_size(),
            bad: self.tool(|store| Ok(scan::bad(store.root())?.len() as u64))?,
            read_only: self
                .local()
                .lower()
                .iter()
                .map(|store| TierStats {
                    path: store.root().to_owned(),
                    ..TierStats::default()
                })
                .collect(),
            ..Stats::default()
        };
        for entry in self.entries()? {
            if let Tier::ReadOnly(path) = &entry.tier {
                let tier = stats.read_only.iter_mut().find(|tier| tier.path == *path);
                if let Some(tier) = tier {
                    tier.blobs += 1;
                    tier.bytes += entry.size;
                }
                continue;
            }
            stats.blobs += 1;
            stats.bytes += entry.size;
            // The kernels of an index are those of its slices, and optimized code is of a
            // kernel that another blob has.
            if entry.provenance.slices.is_empty() && entry.provenance.module.is_none() {
                stats.kernels += entry.provenance.kernels.len() as u64;
            }
            stats.hits += entry.hits;
            stats.stale += u64::from(entry.stale);
        }
        Ok(stats)
    }

    /// Reads every blob and checks all of it; bad ones are quarantined. Reports
    /// each to `progress`.
    pub fn verify(
        &self,
        mut progress: impl FnMut(&Checked<'_>),
    ) -> Result<Verification, CacheError> {
        let mut found = Verification::default();
        let upper = self.tool(|store| Ok(scan::scan(store.root())?.blobs))?;
        let mut of = upper.len();
        let mut lower = Vec::new();
        for store in self.local().lower() {
            let blobs = self.of(store, scan::scan(store.root()))?.blobs;
            of += blobs.len();
            lower.push((store, blobs));
        }
        let mut done = 0;
        let mut judge = |store: &Store, blobs: Vec<Scanned>| -> io::Result<()> {
            for Scanned { key, size, .. } in blobs {
                let mut file = None;
                let verdict = match store.check(&key)? {
                    Found::Blob(_) => Verdict::Good,
                    // Evicted meanwhile.
                    Found::Absent => {
                        of -= 1;
                        continue;
                    }
                    Found::Bad(Damage::Schema { found }, _) => Verdict::OtherSchema(found),
                    Found::Bad(damage, which) => {
                        file = which;
                        Verdict::Bad(damage.to_string())
                    }
                };
                done += 1;
                found.bytes += size;
                match &verdict {
                    Verdict::Good => found.good += 1,
                    Verdict::OtherSchema(_) => found.other_schema += 1,
                    Verdict::Bad(why) => {
                        found.bad.push((key, why.clone()));
                        if !store.is_read_only() {
                            store.quarantine(&key, file)?;
                        }
                    }
                }
                progress(&Checked {
                    done,
                    of,
                    key: &key,
                    size,
                    verdict: &verdict,
                });
            }
            Ok(())
        };
        self.tool(|store| judge(store, upper))?;
        for (store, blobs) in lower {
            self.of(store, judge(store, blobs))?;
        }
        Ok(found)
    }

    /// Removes what `what` says.
    pub fn prune(&self, what: &Prune) -> Result<Removed, CacheError> {
        let now = SystemTime::now();
        let is_old = |used: SystemTime| {
            what.older_than
                .is_some_and(|age| now.duration_since(used).is_ok_and(|unused| unused > age))
        };
        self.reduce(what.max_size.unwrap_or(u64::MAX), |blob, stale| {
            stale || is_old(blob.used)
        })
    }

    /// Removes every blob.
    pub fn clear(&self) -> Result<Removed, CacheError> {
        let removed = self.reduce(0, |_, _| true)?;
        self.tool(|store| Catalogue::remove(store.root(), SOON).map(drop))?;
        self.tool(|store| hit_log::take(store.root()).map(drop))?;
        Ok(removed)
    }

    /// Rebuilds the catalogue and the state file from the blobs.
    pub fn rebuild(&self) -> Result<Stats, CacheError> {
        self.tool(|store| {
            if !Catalogue::remove(store.root(), WAIT)? {
                return Err(io::Error::other("another process has the catalogue open"));
            }
            match store.lock_state(WAIT) {
                Access::Locked(mut locked) => locked.recount().map(drop),
                Access::Busy => Err(busy()),
                // Without locks each put lists the folder.
                Access::NoLocks => Ok(()),
            }
        })?;
        self.stats()
    }

    /// Removes the blobs that `is_removed` names, the quarantine, and then the least
    /// recently used until `limit` bytes are left.
    fn reduce(
        &self,
        limit: u64,
        is_removed: impl Fn(&Scanned, bool) -> bool,
    ) -> Result<Removed, CacheError> {
        self.tool(|store| {
            let mut locked = match store.lock_state(WAIT) {
                Access::Locked(locked) => locked,
                Access::Busy => return Err(busy()),
                Access::NoLocks => {
                    let scan = scan::scan(store.root())?;
                    let (removed, bytes) =
                        store.reduce(scan, 0, limit, |blob| is_removed(blob, false))?;
                    let blobs = removed.len() as u64;
                    return Ok(Removed { blobs, bytes });
                }
            };
            let scan = locked.recount()?;
            let before = (scan.blobs.len() as u64, scan.total());
            let mut blobs = before.0;
            for blob in &scan.blobs {
                let stale = locked.state.is_stale(blob.key.generation(), blob.used);
                if is_removed(blob, stale) {
                    locked.remove(&blob.key, blob.size)?;
                    blobs -= 1;
                }
            }
            for bad in &scan.bad {
                locked.remove_bad(bad)?;
            }
            let evicted = locked.evict_for(0, limit, None)?.unwrap_or_default();
            blobs -= evicted.len() as u64;
            let removed = Removed {
                blobs: before.0 - blobs,
                bytes: before.1.saturating_sub(locked.state.total),
            };
            locked.write()?;
            Ok(removed)
        })
    }
}

fn busy() -> io::Error {
    io::Error::other("other processes hold its state file locked: try again")
}

/// The entries of these blobs, the last used first. Where they are `all` of the
/// store's, the catalogue forgets the others.
fn listed(store: &Store, blobs: Vec<Scanned>, all: bool) -> io::Result<Vec<Entry>> {
    let catalogue = if store.is_read_only() {
        None
    } else {
        Catalogue::open(store.root())
    };
    let state = store.state();
    let unread = match &catalogue {
        None if !store.is_read_only() => hit_log::peek(store.root()),
        _ => Default::default(),
    };
    let mut entries = Vec::with_capacity(blobs.len());
    for Scanned { key, size, used } in blobs {
        let known = catalogue.as_ref().and_then(|catalogue| catalogue.get(&key));
        let row = match known {
            Some(row) if row.size == size => row,
            known => match store.provenance(&key) {
                Ok(Some(provenance)) => {
                    let row = Row {
                        size,
                        hits: known.map_or(0, |row| row.hits),
                        provenance,
                    };
                    if let Some(catalogue) = &catalogue {
                        catalogue.put(&key, &row);
                    }
                    row
                }
                // Evicted meanwhile.
                Ok(None) => continue,
                Err(error) => {
                    debug!(key = %key.short(), "the head cannot be read: {error}");
                    continue;
                }
            },
        };
        entries.push(Entry {
            key,
            path: store.path(&key),
            size,
            used,
            hits: row.hits + unread.get(&key).copied().unwrap_or(0),
            stale: state.is_stale(key.generation(), used),
            tier: if store.is_read_only() {
                Tier::ReadOnly(store.root().to_owned())
            } else {
                Tier::Writable
            },
            provenance: row.provenance,
        });
    }
    if let Some(catalogue) = catalogue.filter(|_| all) {
        let there: HashSet<Key> = entries.iter().map(|entry| entry.key).collect();
        catalogue.retain(&there);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    Ok(entries)
}
