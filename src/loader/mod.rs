//! Loading: select an image, look its code up by its key, compile it on a miss,
//! load the module.

mod compile;
mod constant;
mod cores;
mod counters;
mod cut;
mod error;
#[cfg(feature = "cpu")]
mod hot;
#[cfg(not(feature = "cpu"))]
#[path = "hot_absent.rs"]
mod hot;
mod index;
mod modules;
mod plan;
mod prepare;
mod report;
mod select;
mod sliced;
mod sliced_code;
mod source;
mod start;
mod warm;

use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::cache::{Cache, Key};
use crate::driver::{self, Context, CudaError, Module};
use crate::jit::JitOptions;

use compile::{Compiled, Compiler, Request};
use counters::{Counts, add_time, count};
use cut::WeakCut;
use modules::{Modules, SharedModule};
use select::Payload;

pub use constant::Constant;
pub use counters::{Counters, Prometheus};
pub use error::LoadError;
#[doc(hidden)]
#[cfg(feature = "macros")]
pub use macros::ptx_file;
pub use prepare::{Prepare, Prepared};
pub use report::{CacheUse, Loaded, Report};
pub use sliced::{SlicedModule, SlicedReport};
pub use sliced_code::SlicedCode;
pub use source::Source;
pub use warm::{Progress, Warm, Warmed};

/// Loads images into one context, through the compute cache. Clones share one
/// loader; any number of threads may use it.
///
/// PTX that is loaded already is not loaded a second time: a load returns the
/// same module, with the `.global` variables that it has by then, and dropping
/// the last use unloads it. For a module of its own each time, see
/// [`with_sharing`](Loader::with_sharing).
///
/// ```no_run
/// use ptxkit::cache::Cache;
/// use ptxkit::driver::{Context, Selection, select};
/// use ptxkit::jit::JitOptions;
/// use ptxkit::loader::{Loader, Source};
/// use ptxkit::ptx::Ptx;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = select(Selection::Auto)?.device;
/// let loader = Loader::new(Context::primary(&device)?, Cache::from_environment());
/// // A `Ptx` keeps its digest: the next load does not hash the text again.
/// let ptx = Ptx::from_bytes(std::fs::read("vecadd.ptx")?, "vecadd.ptx")?;
/// let loaded = loader.load(&Source::from(&ptx), &JitOptions::default())?;
/// let kernel = loaded.module.kernel("vecadd")?;
/// println!("{:?}", loaded.report);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    shared: Arc<Shared>,
    sharing: bool,
}

#[derive(Debug)]
struct Shared {
    context: Context,
    cache: Cache,
    compiler: OnceLock<Arc<Compiler>>,
    /// The compiler was started ahead of the first compile.
    started: Once,
    modules: Modules<SharedModule>,
    sliced: Modules<WeakCut>,
    counts: Arc<Counts>,
}

impl Loader {
    /// Loads into `context`, through `cache`. Nothing is opened before the first
    /// load.
    pub fn new(context: Context, cache: Cache) -> Loader {
        Loader {
            shared: Arc::new(Shared {
                context,
                cache,
                compiler: OnceLock::new(),
                started: Once::new(),
                modules: Modules::default(),
                sliced: Modules::default(),
                counts: Arc::default(),
            }),
            sharing: true,
        }
    }

    /// The same loader, but its loads return a module of their own each (`false`)
    /// or share them (`true`, the default).
    pub fn with_sharing(mut self, sharing: bool) -> Loader {
        self.sharing = sharing;
        self
    }

    /// The context it loads into.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The cache it uses.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// What it and its clones did.
    pub fn counters(&self) -> Counters {
        let Shared {
            counts,
            modules,
            sliced,
            cache,
            ..
        } = &*self.shared;
        counts.snapshot(modules.count() + sliced.count(), cache.counters())
    }

    /// Selects an image, takes its code from the cache or compiles it, and loads
    /// it. Of a source that is not trusted, PTX alone is selected.
    ///
    /// Code in the cache is trusted as the program's own file is: the cache uses
    /// folders only if they belong to this user and nobody else can write to them.
    pub fn load(&self, source: &Source<'_>, options: &JitOptions) -> Result<Loaded, LoadError> {
        count(&self.shared.counts.loads);
        let loaded = self.load_selected(source, options);
        match &loaded {
            Ok(loaded) if loaded.report.cache == CacheUse::Shared => {
                count(&self.shared.counts.shared);
            }
            Ok(loaded) => add_time(&self.shared.counts.load_us, loaded.report.load),
            Err(_) => count(&self.shared.counts.failed),
        }
        loaded
    }

    fn load_selected(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<Loaded, LoadError> {
        let selected = self.select(source, options)?;
        let ptx = match selected.payload {
            Payload::Ptx(ptx) => ptx,
            Payload::Binary(binary) => {
                info!("selected {}", selected.reason);
                // SAFETY: binaries are selected from trusted sources alone.
                let (module, load) = unsafe { self.load_binary(&binary) }?;
                let report = Report {
                    load,
                    ..Report::new(selected.reason, CacheUse::Off)
                };
                return Ok(Loaded { module, report });
            }
        };
        let request = self.request(source, ptx, selected.reason, options)?;
        self.load_request(&request)
    }

    /// Loads the module of `request`, unless it is loaded and shared.
    fn load_request(&self, request: &Request<'_>) -> Result<Loaded, LoadError> {
        let slot = self.sharing.then(|| self.shared.modules.slot(&request.key));
        // Held during the load: other threads that want this module wait for it.
        let mut shared = slot.as_ref().map(|slot| slot.lock());
        if let Some(loaded) = shared
            .as_deref()
            .and_then(|shared| shared.as_ref()?.loaded())
        {
            debug!(key = %request.key, "the module is loaded already");
            return Ok(loaded);
        }
        info!("selected {}", request.reason);
        let code = || self.cached_or_compiled(request);
        let loaded = self.load_compiled(request.key, &request.reason, code()?, code)?;
        let text = request.ptx.text();
        self.keep_hot_code(&loaded, request, text.len(), || hot::copy_of(text))?;
        if let Some(shared) = &mut shared {
            **shared = Some(SharedModule::new(&loaded));
        }
        Ok(loaded)
    }

    /// Loads the module of `key` from its code. Where what the cache had does not load,
    /// `again` compiles it. `image` says which image it is.
    fn load_compiled(
        &self,
        key: Key,
        image: &str,
        mut compiled: Compiled,
        again: impl FnOnce() -> Result<Compiled, LoadError>,
    ) -> Result<Loaded, LoadError> {
        let (module, load) = match self.load_code(&compiled) {
            // The cache is never the reason that a load fails.
            Err(error) if compiled.cache == CacheUse::Hit && !is_of_context(&error) => {
                let why = format!("it does not load: {error}");
                self.cache().discard(&key, &why);
                compiled = again()?;
                self.load_code(&compiled)?
            }
            loaded => loaded?,
        };
        let Compiled {
            cache,
            lookup,
            compile,
            store,
            log,
            ..
        } = compiled;
        let report = Report {
            image: image.to_owned(),
            cache,
            key: Some(key),
            lookup,
            compile,
            store,
            load,
            log,
        };
        Ok(Loaded { module, report })
    }

    /// The device code of an image, from the cache or compiled, for another
    /// library to load.
    pub fn code(&self, source: &Source<'_>, options: &JitOptions) -> Result<Vec<u8>, LoadError> {
        let selected = self.select(source, options)?;
        info!("selected {}", selected.reason);
        match selected.payload {
            Payload::Binary(binary) => Ok(binary.into_owned()),
            Payload::Ptx(ptx) => {
                let request = self.request(source, ptx, selected.reason, options)?;
                self.code_for_others(&request)
            }
        }
    }

    /// As [`code`](Loader::code) of PTX, if a folder of the cache has it. It compiles nothing, and calls no entry of
    /// the driver that needs a context.
    pub fn cached_code(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let selected = self.select(source, options)?;
        let Payload::Ptx(ptx) = selected.payload else {
            return Ok(None);
        };
        let request = self.request(source, ptx, selected.reason, options)?;
        let stored = self.cache().stored(&request.key);
        let compiler = self.compiler()?;
        let text = || request.ptx.text();
        Ok(stored.map(|code| hot::for_others(compiler, &code, text)))
    }

    /// The code of what is not cut.
    fn code_for_others(&self, request: &Request<'_>) -> Result<Vec<u8>, LoadError> {
        let code = self.cached_or_compiled(request)?;
        Ok(hot::for_others(self.compiler()?, &code, || {
            request.ptx.text()
        }))
    }

    fn load_code(&self, compiled: &Compiled) -> Result<(Module, Duration), driver::Error> {
        // SAFETY: the device's compiler made it, in this process or in one that stored it in the
        // cache. Only this user and root can write to the cache's folders, and they can replace the
        // program itself; `put`, `import` and `with_digest` are `unsafe`.
        unsafe { self.load_binary(compiled) }
    }

    /// # Safety
    /// As for [`Module::load_image`].
    unsafe fn load_binary(&self, binary: &[u8]) -> Result<(Module, Duration), driver::Error> {
        let started = Instant::now();
        // SAFETY: the caller's.
        let module = unsafe { Module::load_image(self.context(), binary) }?;
        let load = started.elapsed();
        debug!(bytes = binary.len(), us = load.as_micros(), "module loaded");
        Ok((module, load))
    }
}

/// Whether an error is of the context rather than of what was loaded: compiling
/// again would not help.
fn is_of_context(error: &driver::Error) -> bool {
    error.is_sticky()
        || matches!(
            error.code(),
            Some(CudaError::OUT_OF_MEMORY | CudaError::INVALID_CONTEXT)
        )
}
