//! Handles: what callers have in place of objects.
//!
//! A handle is a number that is never used twice in a process, by any kind of
//! object. So the lookup of a freed handle, of a handle of another kind or of an
//! invented one fails. A handle is never followed as a pointer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Above the reserved handles of streams (0, 1, 2), and multiples of 16 like
/// pointers, for clients that keep flags in the low bits.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

/// The live objects of one kind.
pub(crate) struct Handles<T> {
    live: RwLock<BTreeMap<usize, Arc<T>>>,
}

/// A handle for an object that is not made yet.
pub(crate) fn reserve() -> usize {
    NEXT.fetch_add(16, Ordering::Relaxed)
}

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Handles {
            live: RwLock::new(BTreeMap::new()),
        }
    }

    pub(crate) fn insert(&self, object: Arc<T>) -> usize {
        let handle = reserve();
        self.insert_at(handle, object);
        handle
    }

    /// Under a handle from [`reserve`].
    pub(crate) fn insert_at(&self, handle: usize, object: Arc<T>) {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(handle, object);
    }

    /// The live object of a handle.
    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&handle).cloned()
    }

    /// The object of a handle, which is made now if there is none.
    pub(crate) fn get_or_insert(&self, handle: usize, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(object) = self.get(handle) {
            return object;
        }
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.entry(handle).or_insert_with(make).clone()
    }

    pub(crate) fn for_each(&self, visit: impl Fn(&T)) {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().for_each(|object| visit(object));
    }

    /// The live objects that match.
    pub(crate) fn all(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values()
            .filter(|object| matches(object))
            .cloned()
            .collect()
    }

    /// The handle of the first live object that matches.
    pub(crate) fn find(&self, matches: impl Fn(&Arc<T>) -> bool) -> Option<usize> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = live.iter().filter(|(_, object)| matches(object));
        found.next().map(|(handle, _)| *handle)
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&handle)
    }

    /// Frees the handles of the objects that match, and returns the objects, so that
    /// they are dropped outside of the lock.
    pub(crate) fn remove_all(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.extract_if(.., |_, object| matches(object))
            .map(|(_, object)| object)
            .collect()
    }
}

/// The handle as callers see it.
pub(crate) fn pointer<H>(handle: usize) -> *mut H {
    std::ptr::without_provenance_mut(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_foreign_and_invented_handles_are_not_found() {
        let numbers = Handles::<u32>::new();
        let words = Handles::<String>::new();
        let seven = numbers.insert(Arc::new(7));
        let word = words.insert(Arc::new("seven".into()));
        assert_eq!(numbers.get(seven).as_deref(), Some(&7));
        assert_eq!(numbers.get(word), None);
        assert_eq!(numbers.get(3), None);
        assert_eq!(numbers.remove(seven).as_deref(), Some(&7));
        assert_eq!(numbers.get(seven), None);
        assert_eq!(numbers.remove(seven), None);
        assert_ne!(numbers.insert(Arc::new(8)), seven);
    }

    #[test]
    fn objects_are_freed_by_what_they_are() {
        let numbers = Handles::<u32>::new();
        let handles: Vec<usize> = (0..6).map(|n| numbers.insert(Arc::new(n))).collect();
        assert_eq!(numbers.remove_all(|n| n % 2 == 0).len(), 3);
        assert_eq!(numbers.get(handles[2]), None);
        assert_eq!(numbers.get(handles[3]).as_deref(), Some(&3));
    }

    #[test]
    fn an_object_is_made_once() {
        let numbers = Handles::<u32>::new();
        let handle = reserve();
        assert_eq!(*numbers.get_or_insert(handle, || Arc::new(1)), 1);
        assert_eq!(*numbers.get_or_insert(handle, || Arc::new(2)), 1);
    }
}
