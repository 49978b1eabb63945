//! The table of texture and surface objects. Its keys are the numbers that kernels use:
//! handles of objects, and addresses of a module's texture and surface references.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::fetch::Texture;
use super::surface::Surface;

/// A texture or surface.
pub(crate) enum Object {
    Texture(Texture),
    Surface(Surface),
}

static OBJECTS: RwLock<BTreeMap<u64, Arc<Object>>> = RwLock::new(BTreeMap::new());

thread_local! {
    /// The last object looked up: a kernel usually fetches many times from one.
    static LAST: RefCell<(u64, Weak<Object>)> = const { RefCell::new((0, Weak::new())) };
}

/// Adds an object, or replaces the one with this number. Work that uses the old one must
/// have completed.
pub(crate) fn bind(number: u64, object: Object) {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.insert(number, Arc::new(object));
}

/// Removes an object. Work that uses it must have completed.
pub(crate) fn remove(number: u64) -> bool {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.remove(&number).is_some()
}

/// Calls `use_it` with the object of a number.
pub(crate) fn object<R>(number: u64, use_it: impl FnOnce(Option<&Object>) -> R) -> R {
    let last = LAST.with_borrow(|(last, object)| {
        if *last == number {
            object.upgrade()
        } else {
            None
        }
    });
    let found = last.or_else(|| {
        let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
        let found = objects.get(&number).cloned()?;
        LAST.set((number, Arc::downgrade(&found)));
        Some(found)
    });
    use_it(found.as_deref())
}
