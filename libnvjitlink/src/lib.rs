//! nvJitLink for programs that run on the CPU device of ptxkit.
//!
//! A session for the CPU device's architecture links PTX, and binaries of the CPU device,
//! through `cuLink…` of the driver. LTO-IR in it becomes PTX by NVIDIA's library; without that
//! it is refused by name. A session for another architecture is one of NVIDIA's library, which
//! is found as [`libraries::Original`] says, or by `PTXKIT_NVJITLINK`.

#![allow(non_snake_case)] // the C API's own names

mod driver;
mod options;
mod original;
mod session;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::{Refusal, Session};

/// `nvJitLinkResult`
const SUCCESS: c_int = 0;
const INTERNAL: c_int = 6;
const NULL_INPUT: c_int = 10;

/// `nvJitLinkHandle`, which is a number here and never followed.
type Handle = *mut c_void;

/// By handle.
type Sessions = BTreeMap<usize, Arc<Mutex<Session>>>;

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions::new());

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with the session of a handle.
fn with(handle: Handle, act: impl FnOnce(&mut Session) -> Result<(), Refusal>) -> c_int {
    let session = lock(&SESSIONS).get(&handle.addr()).cloned();
    let Some(session) = session else {
        return NULL_INPUT;
    };
    let mut session = lock(&session);
    match act(&mut session) {
        Ok(()) => SUCCESS,
        Err(refusal) => session.refused(refusal),
    }
}

/// Writes to where a caller wants a result.
///
/// # Safety
/// The place is null or good for the write.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Refusal> {
    if place.is_null() {
        return Err(Refusal::new(
            NULL_INPUT,
            "the pointer for the result is null",
        ));
    }
    // SAFETY: not null, so good for the write.
    unsafe { place.write(value) };
    Ok(())
}

/// Copies bytes to a buffer of a caller, which has asked for their number.
///
/// # Safety
/// The buffer is null or as long as the bytes.
unsafe fn copy(bytes: &[u8], buffer: *mut c_void) -> Result<(), Refusal> {
    if buffer.is_null() {
        return Err(Refusal::new(
            NULL_INPUT,
            "the buffer for the result is null",
        ));
    }
    // SAFETY: not null, so as long as the bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    Ok(())
}

/// A string of a caller.
///
/// # Safety
/// It is null or a C string.
unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: the caller's word, and not null.
    (!string.is_null()).then(|| {
        unsafe { CStr::from_ptr(string) }
            .to_string_lossy()
            .into_owned()
    })
}

/// Defines the entries under their own names and under those of each version: CUDA's header
/// calls `__nvJitLinkCreate_13_0` where a program says `nvJitLinkCreate`.
macro_rules! entries {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $body:block )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments must be what nvJitLink's documentation asks for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int $body
        )*

        macro_rules! version {
            ($module:ident $suffix:literal) => {
                mod $module {
                    use super::*;
                    $(
                        #[unsafe(export_name = concat!("__", stringify!($name), $suffix))]
                        unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                            // SAFETY: the caller's word for this entry is that for the other.
                            unsafe { super::$name($($arg),*) }
                        }
                    )*
                }
            };
        }
    };
}

entries! {
    /// Begins a session.
    fn nvJitLinkCreate(handle: *mut Handle, count: c_uint, options: *const *const c_char) {
        let mut given = Vec::new();
        if count > 0 && options.is_null() {
            return NULL_INPUT;
        }
        for index in 0..count as usize {
            // SAFETY: not null, so an array of `count` C strings by the caller's word.
            match unsafe { text(*options.add(index)) } {
                Some(option) => given.push(option),
                None => return NULL_INPUT,
            }
        }
        let session = match Session::create(given) {
            Ok(session) => session,
            Err(refusal) => return refusal.code,
        };
        let mut sessions = lock(&SESSIONS);
        // Like a pointer: not null, and a multiple of 16.
        let number = sessions.last_key_value().map_or(16, |(last, _)| last + 16);
        // SAFETY: null, or the caller's place for a handle.
        if unsafe { put(handle, std::ptr::without_provenance_mut(number)) }.is_err() {
            return NULL_INPUT;
        }
        sessions.insert(number, Arc::new(Mutex::new(session)));
        SUCCESS
    }

    /// Ends a session, and sets its handle to null.
    fn nvJitLinkDestroy(handle: *mut Handle) {
        if handle.is_null() {
            return NULL_INPUT;
        }
        // SAFETY: not null, so a handle by the caller's word.
        let number = unsafe { handle.replace(std::ptr::null_mut()) }.addr();
        match lock(&SESSIONS).remove(&number) {
            Some(_) => SUCCESS,
            None => NULL_INPUT,
        }
    }

    /// Adds an input.
    fn nvJitLinkAddData(handle: Handle, kind: c_uint, data: *const c_void, size: usize, name: *const c_char) {
        if data.is_null() || size == 0 {
            return NULL_INPUT;
        }
        // SAFETY: not null, so as many bytes by the caller's word; a C string or null.
        let (bytes, name) = unsafe {
            (std::slice::from_raw_parts(data.cast::<u8>(), size), text(name))
        };
        with(handle, |session| session.add(kind, bytes.to_vec(), name.unwrap_or_default()))
    }

    /// Adds a file.
    fn nvJitLinkAddFile(handle: Handle, kind: c_uint, path: *const c_char) {
        // SAFETY: a C string or null by the caller's word.
        let Some(path) = (unsafe { text(path) }) else {
            return NULL_INPUT;
        };
        with(handle, |session| match input::read(std::path::Path::new(&path)) {
            Ok(bytes) => session.add(kind, bytes, path),
            Err(error) => Err(Refusal::new(session::INVALID_INPUT, format!("{path}: {error}"))),
        })
    }

    /// Links what was added.
    fn nvJitLinkComplete(handle: Handle) {
        with(handle, Session::complete)
    }

    /// The size of the binary.
    fn nvJitLinkGetLinkedCubinSize(handle: Handle, size: *mut usize) {
        // SAFETY: null, or the caller's place for a size.
        with(handle, |session| unsafe { put(size, session.cubin()?.len()) })
    }

    /// The binary, which the CPU device loads.
    fn nvJitLinkGetLinkedCubin(handle: Handle, cubin: *mut c_void) {
        // SAFETY: null, or of the size that the caller has asked for.
        with(handle, |session| unsafe { copy(session.cubin()?, cubin) })
    }

    /// The size of the PTX, its NUL included.
    fn nvJitLinkGetLinkedPtxSize(handle: Handle, size: *mut usize) {
        // SAFETY: null, or the caller's place for a size.
        with(handle, |session| unsafe { put(size, session.ptx()?.len()) })
    }

    /// What LTO made of LTO-IR, with `-lto -ptx`.
    fn nvJitLinkGetLinkedPtx(handle: Handle, ptx: *mut c_char) {
        // SAFETY: null, or of the size that the caller has asked for.
        with(handle, |session| unsafe { copy(session.ptx()?, ptx.cast()) })
    }

    /// The size of linked LTO-IR.
    fn nvJitLinkGetLinkedLTOIRSize(handle: Handle, size: *mut usize) {
        // SAFETY: null, or the caller's place for a size.
        with(handle, |session| unsafe { put(size, session.ltoir()?.len()) })
    }

    /// Linked LTO-IR.
    fn nvJitLinkGetLinkedLTOIR(handle: Handle, ltoir: *mut c_void) {
        // SAFETY: null, or of the size that the caller has asked for.
        with(handle, |session| unsafe { copy(session.ltoir()?, ltoir) })
    }

    /// The size of the log of errors, its NUL included; 0 if it is empty.
    fn nvJitLinkGetErrorLogSize(handle: Handle, size: *mut usize) {
        // SAFETY: null, or the caller's place for a size.
        with(handle, |session| unsafe { put(size, session.error_log().len()) })
    }

    /// The log of errors.
    fn nvJitLinkGetErrorLog(handle: Handle, log: *mut c_char) {
        // SAFETY: null, or of the size that the caller has asked for.
        with(handle, |session| unsafe { copy(&session.error_log(), log.cast()) })
    }

    /// The size of the log of information, its NUL included; 0 if it is empty.
    fn nvJitLinkGetInfoLogSize(handle: Handle, size: *mut usize) {
        // SAFETY: null, or the caller's place for a size.
        with(handle, |session| unsafe { put(size, session.info_log().len()) })
    }

    /// The log of information.
    fn nvJitLinkGetInfoLog(handle: Handle, log: *mut c_char) {
        // SAFETY: null, or of the size that the caller has asked for.
        with(handle, |session| unsafe { copy(&session.info_log(), log.cast()) })
    }
}

version!(v12_0 "_12_0");
version!(v12_1 "_12_1");
version!(v12_2 "_12_2");
version!(v12_3 "_12_3");
version!(v12_4 "_12_4");
version!(v12_5 "_12_5");
version!(v12_6 "_12_6");
version!(v12_8 "_12_8");
version!(v12_9 "_12_9");
version!(v13_0 "_13_0");
version!(v13_1 "_13_1");
version!(v13_2 "_13_2");
version!(v13_3 "_13_3");
version!(v13_4 "_13_4");
version!(v13_5 "_13_5");

/// The version of NVIDIA's library, or 13.0 without it.
///
/// # Safety
/// Both pointers are null or places for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvJitLinkVersion(major: *mut c_uint, minor: *mut c_uint) -> c_int {
    let (found_major, found_minor) = original::version().unwrap_or((13, 0));
    // SAFETY: null, or the caller's places.
    match unsafe { put(major, found_major).and(put(minor, found_minor)) } {
        Ok(()) => SUCCESS,
        Err(refusal) => refusal.code,
    }
}

/// Says that this library is not NVIDIA's.
#[unsafe(no_mangle)]
pub extern "C" fn ptxkitNvJitLink() {}
