//! Handles: what a caller holds in place of an object.
//!
//! A handle is a number that is never used twice in a process, shared by all
//! kinds of objects, so a freed handle, a handle of another kind and an
//! invented one are all simply not found. Nothing is ever read through it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::entry::Given;

/// Above the reserved handles of streams (0, 1, 2), spaced like pointers so
/// that clients which keep flags in the low bits find them free.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

/// The live objects of one kind.
pub(super) struct Handles<T> {
    live: RwLock<BTreeMap<usize, Arc<T>>>,
}

/// A number for an object that is not made yet.
pub(super) fn reserve() -> usize {
    NEXT.fetch_add(16, Ordering::Relaxed)
}

impl<T> Handles<T> {
    pub(super) const fn new() -> Self {
        Handles {
            live: RwLock::new(BTreeMap::new()),
        }
    }

    pub(super) fn insert(&self, object: Arc<T>) -> usize {
        let handle = reserve();
        self.insert_at(handle, object);
        handle
    }

    /// Under a number from [`reserve`].
    pub(super) fn insert_at(&self, handle: usize, object: Arc<T>) {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(handle, object);
    }

    pub(super) fn get<H>(&self, handle: Given<H>) -> Option<Arc<T>> {
        self.at(handle.addr())
    }

    /// The object under a number that this driver itself kept.
    pub(super) fn at(&self, handle: usize) -> Option<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&handle).cloned()
    }

    /// Looks at every live object.
    pub(super) fn for_each(&self, look: impl Fn(&T)) {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().for_each(|object| look(object));
    }

    pub(super) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&handle)
    }

    /// Frees the handles of all objects that `gone` names, and hands the
    /// objects back so that they are dropped outside of the lock.
    pub(super) fn remove_all(&self, gone: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.extract_if(.., |_, object| gone(object))
            .map(|(_, object)| object)
            .collect()
    }
}

/// The pointer that a caller sees for a handle's number.
pub(super) fn pointer<H>(handle: usize) -> *mut H {
    std::ptr::without_provenance_mut(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::entry::Argument;

    fn given(handle: usize) -> Given<u8> {
        // SAFETY: a handle; nothing is read through it.
        unsafe { pointer::<u8>(handle).seen() }
    }

    #[test]
    fn freed_foreign_and_invented_handles_are_not_found() {
        let numbers = Handles::<u32>::new();
        let words = Handles::<String>::new();
        let seven = numbers.insert(Arc::new(7));
        let word = words.insert(Arc::new("seven".into()));
        assert_eq!(numbers.get(given(seven)).as_deref(), Some(&7));
        assert_eq!(numbers.get(given(word)), None);
        assert_eq!(numbers.get(given(3)), None);
        assert_eq!(numbers.remove(seven).as_deref(), Some(&7));
        assert_eq!(numbers.get(given(seven)), None);
        assert_eq!(numbers.remove(seven), None);
        assert_ne!(numbers.insert(Arc::new(8)), seven);
    }

    #[test]
    fn objects_are_freed_by_what_they_are() {
        let numbers = Handles::<u32>::new();
        let handles: Vec<usize> = (0..6).map(|n| numbers.insert(Arc::new(n))).collect();
        assert_eq!(numbers.remove_all(|n| n % 2 == 0).len(), 3);
        assert_eq!(numbers.get(given(handles[2])), None);
        assert_eq!(numbers.get(given(handles[3])).as_deref(), Some(&3));
    }
}
