//! Filling the cache before it is needed.

use std::path::Path;
use std::time::Duration;

use tracing::debug;

use super::cores::{cores, on_all_cores};
use super::cut::CompileSettings;
use super::plan::Plan;
use super::prepare::Prepared;
use super::select::Payload;
use super::{CacheUse, LoadError, Loader, SlicedReport, Source};
use crate::cache::{Batch, Key};
use crate::jit::JitOptions;
use ptx::slice::HostAccess;

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
    /// It was cut, and all its slices are in the cache now.
    Slices {
        /// The key of its index.
        index: Key,
        /// How many slices it has.
        slices: usize,
        /// How many were compiled.
        compiled: usize,
        /// How long that took, summed over threads.
        time: Duration,
    },
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
            let result = match input::read(path) {
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

    /// The same for files whose kernels are loaded by [`load_sliced`](Loader::load_sliced):
    /// those that it would cut are compiled slice by slice, on all cores. Reports each
    /// slice to `progress`, and a file that is not cut as one kernel of its name. All
    /// files are read first.
    pub fn warm_files_sliced<P: AsRef<Path> + Sync>(
        &self,
        paths: &[P],
        options: &JitOptions,
        mut progress: impl FnMut(&Prepared<'_>) + Send,
    ) -> Vec<Warmed> {
        if self.is_off() {
            let off = paths.iter().map(|path| Warmed {
                name: path.as_ref().display().to_string(),
                result: Ok(Warm::Off),
            });
            return off.collect();
        }
        let files = on_all_cores(
            paths,
            |_, _| (),
            |path| self.plan_file(path.as_ref(), options),
        );
        // A file and a slice of it; 0 for a file that is whole.
        let jobs: Vec<(usize, usize)> = files
            .iter()
            .enumerate()
            .flat_map(|(file, planned)| {
                let count = match &planned.plan {
                    Ok(Plan::Cut(cut, _)) => cut.index.slices.len(),
                    Ok(Plan::Whole(..)) => 1,
                    Ok(Plan::Binary(..)) | Err(_) => 0,
                };
                (0..count).map(move |slice| (file, slice))
            })
            .collect();
        let batch = Batch::new(self.cache());
        let settings = CompileSettings {
            threads: (jobs.len() >= cores()).then_some(1),
            batch: Some(&batch),
            context: None,
        };
        let kernels: Vec<Vec<Vec<&str>>> = files.iter().map(PlannedFile::kernels).collect();
        let of = jobs
            .iter()
            .map(|(file, slice)| kernels[*file][*slice].len())
            .sum();
        let mut done = 0;
        let report = |(file, slice): &(usize, usize), _: &_| {
            let last = &kernels[*file][*slice];
            done += last.len();
            progress(&Prepared { done, of, last });
        };
        let results = on_all_cores(&jobs, report, |(file, slice)| {
            match &files[*file].plan {
                Ok(Plan::Cut(cut, _)) => {
                    let key = cut.index.slices[*slice];
                    // Another thread may be about to store it.
                    Some(cut.code(*slice, settings).map(|code| match code.cache {
                        CacheUse::Miss => Warm::Compiled(key, code.compile),
                        _ => Warm::Hit(key),
                    }))
                }
                Ok(Plan::Whole(request, _)) => {
                    let request = request.with_threads(settings.threads);
                    let code = self.cached_or_compiled(&request);
                    Some(code.map(|code| self.warm_of(request.key, code.cache, code.compile)))
                }
                Ok(Plan::Binary(..)) | Err(_) => None,
            }
        });
        let mut results = results.into_iter().flatten();
        drop(kernels);
        files
            .into_iter()
            .map(|PlannedFile { name, plan }| {
                let result = plan.and_then(|plan| match plan {
                    Plan::Binary(..) => Ok(Warm::Binary),
                    Plan::Whole(request, _) => {
                        let warm = results.next().transpose()?;
                        Ok(warm.unwrap_or(Warm::NotKept(request.key)))
                    }
                    Plan::Cut(cut, report) => {
                        let slices = cut.index.slices.len();
                        let warm: Vec<_> = results.by_ref().take(slices).collect();
                        self.warm_of_slices(&report, warm)
                    }
                });
                Warmed { name, result }
            })
            .collect()
    }

    fn is_off(&self) -> bool {
        !self.cache().policy().enabled() || self.cache().folder().is_none()
    }

    fn plan_file(&self, path: &Path, options: &JitOptions) -> PlannedFile {
        let name = path.display().to_string();
        let plan = match input::read(path) {
            // Nothing of it is loaded.
            Ok(bytes) => {
                let plan = self.plan(&Source::trusted(&name, &bytes), options, HostAccess::Writes);
                plan.map(Plan::into_owned)
            }
            Err(source) => Err(LoadError::Read {
                path: path.to_owned(),
                source,
            }),
        };
        PlannedFile { name, plan }
    }

    /// What became of a module whose slices were warmed.
    fn warm_of_slices(
        &self,
        report: &SlicedReport,
        warm: Vec<Result<Warm, LoadError>>,
    ) -> Result<Warm, LoadError> {
        let Some(index) = report.key else {
            return Ok(Warm::Off);
        };
        let slices = warm.len();
        let (mut compiled, mut time) = (0, Duration::ZERO);
        let mut is_kept = self.cache().contains(&index);
        for warm in warm {
            match warm? {
                Warm::Compiled(key, took) => {
                    compiled += 1;
                    time += took;
                    is_kept &= self.cache().contains(&key);
                }
                Warm::Hit(key) => is_kept &= self.cache().contains(&key),
                _ => is_kept = false,
            }
        }
        Ok(if is_kept {
            Warm::Slices {
                index,
                slices,
                compiled,
                time,
            }
        } else {
            Warm::NotKept(index)
        })
    }

    fn warm_one(&self, source: &Source<'_>, options: &JitOptions) -> Result<Warm, LoadError> {
        if self.is_off() {
            return Ok(Warm::Off);
        }
        let selected = self.select(source, options)?;
        let Payload::Ptx(ptx) = selected.payload else {
            return Ok(Warm::Binary);
        };
        let request = self.request(source, ptx, selected.reason, options)?;
        let compiled = self.cached_or_compiled(&request)?;
        Ok(self.warm_of(request.key, compiled.cache, compiled.compile))
    }

    fn warm_of(&self, key: Key, used: CacheUse, time: Duration) -> Warm {
        match used {
            CacheUse::Hit | CacheUse::Shared => Warm::Hit(key),
            CacheUse::Miss if self.cache().contains(&key) => Warm::Compiled(key, time),
            CacheUse::Miss | CacheUse::Off => Warm::NotKept(key),
        }
    }
}

/// A file, and how it is cut.
struct PlannedFile {
    name: String,
    plan: Result<Plan<'static>, LoadError>,
}

impl PlannedFile {
    /// What the progress names of each of its slices.
    fn kernels(&self) -> Vec<Vec<&str>> {
        match &self.plan {
            Ok(Plan::Cut(cut, _)) => cut.index.by_slice(),
            Ok(Plan::Whole(..)) => vec![vec![&self.name]],
            Ok(Plan::Binary(..)) | Err(_) => Vec::new(),
        }
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
