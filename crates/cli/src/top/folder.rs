//! What happens in the folder of a cache: which blobs come and go, and how often they are used.

use std::collections::HashMap;
use std::path::Path;

use super::metric::{BLOBS, HITS, IN_COMPILATION, KERNELS, REMOVED, SIZE, STORED};
use super::reading::{Module, Reading};
use crate::cache::{failed, kernels};
use input::ShowName as _;
use ptxkit::cache::{Cache, CacheError, Entry, Environment, Key, Policy, Tier};
use terminal::failure::Failure;

/// Where a cache has its blobs.
const BLOBS_FOLDER: &str = "ptxkit-v1";

/// A folder, and what was there at the last reading.
pub struct Folder {
    cache: Cache,
    name: String,
    /// Hits by blob; `None` before the first reading.
    seen: Option<HashMap<Key, u64>>,
    hits: u64,
    stored: u64,
    removed: u64,
}

impl Folder {
    /// The folder that the environment names, or another.
    ///
    /// # Errors
    /// The environment has none or disables the cache, or there is no such folder.
    pub fn new(path: Option<&Path>) -> Result<Folder, Failure> {
        let mut policy = Policy::from_environment(&Environment::read());
        if let Some(path) = path {
            if !path.is_dir() {
                return Err(Failure::new(format!("{}: there is no cache", path.shown()))
                    .help("--cache names the folder of CUDA_CACHE_PATH; leave it out for that of the environment"));
            }
            // The folder of the blobs is as good as the one around it.
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let parent = whole.parent().filter(|_| whole.ends_with(BLOBS_FOLDER));
            policy = policy
                .with_path(parent.unwrap_or(&whole))
                .with_enabled(true);
        }
        if !policy.enabled() {
            return Err(
                Failure::new("the cache is disabled: CUDA_CACHE_DISABLE is 1")
                    .help("--cache DIR names another, and http://…/metrics a service"),
            );
        }
        let cache = Cache::new(policy);
        let path = cache.folder().ok_or_else(|| failed(CacheError::NoFolder))?;
        Ok(Folder {
            cache,
            name: path.to_string_lossy().into_owned(),
            seen: None,
            hits: 0,
            stored: 0,
            removed: 0,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads what is there now.
    ///
    /// # Errors
    /// The folder cannot be read, or is not the user's.
    pub fn read(&mut self) -> Result<Reading, Failure> {
        let stats = self.cache.stats().map_err(failed)?;
        let compiling = self.cache.compiling().map_err(failed)?;
        let mut entries = self.cache.entries().map_err(failed)?;
        entries.retain(|entry| entry.tier == Tier::Writable);
        let now: HashMap<Key, u64> = entries.iter().map(|one| (one.key, one.hits)).collect();
        let before = self.seen.take();
        let recent = |entry: &Entry| match &before {
            Some(before) => {
                let hits = before.get(&entry.key).copied().unwrap_or(0);
                entry.hits.saturating_sub(hits)
            }
            None => 0,
        };
        let modules: Vec<Module> = entries
            .iter()
            .map(|entry| Module {
                key: entry.key.short(),
                bytes: entry.size,
                used: entry.used,
                hits: entry.hits,
                recent: recent(entry),
                target: entry.provenance.target.clone(),
                source: entry.provenance.source.clone(),
                kernels: kernels(entry),
            })
            .collect();
        match &before {
            // What was removed takes its hits along, so they are summed here.
            Some(before) => {
                self.hits += modules.iter().map(|module| module.recent).sum::<u64>();
                let is_new = |key: &&Key| !before.contains_key(key);
                self.stored += now.keys().filter(is_new).count() as u64;
                let is_gone = |key: &&Key| !now.contains_key(key);
                self.removed += before.keys().filter(is_gone).count() as u64;
            }
            None => self.hits = stats.hits,
        }
        self.seen = Some(now);
        let values = [
            (BLOBS, stats.blobs),
            (KERNELS, stats.kernels),
            (SIZE, stats.bytes),
            (HITS, self.hits),
            (IN_COMPILATION, compiling.len() as u64),
            (STORED, self.stored),
            (REMOVED, self.removed),
        ];
        Ok(Reading {
            values: values.map(|(metric, value)| (metric, value as f64)).into(),
            modules: Some(modules),
            limit: Some(stats.max_size),
        })
    }
}
