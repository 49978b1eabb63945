//! Modules whose kernels are compiled when they are first used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::compile::Request;
use super::constant::Constant;
use super::cores::on_all_cores;
use super::counters::count;
use super::cut::{Cut, WeakCut};
use super::index::{Index, digest_for_index};
use super::select::Payload;
use super::{CacheUse, LoadError, Loaded, Loader, Report, Source};
use crate::cache::{CompileLock, Key, Lookup, Provenance, Slicing};
use crate::driver::{DriverKind, Error, Global, Kernel};
use crate::jit::{self, JitOptions};
use ptx::diagnostic::Severity;
use ptx::slice::Slices;

/// A shorter text is not cut: it compiles soon enough.
const SHORTEST: usize = 64 << 10;

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

/// What to load: how a module is cut, and its PTX.
pub(super) enum Plan {
    Whole(Request<'static>, SlicedReport),
    Cut(Arc<Cut>, SlicedReport),
    Binary(String),
}

impl Loader {
    /// Selects an image as [`load`](Loader::load) does, and cuts its PTX by kernel. It
    /// reads and checks all of the PTX, and compiles nothing: each kernel is compiled
    /// when it is first asked for. The cache keeps how the module is cut, so that the
    /// next load does not read it.
    ///
    /// A module that is not cut is compiled and loaded by this call, as by `load`: PTX
    /// with mistakes, and what [`SlicedReport::whole`] says. `PTXKIT_SLICED`, or
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
        let (loaded, report) = match self.plan(source, options)? {
            Plan::Cut(cut, report) => {
                return Ok(SlicedModule {
                    parts: Parts::Cut(cut),
                    report: Arc::new(report),
                });
            }
            Plan::Whole(request, report) => (self.load_request(&request)?, report),
            Plan::Binary(image) => {
                let loaded = self.load_selected(source, options)?;
                (loaded, SlicedReport::whole(image, "it is a binary".to_owned()))
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

    /// Decides how to cut, by the cache or by reading.
    pub(super) fn plan(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<Plan, LoadError> {
        let selected = self.select(source, options)?;
        let ptx = match selected.payload {
            Payload::Ptx(ptx) => ptx,
            Payload::Binary(_) => return Ok(Plan::Binary(selected.reason)),
        };
        let request = self.request(source, ptx, selected.reason, options)?;
        let image = request.reason.clone();
        let whole = |request: Request<'_>, why: &str| {
            debug!(key = %request.key, "not cut: {why}");
            let report = SlicedReport::whole(image.clone(), why.to_owned());
            Ok(Plan::Whole(request.into_owned(), report))
        };
        let slicing = self.cache().policy().slicing();
        if slicing == Slicing::Never {
            return whole(request, "PTXKIT_SLICED or the program says so");
        }
        if slicing == Slicing::Auto && request.ptx.text().len() < SHORTEST {
            return whole(request, "it is short");
        }
        let digest = digest_for_index(source.digest(request.ptx.text()), slicing.word());
        let key = self.key(digest, &request.target, &request.options)?;
        let slot = self.sharing.then(|| self.shared.sliced.slot(&key));
        // Held while it is read and cut: other threads that want this module wait for it.
        let mut shared = slot.as_ref().map(|slot| slot.lock());
        if let Some(cut) = shared.as_deref().and_then(|cut| cut.as_ref()?.0.upgrade()) {
            debug!(%key, "the module is loaded already");
            let report = SlicedReport::cut(&cut, image, CacheUse::Shared, key, Duration::ZERO);
            return Ok(Plan::Cut(cut, report));
        }
        let (index, slices, cache, time) = self.index(&request, slicing, &key);
        if let Some(why) = &index.whole {
            return whole(request, why);
        }
        info!("selected {image}, cut into slices: {}", index.slices.len());
        let cut = Arc::new(Cut::new(self, request.into_owned(), index, slices));
        if let Some(shared) = &mut shared {
            **shared = Some(WeakCut(Arc::downgrade(&cut)));
        }
        let report = SlicedReport::cut(&cut, image, cache, key, time);
        Ok(Plan::Cut(cut, report))
    }

    /// The index of a module, from the cache or by reading it.
    fn index(
        &self,
        request: &Request<'_>,
        slicing: Slicing,
        key: &Key,
    ) -> (Index, Option<Slices>, CacheUse, Duration) {
        let (lock, cache) = match self.cache().lookup(key) {
            Lookup::Hit(blob) => match Index::read(&blob) {
                Some(index) => return (index, None, CacheUse::Hit, Duration::ZERO),
                None => {
                    self.cache().discard(key, "it is no index");
                    (None, CacheUse::Miss)
                }
            },
            Lookup::Miss(lock) => (Some(lock), CacheUse::Miss),
            // Nobody reports a failure for this key.
            Lookup::Failed(_) | Lookup::Off => (None, CacheUse::Off),
        };
        let started = Instant::now();
        let cut = self.read_and_cut(request, slicing);
        let time = started.elapsed();
        match cut {
            Ok((index, slices)) => {
                if let Some(lock) = lock {
                    self.put_index(lock, request, &index, time);
                }
                (index, slices, cache, time)
            }
            // The compiler has the last word: it may read newer PTX than this crate.
            Err(why) => (Index::whole(why), None, cache, time),
        }
    }

    /// Reads, checks and cuts; beside that, the driver's compiler is started. An error
    /// says why PTX that has mistakes is not cut.
    fn read_and_cut(
        &self,
        request: &Request<'_>,
        slicing: Slicing,
    ) -> Result<(Index, Option<Slices>), String> {
        std::thread::scope(|scope| {
            if self.context().device().driver().kind() == DriverKind::Nvidia {
                // Where there is no thread, the first kernel waits for that.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || self.start_compiler());
            }
            let text = request.ptx.text();
            let reading = ptx::read(text);
            let mut found = reading.diagnostics;
            if found.is_empty() {
                found = ptx::check(&reading.module, text);
            }
            if found.iter().any(|found| found.severity == Severity::Error) {
                return Err("there are mistakes in it".to_owned());
            }
            let slices = cut(text, &reading.module, slicing);
            if let Some(why) = slices.whole() {
                return Ok((Index::whole(why.to_string()), None));
            }
            let keys = on_all_cores(
                slices.slices(),
                |_, _| (),
                |slice| {
                    let digest = crate::cache::Digest::of(slice.text(text).as_bytes());
                    self.key(digest, &request.target, &request.options)
                },
            );
            let keys: Result<Vec<Key>, Error> = keys.into_iter().collect();
            let keys = keys.map_err(|error| error.to_string())?;
            Ok((Index::new(&reading.module, &slices, keys), Some(slices)))
        })
    }

    /// The first compile of a process loads the compiler.
    fn start_compiler(&self) {
        const NOTHING: &str = ".version 6.0\n.target sm_50\n.address_size 64\n.entry f() { ret; }\n";
        self.shared.started.call_once(|| {
            let compiled = jit::compile(self.context(), NOTHING, &JitOptions::default());
            debug!("compiler started: {:?}", compiled.map(|made| made.wall_time_ms));
        });
    }

    fn put_index(&self, lock: CompileLock, request: &Request<'_>, index: &Index, time: Duration) {
        let compiler = self.compiler().map(|compiler| compiler.identity.clone());
        let provenance = Provenance {
            source: request.name.to_string(),
            kernels: index.kernels.iter().map(|(name, _)| name.clone()).collect(),
            target: request.target.clone(),
            compiler: compiler.unwrap_or_default(),
            compile_time: time,
            image: request.reason.clone(),
            slices: index.slices.clone(),
        };
        // SAFETY: no code: loads under this key read it as an index, which was made of this
        // source a moment ago.
        unsafe { lock.put(&provenance, &index.to_bytes()) };
    }
}

fn cut(text: &str, module: &ptx::ast::Module<'_>, slicing: Slicing) -> Slices {
    let _ = slicing;
    ptx::slice::cut(text, module)
}

impl SlicedReport {
    fn whole(image: String, why: String) -> SlicedReport {
        SlicedReport {
            image,
            cache: CacheUse::Off,
            key: None,
            slices: 1,
            whole: Some(why),
            cut: Duration::ZERO,
        }
    }

    fn cut(cut: &Cut, image: String, cache: CacheUse, key: Key, time: Duration) -> SlicedReport {
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
            Parts::Cut(cut) => {
                let kernels = cut.index.kernels.iter();
                kernels.map(|(name, _)| name.clone()).collect()
            }
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
            Parts::Cut(cut) => &cut.load(self.slice_of(cut, name)?, None)?.module,
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
    /// [`Error::UnknownGlobal`] also for a variable that other modules cannot see, and
    /// [`LoadError::Copied`] for a constant.
    pub fn global(&self, name: &str) -> Result<Global, LoadError> {
        let cut = match &self.parts {
            Parts::Whole(loaded) => return Ok(loaded.module.global(name)?),
            Parts::Cut(cut) => cut,
        };
        let variable = cut.index.variable(name).ok_or_else(|| unknown(name))?;
        match &variable.slices[..] {
            [slice] if !variable.is_constant => {
                Ok(cut.load(*slice, None)?.module.global(name)?)
            }
            _ => Err(LoadError::Copied {
                variable: name.to_owned(),
            }),
        }
    }

    /// A constant, of which each slice that reads it has a copy. Loads none of them.
    ///
    /// # Errors
    /// [`Error::UnknownGlobal`] where there is no constant of that name.
    pub fn constant(&self, name: &str) -> Result<Constant, LoadError> {
        match &self.parts {
            Parts::Whole(loaded) => Ok(Constant::whole(loaded.module.global(name)?)),
            Parts::Cut(cut) => {
                let variable = cut.index.variable(name);
                let constant = variable.filter(|variable| variable.is_constant);
                Ok(Constant::of(cut, constant.ok_or_else(|| unknown(name))?)?)
            }
        }
    }

    pub(super) fn slice_of(&self, cut: &Cut, name: &str) -> Result<usize, Error> {
        cut.index.kernel(name).ok_or_else(|| Error::UnknownKernel {
            name: name.to_owned(),
            known: self.kernel_names(),
        })
    }
}

fn unknown(name: &str) -> Error {
    Error::UnknownGlobal {
        name: name.to_owned(),
    }
}
