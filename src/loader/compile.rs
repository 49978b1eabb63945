//! PTX to device code: key, lookup, compile and put.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::counters::{add_time, count};
use super::cut::CompileSettings;
use super::error::explain;
use super::select::SelectedPtx;
use super::{CacheUse, LoadError, Loader, Source, hot};
use crate::cache::{Blob, CompileLock, Digest, Key, KeyParts, Lookup, OnCompile, Provenance};
use crate::driver::nvptxcompiler::NvPtxCompiler;
use crate::driver::{self, CudaError};
use crate::jit::{self, JitOptions, PtxCompiler};
use image::{self, CubinContents, Image, Target};

/// PTX to be compiled, and what for.
pub(super) struct Request<'a> {
    /// The name of the source.
    pub name: Cow<'a, str>,
    pub ptx: SelectedPtx<'a>,
    /// Which image of the source it is, and why.
    pub reason: String,
    pub key: Key,
    pub target: String,
    pub options: JitOptions,
}

impl Request<'_> {
    /// The same for a slice of its PTX.
    pub(super) fn of_slice<'s>(
        &'s self,
        text: &'s str,
        key: Key,
        threads: Option<u32>,
    ) -> Request<'s> {
        Request {
            name: (&*self.name).into(),
            ptx: self.ptx.with_text(text),
            reason: self.reason.clone(),
            key,
            target: self.target.clone(),
            options: JitOptions {
                threads: self.options.threads.or(threads),
                ..self.options
            },
        }
    }

    /// The same, compiled by so many threads unless its options say otherwise.
    pub(super) fn with_threads(&self, threads: Option<u32>) -> Request<'_> {
        self.of_slice(self.ptx.text(), self.key, threads)
    }

    pub(super) fn into_owned(self) -> Request<'static> {
        Request {
            name: self.name.into_owned().into(),
            ptx: self.ptx.into_owned(),
            reason: self.reason,
            key: self.key,
            target: self.target,
            options: self.options,
        }
    }
}

/// Device code.
pub(super) struct Compiled {
    binary: Binary,
    pub cache: CacheUse,
    pub lookup: Duration,
    pub compile: Duration,
    pub store: Duration,
    /// What the compiler said.
    pub log: String,
}

enum Binary {
    Cached(Blob),
    Fresh(Vec<u8>),
}

impl Deref for Compiled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.binary {
            Binary::Cached(blob) => blob,
            Binary::Fresh(code) => code,
        }
    }
}

/// The device's compiler.
#[derive(Debug)]
pub(super) struct Compiler {
    /// The device's, which it compiles for unless told otherwise; `None` for the CPU device.
    pub architecture: Option<Target>,
    /// As [`Device::target`](driver::Device::target) gives it.
    pub target: String,
    pub identity: String,
    pub driver_version: u32,
}

impl Compiler {
    /// Whether it is the CPU device's.
    #[cfg(feature = "cpu")]
    pub(super) fn is_of_cpu(&self) -> bool {
        self.architecture.is_none()
    }

    /// The identity of the compiler that these options choose, and the driver's version, which is 0 for a library:
    /// its code does not depend on the driver.
    pub(super) fn identity_for(&self, options: &JitOptions) -> (&str, u32) {
        if options.compiler == Some(PtxCompiler::NvPtxCompiler)
            && let Ok(library) = NvPtxCompiler::open()
        {
            return (library.identity(), 0);
        }
        (&self.identity, self.driver_version)
    }

    /// The key of the code of the PTX with this digest.
    pub(super) fn key(&self, source: Digest, target: &str, options: &JitOptions) -> Key {
        // Code that was compiled for another device is found by that device, whose
        // loads do not name the target.
        let options = JitOptions {
            target: None,
            ..*options
        };
        let (identity, driver_version) = self.identity_for(&options);
        Key::new(&KeyParts {
            source,
            target,
            driver_version,
            compiler: identity,
            options: &options.key_bytes(),
        })
    }
}

impl Loader {
    /// The device's compiler: asked for once, as it does not change while a
    /// process runs.
    pub(super) fn compiler(&self) -> Result<&Arc<Compiler>, driver::Error> {
        let known = &self.shared.compiler;
        if let Some(compiler) = known.get() {
            return Ok(compiler);
        }
        let device = self.context().device();
        let driver = device.driver();
        let architecture = device.architecture()?;
        let compiler = Compiler {
            architecture,
            target: driver::Device::target_of(architecture),
            identity: jit::compiler_identity(driver.kind()),
            driver_version: driver.version().unsigned_abs(),
        };
        Ok(known.get_or_init(|| Arc::new(compiler)))
    }

    /// The architecture that `options` ask for, as it stands in keys, and the
    /// options for the compiler. The device's own is not passed on: some drivers
    /// refuse that. The CPU device has only one.
    pub(super) fn target(
        &self,
        options: &JitOptions,
    ) -> Result<(String, JitOptions), driver::Error> {
        let compiler = self.compiler()?;
        let is_other = |target: &Target| compiler.architecture.is_some_and(|own| own != *target);
        let other = options.target.filter(is_other);
        let target = other.map_or_else(|| compiler.target.clone(), |target| target.to_string());
        let options = JitOptions {
            target: other,
            ..*options
        };
        Ok((target, options))
    }

    /// What to compile, with its key.
    pub(super) fn request<'a>(
        &self,
        source: &Source<'a>,
        ptx: SelectedPtx<'a>,
        reason: String,
        options: &JitOptions,
    ) -> Result<Request<'a>, driver::Error> {
        let digest = source.digest(ptx.text());
        self.request_of(digest, source, ptx, reason, options)
    }

    /// The same for PTX with this digest.
    pub(super) fn request_of<'a>(
        &self,
        digest: Digest,
        source: &Source<'a>,
        ptx: SelectedPtx<'a>,
        reason: String,
        options: &JitOptions,
    ) -> Result<Request<'a>, driver::Error> {
        let (target, mut options) = self.target(options)?;
        let driver = self.context().device().driver();
        options.compiler = Some(options.compiler_for(driver, ptx.version)?);
        let key = self.key(digest, &target, &options)?;
        Ok(Request {
            name: source.name.into(),
            ptx,
            reason,
            key,
            target,
            options,
        })
    }

    /// The key of the code of the PTX with this digest.
    pub(super) fn key(
        &self,
        source: Digest,
        target: &str,
        options: &JitOptions,
    ) -> Result<Key, driver::Error> {
        Ok(self.compiler()?.key(source, target, options))
    }

    /// Takes the code from the cache, or compiles it and puts it there.
    pub(super) fn cached_or_compiled(&self, request: &Request<'_>) -> Result<Compiled, LoadError> {
        self.cached_or(&request.key, request.ptx.text().len(), |lock, lookup| {
            self.compile(request, lock, CompileSettings::default(), lookup)
        })
        .map_err(|error| explain(self.context(), request, error))
    }

    /// Takes the code of `key` from the cache, or calls `compile`, with the lock to
    /// put it there and the time of the lookup. The PTX has about `source_bytes`.
    pub(super) fn cached_or(
        &self,
        key: &Key,
        source_bytes: usize,
        compile: impl FnOnce(Option<CompileLock>, Duration) -> Result<Compiled, LoadError>,
    ) -> Result<Compiled, LoadError> {
        let started = Instant::now();
        let found = self.cache().lookup_of(key, source_bytes);
        let lookup = started.elapsed();
        match found {
            Lookup::Hit(blob) => Ok(Compiled {
                binary: Binary::Cached(blob),
                cache: CacheUse::Hit,
                lookup,
                compile: Duration::ZERO,
                store: Duration::ZERO,
                log: String::new(),
            }),
            Lookup::Failed(failure) => match failure.downcast_ref::<driver::Error>() {
                Some(error) => Err(LoadError::from(error.clone())),
                // Reported by another user of the cache than a loader.
                None => compile(None, lookup),
            },
            Lookup::Miss(lock) => compile(Some(lock), lookup),
            Lookup::Off => compile(None, lookup),
        }
    }

    /// Asks the policy before PTX is compiled.
    fn may_compile(&self, request: &Request<'_>) -> Result<(), LoadError> {
        let (name, target) = (&request.name, &request.target);
        match self.cache().policy().on_compile() {
            OnCompile::Allow => Ok(()),
            OnCompile::Warn => {
                warn!(%name, target, "PTX is compiled while the program runs");
                Ok(())
            }
            OnCompile::Error => Err(LoadError::CompileForbidden {
                name: name.to_string(),
                target: target.clone(),
            }),
        }
    }

    /// Compiles, and puts the code into the cache with `lock`, where there is a batch
    /// with others.
    pub(super) fn compile(
        &self,
        request: &Request<'_>,
        lock: Option<CompileLock>,
        settings: CompileSettings<'_>,
        lookup: Duration,
    ) -> Result<Compiled, LoadError> {
        self.may_compile(request)?;
        let text = request.ptx.to_compile(&request.name)?;
        let started = Instant::now();
        let context = settings.context.unwrap_or(self.context());
        let made = jit::compile(context, &text, &request.options);
        let compile = started.elapsed();
        count(&self.shared.counts.compiles);
        add_time(&self.shared.counts.compile_us, compile);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                if let Some(lock) = lock.filter(|_| is_of_ptx(&error)) {
                    lock.fail(Arc::new(error.clone()));
                }
                return Err(error.into());
            }
        };
        info!(key = %request.key.short(), ms = compile.as_millis(), "compiled");
        let started = Instant::now();
        let (binary, cache) = match lock {
            Some(lock) => {
                let code = hot::for_cache(self.compiler()?, made.binary);
                let provenance = Provenance {
                    source: request.name.to_string(),
                    kernels: kernels(&code, &text),
                    target: request.target.clone(),
                    compiler: self.compiler()?.identity_for(&request.options).0.to_owned(),
                    compile_time: compile,
                    image: request.reason.clone(),
                    slices: Vec::new(),
                    module: None,
                };
                // SAFETY: the compiler in the key made it of this source a moment ago.
                let blob = unsafe {
                    match settings.batch {
                        Some(batch) => batch.put(lock, &provenance, &code),
                        None => lock.put(&provenance, &code),
                    }
                };
                (Binary::Cached(blob), CacheUse::Miss)
            }
            None => (Binary::Fresh(made.binary), CacheUse::Off),
        };
        Ok(Compiled {
            binary,
            cache,
            lookup,
            compile,
            store: started.elapsed(),
            log: made.info_log,
        })
    }
}

/// Whether the PTX is at fault, so that to compile it again would not help.
pub(super) fn is_of_ptx(error: &driver::Error) -> bool {
    match error {
        driver::Error::BadImage(_) => true,
        driver::Error::Jit(error) => matches!(
            error.code,
            CudaError::NO_BINARY_FOR_GPU
                | CudaError::INVALID_PTX
                | CudaError::UNSUPPORTED_PTX_VERSION
                | CudaError::NOT_SUPPORTED
        ),
        _ => false,
    }
}

/// The kernels' names, sorted, for the blob's provenance. A cubin has a list of
/// them; for another binary the PTX is read.
fn kernels(binary: &[u8], text: &str) -> Vec<String> {
    let mut names: Vec<String> = match cubin(binary) {
        Some(contents) => contents
            .kernels
            .into_iter()
            .map(|kernel| kernel.name)
            .collect(),
        None => {
            let module = ptx::read(text).module;
            let kernels = ptx::signature::signatures(&module, text);
            kernels.into_iter().map(|kernel| kernel.name).collect()
        }
    };
    names.sort_unstable();
    names
}

fn cubin(binary: &[u8]) -> Option<CubinContents> {
    match image::open(binary) {
        Ok(Image::Cubin(cubin)) => cubin.contents().ok(),
        _ => None,
    }
}
