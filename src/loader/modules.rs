//! The modules that are loaded now, so that one PTX is loaded once.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CacheUse, Loaded, Report};
use crate::cache::{Digest, Key};
use crate::driver::WeakModule;
use crate::jit::JitOptions;

/// What one module differs by from every other of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    digest: Digest,
    options: JitOptions,
}

/// Of the digest alone: hardly any two differ in the options only.
impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl Identity {
    pub(super) fn new(digest: Digest, options: &JitOptions) -> Identity {
        // Neither changes the code.
        let options = JitOptions {
            verbose: false,
            threads: None,
            ..*options
        };
        Identity { digest, options }
    }
}

/// The modules of one context. It keeps none of them loaded.
#[derive(Debug, Default)]
pub(super) struct Modules(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    all: HashMap<Identity, Arc<Place>>,
    /// So many places may there be before the empty ones are looked for.
    sweep_at: usize,
}

/// Where one module is, once it is loaded. Whoever loads it holds the lock, so
/// that others wait and share.
#[derive(Debug, Default)]
pub(super) struct Place(Mutex<Option<Kept>>);

#[derive(Debug)]
pub(super) struct Kept {
    module: WeakModule,
    image: String,
    key: Option<Key>,
}

impl Modules {
    /// The place of a module, if there was one ever.
    pub(super) fn find(&self, identity: &Identity) -> Option<Arc<Place>> {
        lock(&self.0).all.get(identity).cloned()
    }

    /// The place of a module, which is made if there is none.
    pub(super) fn place(&self, identity: &Identity) -> Arc<Place> {
        let mut places = lock(&self.0);
        if let Some(place) = places.all.get(identity) {
            return Arc::clone(place);
        }
        if places.all.len() >= places.sweep_at {
            places.all.retain(|_, place| !is_forgotten(place));
            places.sweep_at = (2 * places.all.len()).max(64);
        }
        let place = Arc::default();
        places.all.insert(*identity, Arc::clone(&place));
        place
    }

    /// How many are loaded now.
    pub(super) fn count(&self) -> u64 {
        let places: Vec<_> = lock(&self.0).all.values().cloned().collect();
        // One that is being loaded is not loaded yet.
        let loaded = |place: &&Arc<Place>| {
            place
                .0
                .try_lock()
                .is_ok_and(|kept| kept.as_ref().is_some_and(|kept| kept.module.is_loaded()))
        };
        places.iter().filter(loaded).count() as u64
    }
}

/// Whether nobody has the place, and no module is in it. Only the map can give
/// it away, and that is locked.
fn is_forgotten(place: &Arc<Place>) -> bool {
    Arc::strong_count(place) == 1
        && lock(&place.0)
            .as_ref()
            .is_none_or(|kept| !kept.module.is_loaded())
}

impl Place {
    /// Waits for whoever loads the module.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        lock(&self.0)
    }
}

impl Kept {
    pub(super) fn new(loaded: &Loaded) -> Kept {
        Kept {
            module: loaded.module.downgrade(),
            image: loaded.report.image.clone(),
            key: loaded.report.key,
        }
    }

    /// The module, if it is still loaded.
    pub(super) fn share(&self) -> Option<Loaded> {
        Some(Loaded {
            module: self.module.upgrade()?,
            report: Report {
                key: self.key,
                ..Report::new(self.image.clone(), CacheUse::Shared)
            },
        })
    }
}

/// No code runs under these locks that could leave half a state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
