//! The textures and surfaces that there are, by the numbers that kernels know
//! them by: handles of objects, addresses of a module's references.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::fetch::Texture;
use super::surface::Surface;

/// What a kernel can name.
pub(crate) enum Object {
    Texture(Texture),
    Surface(Surface),
}

static OBJECTS: RwLock<BTreeMap<u64, Arc<Object>>> = RwLock::new(BTreeMap::new());

thread_local! {
    /// The object looked up last: kernels fetch many times from one.
    static LAST: RefCell<(u64, Weak<Object>)> = const { RefCell::new((0, Weak::new())) };
}

/// Puts an object behind a number, in place of the one that was there. Work that
/// uses that one must be done.
pub(crate) fn bind(number: u64, object: Object) {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.insert(number, Arc::new(object));
}

/// Takes an object away, for which the same holds.
pub(crate) fn remove(number: u64) -> bool {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.remove(&number).is_some()
}

/// Hands the object of a number to `use_it`.
pub(crate) fn object<R>(number: u64, use_it: impl FnOnce(Option<&Object>) -> R) -> R {
    let last = LAST.with_borrow(|(last, object)| match *last == number {
        true => object.upgrade(),
        false => None,
    });
    let found = last.or_else(|| {
        let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
        let found = objects.get(&number).cloned()?;
        LAST.set((number, Arc::downgrade(&found)));
        Some(found)
    });
    use_it(found.as_deref())
}
