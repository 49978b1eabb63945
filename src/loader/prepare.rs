//! Slices compiled before they are needed, on all cores.

use std::sync::{Mutex, PoisonError, TryLockError};

use tracing::debug;

use super::LoadError;
use super::cores::{cores, on_all_cores};
use super::cut::{CompileSettings, Cut};
use super::modules::lock;
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
        let cut = match &self.parts {
            Parts::Cut(cut) => cut,
            Parts::Whole(loaded) => {
                if let Prepare::Kernels(names) = what {
                    for name in names {
                        loaded.module.kernel(name)?;
                    }
                }
                return Ok(());
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
            context: None,
        };
        let loads = Loads {
            cut,
            settings,
            of: slices.iter().map(|slice| kernels[*slice].len()).sum(),
            kernels: &kernels,
            ready: Mutex::default(),
            loading: Mutex::new(Loading {
                progress,
                done: 0,
                failed: None,
            }),
        };
        let prepare = |slice: &usize| loads.load(*slice, cut.fetch(*slice, settings));
        // Loads of one process hold each other up: more threads take longer for what the
        // cache has.
        let cached = slices.iter().take_while(|slice| cut.is_cached(**slice));
        let (cached, others) = slices.split_at(cached.count());
        cached.iter().for_each(prepare);
        on_all_cores(others, |_, ()| (), prepare);
        let loading = loads.loading.into_inner();
        let failed = loading.unwrap_or_else(PoisonError::into_inner).failed;
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Loads slices whose code is ready. One thread loads at a time, as in the driver; what the
/// others make ready meanwhile it loads next.
struct Loads<'a, P> {
    cut: &'a Cut,
    settings: CompileSettings<'a>,
    kernels: &'a [Vec<&'a str>],
    /// The kernels of all slices.
    of: usize,
    ready: Mutex<Vec<(usize, Result<(), LoadError>)>>,
    loading: Mutex<Loading<P>>,
}

struct Loading<P> {
    progress: P,
    done: usize,
    /// The first slice that failed.
    failed: Option<(usize, LoadError)>,
}

impl<P: FnMut(&Prepared<'_>)> Loads<'_, P> {
    /// Loads a slice whose code was fetched, unless another thread is loading and does it.
    fn load(&self, slice: usize, fetched: Result<(), LoadError>) {
        lock(&self.ready).push((slice, fetched));
        // Whoever finds another thread loading may have come after its last look.
        while !lock(&self.ready).is_empty() {
            let mut loading = match self.loading.try_lock() {
                Ok(loading) => loading,
                Err(TryLockError::Poisoned(loading)) => loading.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            for (slice, fetched) in std::mem::take(&mut *lock(&self.ready)) {
                self.load_now(slice, fetched, &mut loading);
            }
        }
    }

    fn load_now(&self, slice: usize, fetched: Result<(), LoadError>, loading: &mut Loading<P>) {
        let loaded = fetched.and_then(|()| self.cut.load(slice, self.settings));
        let last = &self.kernels[slice];
        debug!(?last, failed = loaded.is_err(), "prepared");
        if let Err(error) = loaded
            && loading
                .failed
                .as_ref()
                .is_none_or(|(first, _)| slice < *first)
        {
            loading.failed = Some((slice, error));
        }
        loading.done += last.len();
        (loading.progress)(&Prepared {
            done: loading.done,
            of: self.of,
            last,
        });
    }
}
