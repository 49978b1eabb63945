//! What all functions have in common: their arguments are decoded, and their outcome
//! becomes an error number.

use std::ffi::{c_int, c_uint, c_void};

use crate::error::{Code, Result};
use crate::types::{Dim3, Extent, PitchedPointer};

/// Defines functions under their C names. The body gets pointers as [`Place`] and returns
/// a [`Result`].
///
/// A second name is that of the form for programs compiled with
/// `--default-stream per-thread`: its null stream is the thread's own. A body that follows
/// `in stream` has no stream among its arguments and is done when it returns.
macro_rules! entries {
    ($($(#[$doc:meta])* fn $name:ident $(/ $per_thread:ident)? ($($args:tt)*) $(in $stream:ident)? $body:block)*) => {
        $($crate::entry::entries! {
            @one [$(#[$doc])*] $name [$($per_thread)?] ($($args)*) [$($stream)?] $body
        })*
    };
    (@one $doc:tt $name:ident [] $args:tt $stream:tt $body:block) => {
        $crate::entry::entry! { $doc $name, decode, 0, $args $stream $body }
    };
    (@one $doc:tt $name:ident [$per_thread:ident] $args:tt $stream:tt $body:block) => {
        $crate::entry::entry! { $doc $name, decode, 0, $args $stream $body }
        $crate::entry::entry! {
            [#[doc = concat!("As [`", stringify!($name), "`], with the thread's own default stream.")]]
            $per_thread, decode_per_thread, 2, $args $stream $body
        }
    };
}
pub(crate) use entries;

macro_rules! entry {
    ([$(#[$doc:meta])*] $name:ident, $decode:ident, $default:literal, ($($arg:ident: $type:ty),* $(,)?) [$($stream:ident)?] $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments must be what the CUDA documentation asks of this function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            // SAFETY: the caller of a C function answers for its pointers.
            $(let $arg = unsafe { $crate::entry::Argument::$decode($arg) };)*
            $crate::error::outcome(move || -> $crate::error::Result {
                $(let $stream = ::std::ptr::without_provenance_mut($default);)?
                $body
            })
        }
    };
}
pub(crate) use entry;

/// Calls an entry of the driver.
macro_rules! driver {
    ($entry:ident($($arg:expr),* $(,)?)) => {{
        match $crate::context::driver()?.$entry {
            // SAFETY: pointers come from the caller, who answers for them, or are of this
            // function's own variables.
            Some(entry) => $crate::error::check(unsafe { entry($($arg),*) }),
            None => Err($crate::error::Code::NOT_SUPPORTED),
        }
    }};
}
pub(crate) use driver;

/// An argument of a C function, and what the body gets for it.
pub(crate) trait Argument: Sized {
    type Decoded;
    /// # Safety
    /// That of [`Place::new`] for a pointer.
    unsafe fn decode(self) -> Self::Decoded;
    /// As `decode`; a null stream becomes the thread's own.
    ///
    /// # Safety
    /// That of `decode`.
    unsafe fn decode_per_thread(self) -> Self::Decoded {
        // SAFETY: handed on to the caller.
        unsafe { self.decode() }
    }
}

macro_rules! by_value {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            type Decoded = $type;
            unsafe fn decode(self) -> $type {
                self
            }
        })*
    };
}
by_value!(
    c_int,
    c_uint,
    u64,
    usize,
    Dim3,
    Extent,
    PitchedPointer,
    api::CUhostFn,
    api::MemLocation,
    api::StreamCallback,
    api::CUipcMemHandle,
    api::CUipcEventHandle
);

impl<T> Argument for *mut T {
    type Decoded = Place<T>;
    unsafe fn decode(self) -> Place<T> {
        // SAFETY: handed on to the caller.
        unsafe { Place::new(self) }
    }
}

impl<T> Argument for *const T {
    type Decoded = Place<T>;
    unsafe fn decode(self) -> Place<T> {
        // SAFETY: handed on to the caller.
        unsafe { Place::new(self.cast_mut()) }
    }
}

/// A stream among the arguments.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Stream(pub api::CUstream);

impl Argument for Stream {
    type Decoded = api::CUstream;
    unsafe fn decode(self) -> api::CUstream {
        self.0
    }
    unsafe fn decode_per_thread(self) -> api::CUstream {
        per_thread(self.0)
    }
}

/// `cudaStreamPerThread` in place of the null stream.
pub(crate) fn per_thread(stream: api::CUstream) -> api::CUstream {
    if stream.is_null() {
        std::ptr::without_provenance_mut(2)
    } else {
        stream
    }
}

/// A pointer from a caller: null, a handle, or valid for what the documentation of its
/// function says of it.
pub(crate) struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// # Safety
    /// The pointer is null, a handle that is never read through, or valid for the reads and
    /// writes that the documentation of its function names, while the call lasts.
    pub(crate) unsafe fn new(pointer: *mut T) -> Place<T> {
        Place(pointer)
    }

    pub(crate) fn ptr(self) -> *mut T {
        self.0
    }

    pub(crate) fn addr(self) -> u64 {
        self.0.addr() as u64
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes a result; a null pointer is an error.
    pub(crate) fn put(self, value: T) -> Result {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so good for the write by the contract of `new`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes one of several results, of which the function's documentation has more than
    /// `index`; a null pointer is an error.
    pub(crate) fn put_at(self, index: usize, value: T) -> Result {
        Place(self.required()?.wrapping_add(index)).put(value)
    }

    /// Writes a result unless the pointer is null.
    pub(crate) fn put_optional(self, value: T) {
        if !self.0.is_null() {
            let _ = self.put(value); // fails for null alone
        }
    }

    /// Fails for null, as a result would.
    pub(crate) fn required(self) -> Result<*mut T> {
        if self.0.is_null() {
            Err(Code::INVALID_VALUE)
        } else {
            Ok(self.0)
        }
    }

    /// Reads what the caller passed.
    pub(crate) fn get(self) -> Result<T>
    where
        T: Copy,
    {
        // SAFETY: not null, so good for the read by the contract of `new`.
        self.required()
            .map(|place| unsafe { place.read_unaligned() })
    }

    /// The same, `None` for null.
    pub(crate) fn get_optional(self) -> Option<T>
    where
        T: Copy,
    {
        self.get().ok()
    }
}

impl Place<*mut c_void> {
    /// Writes a device address.
    pub(crate) fn put_address(self, address: u64) -> Result {
        self.put(std::ptr::with_exposed_provenance_mut(address as usize))
    }
}
