//! Execution control as before CUDA 4, which the headers still declare and PyCUDA links: the shape
//! of the blocks, the shared memory and the parameters are set for a function, and launches take
//! them from there.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use api::*;
use cpu::table;

use super::{Export, INVALID_VALUE, NOT_SUPPORTED, SUCCESS, record};

/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// `CUDA_ERROR_INVALID_HANDLE`
const INVALID_HANDLE: c_int = 400;

/// Bytes of parameters that a kernel can have.
const MAX_PARAMETERS: usize = 32764;

/// What is set for a function.
#[derive(Clone, Default)]
struct Settings {
    block: [c_uint; 3],
    shared_bytes: c_uint,
    parameters: Vec<u8>,
}

/// By the function's handle.
static SETTINGS: Mutex<BTreeMap<usize, Settings>> = Mutex::new(BTreeMap::new());

/// Changes what is set for a function, if there is such a function.
fn set(function: CUfunction, change: impl FnOnce(&mut Settings) -> c_int) -> c_int {
    let Some(module_of) = table().cuFuncGetModule else {
        return NOT_SUPPORTED;
    };
    if function.is_null() {
        return INVALID_HANDLE;
    }
    let mut module: CUmodule = null_mut();
    // SAFETY: the place is for a module, and the entry looks the handle up.
    let code = unsafe { module_of(&mut module, function) };
    if code != SUCCESS {
        return code;
    }
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    change(settings.entry(function.addr()).or_default())
}

/// Writes bytes of the parameters, which become as long as they need to be.
fn set_parameter(function: CUfunction, offset: c_int, bytes: &[u8]) -> c_int {
    let end = usize::try_from(offset).map(|offset| offset.saturating_add(bytes.len()));
    let Ok(end @ ..=MAX_PARAMETERS) = end else {
        return INVALID_VALUE;
    };
    set(function, |settings| {
        if settings.parameters.len() < end {
            settings.parameters.resize(end, 0);
        }
        settings.parameters[end - bytes.len()..end].copy_from_slice(bytes);
        SUCCESS
    })
}

/// Launches a function as it is set.
fn launch(function: CUfunction, width: c_int, height: c_int, stream: CUstream) -> c_int {
    let (Ok(width), Ok(height)) = (width.try_into(), height.try_into()) else {
        return INVALID_VALUE;
    };
    let Some(launch) = table().cuLaunchKernel else {
        return NOT_SUPPORTED;
    };
    let mut settings = Settings::default();
    let code = set(function, |known| {
        settings = known.clone();
        SUCCESS
    });
    if code != SUCCESS {
        return code;
    }
    let [x, y, z] = settings.block;
    let mut bytes = settings.parameters.len();
    let mut extra = [
        std::ptr::without_provenance_mut(BUFFER),
        settings.parameters.as_mut_ptr().cast::<c_void>(),
        std::ptr::without_provenance_mut(BUFFER_SIZE),
        (&raw mut bytes).cast(),
        null_mut(),
    ];
    // SAFETY: `extra` is a list as the entry wants it, which it copies from before it returns.
    unsafe {
        launch(
            function,
            width,
            height,
            1,
            x,
            y,
            z,
            settings.shared_bytes,
            stream,
            null_mut(),
            extra.as_mut_ptr(),
        )
    }
}

macro_rules! entries {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $since:literal $body:block )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments must be what the entry's CUDA documentation asks for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                let body = || $body;
                record::returned(stringify!($name), body())
            }
        )*

        pub(super) fn exports() -> impl Iterator<Item = Export> {
            [$( Export { base: stringify!($name), since: $since, address: $name as *const c_void, per_thread: None } ),*].into_iter()
        }
    };
}

entries! {
    /// The threads of a block, for launches of the function from now on.
    fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) 2000 {
        let (Ok(x), Ok(y), Ok(z)) = (x.try_into(), y.try_into(), z.try_into()) else {
            return INVALID_VALUE;
        };
        set(function, |settings| {
            settings.block = [x, y, z];
            SUCCESS
        })
    }

    /// Bytes of dynamic shared memory, for launches of the function from now on.
    fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) 2000 {
        set(function, |settings| {
            settings.shared_bytes = bytes;
            SUCCESS
        })
    }

    /// Bytes that the function's parameters take together.
    fn cuParamSetSize(function: CUfunction, bytes: c_uint) 2000 {
        let Ok(bytes @ ..=MAX_PARAMETERS) = usize::try_from(bytes) else {
            return INVALID_VALUE;
        };
        set(function, |settings| {
            settings.parameters.resize(bytes, 0);
            SUCCESS
        })
    }

    /// A parameter of 4 bytes at an offset in bytes.
    fn cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) 2000 {
        set_parameter(function, offset, &value.to_ne_bytes())
    }

    /// As [`cuParamSeti`], a `float`.
    fn cuParamSetf(function: CUfunction, offset: c_int, value: f32) 2000 {
        set_parameter(function, offset, &value.to_ne_bytes())
    }

    /// Bytes of parameters at an offset in bytes.
    fn cuParamSetv(function: CUfunction, offset: c_int, bytes: *mut c_void, count: c_uint) 2000 {
        let Ok(count @ ..=MAX_PARAMETERS) = usize::try_from(count) else {
            return INVALID_VALUE;
        };
        if !cpu::may_be_memory(bytes.addr(), count) {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's bytes.
        set_parameter(function, offset, unsafe { std::slice::from_raw_parts(bytes.cast(), count) })
    }

    /// Does nothing: since CUDA 3 kernels find the texture references of their module.
    fn cuParamSetTexRef(function: CUfunction, unit: c_int, _reference: CUtexref) 2000 {
        // `CU_PARAM_TR_DEFAULT`
        if unit == -1 { set(function, |_| SUCCESS) } else { INVALID_VALUE }
    }

    /// Not supported, as by NVIDIA's driver since CUDA 11: the profiler that it configured is gone.
    fn cuProfilerInitialize(_configuration: *const c_char, _output: *const c_char, _mode: c_uint) 4000 {
        NOT_SUPPORTED
    }

    /// Launches one block of a function.
    fn cuLaunch(function: CUfunction) 2000 {
        launch(function, 1, 1, null_mut())
    }

    /// Launches a grid of `width` times `height` blocks of a function.
    fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) 2000 {
        launch(function, width, height, null_mut())
    }

    /// As [`cuLaunchGrid`], in a stream.
    fn cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream) 2000 {
        launch(function, width, height, stream)
    }
}
