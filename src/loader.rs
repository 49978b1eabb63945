//! The way of the data, from bytes to a loaded module.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use tracing::info;

use crate::cache::{Cache, Digest, Key, KeyParts, Lookup, Provenance};
use crate::driver::{self, Context, CudaError, DriverKind, Module};
use crate::image::{
    self, EntryKind, Image, ImageError, JitPolicy, NotATarget, NothingFits, Place, Target,
};
use crate::jit::{self, JitOptions};
use crate::ptx::Ptx;
use crate::ptx::ast::Version;

/// Loads images into one context, through the compute cache.
///
/// ```no_run
/// use ptxkit::cache::Cache;
/// use ptxkit::driver::{Context, Selection, select};
/// use ptxkit::jit::JitOptions;
/// use ptxkit::loader::{Loader, Source};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = select(Selection::Auto)?.device;
/// let loader = Loader::new(Context::primary(&device)?, Cache::from_environment());
/// let bytes = std::fs::read("vecadd.ptx")?;
/// let loaded = loader.load(&Source::new("vecadd.ptx", &bytes), &JitOptions::default())?;
/// let kernel = loaded.module.kernel("vecadd")?;
/// println!("{:?}", loaded.report);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    context: Context,
    cache: Cache,
}

/// An image and what to call it in messages.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    name: &'a str,
    bytes: &'a [u8],
    digest: Option<Digest>,
}

impl<'a> Source<'a> {
    /// `bytes` are the image; `name`, mostly its path, stands for it in messages.
    pub fn new(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
        Source {
            name,
            bytes,
            digest: None,
        }
    }

    /// The same with its digest known, which is the larger part of a hit: for
    /// images that are loaded more than once.
    ///
    /// The digest is of the PTX text without the NUL at its end.
    pub fn with_digest(self, digest: Digest) -> Source<'a> {
        Source {
            digest: Some(digest),
            ..self
        }
    }
}

impl<'a> From<&'a Ptx> for Source<'a> {
    fn from(ptx: &'a Ptx) -> Source<'a> {
        Source::new(ptx.name(), ptx.text().as_bytes())
    }
}

/// A module and how it came to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The module, ready for its kernels to be launched.
    pub module: Module,
    /// How it came to be.
    pub report: Report,
}

/// What a load did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Which image was taken, and why.
    pub image: String,
    /// Whether it was in the cache.
    pub cache: CacheUse,
    /// `None` where nothing was to compile.
    pub key: Option<Key>,
    /// Zero on a hit.
    pub compile: Duration,
    /// Handing the binary to the driver.
    pub load: Duration,
    /// What the compiler had to say.
    pub log: String,
}

/// What the cache had to do with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// The code was there.
    Hit,
    /// The code was compiled, and put there if it could be.
    Miss,
    /// There is no cache, or nothing was to compile.
    Off,
}

/// Why an image was not loaded.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("{name} cannot be loaded: {source}")]
    Image { name: String, source: ImageError },
    #[error("{name}: {source}")]
    NothingFits { name: String, source: NothingFits },
    #[error("{name} was compiled for the CPU device and does not run on a GPU: give its PTX")]
    ForTheCpu { name: String },
    #[error(
        "{name} holds no PTX, and the CPU device runs no binaries for GPUs: give PTX, or run it on a GPU"
    )]
    NoPtx { name: String },
    #[error(
        "{name} is PTX, and CUDA_DISABLE_PTX_JIT forbids compiling it: unset it, or give a binary"
    )]
    JitDisabled { name: String },
    #[error(
        "{name} has PTX version {found}, the {driver} (CUDA {}.{}) reads up to {newest}",
        driver_version / 1000, driver_version % 1000 / 10
    )]
    PtxTooNew {
        name: String,
        found: Version,
        newest: Version,
        driver: DriverKind,
        /// As `cuDriverGetVersion` gives it: 13000 for 13.0.
        driver_version: u32,
        source: driver::Error,
    },
    #[error(transparent)]
    Driver(#[from] driver::Error),
}

/// What is handed on from the choice of an image.
enum Chosen<'a> {
    Binary(Cow<'a, [u8]>),
    Ptx(Cow<'a, str>),
}

/// Device code on its way to the driver.
struct Compiled {
    code: Code,
    cache: CacheUse,
    key: Key,
    compile: Duration,
    log: String,
}

enum Code {
    Blob(crate::cache::Blob),
    Fresh(Vec<u8>),
}

impl Code {
    fn bytes(&self) -> &[u8] {
        match self {
            Code::Blob(blob) => blob,
            Code::Fresh(code) => code,
        }
    }
}

impl Loader {
    /// Loads into `context`, through `cache`.
    pub fn new(context: Context, cache: Cache) -> Loader {
        Loader { context, cache }
    }

    /// The context it loads into.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The cache it looks in.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Chooses an image, takes its code from the cache or compiles it, and
    /// loads it.
    pub fn load(&self, source: &Source<'_>, options: &JitOptions) -> Result<Loaded, LoadError> {
        let image = image::open(source.bytes).map_err(|error| LoadError::Image {
            name: source.name.to_owned(),
            source: error,
        })?;
        let (chosen, reason) = self.choose(source, &image)?;
        info!(image = reason, "chosen");
        match chosen {
            Chosen::Binary(binary) => {
                let (module, load) = self.load_binary(&binary)?;
                let report = Report {
                    image: reason,
                    cache: CacheUse::Off,
                    key: None,
                    compile: Duration::ZERO,
                    load,
                    log: String::new(),
                };
                Ok(Loaded { module, report })
            }
            Chosen::Ptx(text) => {
                let explain = |error| self.explain(source, &image, error);
                let mut compiled = self
                    .cached_or_compiled(source, &text, options)
                    .map_err(explain)?;
                let (module, load) = match self.load_binary(compiled.code.bytes()) {
                    // The cache is never the reason that a load fails.
                    Err(error) if compiled.cache == CacheUse::Hit && !is_of_context(&error) => {
                        let why = format!("it does not load: {error}");
                        self.cache.discard(&compiled.key, &why);
                        compiled = self
                            .cached_or_compiled(source, &text, options)
                            .map_err(explain)?;
                        self.load_binary(compiled.code.bytes())?
                    }
                    loaded => loaded?,
                };
                let report = Report {
                    image: reason,
                    cache: compiled.cache,
                    key: Some(compiled.key),
                    compile: compiled.compile,
                    load,
                    log: compiled.log,
                };
                Ok(Loaded { module, report })
            }
        }
    }

    /// The device code of an image, from the cache or compiled, for another
    /// library to load.
    pub fn code(&self, source: &Source<'_>, options: &JitOptions) -> Result<Vec<u8>, LoadError> {
        let image = image::open(source.bytes).map_err(|error| LoadError::Image {
            name: source.name.to_owned(),
            source: error,
        })?;
        let (chosen, reason) = self.choose(source, &image)?;
        info!(image = reason, "chosen");
        match chosen {
            Chosen::Binary(binary) => Ok(binary.into_owned()),
            Chosen::Ptx(text) => {
                let compiled = self
                    .cached_or_compiled(source, &text, options)
                    .map_err(|error| self.explain(source, &image, error))?;
                Ok(compiled.code.bytes().to_vec())
            }
        }
    }

    fn choose<'a>(
        &self,
        source: &Source<'a>,
        image: &Image<'a>,
    ) -> Result<(Chosen<'a>, String), LoadError> {
        if self.context.device().driver().kind() == DriverKind::Cpu {
            return choose_for_cpu(source, image, self.cache.policy().jit());
        }
        if let Image::Cpu(_) = image {
            return Err(LoadError::ForTheCpu {
                name: source.name.to_owned(),
            });
        }
        // Every name that a driver's device can have is one of an architecture.
        let target: Target = self
            .context
            .device()
            .target()?
            .parse()
            .map_err(|error: NotATarget| driver::Error::BadImage(error.to_string()))?;
        let policy = self.cache.policy().jit();
        let selection =
            image::select(std::slice::from_ref(image), target, policy).map_err(|error| {
                LoadError::NothingFits {
                    name: source.name.to_owned(),
                    source: error,
                }
            })?;
        Ok((place(source, image, selection.place)?, selection.reason))
    }

    fn cached_or_compiled(
        &self,
        source: &Source<'_>,
        text: &str,
        options: &JitOptions,
    ) -> Result<Compiled, driver::Error> {
        let device = self.context.device();
        let target = device.target()?;
        let compiler = jit::compiler_identity(device.driver().kind());
        let key = Key::new(&KeyParts {
            source: source.digest.unwrap_or_else(|| Digest::of(text.as_bytes())),
            target: &target,
            driver_version: device.driver().version().unsigned_abs(),
            compiler: &compiler,
            options: &options.key_bytes(),
        });
        let turn = match self.cache.lookup(&key) {
            Lookup::Hit(blob) => {
                return Ok(Compiled {
                    code: Code::Blob(blob),
                    cache: CacheUse::Hit,
                    key,
                    compile: Duration::ZERO,
                    log: String::new(),
                });
            }
            Lookup::Miss(turn) => Some(turn),
            Lookup::Failed(_) | Lookup::Off => None,
        };
        let started = Instant::now();
        let made = jit::compile(&self.context, text, options)?;
        let compile = started.elapsed();
        info!(key = %key.short(), us = compile.as_micros(), "compiled");
        let (code, cache) = match turn {
            Some(turn) => {
                let provenance = Provenance {
                    source: source.name.to_owned(),
                    kernels: kernels(text),
                    target,
                    compiler,
                    compile_time: compile,
                };
                let blob = turn.put(&provenance, &made.binary);
                (Code::Blob(blob), CacheUse::Miss)
            }
            None => (Code::Fresh(made.binary), CacheUse::Off),
        };
        Ok(Compiled {
            code,
            cache,
            key,
            compile,
            log: made.info_log,
        })
    }

    fn load_binary(&self, binary: &[u8]) -> Result<(Module, Duration), driver::Error> {
        let started = Instant::now();
        let module = Module::load(&self.context, binary)?;
        Ok((module, started.elapsed()))
    }

    /// The driver's "unsupported PTX version" names neither of the versions.
    fn explain(&self, source: &Source<'_>, image: &Image<'_>, error: driver::Error) -> LoadError {
        let driver = self.context.device().driver();
        let driver_version = driver.version().unsigned_abs();
        let refused = matches!(
            error.code(),
            Some(CudaError::UNSUPPORTED_PTX_VERSION | CudaError::INVALID_PTX)
        );
        let too_new = match image {
            // The CPU device's CUDA version says nothing of the PTX that it reads.
            #[cfg(feature = "cpu")]
            Image::Ptx(ptx) if refused && driver.kind() == DriverKind::Cpu => ptx
                .version
                .filter(|found| *found > crate::cpu::NEWEST_PTX)
                .map(|found| (found, crate::cpu::NEWEST_PTX)),
            Image::Ptx(ptx) if refused => ptx.version.zip(ptx.too_new_for(driver_version)),
            _ => None,
        };
        match too_new {
            Some((found, newest)) => LoadError::PtxTooNew {
                name: source.name.to_owned(),
                found,
                newest,
                driver: driver.kind(),
                driver_version,
                source: error,
            },
            None => error.into(),
        }
    }
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

/// The CPU device compiles PTX for any architecture.
fn choose_for_cpu<'a>(
    source: &Source<'a>,
    image: &Image<'a>,
    policy: JitPolicy,
) -> Result<(Chosen<'a>, String), LoadError> {
    match image {
        Image::Cpu(bytes) => Ok((
            Chosen::Binary((*bytes).into()),
            "compiled for the CPU device".into(),
        )),
        Image::Ptx(_) | Image::Fatbin(_) if policy.disable_ptx => Err(LoadError::JitDisabled {
            name: source.name.to_owned(),
        }),
        Image::Ptx(ptx) => {
            let target = ptx
                .target
                .map_or(String::new(), |target| format!(" for {target}"));
            Ok((
                Chosen::Ptx(ptx.source.into()),
                format!("PTX{target}: the only image"),
            ))
        }
        Image::Fatbin(fatbin) => {
            let newest = fatbin
                .entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.kind == EntryKind::Ptx)
                .max_by_key(|(_, entry)| entry.target);
            let Some((index, entry)) = newest else {
                return Err(no_ptx(source));
            };
            let at = Place {
                image: 0,
                entry: Some(index),
            };
            let reason = format!("PTX for {}: the newest PTX", entry.target);
            Ok((place(source, image, at)?, reason))
        }
        _ => Err(no_ptx(source)),
    }
}

fn no_ptx(source: &Source<'_>) -> LoadError {
    LoadError::NoPtx {
        name: source.name.to_owned(),
    }
}

/// The bytes of the image at `place`.
fn place<'a>(
    source: &Source<'a>,
    image: &Image<'a>,
    place: Place,
) -> Result<Chosen<'a>, LoadError> {
    match image {
        Image::Ptx(ptx) => Ok(Chosen::Ptx(ptx.source.into())),
        Image::Cubin(cubin) => Ok(Chosen::Binary(cubin.bytes.into())),
        Image::Cpu(bytes) => Ok(Chosen::Binary((*bytes).into())),
        Image::Fatbin(fatbin) => {
            let unknown = |why: &str| LoadError::Image {
                name: source.name.to_owned(),
                source: ImageError::Unknown(why.to_owned()),
            };
            let entry = place
                .entry
                .and_then(|index| fatbin.entries.get(index))
                .ok_or_else(|| unknown("its choice is out of range"))?;
            let failed = |error| LoadError::Image {
                name: source.name.to_owned(),
                source: error,
            };
            match entry.kind {
                EntryKind::Ptx => entry.ptx().map(Chosen::Ptx).map_err(failed),
                _ => entry.unpack().map(Chosen::Binary).map_err(failed),
            }
        }
    }
}

/// The kernels' names, for the blob's provenance.
fn kernels(text: &str) -> Vec<String> {
    let module = crate::ptx::read(text).module;
    crate::ptx::signature::signatures(&module, text)
        .into_iter()
        .map(|kernel| kernel.name)
        .collect()
}
