//! Linking through the driver of the process: `cuLink…`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use libloading::Library;

/// `CU_JIT_INFO_LOG_BUFFER`, `_SIZE_BYTES`, `CU_JIT_ERROR_LOG_BUFFER`, `_SIZE_BYTES`,
/// `CU_JIT_LOG_VERBOSE`
const OPTIONS: [c_uint; 5] = [3, 4, 5, 6, 12];
/// `CU_JIT_INPUT_PTX`; binaries are recognised by their bytes.
const PTX: c_uint = 1;
const LOG_BYTES: usize = 1 << 14;

type Context = *mut c_void;
type State = *mut c_void;

/// The entries that linking needs.
struct Driver {
    retain: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    release: unsafe extern "C" fn(c_int) -> c_int,
    push: unsafe extern "C" fn(Context) -> c_int,
    pop: unsafe extern "C" fn(*mut Context) -> c_int,
    create: unsafe extern "C" fn(c_uint, *mut c_uint, *mut *mut c_void, *mut State) -> c_int,
    add: unsafe extern "C" fn(
        State,
        c_uint,
        *mut c_void,
        usize,
        *const c_char,
        c_uint,
        *mut c_uint,
        *mut *mut c_void,
    ) -> c_int,
    complete: unsafe extern "C" fn(State, *mut *mut c_void, *mut usize) -> c_int,
    destroy: unsafe extern "C" fn(State) -> c_int,
}

impl Driver {
    fn of(library: &'static Library) -> Result<Driver, libloading::Error> {
        // SAFETY: the symbols have these types in CUDA's headers; the library stays open.
        unsafe {
            Ok(Driver {
                retain: *library.get("cuDevicePrimaryCtxRetain")?,
                release: *library.get("cuDevicePrimaryCtxRelease_v2")?,
                push: *library.get("cuCtxPushCurrent_v2")?,
                pop: *library.get("cuCtxPopCurrent_v2")?,
                create: *library.get("cuLinkCreate_v2")?,
                add: *library.get("cuLinkAddData_v2")?,
                complete: *library.get("cuLinkComplete")?,
                destroy: *library.get("cuLinkDestroy")?,
            })
        }
    }
}

/// Links PTX and binaries of the CPU device; returns the binary and the log of information.
/// The error is the driver's log of errors.
///
/// nvJitLink needs no context, so the primary one is current meanwhile.
pub(crate) fn link(inputs: &[&[u8]], verbose: bool) -> Result<(Vec<u8>, String), String> {
    let driver = Driver::of(libraries::driver()?).map_err(|error| error.to_string())?;
    let mut context = null_mut();
    // SAFETY: the result goes to a variable of its type; device 0 is there once the driver
    // has started.
    let code = unsafe { (driver.retain)(&mut context, 0) };
    if code != 0 {
        return Err(format!("cuDevicePrimaryCtxRetain returns {code}"));
    }
    // SAFETY: the context is retained until after it is popped.
    let linked = match unsafe { (driver.push)(context) } {
        0 => {
            let linked = session(&driver, inputs, verbose);
            // SAFETY: pops what was pushed.
            unsafe { (driver.pop)(&mut context) };
            linked
        }
        code => Err(format!("cuCtxPushCurrent returns {code}")),
    };
    // SAFETY: gives back what was retained.
    unsafe { (driver.release)(0) };
    linked
}

/// A session in the current context.
fn session(driver: &Driver, inputs: &[&[u8]], verbose: bool) -> Result<(Vec<u8>, String), String> {
    let (mut info, mut errors) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    let number = std::ptr::without_provenance_mut;
    let mut values = [
        info.as_mut_ptr().cast(),
        number(LOG_BYTES),
        errors.as_mut_ptr().cast(),
        number(LOG_BYTES),
        number(usize::from(verbose)),
    ];
    let mut options = OPTIONS;
    let count = OPTIONS.len() as c_uint;
    let mut state = null_mut();
    // SAFETY: options, values and both buffers outlive the session, as `cuLinkCreate` asks.
    let code =
        unsafe { (driver.create)(count, options.as_mut_ptr(), values.as_mut_ptr(), &mut state) };
    if code != 0 {
        return Err(format!("cuLinkCreate returns {code}"));
    }
    let (mut binary, mut size) = (null_mut(), 0);
    let add = |input: &&[u8]| {
        let data = input.as_ptr().cast_mut().cast();
        // SAFETY: the driver reads as many bytes, and has no options to read.
        unsafe {
            (driver.add)(
                state,
                PTX,
                data,
                input.len(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
            )
        }
    };
    let code = match inputs.iter().map(add).find(|code| *code != 0) {
        Some(code) => code,
        // SAFETY: the results go to variables of their types.
        None => unsafe { (driver.complete)(state, &mut binary, &mut size) },
    };
    let linked = match code {
        // SAFETY: the driver has this many bytes there as long as the session.
        0 => Ok(unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), size) }.to_vec()),
        code => Err(code),
    };
    // SAFETY: the session is not used after this.
    unsafe { (driver.destroy)(state) };
    match linked {
        Ok(binary) => Ok((binary, text(&info))),
        Err(code) => match text(&errors) {
            log if log.is_empty() => Err(format!("the driver's linker returns {code}")),
            log => Err(log),
        },
    }
}

/// The text of a buffer up to its NUL.
fn text(buffer: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(buffer).unwrap_or_default();
    text.to_string_lossy().trim_end().to_owned()
}
