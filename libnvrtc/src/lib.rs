//! In front of NVIDIA's NVRTC, for programs that run on the CPU device of ptxkit.
//!
//! NVRTC compiles CUDA C++ to PTX, and for a target such as `sm_90` assembles that to a
//! cubin, which the CPU device cannot load. Here a program that was compiled for the CPU
//! device's architecture gives PTX where it is asked for its cubin: every driver loads PTX in
//! place of a cubin. All other calls are those of NVIDIA's library, which is found as
//! [`libraries::Original`] says, or by `PTXKIT_NVRTC`.

#![allow(non_snake_case)] // the C API's own names

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::LazyLock;

use libraries::Original;

/// `NVRTC_SUCCESS`, `_ERROR_INVALID_INPUT` and `_ERROR_INTERNAL_ERROR`
const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const INTERNAL_ERROR: c_int = 11;

const ORIGINAL: Original = Original {
    variable: "PTXKIT_NVRTC",
    names: &["libnvrtc.so.13", "libnvrtc.so.12"],
    packages: &["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"],
    mark: "ptxkitNvrtc",
};

/// `nvrtcProgram`
type Program = *mut c_void;

/// `int (*)(void *, void *)`
type FlowCallback = Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;

/// Makes [`Nvrtc`] and, of the entries of `forwarded`, functions that call NVIDIA's.
macro_rules! entries {
    (
        forwarded { $( fn $name:ident($($arg:ident: $ty:ty),* $(,)?); )* }
        own { $( fn $own:ident($($own_ty:ty),*) -> $own_result:ty; )* }
    ) => {
        /// The entries of NVIDIA's library; `None` where its version lacks one.
        struct Nvrtc {
            $( $name: Option<unsafe extern "C" fn($($ty),*) -> c_int>, )*
            $( $own: Option<unsafe extern "C" fn($($own_ty),*) -> $own_result>, )*
        }

        impl Nvrtc {
            fn of(library: &'static libloading::Library) -> Nvrtc {
                Nvrtc {
                    // SAFETY: the symbols have these types in CUDA's headers.
                    $( $name: unsafe { library.get(stringify!($name)) }.ok().map(|symbol| *symbol), )*
                    // SAFETY: as above.
                    $( $own: unsafe { library.get(stringify!($own)) }.ok().map(|symbol| *symbol), )*
                }
            }
        }

        $(
            /// As NVIDIA's.
            ///
            /// # Safety
            /// The arguments must be what NVRTC's documentation asks for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                match nvrtc().and_then(|nvrtc| nvrtc.$name) {
                    // SAFETY: the caller answers for the arguments.
                    Some(entry) => unsafe { entry($($arg),*) },
                    None => INTERNAL_ERROR,
                }
            }
        )*
    };
}

entries! {
    forwarded {
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int);
        fn nvrtcGetNumSupportedArchs(count: *mut c_int);
        fn nvrtcGetSupportedArchs(archs: *mut c_int);
        fn nvrtcCreateProgram(
            program: *mut Program,
            source: *const c_char,
            name: *const c_char,
            count: c_int,
            headers: *const *const c_char,
            names: *const *const c_char,
        );
        fn nvrtcDestroyProgram(program: *mut Program);
        fn nvrtcCompileProgram(program: Program, count: c_int, options: *const *const c_char);
        fn nvrtcGetPTXSize(program: Program, size: *mut usize);
        fn nvrtcGetPTX(program: Program, ptx: *mut c_char);
        fn nvrtcGetNVVMSize(program: Program, size: *mut usize);
        fn nvrtcGetNVVM(program: Program, nvvm: *mut c_char);
        fn nvrtcGetLTOIRSize(program: Program, size: *mut usize);
        fn nvrtcGetLTOIR(program: Program, ltoir: *mut c_char);
        fn nvrtcGetOptiXIRSize(program: Program, size: *mut usize);
        fn nvrtcGetOptiXIR(program: Program, optixir: *mut c_char);
        fn nvrtcGetTileIRSize(program: Program, size: *mut usize);
        fn nvrtcGetTileIR(program: Program, tileir: *mut c_char);
        fn nvrtcGetProgramLogSize(program: Program, size: *mut usize);
        fn nvrtcGetProgramLog(program: Program, log: *mut c_char);
        fn nvrtcAddNameExpression(program: Program, name: *const c_char);
        fn nvrtcGetLoweredName(program: Program, name: *const c_char, lowered: *mut *const c_char);
        fn nvrtcGetPCHHeapSize(size: *mut usize);
        fn nvrtcSetPCHHeapSize(size: usize);
        fn nvrtcGetPCHCreateStatus(program: Program);
        fn nvrtcGetPCHHeapSizeRequired(program: Program, size: *mut usize);
        fn nvrtcSetFlowCallback(program: Program, callback: FlowCallback, payload: *mut c_void);
        fn nvrtcInstallBundledHeaders(path: *const c_char, flags: c_uint, log: *mut *const c_char);
        fn nvrtcGetBundledHeadersInfo(info: *mut c_void, log: *mut *const c_char);
        fn nvrtcRemoveBundledHeaders(path: *const c_char, log: *mut *const c_char);
    }
    own {
        fn nvrtcGetErrorString(c_int) -> *const c_char;
        fn nvrtcGetCUBINSize(Program, *mut usize) -> c_int;
        fn nvrtcGetCUBIN(Program, *mut c_char) -> c_int;
    }
}

fn nvrtc() -> Option<&'static Nvrtc> {
    static NVRTC: LazyLock<Option<Nvrtc>> = LazyLock::new(|| match ORIGINAL.open() {
        Ok(library) => Some(Nvrtc::of(library)),
        Err(why) => {
            // NVRTC's errors are numbers alone.
            eprintln!("ptxkit: {why}");
            None
        }
    });
    NVRTC.as_ref()
}

/// The PTX that stands for the cubin of a program: where that is for the CPU device.
fn ptx_for_device(program: Program) -> Option<Vec<u8>> {
    let mut size = 0;
    // SAFETY: the caller answers for the program, and the size is ours.
    if unsafe { nvrtcGetPTXSize(program, &mut size) } != SUCCESS || size == 0 {
        return None;
    }
    let mut ptx = vec![0; size];
    // SAFETY: the buffer has the size that was asked for.
    if unsafe { nvrtcGetPTX(program, ptx.as_mut_ptr().cast()) } != SUCCESS {
        return None;
    }
    libraries::is_of_cpu_device(target(&ptx)?).then_some(ptx)
}

/// The architecture that PTX names in its `.target`.
fn target(ptx: &[u8]) -> Option<&str> {
    let lines = ptx.split(|byte| *byte == b'\n');
    let named = lines
        .into_iter()
        .find_map(|line| line.strip_prefix(b".target "))?;
    let named = std::str::from_utf8(named).ok()?;
    named.split(',').next().map(str::trim)
}

/// The size of what [`nvrtcGetCUBIN`] gives: 0 as for NVIDIA's where the program was compiled
/// for a virtual architecture.
///
/// # Safety
/// As for NVIDIA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: Program, size: *mut usize) -> c_int {
    let Some(entry) = nvrtc().and_then(|nvrtc| nvrtc.nvrtcGetCUBINSize) else {
        return INTERNAL_ERROR;
    };
    // SAFETY: the caller answers for the arguments; NVIDIA's refuses a null.
    let code = unsafe { entry(program, size) };
    // SAFETY: as above.
    if code == SUCCESS
        && unsafe { *size } > 0
        && let Some(ptx) = ptx_for_device(program)
    {
        // SAFETY: as above.
        unsafe { *size = ptx.len() };
    }
    code
}

/// The cubin, or PTX in its place.
///
/// # Safety
/// As for NVIDIA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: Program, cubin: *mut c_char) -> c_int {
    let Some(entry) = nvrtc().and_then(|nvrtc| nvrtc.nvrtcGetCUBIN) else {
        return INTERNAL_ERROR;
    };
    match ptx_for_device(program) {
        Some(_) if cubin.is_null() => INVALID_INPUT,
        Some(ptx) => {
            // SAFETY: the caller's buffer has the size that `nvrtcGetCUBINSize` gave.
            unsafe { std::ptr::copy_nonoverlapping(ptx.as_ptr(), cubin.cast(), ptx.len()) };
            SUCCESS
        }
        // SAFETY: the caller answers for the arguments.
        None => unsafe { entry(program, cubin) },
    }
}

/// The text of an error.
///
/// # Safety
/// None is needed: the result lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetErrorString(code: c_int) -> *const c_char {
    match nvrtc().and_then(|nvrtc| nvrtc.nvrtcGetErrorString) {
        // SAFETY: any number may be asked for.
        Some(entry) => unsafe { entry(code) },
        None => c"NVIDIA's libnvrtc is not found: see the message on the standard error".as_ptr(),
    }
}

/// Says that this library is not NVIDIA's.
#[unsafe(no_mangle)]
pub extern "C" fn ptxkitNvrtc() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_ptx_is_its_architecture() {
        let ptx = b"//\n.version 9.0\n.target sm_90a, debug\n.address_size 64\n\0";
        assert_eq!(target(ptx), Some("sm_90a"));
        assert_eq!(target(b".version 9.0\n"), None);
    }
}
