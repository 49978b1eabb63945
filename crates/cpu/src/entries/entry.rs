//! What all entries have in common: their arguments are decoded, and their outcome
//! becomes a status.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

#[cfg(doc)]
use crate::state::capture::refuse_unsafe_call;
use crate::state::status::{Failure, Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{host_function, log};

/// Defines entries under their C names: the body gets pointers as [`UserPointer`],
/// returns a [`Result`]. `serve` puts all of them into the table. The keyword says when the body
/// runs:
///
/// - `fn`: after `cuInit`
/// - `early`: at any time
/// - `capture_unsafe`: after `cuInit`, unless a capture prohibits unsafe calls; see
///   [`refuse_unsafe_call`]
macro_rules! entries {
    ($($(#[$doc:meta])* $kind:ident $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            pub(in crate::entries) unsafe extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
                // SAFETY: the caller of a C entry answers for its pointers: each is null, a
                // handle, or valid for what the entry's documentation says of it.
                $(let $arg = unsafe { $crate::entries::entry::Argument::decode($arg) };)*
                $crate::entries::entry::outcome(move || -> $crate::state::status::Result {
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
    (@start capture_unsafe) => {
        $crate::entries::entry::started()?;
        $crate::state::capture::refuse_unsafe_call()?
    };
}
pub(super) use entries;

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Whether the process is a fork of one that had called `cuInit`. Threads are not forked, so
/// no work would run in it.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The text of the last failure on this thread.
    static DETAIL: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Fails in a forked process, as NVIDIA's driver does.
pub(super) fn initialise() -> Result {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(after_forks);
    not_forked()?;
    INITIALISED.store(true, Ordering::Release);
    Ok(())
}

#[cold]
fn not_forked() -> Result {
    if !FORKED.load(Ordering::Relaxed) {
        Ok(())
    } else {
        Err(Status::NOT_INITIALIZED.because(
        "the process was forked after cuInit: start it anew, in Python with multiprocessing's `spawn`",
    ))
    }
}

#[cfg(unix)]
fn after_forks() {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    unsafe extern "C" fn in_child() {
        if INITIALISED.swap(false, Ordering::Relaxed) {
            FORKED.store(true, Ordering::Relaxed);
        }
    }
    // SAFETY: the declaration is POSIX's; the handler only writes atomics. Without room for it
    // a forked process is not recognised.
    let _ = unsafe { pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn after_forks() {}

/// Whether an entry may run: after `cuInit`, and not in a host function, which
/// could wait for its own stream.
#[inline]
pub(super) fn started() -> Result {
    initialised()?;
    if host_function::is_running() {
        return Err(
            Status::NOT_PERMITTED.because("a host function of a stream may not call the driver")
        );
    }
    Ok(())
}

/// Fails before `cuInit`.
#[inline]
pub(super) fn initialised() -> Result {
    if !INITIALISED.load(Ordering::Acquire) {
        not_forked()?;
        return Err(Status::NOT_INITIALIZED.because("cuInit was not called"));
    }
    Ok(())
}

/// The status of an entry's outcome. A panic must not cross into C.
#[inline]
pub(super) fn outcome(body: impl FnOnce() -> Result) -> c_int {
    match api::contain_panic(body) {
        Some(Ok(())) => Status::SUCCESS.0,
        Some(Err(failure)) => failed(failure),
        None => failed(Status::UNKNOWN.because("the CPU device panicked: please report this")),
    }
}

#[cold]
fn failed(failure: Failure) -> c_int {
    let Failure { status, detail } = failure;
    let detail = detail.unwrap_or_default();
    // A thread that is ending has dropped its thread-locals.
    let _ = DETAIL.try_with(|last| {
        if !detail.is_empty() {
            let name = status.name().unwrap_or_default().to_string_lossy();
            let message = format!("{name}: {detail}");
            // Each call returns a sticky error again.
            if *last.borrow() != detail {
                report(&message);
            }
            log::add(&message);
        }
        *last.borrow_mut() = detail;
    });
    status.0
}

/// Where failures are reported.
const REPORT: &str = "PTXKIT_CPU_REPORT";

/// Fails unless [`REPORT`] is `stderr`, empty or not set.
pub(super) fn check_report() -> Result {
    match std::env::var_os(REPORT) {
        Some(to) if !to.is_empty() && to != "stderr" => {
            let to = to.display();
            let text = format!("{REPORT}={to} is not stderr: change or unset it");
            Err(Status::INVALID_VALUE.because(text))
        }
        _ => Ok(()),
    }
}

/// Prints why an entry fails where [`REPORT`] asks for it: a C program sees the status alone.
fn report(message: &str) {
    static ASKED: OnceLock<bool> = OnceLock::new();
    if *ASKED.get_or_init(|| std::env::var_os(REPORT).is_some_and(|to| to == "stderr")) {
        // Without a standard error there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{message}");
    }
}

/// The text of the last failure on this thread, or an empty string.
pub(super) fn last_detail() -> String {
    DETAIL.with_borrow(String::clone)
}

/// An argument of a C entry, and what the body of the entry gets for it.
pub(super) trait Argument {
    type Decoded;
    /// # Safety
    /// That of [`UserPointer::new`] for a pointer.
    unsafe fn decode(self) -> Self::Decoded;
}

macro_rules! by_value {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            type Decoded = $type;
            #[inline]
            unsafe fn decode(self) -> $type {
                self
            }
        })*
    };
}
by_value!(
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
    api::LogsCallback,
    api::AsyncCallback,
    api::CUoccupancyB2DSize
);

impl<T> Argument for *mut T {
    type Decoded = UserPointer<T>;
    #[inline]
    unsafe fn decode(self) -> UserPointer<T> {
        // SAFETY: handed on to the caller.
        unsafe { UserPointer::new(self) }
    }
}

impl<T> Argument for *const T {
    type Decoded = UserPointer<T>;
    #[inline]
    unsafe fn decode(self) -> UserPointer<T> {
        // SAFETY: handed on to the caller.
        unsafe { UserPointer::new(self.cast_mut()) }
    }
}
