//! What tools do with a cache: list, verify, prune, clear, rebuild.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tracing::{debug, warn};

use super::blob::Damage;
use super::catalogue::{Catalogue, Row, SOON};
use super::key::Key;
use super::provenance::Provenance;
use super::room::Entered;
use super::scan::{self, Scanned};
use super::store::{Found, Store};
use super::uses;
use super::{Cache, CacheError, Tier};

/// How long a tool waits for those who put.
const WAIT: Duration = Duration::from_secs(30);

/// One blob, as the tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What it is found by.
    pub key: Key,
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    /// The time of the last use, known to the minute; in a read-only folder
    /// that of its making.
    pub used: SystemTime,
    /// Hits so far, as far as they were written; not counted in a read-only
    /// folder.
    pub hits: u64,
    /// Whether a newer driver puts into this cache: such blobs go first.
    pub stale: bool,
    /// Where it lies.
    pub tier: Tier,
    /// The names of its parts; mostly one, which is empty.
    pub parts: Vec<String>,
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
    /// Bad blobs that were set aside and lie there still.
    pub bad: u64,
    /// Bytes that they may take together.
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

/// What [`Cache::prune`] removes. What was set aside or left by processes that
/// died goes in any case, and so does what an older driver made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Then the longest unused, until no more bytes than this are left.
    pub max_size: Option<u64>,
    /// And what was not used for so long.
    pub older_than: Option<Duration>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many blobs.
    pub blobs: u64,
    /// Bytes of their files, and of what was set aside.
    pub bytes: u64,
}

/// A blob that [`Cache::verify`] just looked at.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Checked<'a> {
    /// How many were looked at, this one too.
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

/// What is to be said of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is as it was put.
    Good,
    /// It is damaged, and how.
    Bad(String),
    /// It is of another version of this program, which alone can judge it.
    OtherSchema(u32),
}

/// What [`Cache::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// How many blobs are whole.
    pub good: u64,
    /// Those that are not, and why. They were set aside, but for those in
    /// read-only folders.
    pub bad: Vec<(Key, String)>,
    /// Blobs of other versions of this program.
    pub other_schema: u64,
    /// Bytes of all files that were read.
    pub bytes: u64,
}

impl Cache {
    /// Every blob there is, the last used first; those of the read-only
    /// folders come after.
    pub fn entries(&self) -> Result<Vec<Entry>, CacheError> {
        self.settle();
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
        self.settle();
        let find = |store: &Store| listed(store, scan::with_prefix(store.root(), &digits)?, false);
        let mut entries = self.tool(find)?;
        entries.extend(self.below(find));
        Ok(entries)
    }

    /// What `list` gives of the read-only folders. One that cannot be read is
    /// warned of: the others are there still.
    fn below(&self, list: impl Fn(&Store) -> io::Result<Vec<Entry>>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for store in self.lower() {
            match list(store) {
                Ok(more) => entries.extend(more),
                Err(error) => warn!(
                    "the read-only cache in {} cannot be listed: {error}",
                    store.root().display()
                ),
            }
        }
        entries
    }

    /// How full the cache is.
    pub fn stats(&self) -> Result<Stats, CacheError> {
        let mut stats = Stats {
            path: self.folder().unwrap_or_default(),
            max_size: self.policy().max_size(),
            bad: self.tool(|store| Ok(scan::bad(store.root())?.len() as u64))?,
            read_only: self
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
            stats.kernels += entry.provenance.kernels.len() as u64;
            stats.hits += entry.hits;
            stats.stale += u64::from(entry.stale);
        }
        Ok(stats)
    }

    /// Reads every blob and checks all of it; what is bad is set aside. Tells
    /// `progress` of each.
    pub fn verify(
        &self,
        mut progress: impl FnMut(&Checked<'_>),
    ) -> Result<Verification, CacheError> {
        let mut found = Verification::default();
        let upper = self.tool(|store| Ok(scan::scan(store.root())?.blobs))?;
        let mut of = upper.len();
        let mut lower = Vec::new();
        for store in self.lower() {
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
                            store.set_aside(&key, file)?;
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
        self.tool(|store| uses::take(store.root()).map(drop))?;
        #[cfg(feature = "driver")]
        self.tool(|store| super::guesses::clear(store.root()))?;
        Ok(removed)
    }

    /// Makes the catalogue anew from the blobs, and counts them.
    pub fn rebuild(&self) -> Result<Stats, CacheError> {
        self.tool(|store| {
            if !Catalogue::remove(store.root(), WAIT)? {
                return Err(io::Error::other("another process has the catalogue open"));
            }
            match store.enter(WAIT) {
                Entered::Room(mut room) => room.count().map(drop),
                Entered::Busy => Err(busy()),
                // Without locks each put counts.
                Entered::NoLocks => Ok(()),
            }
        })?;
        self.stats()
    }

    /// Removes the blobs that `goes` names, what was set aside, and then the
    /// longest unused until `limit` bytes are left.
    fn reduce(
        &self,
        limit: u64,
        goes: impl Fn(&Scanned, bool) -> bool,
    ) -> Result<Removed, CacheError> {
        self.tool(|store| {
            let mut room = match store.enter(WAIT) {
                Entered::Room(room) => room,
                Entered::Busy => return Err(busy()),
                Entered::NoLocks => {
                    let scan = scan::scan(store.root())?;
                    let (gone, bytes) = store.reduce(scan, 0, limit, |blob| goes(blob, false))?;
                    let blobs = gone.len() as u64;
                    return Ok(Removed { blobs, bytes });
                }
            };
            let scan = room.count()?;
            let before = (scan.blobs.len() as u64, scan.total());
            let mut blobs = before.0;
            for blob in &scan.blobs {
                if goes(blob, room.ledger.is_stale(blob.key.generation(), blob.used)) {
                    room.remove(&blob.key, blob.size)?;
                    blobs -= 1;
                }
            }
            for bad in &scan.bad {
                room.remove_bad(bad)?;
            }
            let evicted = room.make_room(0, limit, None)?.unwrap_or_default();
            blobs -= evicted.len() as u64;
            let removed = Removed {
                blobs: before.0 - blobs,
                bytes: before.1.saturating_sub(room.ledger.total),
            };
            room.close()?;
            Ok(removed)
        })
    }
}

fn busy() -> io::Error {
    io::Error::other("other processes are busy with it")
}

/// What is known of these blobs, the last used first. Where `all` of a store's
/// are given, the catalogue forgets the others.
fn listed(store: &Store, blobs: Vec<Scanned>, all: bool) -> io::Result<Vec<Entry>> {
    let catalogue = if store.is_read_only() {
        None
    } else {
        Catalogue::open(store.root())
    };
    let ledger = store.ledger();
    let unread = match &catalogue {
        None if !store.is_read_only() => uses::peek(store.root()),
        _ => Default::default(),
    };
    let mut entries = Vec::with_capacity(blobs.len());
    for Scanned { key, size, used } in blobs {
        let known = catalogue.as_ref().and_then(|catalogue| catalogue.get(&key));
        let row = match known {
            Some(row) if row.size == size => row,
            known => match store.open_parts(&key, false) {
                Ok(Some((_, head, provenance))) => {
                    let row = Row {
                        size,
                        hits: known.map_or(0, |row| row.hits),
                        parts: head.parts.into_iter().map(|part| part.name).collect(),
                        provenance,
                    };
                    if let Some(catalogue) = &catalogue {
                        catalogue.put(&key, &row);
                    }
                    row
                }
                // Evicted meanwhile, or bad: a read of it will tell.
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
            stale: ledger.is_stale(key.generation(), used),
            tier: if store.is_read_only() {
                Tier::ReadOnly(store.root().to_owned())
            } else {
                Tier::Writable
            },
            parts: row.parts,
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
