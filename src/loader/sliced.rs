//! Modules whose kernels are compiled when they are first used.

use std::sync::Arc;
use std::time::Duration;

use super::constant::Constant;
use super::counters::count;
use super::cut::{CompileSettings, Cut};
use super::plan::Plan;
use super::{CacheUse, LoadError, Loaded, Loader, Report, Source};
use crate::cache::Key;
use crate::driver::{Error, Global, Kernel};
use crate::jit::JitOptions;
use ptx::slice::HostAccess;

/// A module that is cut into slices: a kernel, or a few that share something, with all
/// that they reach. A slice is compiled, or found in the cache, and loaded when one of
/// its kernels is first asked for. Clones share it.
///
/// The slices mean what they mean in the whole: kernels that share a variable that any
/// of them writes are one slice. A module that cannot be cut, or where that saves no
/// time, is its only slice, and [`report`](SlicedModule::report) says why.
///
/// Slices stay loaded as long as this, and each as long as its kernels.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// # use ptxkit::{cache::{Cache, Policy}, driver::{Context, Selection, select}};
/// use ptxkit::cache::Slicing;
/// use ptxkit::jit::JitOptions;
/// use ptxkit::loader::{Loader, Prepare, Source};
///
/// # let context = Context::primary(&select(Selection::Cpu)?.device)?;
/// let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n
///     .visible .entry first() { ret; }
///     .visible .entry second() { ret; }";
/// // So small a module is cut on demand alone.
/// let cache = Cache::new(Policy::disabled().with_slicing(Slicing::Always));
/// let loader = Loader::new(context, cache);
/// let module = loader.load_sliced(&Source::new("two.ptx", ptx), &JitOptions::default())?;
/// assert_eq!(module.kernel_names(), ["first", "second"]);
/// let first = module.kernel("first")?; // compiled now
/// module.prepare(Prepare::All, |now| println!("{} of {}", now.done, now.of))?;
/// # }
/// # Ok::<(), ptxkit::loader::LoadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SlicedModule {
    pub(super) parts: Parts,
    report: Arc<SlicedReport>,
}

#[derive(Clone, Debug)]
pub(super) enum Parts {
    Whole(Arc<Loaded>),
    Cut(Arc<Cut>),
}

/// What [`Loader::load_sliced`] did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlicedReport {
    /// Which image was selected, and why.
    pub image: String,
    /// Whether the cache knew how it is cut. Of a module that is whole: how the cache
    /// was used for its code.
    pub cache: CacheUse,
    /// The key of its index in the cache, or that of the code of a module that is
    /// whole. `None` for a binary.
    pub key: Option<Key>,
    /// How many slices it has.
    pub slices: usize,
    /// Why it was not cut, where it is whole.
    pub whole: Option<String>,
    /// Reading, checking and cutting; zero where the cache knew.
    pub cut: Duration,
}

impl Loader {
    /// Selects an image as [`load`](Loader::load) does, and cuts its PTX by kernel. It
    /// reads and checks all of the PTX, and compiles nothing: each kernel is compiled
    /// when it is first asked for. The cache keeps how the module is cut, so that the
    /// next load does not read it.
    ///
    /// A module that is not cut is compiled and loaded by this call, as by `load`: PTX
    /// with mistakes, and others, of which [`SlicedReport`] says why. `PTXKIT_SLICED`, or
    /// [`Policy::with_slicing`](crate::cache::Policy::with_slicing), forbid cutting or
    /// cut small modules too.
    pub fn load_sliced(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<SlicedModule, LoadError> {
        count(&self.shared.counts.loads);
        let loaded = self.load_planned(source, options);
        match &loaded {
            Ok(module) if module.report.cache == CacheUse::Shared => {
                count(&self.shared.counts.shared);
            }
            Ok(_) => {}
            Err(_) => count(&self.shared.counts.failed),
        }
        loaded
    }

    fn load_planned(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<SlicedModule, LoadError> {
        let (loaded, report) = match self.plan(source, options, HostAccess::Writes)? {
            Plan::Cut(cut, report) => {
                return Ok(SlicedModule {
                    parts: Parts::Cut(cut),
                    report: Arc::new(report),
                });
            }
            Plan::Whole(request, report) => (self.load_request(&request)?, report),
            Plan::Binary(image, binary) => {
                // SAFETY: binaries are selected from trusted sources alone.
                let (module, load) = unsafe { self.load_binary(&binary) }?;
                let report = Report {
                    load,
                    ..Report::new(image.clone(), CacheUse::Off)
                };
                let why = "it is a binary".to_owned();
                (Loaded { module, report }, SlicedReport::whole(image, why))
            }
        };
        let report = SlicedReport {
            cache: loaded.report.cache,
            key: loaded.report.key,
            ..report
        };
        Ok(SlicedModule {
            parts: Parts::Whole(Arc::new(loaded)),
            report: Arc::new(report),
        })
    }
}

impl SlicedReport {
    pub(super) fn whole(image: String, why: String) -> SlicedReport {
        SlicedReport {
            image,
            cache: CacheUse::Off,
            key: None,
            slices: 1,
            whole: Some(why),
            cut: Duration::ZERO,
        }
    }

    pub(super) fn cut(
        cut: &Cut,
        image: String,
        cache: CacheUse,
        key: Key,
        time: Duration,
    ) -> SlicedReport {
        SlicedReport {
            image,
            cache,
            key: Some(key),
            slices: cut.index.slices.len(),
            whole: None,
            cut: time,
        }
    }
}

impl SlicedModule {
    /// How it was loaded and cut.
    pub fn report(&self) -> &SlicedReport {
        &self.report
    }

    /// The names of its kernels, sorted.
    pub fn kernel_names(&self) -> Vec<String> {
        match &self.parts {
            Parts::Whole(loaded) => loaded.module.kernel_names(),
            Parts::Cut(cut) => cut.index.kernel_names(),
        }
    }

    /// A kernel. Its slice is compiled and loaded first, unless it is loaded. Threads
    /// that ask for one slice wait for one compile; different slices are compiled at
    /// once.
    ///
    /// [`Kernel::module`] is the slice: its other kernels are those that share
    /// something with this one.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], and whatever [`Loader::load`] reports. Where the
    /// compiler names lines, they are those of the whole PTX. A slice that does not
    /// compile is not compiled again.
    pub fn kernel(&self, name: &str) -> Result<Kernel, LoadError> {
        let module = match &self.parts {
            Parts::Whole(loaded) => &loaded.module,
            Parts::Cut(cut) => {
                &cut.load(cut.slice_of(name)?, CompileSettings::default())?
                    .module
            }
        };
        Ok(module.kernel(name)?)
    }

    /// How the slice of a kernel was loaded; `None` while it is not.
    pub fn kernel_report(&self, name: &str) -> Option<&Report> {
        match &self.parts {
            Parts::Whole(loaded) => Some(&loaded.report),
            Parts::Cut(cut) => Some(&cut.loaded(cut.index.kernel(name)?)?.report),
        }
    }

    /// A variable that is in one slice, which is loaded for it. All kernels that access
    /// it are in that slice.
    ///
    /// # Errors
    /// [`Error::UnknownGlobal`], also for a name that a compiler invented, as `$str`.
    /// [`LoadError::Copied`] for a [`constant`](SlicedModule::constant), and for a private
    /// variable that several slices read and none writes.
    pub fn global(&self, name: &str) -> Result<Global, LoadError> {
        let cut = match &self.parts {
            Parts::Whole(loaded) => return Ok(loaded.module.global(name)?),
            Parts::Cut(cut) => cut,
        };
        let variable = cut.index.variable(name).ok_or_else(|| unknown(name))?;
        match &variable.slices[..] {
            [slice] if !variable.is_constant => Ok(cut
                .load(*slice, CompileSettings::default())?
                .module
                .global(name)?),
            _ => Err(LoadError::Copied {
                variable: name.to_owned(),
            }),
        }
    }

    /// A constant, of which each slice that reads it has a copy. Loads none of them. A
    /// private `.global` variable that several slices read and none writes is one too.
    ///
    /// # Errors
    /// [`Error::UnknownGlobal`] where there is no constant of that name.
    pub fn constant(&self, name: &str) -> Result<Constant, LoadError> {
        match &self.parts {
            Parts::Whole(loaded) => Ok(Constant::whole(loaded.module.global(name)?)),
            Parts::Cut(cut) => {
                let variable = cut.index.variable(name);
                let constant = variable.filter(|found| found.is_constant || found.slices.len() > 1);
                Ok(Constant::of(cut, constant.ok_or_else(|| unknown(name))?)?)
            }
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::UnknownGlobal {
        name: name.to_owned(),
    }
}
