//! Hot kernels of the CPU device. Their optimized code is in the cache, a blob for each
//! kernel beside that of its module: a process that finds it does not compile it. What
//! compiles it has the PTX from here, so the module's blob has none in it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use cpu::{CodeStore, Variant, with_text};
use tracing::info;

use super::compile::{Compiler, Request};
use super::counters::{Counts, add_time, count};
use super::modules::lock;
use super::{CacheUse, Loaded, Loader};
use crate::cache::{Cache, Key, Lookup, Provenance};
use crate::driver;

/// Returns the PTX of a module.
pub(super) type Text = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// The optimized code of a module's hot kernels, in the cache.
struct HotCode {
    cache: Cache,
    counts: Arc<Counts>,
    /// Of the module's code.
    module: Key,
    /// Of its kernels' code, without their names.
    provenance: Provenance,
    source_bytes: usize,
    text: Text,
}

impl Loader {
    /// Has the optimized code of a module's hot kernels kept in the cache, if that has the
    /// module's code. The PTX, of about `source_bytes`, is what `text` returns returns.
    pub(super) fn keep_hot_code(
        &self,
        loaded: &Loaded,
        request: &Request<'_>,
        source_bytes: usize,
        text: impl FnOnce() -> Text,
    ) -> Result<(), driver::Error> {
        let (Some(module), CacheUse::Hit | CacheUse::Miss) =
            (loaded.report.key, loaded.report.cache)
        else {
            return Ok(());
        };
        let compiler = self.compiler()?;
        let store = || -> Box<dyn CodeStore> {
            Box::new(HotCode {
                cache: self.cache().clone(),
                counts: Arc::clone(&self.shared.counts),
                module,
                provenance: Provenance {
                    source: request.name.to_string(),
                    target: request.target.clone(),
                    compiler: compiler.identity.clone(),
                    image: request.reason.clone(),
                    module: Some(module),
                    ..Provenance::default()
                },
                source_bytes,
                text: text(),
            })
        };
        // SAFETY: the keys of the code that it returns are made of the module's key, which has
        // the PTX, the compiler and the processor. What is said of the cache where a module's
        // code is loaded holds here too.
        unsafe { loaded.module.set_code_store(store) };
        Ok(())
    }
}

/// A copy of the PTX of a module that is whole.
pub(super) fn copy_of(text: &str) -> Text {
    let copy = Mutex::new(Some(text.to_owned()));
    // It is asked for once.
    Box::new(move || lock(&copy).take())
}

/// Code for the cache, without PTX: whoever takes it from there has that.
pub(super) fn for_cache(compiler: &Compiler, code: Vec<u8>) -> Vec<u8> {
    if compiler.is_of_cpu() {
        with_text(&code, "")
    } else {
        code
    }
}

/// Code from the cache for other libraries, which do not have its PTX.
pub(super) fn for_others<T: AsRef<str>>(
    compiler: &Compiler,
    code: &[u8],
    ptx: impl FnOnce() -> T,
) -> Vec<u8> {
    if compiler.is_of_cpu() {
        with_text(code, ptx().as_ref())
    } else {
        code.to_vec()
    }
}

impl HotCode {
    fn key(&self, variant: Variant) -> Key {
        let mut part = format!("hot kernel {}", variant.kernel);
        if let Some([x, y, z]) = variant.block {
            part += &format!(" of blocks {x} {y} {z}");
        }
        self.module.of_part(part.as_bytes())
    }
}

impl CodeStore for HotCode {
    fn text(&self) -> Option<String> {
        (self.text)()
    }

    fn find(&self, variant: Variant) -> Option<Vec<u8>> {
        let blob = self.cache.stored(&self.key(variant))?;
        count(&self.counts.hot_hits);
        Some(blob.to_vec())
    }

    fn find_or_compile(
        &self,
        variant: Variant,
        name: &str,
        compile: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let key = self.key(variant);
        let lock = match self.cache.lookup_of(&key, self.source_bytes) {
            Lookup::Hit(blob) => {
                count(&self.counts.hot_hits);
                return Some(blob.to_vec());
            }
            Lookup::Miss(lock) => Some(lock),
            // Nobody reports a failure for this key.
            Lookup::Failed(_) | Lookup::Off => None,
        };
        let started = Instant::now();
        let code = compile();
        let compile_time = started.elapsed();
        count(&self.counts.hot_compiles);
        add_time(&self.counts.hot_compile_us, compile_time);
        let code = code?;
        info!(key = %key.short(), kernel = name, ms = compile_time.as_millis(), "compiled a hot kernel");
        if let Some(lock) = lock {
            let provenance = Provenance {
                kernels: vec![name.to_owned()],
                compile_time,
                ..self.provenance.clone()
            };
            // SAFETY: the compiler in the key made it of this kernel a moment ago.
            unsafe { lock.put(&provenance, &code) };
        }
        Some(code)
    }

    fn discard(&self, variant: Variant, why: &str) {
        let key = self.key(variant);
        self.cache
            .discard(&key, &format!("it does not load: {why}"));
    }
}
