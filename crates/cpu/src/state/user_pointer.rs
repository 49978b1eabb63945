//! Pointers that callers pass.

use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

use super::status::{Result, Status};

/// A pointer from a caller: null, a handle, or valid for the reads and writes that
/// the documentation of its entry names.
///
/// What is no address of a process is never read through: a handle or a size where a pointer
/// belongs is an error as null is.
pub(crate) struct UserPointer<T>(*mut T);

/// Systems map nothing below it.
const FIRST: usize = 64 << 10;

/// Beyond all memory of a process.
#[cfg(target_arch = "x86_64")]
const END: usize = 1 << 47;
#[cfg(not(target_arch = "x86_64"))]
const END: usize = 1 << 52;

/// Whether `bytes` bytes at an address can be memory of the process.
pub fn may_be_memory(address: usize, bytes: usize) -> bool {
    address >= FIRST && bytes <= END && address <= END - bytes
}

impl<T> Clone for UserPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for UserPointer<T> {}

// SAFETY: the contract of `new` does not depend on the thread, and holds until the
// work that the call queued is done.
unsafe impl<T> Send for UserPointer<T> {}
// SAFETY: as above; captured work may run again on another thread.
unsafe impl<T> Sync for UserPointer<T> {}

impl<T> UserPointer<T> {
    /// # Safety
    /// The pointer is null, a handle that is never read through, or valid for the
    /// reads and writes that the documentation of its entry names, until the work
    /// that the call queues is done.
    pub(crate) unsafe fn new(pointer: *mut T) -> UserPointer<T> {
        UserPointer(pointer)
    }

    pub(crate) const fn null() -> UserPointer<T> {
        UserPointer(std::ptr::null_mut())
    }

    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn cast<U>(self) -> UserPointer<U> {
        UserPointer(self.0.cast())
    }

    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }

    /// Whether `count` elements may be there.
    fn may_have(self, count: usize) -> bool {
        let bytes = count.checked_mul(size_of::<T>());
        bytes.is_some_and(|bytes| may_be_memory(self.0.addr(), bytes))
    }

    /// Writes a result; a null pointer is an error.
    pub(crate) fn put(self, value: T) -> Result {
        if !self.may_have(1) {
            return Err(Status::INVALID_VALUE.because("the pointer for the result is null"));
        }
        self.put_optional(value);
        Ok(())
    }

    /// Writes a result unless the pointer is null.
    pub(crate) fn put_optional(self, value: T) {
        if self.may_have(1) {
            // SAFETY: not null, so good for the write by the contract of `new`;
            // C callers may misalign what is narrower in their own layout.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// An array of `count` elements or for as many results; an error where no memory is that large.
    pub(crate) fn array(self, count: usize) -> Result<UserPointer<T>> {
        if self.may_have(count) {
            Ok(self)
        } else {
            Err(Status::INVALID_VALUE.because("an array is null or beyond any memory"))
        }
    }

    /// Writes element `index` of an array of results.
    pub(crate) fn put_at(self, index: usize, value: T) -> Result {
        self.array(index.saturating_add(1))?;
        UserPointer(self.0.wrapping_add(index)).put(value)
    }

    /// Reads what the caller passed.
    pub(crate) fn get(self) -> Result<T>
    where
        T: Copy,
    {
        self.get_at(0)
    }

    /// Reads element `index` of an array.
    pub(crate) fn get_at(self, index: usize) -> Result<T>
    where
        T: Copy,
    {
        if !self.may_have(index.saturating_add(1)) {
            return Err(Status::INVALID_VALUE.because("a pointer that must be given is null"));
        }
        // SAFETY: not null, so good for the read by the contract of `new`, and
        // the callers keep `index` below the count that came with the pointer.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// The `count` elements of an array.
    pub(crate) fn slice<'a>(self, count: usize) -> Result<&'a [T]>
    where
        T: Copy,
    {
        if count == 0 {
            return Ok(&[]);
        }
        if !self.may_have(count) || !self.0.is_aligned() {
            return Err(Status::INVALID_VALUE
                .because("an array that must be given is null, misaligned or beyond any memory"));
        }
        // SAFETY: not null and aligned; the contract covers its length.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl<T> UserPointer<*mut T> {
    /// Element `index` of an array of pointers, for which the same contract holds.
    pub(crate) fn follow(self, index: usize) -> Result<UserPointer<T>> {
        Ok(UserPointer(self.get_at(index)?))
    }
}

impl UserPointer<c_char> {
    /// A string of the caller's, for as long as the call lasts.
    pub(crate) fn text<'a>(self) -> Result<&'a CStr> {
        if !self.may_have(1) {
            return Err(Status::INVALID_VALUE.because("a name that must be given is null"));
        }
        // SAFETY: not null, so a C string by the contract of `new`.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// A path of the caller's.
    pub(crate) fn path(self) -> Result<PathBuf> {
        let text = self.text()?;
        text.to_str()
            .map(PathBuf::from)
            .map_err(|_| Status::INVALID_VALUE.because("the path is not UTF-8"))
    }

    /// Writes `text` cut to `capacity` bytes, its NUL included.
    pub(crate) fn put_text(self, text: &str, capacity: usize) -> Result {
        if !self.may_have(1) || capacity == 0 {
            return Err(Status::INVALID_VALUE.because("the buffer for the text is null or empty"));
        }
        let length = text.len().min(capacity - 1);
        // SAFETY: not null and `capacity` bytes long by the contract of `new`, of
        // which this writes `length + 1`, at most `capacity`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), length);
            self.0.add(length).write(0);
        }
        Ok(())
    }
}

impl UserPointer<c_void> {
    /// The `count` bytes that a caller passes.
    pub(crate) fn bytes<'a>(self, count: usize) -> Result<&'a [u8]> {
        self.cast::<u8>().slice(count)
    }
}
