//! The modules that are loaded now, so that each is loaded once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CacheUse, Loaded, Report};
use crate::cache::Key;
use crate::driver::WeakModule;

/// The modules of one context, by their keys. It keeps none of them loaded.
#[derive(Debug)]
pub(super) struct Modules<T>(Mutex<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    /// Ordered: a hash map asks the system for random keys first, which shows in the
    /// first hit of a process.
    slots: BTreeMap<Key, Arc<Slot<T>>>,
    /// At this many slots, those of unloaded modules are removed.
    sweep_at: usize,
}

/// The place of one module. Whoever loads it holds the lock, so that others wait
/// for it and share it.
#[derive(Debug)]
pub(super) struct Slot<T>(Mutex<Option<T>>);

/// What does not keep its module loaded.
pub(super) trait WeakLoaded {
    fn is_loaded(&self) -> bool;
}

/// A module that may be loaded, and what its report says.
#[derive(Debug)]
pub(super) struct SharedModule {
    module: WeakModule,
    image: String,
    key: Option<Key>,
}

impl<T> Default for Modules<T> {
    fn default() -> Modules<T> {
        Modules(Mutex::new(Table {
            slots: BTreeMap::new(),
            sweep_at: 0,
        }))
    }
}

impl<T: WeakLoaded> Modules<T> {
    /// The slot of the module with this key.
    pub(super) fn slot(&self, key: &Key) -> Arc<Slot<T>> {
        let mut table = lock(&self.0);
        if let Some(slot) = table.slots.get(key) {
            return Arc::clone(slot);
        }
        if table.slots.len() >= table.sweep_at {
            table.slots.retain(|_, slot| !is_unused(slot));
            table.sweep_at = (2 * table.slots.len()).max(64);
        }
        let slot = Arc::new(Slot(Mutex::new(None)));
        table.slots.insert(*key, Arc::clone(&slot));
        slot
    }

    /// How many are loaded now.
    pub(super) fn count(&self) -> u64 {
        let slots: Vec<_> = lock(&self.0).slots.values().cloned().collect();
        // One whose lock is held is being loaded.
        let loaded = |slot: &&Arc<Slot<T>>| {
            let shared = slot.0.try_lock();
            shared.is_ok_and(|shared| shared.as_ref().is_some_and(T::is_loaded))
        };
        slots.iter().filter(loaded).count() as u64
    }
}

/// Whether the slot's module is unloaded and nobody else holds the slot. Only the
/// table hands slots out, and that is locked.
fn is_unused<T: WeakLoaded>(slot: &Arc<Slot<T>>) -> bool {
    Arc::strong_count(slot) == 1 && !lock(&slot.0).as_ref().is_some_and(T::is_loaded)
}

impl<T> Slot<T> {
    /// Waits for whoever loads the module.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<T>> {
        lock(&self.0)
    }
}

impl SharedModule {
    pub(super) fn new(loaded: &Loaded) -> SharedModule {
        SharedModule {
            module: loaded.module.downgrade(),
            image: loaded.report.image.clone(),
            key: loaded.report.key,
        }
    }

    /// The module, if it is still loaded.
    pub(super) fn loaded(&self) -> Option<Loaded> {
        Some(Loaded {
            module: self.module.upgrade()?,
            report: Report {
                key: self.key,
                ..Report::new(self.image.clone(), CacheUse::Shared)
            },
        })
    }
}

impl WeakLoaded for SharedModule {
    fn is_loaded(&self) -> bool {
        self.module.is_loaded()
    }
}

/// A poisoned lock is used as it is: no code under these locks leaves a half-made
/// state behind.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
