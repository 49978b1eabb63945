//! Filling the cache before it is needed.

use std::path::Path;
use std::time::Duration;

use tracing::debug;

use super::cores::{cores, on_all_cores};
use super::select::Payload;
use super::{CacheUse, LoadError, Loader, Source};
use crate::cache::Key;
use crate::jit::JitOptions;

/// The result for one source.
#[derive(Debug)]
#[non_exhaustive]
pub struct Warmed {
    /// The name of the source.
    pub name: String,
    /// Whether its code is in the cache, or why not.
    pub result: Result<Warm, LoadError>,
}

/// What became of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// Its code was in the cache.
    Hit(Key),
    /// It was compiled in this time, and is in the cache now.
    Compiled(Key, Duration),
    /// It was compiled, but not stored: it is larger than the cache, or the folder
    /// cannot be written.
    NotKept(Key),
    /// There is no cache: it was not compiled.
    Off,
    /// A binary, which is not compiled.
    Binary,
}

/// The progress of a warming.
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
    /// Compiles those of `sources` that are not in the cache, on all cores, and
    /// loads none of them. Reports each that is done to `progress`, one at a time,
    /// from any thread. The results are in the order of `sources`.
    ///
    /// With [`JitOptions::target`] it compiles for devices of another architecture
    /// than this context's: loads there that name no target find the code.
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
        let options = &sharing_cores(options, sources.len());
        on_all_cores(sources, counted(sources.len(), progress), |source| Warmed {
            name: source.name.to_owned(),
            result: self.warm_one(source, options),
        })
    }

    /// The same for files, each of which is read when it is compiled.
    pub fn warm_files<P: AsRef<Path> + Sync>(
        &self,
        paths: &[P],
        options: &JitOptions,
        progress: impl FnMut(&Progress<'_>) + Send,
    ) -> Vec<Warmed> {
        let options = &sharing_cores(options, paths.len());
        on_all_cores(paths, counted(paths.len(), progress), |path| {
            let path = path.as_ref();
            let name = path.display().to_string();
            let result = match std::fs::read(path) {
                // Nothing of it is loaded.
                Ok(bytes) => self.warm_one(&Source::trusted(&name, &bytes), options),
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
        let selected = self.select(source, options)?;
        let Payload::Ptx(ptx) = selected.payload else {
            return Ok(Warm::Binary);
        };
        let request = self.request(source, ptx, selected.reason, options)?;
        let compiled = self.cached_or_compiled(&request)?;
        let key = request.key;
        Ok(match compiled.cache {
            CacheUse::Hit | CacheUse::Shared => Warm::Hit(key),
            CacheUse::Miss if self.cache().contains(&key) => Warm::Compiled(key, compiled.compile),
            CacheUse::Miss | CacheUse::Off => Warm::NotKept(key),
        })
    }
}

/// `options` for one of `count` modules that are compiled at the same time: where
/// they occupy all cores, each is compiled by one thread, unless it says otherwise.
fn sharing_cores(options: &JitOptions, count: usize) -> JitOptions {
    JitOptions {
        threads: options.threads.or((count >= cores()).then_some(1)),
        ..*options
    }
}

/// Counts the sources that are done.
fn counted<T>(
    of: usize,
    mut progress: impl FnMut(&Progress<'_>) + Send,
) -> impl FnMut(&T, &Warmed) + Send {
    let mut done = 0;
    move |_, last| {
        debug!(source = last.name, result = ?last.result, "warmed");
        done += 1;
        progress(&Progress { done, of, last });
    }
}
