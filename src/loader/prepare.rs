//! Slices compiled before they are needed, on all cores.

use tracing::debug;

use super::LoadError;
use super::cores::{cores, on_all_cores};
use super::cut::{CompileSettings, Cut};
use super::sliced::{Parts, SlicedModule};
use crate::cache::Batch;

/// Which kernels of a [`SlicedModule`] to prepare.
#[derive(Clone, Copy, Debug)]
pub enum Prepare<'a> {
    /// All of them.
    All,
    /// Those of these names.
    Kernels(&'a [&'a str]),
}

/// The progress of [`SlicedModule::prepare`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Prepared<'a> {
    /// Kernels that are done, with these.
    pub done: usize,
    /// Kernels in all, with those that share a slice with one that was asked for.
    pub of: usize,
    /// Those that were done last: the kernels of one slice.
    pub last: &'a [&'a str],
}

impl SlicedModule {
    /// Compiles what is not in the cache, on all cores, and loads it: a kernel that is
    /// asked for later is there. Reports each slice to `progress`, one at a time, from
    /// any thread. To do it in the background, call it in another thread.
    ///
    /// # Errors
    /// The first in the order of the PTX, after all slices were tried.
    pub fn prepare(
        &self,
        what: Prepare<'_>,
        progress: impl FnMut(&Prepared<'_>) + Send,
    ) -> Result<(), LoadError> {
        let results = self.each_slice(what, progress, |cut, slice, settings| {
            cut.load(slice, settings).map(|_| ())
        })?;
        results.into_iter().collect()
    }

    /// Does `work` on the slices of kernels, on all cores. The results are in the order of
    /// the slices.
    pub(super) fn each_slice<R: Send>(
        &self,
        what: Prepare<'_>,
        mut progress: impl FnMut(&Prepared<'_>) + Send,
        work: impl Fn(&Cut, usize, CompileSettings<'_>) -> Result<R, LoadError> + Sync,
    ) -> Result<Vec<Result<R, LoadError>>, LoadError> {
        let cut = match &self.parts {
            Parts::Cut(cut) => cut,
            Parts::Whole(loaded) => {
                if let Prepare::Kernels(names) = what {
                    for name in names {
                        loaded.module.kernel(name)?;
                    }
                }
                return Ok(Vec::new());
            }
        };
        let kernels = cut.index.by_slice();
        let slices: Vec<usize> = match what {
            Prepare::All => (0..kernels.len()).collect(),
            Prepare::Kernels(names) => {
                let slices = names.iter().map(|name| cut.slice_of(name));
                let mut slices = slices.collect::<Result<Vec<_>, _>>()?;
                slices.sort_unstable();
                slices.dedup();
                slices
            }
        };
        // Where the slices occupy all cores, each is compiled by one thread.
        let batch = Batch::new(cut.loader.cache());
        let settings = CompileSettings {
            threads: (slices.len() >= cores()).then_some(1),
            batch: Some(&batch),
        };
        let of = slices.iter().map(|slice| kernels[*slice].len()).sum();
        let mut done = 0;
        let report = |slice: &usize, result: &Result<R, LoadError>| {
            let last = &kernels[*slice];
            debug!(?last, failed = result.is_err(), "prepared");
            done += last.len();
            progress(&Prepared { done, of, last });
        };
        Ok(on_all_cores(&slices, report, |slice| {
            work(cut, *slice, settings)
        }))
    }
}
