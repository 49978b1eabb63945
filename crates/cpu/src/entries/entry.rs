//! What all entries have in common: how their arguments are seen, and how
//! their outcome becomes a number.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::status::{Answer, Failure, Status};

/// Defines entries under their C names: the body sees pointers as [`Given`],
/// gives an [`Answer`], and runs only after `cuInit`, or any time if it is
/// `early` in place of `fn`.
/// `serve` puts all of them into the table.
macro_rules! entries {
    ($($(#[$doc:meta])* $kind:ident $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            pub(in crate::entries) unsafe extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
                // SAFETY: the caller of a C entry answers for its pointers: each is null, a
                // handle, or good for what the entry's documentation does with it.
                $(let $arg = unsafe { $crate::entries::entry::Argument::seen($arg) };)*
                $crate::entries::entry::answer(move || -> $crate::entries::status::Answer {
                    $crate::entries::entry::entries!(@start $kind);
                    $body
                })
            }
        )*

        pub(in crate::entries) fn serve(api: &mut api::Api) {
            $(api.$name = Some($name);)*
        }
    };
    (@start early) => {};
    (@start fn) => { $crate::entries::entry::started()? };
}
pub(super) use entries;

static INITIALISED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Set while this thread runs a caller's host function.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
    /// What the last entry that failed on this thread had to say.
    static DETAIL: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(super) fn initialise() {
    INITIALISED.store(true, Ordering::Release);
}

/// Whether an entry may run: after `cuInit`, and not in a host function, which
/// could wait for its own stream.
#[inline]
pub(super) fn started() -> Answer {
    if !INITIALISED.load(Ordering::Acquire) {
        return Err(Status::NOT_INITIALIZED.into());
    }
    if IN_HOST_FUNCTION.get() {
        return Err(
            Status::NOT_PERMITTED.because("a host function of a stream may not call the driver")
        );
    }
    Ok(())
}

/// Runs a caller's host function, from which entries are refused.
pub(super) fn in_host_function(call: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    call();
    IN_HOST_FUNCTION.set(false);
}

/// The number for what an entry's body came to. A panic must not cross into C.
#[inline]
pub(super) fn answer(body: impl FnOnce() -> Answer) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS.0,
        Ok(Err(failure)) => failed(failure),
        Err(_) => failed(Status::UNKNOWN.because("the CPU device panicked: please report this")),
    }
}

#[cold]
fn failed(failure: Failure) -> c_int {
    // A thread that is ending has no place for the text any more.
    let _ = DETAIL.try_with(|detail| *detail.borrow_mut() = failure.detail.unwrap_or_default());
    failure.status.0
}

/// What the last failure on this thread had to say, or nothing.
pub(super) fn last_detail() -> String {
    DETAIL.with_borrow(String::clone)
}

/// An argument as the body of an entry sees it.
pub(super) trait Argument {
    type Seen;
    /// # Safety
    /// A pointer is null, a handle, or good for reads and writes as the entry's
    /// documentation says.
    unsafe fn seen(self) -> Self::Seen;
}

macro_rules! plain_arguments {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            type Seen = $type;
            #[inline]
            unsafe fn seen(self) -> $type {
                self
            }
        })*
    };
}
plain_arguments!(
    c_int,
    c_uint,
    u8,
    u16,
    u64,
    usize,
    f32,
    api::CUhostFn,
    api::MemLocation,
    api::CUipcEventHandle,
    api::CUipcMemHandle,
    api::StreamCallback,
    api::CUoccupancyB2DSize
);

impl<T> Argument for *mut T {
    type Seen = Given<T>;
    #[inline]
    unsafe fn seen(self) -> Given<T> {
        Given(self)
    }
}

impl<T> Argument for *const T {
    type Seen = Given<T>;
    #[inline]
    unsafe fn seen(self) -> Given<T> {
        Given(self.cast_mut())
    }
}

/// A pointer from a caller: null, a handle, or good for what the entry's
/// documentation does with it, which is what [`Argument::seen`] was promised.
pub(super) struct Given<T>(*mut T);

impl<T> Clone for Given<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Given<T> {}

// SAFETY: the caller's promise does not depend on the thread, and holds until
// the work that the call handed in is done.
unsafe impl<T> Send for Given<T> {}
// SAFETY: as above; work that is captured may be done again by another thread.
unsafe impl<T> Sync for Given<T> {}

impl<T> Given<T> {
    pub(super) const fn null() -> Given<T> {
        Given(std::ptr::null_mut())
    }

    pub(super) fn addr(self) -> usize {
        self.0.addr()
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(super) fn cast<U>(self) -> Given<U> {
        Given(self.0.cast())
    }

    pub(super) fn as_ptr(self) -> *mut T {
        self.0
    }

    /// Writes a result that the entry must give.
    pub(super) fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the result is null"));
        }
        self.put_if_asked(value);
        Ok(())
    }

    /// Writes a result that the caller may do without.
    pub(super) fn put_if_asked(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so good for the write by the promise to `seen`;
            // C callers may misalign what is narrower in their own layout.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes element `index` of an array of results.
    pub(super) fn put_at(self, index: usize, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.because("the array for the results is null"));
        }
        Given(self.0.wrapping_add(index)).put(value)
    }

    /// Reads what the caller passed.
    pub(super) fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        self.get_at(0)
    }

    /// Reads element `index` of an array.
    pub(super) fn get_at(self, index: usize) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.because("a pointer that must be given is null"));
        }
        // SAFETY: not null, so good for the read by the promise to `seen`, and
        // the callers keep `index` below the count that came with the pointer.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// The `count` elements of an array.
    pub(super) fn slice<'a>(self, count: usize) -> Answer<&'a [T]>
    where
        T: Copy,
    {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(
                Status::INVALID_VALUE.because("an array that must be given is null or misaligned")
            );
        }
        // SAFETY: not null and aligned; its length is the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl<T> Given<*mut T> {
    /// Element `index` of an array of pointers, for which the caller's promise
    /// holds as well.
    pub(super) fn follow(self, index: usize) -> Answer<Given<T>> {
        Ok(Given(self.get_at(index)?))
    }
}

impl Given<c_char> {
    /// A string of the caller's, for as long as the call lasts.
    pub(super) fn text<'a>(self) -> Answer<&'a CStr> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.because("a name that must be given is null"));
        }
        // SAFETY: not null, so a C string by the promise to `seen`.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// A path of the caller's.
    pub(super) fn path(self) -> Answer<PathBuf> {
        let text = self.text()?;
        text.to_str()
            .map(PathBuf::from)
            .map_err(|_| Status::INVALID_VALUE.because("the path is not UTF-8"))
    }

    /// Writes `text` cut to `room` bytes, its NUL included.
    pub(super) fn put_text(self, text: &str, room: usize) -> Answer {
        if self.0.is_null() || room == 0 {
            return Err(Status::INVALID_VALUE.because("no room for the text"));
        }
        let kept = text.len().min(room - 1);
        // SAFETY: not null and `room` bytes long by the promise to `seen`, of
        // which this writes `kept + 1`, at most `room`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), kept);
            self.0.add(kept).write(0);
        }
        Ok(())
    }
}

impl Given<c_void> {
    /// The `count` bytes that a caller passes.
    pub(super) fn bytes<'a>(self, count: usize) -> Answer<&'a [u8]> {
        self.cast::<u8>().slice(count)
    }
}
