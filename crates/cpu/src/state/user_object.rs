//! Objects of callers that graphs use: each is destroyed with the last reference to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handle::{self, Handles};
use super::status::{Result, Status};
use super::user_pointer::UserPointer;
use std::ffi::c_void;

static OBJECTS: Handles<UserObject> = Handles::new();

pub(crate) struct UserObject {
    handle: usize,
    object: UserPointer<c_void>,
    destroy: unsafe extern "C" fn(*mut c_void),
    references: AtomicU64,
}

impl UserObject {
    pub(crate) fn retain(&self, count: u32) {
        self.references.fetch_add(count.into(), Ordering::AcqRel);
    }

    /// Takes references away, of which there must be as many.
    pub(crate) fn release(&self, count: u32) -> Result {
        let less = |references: u64| references.checked_sub(count.into());
        let (add, get) = (Ordering::AcqRel, Ordering::Acquire);
        match self.references.fetch_update(add, get, less) {
            Err(_) => Err(Status::INVALID_VALUE.because("the object has not as many references")),
            Ok(before) => {
                if before == u64::from(count) && OBJECTS.remove(self.handle).is_some() {
                    // SAFETY: the caller passed function and object for this call, which is
                    // made once: the handle is found once.
                    unsafe { (self.destroy)(self.object.as_ptr()) };
                }
                Ok(())
            }
        }
    }
}

/// References that a graph has.
pub(crate) struct References {
    pub(crate) object: Arc<UserObject>,
    pub(crate) count: u32,
}

impl Clone for References {
    fn clone(&self) -> References {
        self.object.retain(self.count);
        References {
            object: self.object.clone(),
            count: self.count,
        }
    }
}

impl Drop for References {
    fn drop(&mut self) {
        // The graph has them, so there are as many.
        let _ = self.object.release(self.count);
    }
}

/// Counts the first references to an object of the caller's; returns its handle.
pub(crate) fn create(
    object: UserPointer<c_void>,
    destroy: unsafe extern "C" fn(*mut c_void),
    references: u32,
) -> usize {
    let handle = handle::reserve();
    let object = UserObject {
        handle,
        object,
        destroy,
        references: AtomicU64::new(references.into()),
    };
    OBJECTS.insert_at(handle, Arc::new(object));
    handle
}

pub(crate) fn find(object: usize) -> Result<Arc<UserObject>> {
    OBJECTS
        .get(object)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live user object has this handle"))
}
