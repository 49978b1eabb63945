//! How a module is cut: by its index in the cache, or by reading it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::compile::Request;
use super::cores::{copy_text, cores, on_all_cores};
use super::cut::{Cut, WeakCut};
use super::index::{Index, digest_for_index};
use super::select::{Payload, SelectedPtx};
use super::sliced::SlicedReport;
use super::start::CompilerStart;
use super::{CacheUse, LoadError, Loader, Source};
use crate::cache::{CompileLock, Digest, Key, Lookup, Provenance, Slicing};
use crate::driver::Error;
use crate::jit::JitOptions;
use ptx::diagnostic::Severity;
use ptx::slice::{HostAccess, SHORTEST, Slices};
use ptx::{CheckOptions, Level};

/// What to load: how a module is cut, and its PTX.
pub(super) enum Plan<'a> {
    Whole(Request<'a>, SlicedReport),
    Cut(Arc<Cut>, SlicedReport),
    /// Which image it is, and its bytes.
    Binary(String, Cow<'a, [u8]>),
}

/// How a module is cut.
struct FoundIndex {
    index: Index,
    cache: CacheUse,
    /// The rest is of a module that was read.
    slices: Option<Slices>,
    start: CompilerStart,
    time: Duration,
}

impl FoundIndex {
    fn new(index: Index, cache: CacheUse) -> FoundIndex {
        FoundIndex {
            index,
            cache,
            slices: None,
            start: CompilerStart::default(),
            time: Duration::ZERO,
        }
    }
}

impl Plan<'_> {
    pub(super) fn into_owned(self) -> Plan<'static> {
        match self {
            Plan::Whole(request, report) => Plan::Whole(request.into_owned(), report),
            Plan::Cut(cut, report) => Plan::Cut(cut, report),
            Plan::Binary(image, bytes) => Plan::Binary(image, bytes.into_owned().into()),
        }
    }
}

impl Loader {
    /// Decides how to cut, by the cache or by reading.
    pub(super) fn plan<'a>(
        &self,
        source: &Source<'a>,
        options: &JitOptions,
        access: HostAccess,
    ) -> Result<Plan<'a>, LoadError> {
        let selected = self.select(source, options)?;
        let ptx = match selected.payload {
            Payload::Ptx(ptx) => ptx,
            Payload::Binary(bytes) => return Ok(Plan::Binary(selected.reason, bytes)),
        };
        let image = selected.reason;
        let whole = |request: Request<'a>, why: &str| {
            debug!(key = %request.key, "not cut: {why}");
            let report = SlicedReport::whole(image.clone(), why.to_owned());
            Ok(Plan::Whole(request, report))
        };
        let slicing = self.cache().policy().slicing();
        let why = match slicing {
            Slicing::Never => Some("PTXKIT_SLICED or the program says so"),
            Slicing::Auto if ptx.text().len() < SHORTEST => Some("it is short"),
            _ => None,
        };
        if let Some(why) = why {
            let request = self.request(source, ptx, image.clone(), options)?;
            return whole(request, why);
        }
        let (digest, copy) = digest_and_copy(source, &ptx);
        let request = self.request_of(digest, source, ptx, image.clone(), options)?;
        let rules = CutRules { slicing, access };
        let digest = digest_for_index(digest, rules);
        let key = self.key(digest, &request.target, &request.options)?;
        let slot = self.sharing.then(|| self.shared.sliced.slot(&key));
        // Held while it is read and cut: other threads that want this module wait for it.
        let mut shared = slot.as_ref().map(|slot| slot.lock());
        if let Some(cut) = shared.as_deref().and_then(|cut| cut.as_ref()?.0.upgrade()) {
            debug!(%key, "the module is loaded already");
            let report = SlicedReport::cut(&cut, image, CacheUse::Shared, key, Duration::ZERO);
            return Ok(Plan::Cut(cut, report));
        }
        let found = self.index(&request, rules, &key);
        let FoundIndex {
            index,
            slices,
            start,
            cache,
            time,
        } = found;
        if let Some(why) = &index.whole {
            return whole(request, why);
        }
        info!("selected {image}, cut into slices: {}", index.slices.len());
        let request = match copy {
            Some(ptx) => Request { ptx, ..request }.into_owned(),
            None => request.into_owned(),
        };
        let cut = Arc::new(Cut::new(self, request, rules, index, slices, start));
        if let Some(shared) = &mut shared {
            **shared = Some(WeakCut(Arc::downgrade(&cut)));
        }
        let report = SlicedReport::cut(&cut, image, cache, key, time);
        Ok(Plan::Cut(cut, report))
    }

    /// The index of a module, from the cache or by reading it.
    fn index(&self, request: &Request<'_>, rules: CutRules, key: &Key) -> FoundIndex {
        let (lock, cache) = match self.cache().lookup_of(key, request.ptx.text().len()) {
            Lookup::Hit(blob) => match Index::read(&blob) {
                Some(index) => return FoundIndex::new(index, CacheUse::Hit),
                None => {
                    self.cache().discard(key, "it is no index");
                    (None, CacheUse::Miss)
                }
            },
            Lookup::Miss(lock) => (Some(lock), CacheUse::Miss),
            // Nobody reports a failure for this key.
            Lookup::Failed(_) | Lookup::Off => (None, CacheUse::Off),
        };
        // It takes longer than all that follows.
        let start = self.start_compiler();
        let started = Instant::now();
        let cut = self.read_and_cut(request, rules);
        let time = started.elapsed();
        let (index, slices) = match cut {
            Ok((index, slices)) => {
                if let Some(lock) = lock {
                    self.put_index(lock, request, &index, time);
                }
                (index, slices)
            }
            // The compiler has the last word: it may read newer PTX than this crate.
            Err(why) => (Index::whole(why), None),
        };
        FoundIndex {
            slices,
            start,
            time,
            ..FoundIndex::new(index, cache)
        }
    }

    /// Reads, checks and cuts, on all cores. An error says why PTX that has mistakes is not
    /// cut.
    fn read_and_cut(
        &self,
        request: &Request<'_>,
        rules: CutRules,
    ) -> Result<(Index, Option<Slices>), String> {
        let text = request.ptx.text();
        let reading = ptx::read_parallel(text, cores());
        let mut found = reading.diagnostics;
        if found.is_empty() {
            let options = CheckOptions {
                level: Level::Codegen,
                ..CheckOptions::default()
            };
            found = ptx::check_parallel(&reading.module, text, &options, cores());
        }
        if found.iter().any(|found| found.severity == Severity::Error) {
            return Err("there are mistakes in it".to_owned());
        }
        let slices = rules.cut(text, &reading.module);
        if let Some(why) = slices.whole() {
            return Ok((Index::whole(why.to_string()), None));
        }
        let keys = on_all_cores(
            slices.slices(),
            |_, _| (),
            |slice| {
                let digest = Digest::of(slice.text(text).as_bytes());
                self.key(digest, &request.target, &request.options)
            },
        );
        let keys: Result<Vec<Key>, Error> = keys.into_iter().collect();
        let keys = keys.map_err(|error| error.to_string())?;
        Ok((Index::new(&reading.module, &slices, keys), Some(slices)))
    }

    fn put_index(&self, lock: CompileLock, request: &Request<'_>, index: &Index, time: Duration) {
        let compiler = self.compiler().map(|compiler| {
            let (identity, _) = compiler.identity_for(&request.options);
            identity.to_owned()
        });
        let provenance = Provenance {
            source: request.name.to_string(),
            kernels: index.kernel_names(),
            target: request.target.clone(),
            compiler: compiler.unwrap_or_default(),
            compile_time: time,
            image: request.reason.clone(),
            slices: index.slices.clone(),
            module: None,
        };
        // SAFETY: no code: loads under this key read it as an index, which was made of this
        // source a moment ago.
        unsafe { lock.put(&provenance, &index.to_bytes()) };
    }
}

/// A longer text is copied while its digest is computed, which takes longer than a thread
/// to start.
const LONG: usize = 1 << 20;

/// The digest of the selected PTX, and a copy where that takes no more time. A module that
/// is cut keeps its text, for slices that are not in the cache.
fn digest_and_copy(
    source: &Source<'_>,
    ptx: &SelectedPtx<'_>,
) -> (Digest, Option<SelectedPtx<'static>>) {
    if source.knows_digest() || ptx.text().len() < LONG || !ptx.is_borrowed() {
        return (source.digest(ptx.text()), None);
    }
    std::thread::scope(|scope| {
        let copy = std::thread::Builder::new().spawn_scoped(scope, || ptx.copy(copy_text));
        let digest = source.digest(ptx.text());
        (digest, copy.ok().and_then(|copy| copy.join().ok()))
    })
}

/// How a module is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutRules {
    pub slicing: Slicing,
    pub access: HostAccess,
}

impl CutRules {
    pub(super) fn cut(self, text: &str, module: &ptx::ast::Module<'_>) -> Slices {
        match self.slicing {
            Slicing::Always => ptx::slice::cut_always_for(text, module, self.access),
            _ => ptx::slice::cut_for(text, module, self.access),
        }
    }
}
