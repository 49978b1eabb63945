//! The modules that are loaded now, so that each is loaded once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CacheUse, Loaded, Report};
use crate::cache::Key;
use crate::driver::WeakModule;

/// The modules of one context, by the keys of their code. It keeps none of them
/// loaded.
#[derive(Debug, Default)]
pub(super) struct Modules(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    slots: BTreeMap<Key, Arc<Slot>>,
    /// At this many slots, those of unloaded modules are removed.
    sweep_at: usize,
}

/// The place of one module. Whoever loads it holds the lock, so that others wait
/// for it and share it.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<SharedModule>>);

/// A module that may be loaded, and what its report says.
#[derive(Debug)]
pub(super) struct SharedModule {
    module: WeakModule,
    image: String,
    key: Option<Key>,
}

impl Modules {
    /// The slot of the module with this code.
    pub(super) fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut table = lock(&self.0);
        if let Some(slot) = table.slots.get(key) {
            return Arc::clone(slot);
        }
        if table.slots.len() >= table.sweep_at {
            table.slots.retain(|_, slot| !is_unused(slot));
            table.sweep_at = (2 * table.slots.len()).max(64);
        }
        let slot = Arc::default();
        table.slots.insert(*key, Arc::clone(&slot));
        slot
    }

    /// How many are loaded now.
    pub(super) fn count(&self) -> u64 {
        let slots: Vec<_> = lock(&self.0).slots.values().cloned().collect();
        // One whose lock is held is being loaded.
        let loaded = |slot: &&Arc<Slot>| {
            let shared = slot.0.try_lock();
            shared.is_ok_and(|shared| shared.as_ref().is_some_and(SharedModule::is_loaded))
        };
        slots.iter().filter(loaded).count() as u64
    }
}

/// Whether the slot's module is unloaded and nobody else holds the slot. Only the
/// table hands slots out, and that is locked.
fn is_unused(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) == 1 && !lock(&slot.0).as_ref().is_some_and(SharedModule::is_loaded)
}

impl Slot {
    /// Waits for whoever loads the module.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<SharedModule>> {
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

    fn is_loaded(&self) -> bool {
        self.module.is_loaded()
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

/// A poisoned lock is used as it is: no code under these locks leaves a half-made
/// state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
