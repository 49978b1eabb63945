//! The entries of the driver's linker. A link of one PTX text alone is a compilation, whose code comes from the cache.
//!
//! The link itself is always the driver's. The first PTX is kept back: if nothing else is added, the link is completed
//! with the cache's code, and otherwise the driver is given all of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::CUlinkState;

use super::forward::{self, real};
use super::options::Outputs;
use super::serve::{Decision, Kind, Served, serve};
use super::without_panic;

type Create =
    unsafe extern "C" fn(c_uint, *const c_uint, *const *mut c_void, *mut CUlinkState) -> c_int;
type AddData = unsafe extern "C" fn(
    CUlinkState,
    c_uint,
    *const c_void,
    usize,
    *const c_char,
    c_uint,
    *const c_uint,
    *const *mut c_void,
) -> c_int;
type AddFile = unsafe extern "C" fn(
    CUlinkState,
    c_uint,
    *const c_char,
    c_uint,
    *const c_uint,
    *const *mut c_void,
) -> c_int;
type Complete = unsafe extern "C" fn(CUlinkState, *mut *mut c_void, *mut usize) -> c_int;
type Destroy = unsafe extern "C" fn(CUlinkState) -> c_int;

/// `CU_JIT_INPUT_PTX`
const PTX: c_uint = 1;

/// A link of the driver's that has no input yet, or one PTX text.
struct Link {
    /// The arguments of its creation, which live as long as it.
    outputs: Outputs,
    first: Option<First>,
}

/// A PTX text that the driver was not given.
struct First {
    text: Vec<u8>,
    name: Option<CString>,
    served: Served,
}

static LINKS: Mutex<BTreeMap<usize, Link>> = Mutex::new(BTreeMap::new());

fn links() -> MutexGuard<'static, BTreeMap<usize, Link>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// As CUDA's documentation of `cuLinkCreate` says.
unsafe fn create(
    number: usize,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
    state: *mut CUlinkState,
) -> c_int {
    // SAFETY: both forms of the entry have this type.
    let entry: Create = unsafe { std::mem::transmute(real(number)) };
    // SAFETY: the caller's.
    let code = unsafe { entry(count, names, values, state) };
    if code == 0 && super::is_on() {
        let outputs = Outputs::new(count, names, values);
        let link = Link {
            outputs,
            first: None,
        };
        // SAFETY: the driver has written it.
        let state = unsafe { *state }.addr();
        let _ = without_panic(|| links().insert(state, link));
    }
    code
}

/// Takes a link that the driver completes, with the input that it was not given.
fn forwarded(state: CUlinkState) -> Option<First> {
    links().remove(&state.addr())?.first
}

/// Gives the driver the input that was kept back.
///
/// # Safety
/// The link must be live.
unsafe fn give_first(state: CUlinkState) -> Result<(), c_int> {
    let Some(first) = without_panic(|| forwarded(state)).flatten() else {
        return Ok(());
    };
    // SAFETY: the driver's function of this name has this type.
    let entry: AddData = unsafe { std::mem::transmute(real(forward::CULINKADDDATA_V2)) };
    let name = first.name.as_deref().map_or(null(), CStr::as_ptr);
    let (text, none) = (first.text.as_ptr().cast(), null());
    // SAFETY: the text has this length; there are no options.
    let code = unsafe { entry(state, PTX, text, first.text.len(), name, 0, none, null()) };
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Compiles the first PTX of a link through the cache; whether it is kept back. An error is the entry's result.
///
/// # Safety
/// As CUDA's documentation of `cuLinkAddData` says.
unsafe fn keep_first(
    state: CUlinkState,
    (data, size): (*const c_void, usize),
    name: *const c_char,
) -> Result<bool, c_int> {
    let outputs = match links().get(&state.addr()) {
        Some(link) if link.first.is_none() => link.outputs,
        _ => return Ok(false),
    };
    // SAFETY: the caller's.
    let text = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let image = || (!text.is_empty()).then_some(Cow::Borrowed(text));
    // SAFETY: the arrays of a link's options live as long as the link.
    let options = || unsafe { outputs.options() };
    let served = match serve("cuLinkAddData_v2", Kind::Link, image, options) {
        Decision::Serve(served) => served,
        Decision::Refuse(code) => return Err(code),
        Decision::Forward | Decision::Cut(..) => return Ok(false),
    };
    let name = if name.is_null() {
        None
    } else {
        // SAFETY: the caller's.
        Some(unsafe { CStr::from_ptr(name) }.to_owned())
    };
    let first = First {
        text: text.to_vec(),
        name,
        served,
    };
    if let Some(link) = links().get_mut(&state.addr()) {
        link.first = Some(first);
        return Ok(true);
    }
    Ok(false)
}

/// # Safety
/// As CUDA's documentation of `cuLinkAddData` says.
#[allow(clippy::too_many_arguments, reason = "the driver's")]
unsafe fn add_data(
    number: usize,
    state: CUlinkState,
    kind: c_uint,
    data: *const c_void,
    size: usize,
    name: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    let is_plain = kind == PTX && count == 0 && !data.is_null() && size > 0;
    // SAFETY: the caller's.
    let keep = || unsafe { keep_first(state, (data, size), name) };
    match without_panic(|| if is_plain { keep() } else { Ok(false) }) {
        Some(Ok(true)) => return 0,
        Some(Err(code)) => return code,
        _ => {}
    }
    // SAFETY: the caller's.
    if let Err(code) = unsafe { give_first(state) } {
        return code;
    }
    // SAFETY: both forms of the entry have this type.
    let entry: AddData = unsafe { std::mem::transmute(real(number)) };
    // SAFETY: the caller's.
    unsafe { entry(state, kind, data, size, name, count, names, values) }
}

/// # Safety
/// As CUDA's documentation of `cuLinkAddFile` says.
unsafe fn add_file(
    number: usize,
    state: CUlinkState,
    kind: c_uint,
    path: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    if let Err(code) = unsafe { give_first(state) } {
        return code;
    }
    // SAFETY: both forms of the entry have this type.
    let entry: AddFile = unsafe { std::mem::transmute(real(number)) };
    // SAFETY: the caller's.
    unsafe { entry(state, kind, path, count, names, values) }
}

/// Creates a link.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate(
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
    state: *mut CUlinkState,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { create(forward::CULINKCREATE, count, names, values, state) }
}

/// Creates a link.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate_v2(
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
    state: *mut CUlinkState,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { create(forward::CULINKCREATE_V2, count, names, values, state) }
}

/// Adds an input.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddData(
    state: CUlinkState,
    kind: c_uint,
    data: *const c_void,
    size: usize,
    name: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    let number = forward::CULINKADDDATA;
    // SAFETY: the caller's.
    unsafe { add_data(number, state, kind, data, size, name, count, names, values) }
}

/// Adds an input.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: c_uint,
    data: *const c_void,
    size: usize,
    name: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    let number = forward::CULINKADDDATA_V2;
    // SAFETY: the caller's.
    unsafe { add_data(number, state, kind, data, size, name, count, names, values) }
}

/// Adds a file.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddFile(
    state: CUlinkState,
    kind: c_uint,
    path: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        add_file(
            forward::CULINKADDFILE,
            state,
            kind,
            path,
            count,
            names,
            values,
        )
    }
}

/// Adds a file.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddFile_v2(
    state: CUlinkState,
    kind: c_uint,
    path: *const c_char,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        add_file(
            forward::CULINKADDFILE_V2,
            state,
            kind,
            path,
            count,
            names,
            values,
        )
    }
}

/// Completes a link.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkComplete(
    state: CUlinkState,
    code: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    let answer = || {
        let links = links();
        let link = links.get(&state.addr())?;
        let served = &link.first.as_ref()?.served;
        if code.is_null() || size.is_null() {
            return None;
        }
        served.report("cuLinkComplete");
        // SAFETY: the arrays of the link's options live as long as it, and the caller's places are valid.
        unsafe {
            link.outputs.write(served.milliseconds());
            code.write(served.image.as_ptr().cast_mut().cast());
            size.write(served.image.len());
        }
        Some(0)
    };
    if let Some(result) = without_panic(answer).flatten() {
        return result;
    }
    // SAFETY: the driver's function of this name has this type.
    let entry: Complete = unsafe { std::mem::transmute(real(forward::CULINKCOMPLETE)) };
    // SAFETY: the caller's.
    unsafe { entry(state, code, size) }
}

/// Ends a link, and its code.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkDestroy(state: CUlinkState) -> c_int {
    let _ = without_panic(|| links().remove(&state.addr()));
    // SAFETY: the driver's function of this name has this type.
    let entry: Destroy = unsafe { std::mem::transmute(real(forward::CULINKDESTROY)) };
    // SAFETY: the caller's.
    unsafe { entry(state) }
}
