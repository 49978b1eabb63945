//! Filling the cache before anybody waits for it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::info;

use super::choose::Chosen;
use super::compile::Text;
use super::error::explain;
use super::store::Store;
use super::{CacheUse, LoadError, Loader, Source, open};
use crate::cache::Key;
use crate::jit::JitOptions;

/// What came of one source.
#[derive(Debug)]
#[non_exhaustive]
pub struct Warmed {
    /// The name of the source.
    pub name: String,
    /// What is in the cache now, or why it is not.
    pub result: Result<Warm, LoadError>,
}

/// What the cache has of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// It was there.
    Hit(Key),
    /// It was compiled in this time, and is there now.
    Compiled(Key, Duration),
    /// It was compiled, but is not there: it is larger than the cache, or the
    /// folder cannot be written.
    NotKept(Key),
    /// There is no cache to keep it in: it was not compiled.
    Off,
    /// A binary, of which nothing is to compile.
    Binary,
}

/// How far a warming is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Sources that are done, with this one.
    pub done: usize,
    /// Sources in all.
    pub of: usize,
    /// The one that was done last.
    pub last: &'a Warmed,
}

impl Loader {
    /// Compiles what of `sources` is not in the cache yet, on all cores, and
    /// loads none of it. `progress` is told of each that is done, one at a
    /// time, from any thread. The answers come in the order of `sources`.
    ///
    /// With [`JitOptions::target`], for devices of another architecture than
    /// this context's: there, loads that name no target find it.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// # use ptxkit::{cache::{Cache, Policy}, driver::{Context, Selection, select}};
    /// use ptxkit::jit::JitOptions;
    /// use ptxkit::loader::{Loader, Source, Warm};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let context = Context::primary(&select(Selection::Cpu)?.device)?;
    /// # let cache = Cache::new(Policy::disabled().with_enabled(true).with_path(folder.path()));
    /// # let loader = Loader::new(context, cache);
    /// let ptx = b".version 8.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }";
    /// let source = Source::new("nothing.ptx", ptx);
    /// let warmed = loader.warm(&[source], &JitOptions::default(), |progress| {
    ///     println!("{} of {}: {}", progress.done, progress.of, progress.last.name);
    /// });
    /// assert!(matches!(warmed[0].result, Ok(Warm::Compiled(..))));
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn warm(
        &self,
        sources: &[Source<'_>],
        options: &JitOptions,
        progress: impl FnMut(&Progress<'_>) + Send,
    ) -> Vec<Warmed> {
        on_all_cores(sources, progress, |source| Warmed {
            name: source.name.to_owned(),
            result: self.warm_one(source, options),
        })
    }

    /// The same for files, which are read as their turn comes.
    pub fn warm_files<P: AsRef<Path> + Sync>(
        &self,
        paths: &[P],
        options: &JitOptions,
        progress: impl FnMut(&Progress<'_>) + Send,
    ) -> Vec<Warmed> {
        on_all_cores(paths, progress, |path| {
            let path = path.as_ref();
            let name = path.display().to_string();
            let result = match std::fs::read(path) {
                Ok(bytes) => self.warm_one(&Source::new(&name, &bytes), options),
                Err(source) => Err(LoadError::Read {
                    path: path.to_owned(),
                    source,
                }),
            };
            Warmed { name, result }
        })
    }

    fn warm_one(&self, source: &Source<'_>, options: &JitOptions) -> Result<Warm, LoadError> {
        if !self.cache().policy().enabled() || self.cache().folder().is_none() {
            return Ok(Warm::Off);
        }
        let image = open(source)?;
        let (chosen, reason) = self.choose(source, &image, options)?;
        let Chosen::Ptx(text) = chosen else {
            return Ok(Warm::Binary);
        };
        let text = Text {
            text: &text,
            digest: source.digest(&text),
            image: &reason,
        };
        let compiled = self
            .cached_or_compiled(source, &text, options, Store::Now)
            .map_err(|error| explain(self.context(), source.name, &image, error))?;
        let key = compiled.key;
        Ok(match compiled.cache {
            CacheUse::Hit | CacheUse::Shared => Warm::Hit(key),
            CacheUse::Miss if self.cache().contains(&key) => Warm::Compiled(key, compiled.compile),
            CacheUse::Miss | CacheUse::Off => Warm::NotKept(key),
        })
    }
}

/// Does `work` on each of `items`, the answers in their order.
fn on_all_cores<T: Sync>(
    items: &[T],
    progress: impl FnMut(&Progress<'_>) + Send,
    work: impl Fn(&T) -> Warmed + Sync,
) -> Vec<Warmed> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let answers = Mutex::new((
        0,
        progress,
        (0..items.len()).map(|_| None).collect::<Vec<_>>(),
    ));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let warmed = work(item);
            info!(source = warmed.name, result = ?warmed.result, "warmed");
            let mut answers = answers
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let (done, progress, all) = &mut *answers;
            *done += 1;
            progress(&Progress {
                done: *done,
                of: items.len(),
                last: &warmed,
            });
            all[index] = Some(warmed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(items.len()) {
            // Where no more threads are to be had, those that are do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    let (_, _, all) = answers
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    all.into_iter().flatten().collect()
}
