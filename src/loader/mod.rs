//! The way of the data, from bytes to a loaded module.

mod ahead;
mod choose;
mod compile;
mod counters;
mod error;
mod modules;
mod report;
mod source;
mod store;
mod warm;

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::cache::{Cache, Digest};
use crate::driver::{self, Context, CudaError, Module};
use crate::jit::JitOptions;
use image::Image;

use ahead::Digesting;
use choose::{Chosen, choose};
use compile::{Compiled, Compiler, Text};
use counters::{Counts, add_time, count};
use error::explain;
use modules::{Identity, Kept, Modules};
use store::{Store, Writers};

pub use counters::{Counters, Prometheus};
pub use error::LoadError;
pub use report::{CacheUse, Loaded, Report};
pub use source::Source;
pub use warm::{Progress, Warm, Warmed};

/// Bytes of memory that the first hit of a small module takes, its driver's part
/// included. With none of it such a hit on an H200 took six page faults, with 16 to
/// 40 KiB three, with 48 or 64 two, which are of the driver's code.
const FIRST_HIT: usize = 48 << 10;

/// Loads images into one context, through the compute cache. Clones are one
/// loader, for any number of threads.
///
/// PTX that is loaded already is not loaded a second time: whoever asks for it
/// gets the module that is there, with the `.global` variables that it has by
/// then, and the last one to let go of it unloads it. Where each load must have
/// variables of its own, see [`with_sharing`](Loader::with_sharing).
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
/// // A `Ptx` remembers its digest: the next load of it is a look into a table.
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
    compiler: OnceLock<Compiler>,
    modules: Modules,
    counts: Counts,
    writers: Writers,
    /// What computes digests while loads go on.
    digesting: Option<Digesting>,
}

impl Loader {
    /// Loads into `context`, through `cache`, whose folders are opened.
    ///
    /// Where the cache has large PTX, and there are four processors, a thread for
    /// digests is started: it sleeps until a load of large PTX, and ends with the
    /// last clone.
    pub fn new(context: Context, cache: Cache) -> Loader {
        let cached = cache.policy().enabled();
        let loader = Loader {
            shared: Arc::new(Shared {
                context,
                cache,
                compiler: OnceLock::new(),
                modules: Modules::default(),
                counts: Counts::default(),
                writers: Writers::default(),
                digesting: cached.then(Digesting::default),
            }),
            sharing: true,
        };
        // Asked, opened and gone once now, and not on the way of the first hit. An
        // error of the device's comes again there.
        loader.cache().open();
        if let Some(digesting) = &loader.shared.digesting
            && loader.cache().has_guesses()
        {
            digesting.start();
        }
        if let Err(error) = loader.compiler() {
            debug!("the device does not say what it is: {error}");
        }
        loader.rehearse();
        loader
    }

    /// Goes the way of a hit once, up to the driver, with a blob that is nobody's:
    /// what a process does for the first time finds nothing in the processor's
    /// caches, and each page of memory that nobody had before takes two
    /// microseconds to be given.
    fn rehearse(&self) {
        let (digest, options) = (Digest::of(b""), JitOptions::default());
        self.shared.modules.place(&Identity::new(digest, &options));
        if let Ok(key) = self.key_of(digest, &options)
            && let Some(blob) = self.cache().rehearse(&key)
        {
            let found = Compiled::hit(key, blob, Duration::ZERO);
            let image = found.image().unwrap_or_default();
            black_box(found.report(image, Duration::ZERO));
            // Given back at once, and with its pages to whoever asks next.
            black_box(vec![1_u8; FIRST_HIT]);
        }
    }

    /// The same loader, but its loads give modules of their own (`false`), or
    /// share them (`true`, as is unless said).
    pub fn with_sharing(mut self, sharing: bool) -> Loader {
        self.sharing = sharing;
        self
    }

    /// The context it loads into.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The cache it looks in.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Waits until all that was compiled is stored. Dropping the last clone of
    /// a loader does too; what a process that ends without has just compiled may
    /// not be there for the next.
    pub fn flush(&self) {
        self.shared.writers.finish();
    }

    /// What it and its clones did.
    pub fn counters(&self) -> Counters {
        let Shared {
            counts,
            modules,
            cache,
            ..
        } = &*self.shared;
        counts.snapshot(modules.count(), cache.counters())
    }

    /// Chooses an image, takes its code from the cache or compiles it, and
    /// loads it.
    pub fn load(&self, source: &Source<'_>, options: &JitOptions) -> Result<Loaded, LoadError> {
        count(&self.shared.counts.loads);
        let loaded = self.shared_or_loaded(source, options);
        match &loaded {
            Ok(loaded) if loaded.report.cache == CacheUse::Shared => {
                debug!("shared");
                count(&self.shared.counts.shared);
            }
            Ok(loaded) => add_time(&self.shared.counts.load_us, loaded.report.load),
            Err(_) => count(&self.shared.counts.failed),
        }
        loaded
    }

    fn shared_or_loaded(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<Loaded, LoadError> {
        let mut known = source.known_digest();
        if let (None, Some(text)) = (known, source.ptx()) {
            let compute = || source.digest_of(text);
            let (digest, loaded) = self.digest_ahead(text, compute, options);
            if let Some(loaded) = loaded {
                return Ok(loaded);
            }
            known = Some(digest);
        }
        // What is known by its digest is found without a look into it.
        if self.sharing
            && let Some(digest) = known
            && let Some(place) = self.shared.modules.find(&Identity::new(digest, options))
            && let Some(loaded) = place.lock().as_ref().and_then(Kept::share)
        {
            return Ok(loaded);
        }
        // So is PTX that was compiled before.
        if let (Some(digest), Some(_)) = (known, source.ptx())
            && let Some(loaded) = self.known(digest, options)
        {
            return Ok(loaded);
        }
        let image = open(source)?;
        let (chosen, reason) = self.choose(source, &image, options)?;
        info!(image = reason, "chosen");
        let text = match chosen {
            Chosen::Ptx(text) => text,
            Chosen::Binary(binary) => {
                let (module, load) = self.load_binary(&binary)?;
                let report = Report {
                    load,
                    ..Report::new(reason, CacheUse::Off)
                };
                return Ok(Loaded { module, report });
            }
        };
        let explain = |error| explain(self.context(), source.name, &image, error);
        let digest = match known {
            Some(digest) => digest,
            None => {
                let compute = || Digest::of(text.as_bytes());
                match self.digest_ahead(text.as_bytes(), compute, options) {
                    (_, Some(loaded)) => return Ok(loaded),
                    (digest, None) => digest,
                }
            }
        };
        let text = Text {
            text: &text,
            digest,
            image: &reason,
        };
        let load = || self.load_ptx(source, &text, options).map_err(explain);
        if !self.sharing {
            return load();
        }
        let place = self.shared.modules.place(&Identity::new(digest, options));
        // Held while it is loaded: threads that want the same wait and share.
        let mut kept = place.lock();
        if let Some(loaded) = kept.as_ref().and_then(Kept::share) {
            return Ok(loaded);
        }
        let loaded = load()?;
        *kept = Some(Kept::new(&loaded));
        Ok(loaded)
    }

    /// The module of PTX that was compiled before: its blob says which image was
    /// chosen. Where that cannot be had, the whole way is gone, which tells why.
    fn known(&self, digest: Digest, options: &JitOptions) -> Option<Loaded> {
        if self.cache().policy().jit().disable_ptx {
            return None;
        }
        let identity = Identity::new(digest, options);
        let place = self.sharing.then(|| self.shared.modules.place(&identity));
        // Held while it is loaded: threads that want the same wait and share.
        let mut kept = place.as_ref().map(|place| place.lock());
        if let Some(loaded) = kept.as_deref().and_then(|kept| kept.as_ref()?.share()) {
            return Some(loaded);
        }
        let found = self.found(digest, options)?;
        let image = found.image()?;
        info!(image, "chosen");
        let (module, load) = self.load_binary(found.bytes()).ok()?;
        let report = found.report(image, load);
        let loaded = Loaded { module, report };
        if let Some(kept) = &mut kept {
            **kept = Some(Kept::new(&loaded));
        }
        Some(loaded)
    }

    /// The device code of an image, from the cache or compiled, for another
    /// library to load.
    pub fn code(&self, source: &Source<'_>, options: &JitOptions) -> Result<Vec<u8>, LoadError> {
        let image = open(source)?;
        let (chosen, reason) = self.choose(source, &image, options)?;
        info!(image = reason, "chosen");
        match chosen {
            Chosen::Binary(binary) => Ok(binary.into_owned()),
            Chosen::Ptx(text) => {
                let text = Text {
                    text: &text,
                    digest: source.digest(&text),
                    image: &reason,
                };
                let compiled = self
                    .cached_or_compiled(source, &text, options, Store::Behind)
                    .map_err(|error| explain(self.context(), source.name, &image, error))?;
                Ok(compiled.bytes().to_vec())
            }
        }
    }

    fn choose<'a>(
        &self,
        source: &Source<'a>,
        image: &Image<'a>,
        options: &JitOptions,
    ) -> Result<(Chosen<'a>, String), LoadError> {
        let (target, _) = self.target(options)?;
        let driver = self.context().device().driver();
        choose(
            driver.kind(),
            driver.version().unsigned_abs(),
            &target,
            self.cache().policy().jit(),
            source,
            image,
        )
    }

    fn load_ptx(
        &self,
        source: &Source<'_>,
        text: &Text<'_>,
        options: &JitOptions,
    ) -> Result<Loaded, driver::Error> {
        let compile = || self.cached_or_compiled(source, text, options, Store::Behind);
        let mut compiled = compile()?;
        let (module, load) = match self.load_binary(compiled.bytes()) {
            // The cache is never the reason that a load fails.
            Err(error) if compiled.cache == CacheUse::Hit && !is_of_context(&error) => {
                let why = format!("it does not load: {error}");
                self.cache().discard(&compiled.key, &why);
                compiled = compile()?;
                self.load_binary(compiled.bytes())?
            }
            loaded => loaded?,
        };
        let report = compiled.report(text.image.to_owned(), load);
        Ok(Loaded { module, report })
    }

    fn load_binary(&self, binary: &[u8]) -> Result<(Module, Duration), driver::Error> {
        let started = Instant::now();
        let module = Module::load(self.context(), binary)?;
        Ok((module, started.elapsed()))
    }
}

fn open<'a>(source: &Source<'a>) -> Result<Image<'a>, LoadError> {
    source.image().map_err(|error| LoadError::Image {
        name: source.name.to_owned(),
        source: error,
    })
}

/// Whether an error says more of the context than of what was loaded: to
/// compile the same anew would not help.
fn is_of_context(error: &driver::Error) -> bool {
    error.is_sticky()
        || matches!(
            error.code(),
            Some(CudaError::OUT_OF_MEMORY | CudaError::INVALID_CONTEXT)
        )
}
