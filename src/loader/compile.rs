//! PTX to device code, through the cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::info;

use super::counters::{add_time, count};
use super::store::Store;
use super::{CacheUse, Loader, Report, Source};
use crate::cache::{Blob, Digest, Key, KeyParts, Lookup, Provenance};
use crate::driver::{self, CudaError, DriverKind};
use crate::jit::{self, JitOptions};
use image::{self, CubinContents, Image};

/// Device code on its way to the driver.
pub(super) struct Compiled {
    code: Code,
    pub cache: CacheUse,
    pub key: Key,
    pub compile: Duration,
    lookup: Duration,
    store: Duration,
    log: String,
}

/// PTX on its way to the compiler.
pub(super) struct Text<'a> {
    pub text: &'a str,
    pub digest: Digest,
    /// Which image of the source it is, and why.
    pub image: &'a str,
}

enum Code {
    Blob(Blob),
    Fresh(Vec<u8>),
}

/// What a loader compiles for, apart from the options.
#[derive(Debug)]
pub(super) struct Compiler {
    /// As [`Device::target`](driver::Device::target) gives it.
    pub target: String,
    identity: String,
    driver_version: u32,
}

impl Compiled {
    pub(super) fn hit(key: Key, blob: Blob, lookup: Duration) -> Compiled {
        Compiled {
            code: Code::Blob(blob),
            cache: CacheUse::Hit,
            key,
            lookup,
            compile: Duration::ZERO,
            store: Duration::ZERO,
            log: String::new(),
        }
    }

    /// Which image it was compiled from, and why, if its blob tells.
    pub(super) fn image(&self) -> Option<String> {
        match &self.code {
            Code::Blob(blob) => blob.image(),
            Code::Fresh(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.code {
            Code::Blob(blob) => blob,
            Code::Fresh(code) => code,
        }
    }

    pub(super) fn report(self, image: String, load: Duration) -> Report {
        Report {
            image,
            cache: self.cache,
            key: Some(self.key),
            lookup: self.lookup,
            compile: self.compile,
            store: self.store,
            load,
            log: self.log,
        }
    }
}

impl Loader {
    /// The device's compiler: asked once, as none of it changes while a process
    /// runs, and the driver's build is found in a long list of mappings.
    pub(super) fn compiler(&self) -> Result<&Compiler, driver::Error> {
        let known = &self.shared.compiler;
        if let Some(compiler) = known.get() {
            return Ok(compiler);
        }
        let device = self.context().device();
        let driver = device.driver();
        let compiler = Compiler {
            target: device.target()?,
            identity: jit::compiler_identity(driver.kind()),
            driver_version: driver.version().unsigned_abs(),
        };
        // The first digest of a process asks the processor what it can do, which
        // in a virtual machine takes longer than a small PTX's digest.
        Digest::of(compiler.identity.as_bytes());
        Ok(known.get_or_init(|| compiler))
    }

    /// The architecture that `options` ask for, as it stands in keys, and the
    /// options without it. The device's own is not asked for by name: some
    /// drivers refuse that. The CPU device has but one.
    pub(super) fn target(
        &self,
        options: &JitOptions,
    ) -> Result<(String, JitOptions), driver::Error> {
        let own = &self.compiler()?.target;
        let mut options = *options;
        if self.context().device().driver().kind() == DriverKind::Cpu {
            options.target = None;
        }
        let target = match options.target {
            Some(target) if target.to_string() != *own => target.to_string(),
            _ => {
                options.target = None;
                own.clone()
            }
        };
        Ok((target, options))
    }

    fn key(
        &self,
        digest: Digest,
        target: &str,
        options: &JitOptions,
    ) -> Result<Key, driver::Error> {
        let compiler = self.compiler()?;
        // What is compiled for another device is found by that device: its
        // loads do not name the target.
        let code_options = JitOptions {
            target: None,
            ..*options
        };
        Ok(Key::new(&KeyParts {
            source: digest,
            target,
            driver_version: compiler.driver_version,
            compiler: &compiler.identity,
            options: &code_options.key_bytes(),
        }))
    }

    /// What the code of PTX with this digest is found by.
    pub(super) fn key_of(
        &self,
        digest: Digest,
        options: &JitOptions,
    ) -> Result<Key, driver::Error> {
        let (target, options) = self.target(options)?;
        self.key(digest, &target, &options)
    }

    /// What was compiled before.
    pub(super) fn found(&self, digest: Digest, options: &JitOptions) -> Option<Compiled> {
        let key = self.key_of(digest, options).ok()?;
        let started = Instant::now();
        let blob = self.cache().find_blob(&key)?;
        Some(Compiled::hit(key, blob, started.elapsed()))
    }

    pub(super) fn cached_or_compiled(
        &self,
        source: &Source<'_>,
        text: &Text<'_>,
        options: &JitOptions,
        store: Store,
    ) -> Result<Compiled, driver::Error> {
        let (target, options) = self.target(options)?;
        let compiler = self.compiler()?;
        let key = self.key(text.digest, &target, &options)?;
        let started = Instant::now();
        let found = self.cache().lookup(&key);
        let lookup = started.elapsed();
        let turn = match found {
            Lookup::Hit(blob) => return Ok(Compiled::hit(key, blob, lookup)),
            Lookup::Failed(failure) => match failure.downcast_ref::<driver::Error>() {
                Some(error) => return Err(error.clone()),
                // Not one that a loader left there.
                None => None,
            },
            Lookup::Miss(turn) => Some(turn),
            Lookup::Off => None,
        };
        let started = Instant::now();
        let made = jit::compile(self.context(), text.text, &options);
        let compile = started.elapsed();
        count(&self.shared.counts.compiles);
        add_time(&self.shared.counts.compile_us, compile);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                if let Some(turn) = turn.filter(|_| is_of_ptx(&error)) {
                    turn.fail(Arc::new(error.clone()));
                }
                return Err(error);
            }
        };
        info!(key = %key.short(), us = compile.as_micros(), "compiled");
        let started = Instant::now();
        let (code, cache) = match turn {
            Some(turn) => {
                let provenance = Provenance {
                    source: source.name.to_owned(),
                    kernels: kernels(&made.binary, text.text),
                    target,
                    compiler: compiler.identity.clone(),
                    compile_time: compile,
                    image: text.image.to_owned(),
                };
                let landed = turn.land(&provenance, &[("", &made.binary)]);
                let blob = landed.blob().clone();
                self.shared.writers.store(landed, store);
                (Code::Blob(blob), CacheUse::Miss)
            }
            None => (Code::Fresh(made.binary), CacheUse::Off),
        };
        Ok(Compiled {
            code,
            cache,
            key,
            lookup,
            compile,
            store: started.elapsed(),
            log: made.info_log,
        })
    }
}

/// Whether the PTX is at fault, so that to compile it again would not help.
fn is_of_ptx(error: &driver::Error) -> bool {
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

/// The kernels' names, for the blob's provenance, sorted. A cubin tells them at
/// once.
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
