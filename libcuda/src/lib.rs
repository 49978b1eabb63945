//! The CPU device of ptxkit under the driver's own C names: programs that load
//! `libcuda.so.1` run on it when they find this library in its place.
//!
//! Every row of ptxkit's table is exported, [forms of earlier CUDA versions](earlier), and the
//! [execution control](execution_control) that was there before `cuLaunchKernel`.
//! An entry that the CPU device lacks returns `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case)] // the C API's own names

pub mod earlier;
pub mod execution_control;
mod record;
pub mod thread_stream;

use std::any::{Any, TypeId};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write;

use api::*;
use cpu::table;

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const NOT_FOUND: c_int = 500;
const NOT_SUPPORTED: c_int = 801;

/// An entry as `cuGetProcAddress` knows it.
struct Export {
    base: &'static str,
    /// The CUDA version that brought the entry in this form.
    since: c_int,
    address: *const c_void,
    /// The form whose null stream is the thread's own, of an entry that takes a stream.
    per_thread: Option<*const c_void>,
}

macro_rules! export {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $base:literal $since:literal; )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments must be what the entry's CUDA documentation asks for.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                match table().$name {
                    // SAFETY: the caller answers for the arguments.
                    Some(entry) => record::returned(stringify!($name), unsafe { entry($($arg),*) }),
                    None => record::not_there(stringify!($name), NOT_SUPPORTED),
                }
            }
        )*

        fn exports() -> impl Iterator<Item = Export> {
            [$( {
                // Dr.Jit looks this form up by its symbol.
                #[unsafe(export_name = concat!(stringify!($name), "_ptsz"))]
                #[allow(clippy::too_many_arguments)] // as many as the entry has
                unsafe extern "C" fn per_thread($($arg: $ty),*) -> c_int {
                    // SAFETY: the caller's word for this form is that for the other.
                    unsafe { $name($(of_thread($arg)),*) }
                }
                let takes_stream = [$(TypeId::of::<$ty>()),*].contains(&TypeId::of::<CUstream>());
                Export {
                    base: $base,
                    since: $since,
                    address: $name as *const c_void,
                    per_thread: takes_stream.then_some(per_thread as *const c_void),
                }
            } ),*].into_iter()
        }
    };
}

api::driver_entries!(export);

/// An argument, of which a null stream becomes `CU_STREAM_PER_THREAD`.
fn of_thread<T: Any>(mut argument: T) -> T {
    if let Some(stream) = (&mut argument as &mut dyn Any).downcast_mut::<CUstream>()
        && stream.is_null()
    {
        *stream = std::ptr::without_provenance_mut(2);
    }
    argument
}

/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`, `_PER_THREAD_DEFAULT_STREAM`
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`, `_VERSION_NOT_SUFFICIENT`
const SYMBOL_NOT_FOUND: c_uint = 1;
const VERSION_NOT_SUFFICIENT: c_uint = 2;

/// The newest form of an entry that CUDA `version` knew, or why there is none. What runs in the
/// default stream without naming it, as `cuMemcpy` does, has one form, for the legacy stream,
/// which waits for those of the threads.
fn find(symbol: &str, version: c_int, flags: u64) -> Result<*const c_void, c_uint> {
    let own = [
        Export {
            base: "cuGetProcAddress",
            since: 11030,
            address: cuGetProcAddress as *const c_void,
            per_thread: None,
        },
        Export {
            base: "cuGetProcAddress",
            since: 12000,
            address: cuGetProcAddress_v2 as *const c_void,
            per_thread: None,
        },
        Export {
            base: "cuGetExportTable",
            since: 3000,
            address: cuGetExportTable as *const c_void,
            per_thread: None,
        },
    ];
    let forms: Vec<Export> = exports()
        .chain(earlier::exports())
        .chain(execution_control::exports())
        .chain(own)
        .filter(|export| export.base == symbol)
        .collect();
    let known = forms
        .iter()
        .filter(|export| export.since <= version)
        .max_by_key(|export| export.since);
    match known {
        Some(export) => match export.per_thread {
            Some(address) if flags & PER_THREAD != 0 => Ok(address),
            _ => Ok(export.address),
        },
        None if forms.is_empty() => Err(SYMBOL_NOT_FOUND),
        None => Err(VERSION_NOT_SUFFICIENT),
    }
}

/// The address of an entry by its base name, in the form that CUDA
/// `cuda_version` had it, for the legacy default stream or for that of the thread.
///
/// # Safety
/// `symbol` is a C string; the results go to places of their types, of which
/// `status` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    address: *mut *mut c_void,
    cuda_version: c_int,
    flags: u64,
    status: *mut c_uint,
) -> c_int {
    let is_one_stream = matches!(flags, 0 | LEGACY | PER_THREAD);
    if symbol.is_null() || address.is_null() || !is_one_stream {
        return INVALID_VALUE;
    }
    // SAFETY: not null, so a C string by the caller's word.
    let name = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
    let found = find(&name, cuda_version, flags);
    if found.is_err() {
        record::not_found(&name);
    }
    // SAFETY: neither is null where it is written, and both are the caller's.
    unsafe {
        address.write(found.unwrap_or(std::ptr::null()).cast_mut());
        if !status.is_null() {
            status.write(found.err().unwrap_or(0));
        }
    }
    if found.is_ok() { SUCCESS } else { NOT_FOUND }
}

/// The same without the status.
///
/// # Safety
/// As for [`cuGetProcAddress_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    address: *mut *mut c_void,
    cuda_version: c_int,
    flags: u64,
) -> c_int {
    // SAFETY: the caller's word for this entry is that for the other.
    unsafe { cuGetProcAddress_v2(symbol, address, cuda_version, flags, std::ptr::null_mut()) }
}

/// The number of the table that NVIDIA's runtime cannot do without.
const OF_RUNTIME: [u8; 16] = [
    0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9,
];

/// A private table of the driver by its number: this one has none. NVRTC asks for some, goes on
/// without them, and calls this entry without looking whether it is there. NVIDIA's runtime
/// does not go on: with one of the tables it establishes that the driver is NVIDIA's, and this
/// one does not claim to be (`docs/clients.md`).
///
/// # Safety
/// `table` is null or a place for a pointer, `number` is null or a UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(
    table: *mut *const c_void,
    number: *const CUuuid,
) -> c_int {
    if !table.is_null() {
        // SAFETY: not null, so the caller's place for a pointer.
        unsafe { table.write(std::ptr::null()) };
    }
    // SAFETY: null, or the caller's 16 bytes.
    if unsafe { number.cast::<[u8; 16]>().as_ref() } == Some(&OF_RUNTIME)
        && std::env::var_os("PTXKIT_CPU_REPORT").is_some_and(|to| to == "stderr")
    {
        // Without a standard error there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "CUDA_ERROR_NOT_SUPPORTED: NVIDIA's libcudart runs on NVIDIA's driver alone: link \
             the program with ptxkit's libcudart_static.a, by nvcc -L and its folder, or with \
             -cudart shared and let it load ptxkit's libcudart.so.13"
        );
    }
    NOT_SUPPORTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_the_form_of_the_version() {
        assert_eq!(
            find("cuMemAlloc", 12000, 0),
            Ok(cuMemAlloc_v2 as *const c_void)
        );
        assert_eq!(find("cuMemAlloc", 2000, 0), Err(VERSION_NOT_SUFFICIENT));
        assert_eq!(find("cuMemAlloc_v2", 12000, 0), Err(SYMBOL_NOT_FOUND));
        // A wrong form is worse than none.
        assert_eq!(
            find("cuCtxCreate", 13000, 0),
            Ok(cuCtxCreate_v4 as *const c_void)
        );
        assert_eq!(
            find("cuCtxCreate", 12000, 0),
            Ok(cuCtxCreate_v3 as *const c_void)
        );
        assert_eq!(
            find("cuGraphAddKernelNode", 11000, 0),
            Ok(earlier::cuGraphAddKernelNode as *const c_void)
        );
        assert_eq!(
            find("cuGraphInstantiate", 11040, 0),
            Ok(earlier::cuGraphInstantiate_v2 as *const c_void)
        );
        assert_eq!(
            find("cuGraphInstantiate", 12000, 0),
            Ok(cuGraphInstantiateWithFlags as *const c_void)
        );
        assert_eq!(
            find("cuGetProcAddress", 11080, 0),
            Ok(cuGetProcAddress as *const c_void)
        );
        assert_eq!(
            find("cuGetProcAddress", 13000, 0),
            Ok(cuGetProcAddress_v2 as *const c_void)
        );
    }

    #[test]
    fn entries_with_a_stream_have_a_form_for_that_of_the_thread() {
        let legacy = find("cuStreamSynchronize", 13000, LEGACY).unwrap();
        let per_thread = find("cuStreamSynchronize", 13000, PER_THREAD).unwrap();
        assert_eq!(legacy, cuStreamSynchronize as *const c_void);
        assert_ne!(legacy, per_thread);
        assert_eq!(
            find("cuMemAlloc", 13000, PER_THREAD),
            find("cuMemAlloc", 13000, 0)
        );
        let stream: CUstream = std::ptr::null_mut();
        assert_eq!(of_thread(stream).addr(), 2);
        assert_eq!(of_thread(of_thread(stream)).addr(), 2);
        let event: CUevent = std::ptr::null_mut();
        assert!(of_thread(event).is_null());
    }

    #[test]
    fn what_the_device_cannot_do_is_refused() {
        // SAFETY: the entry looks at neither pointer.
        let code = unsafe {
            assert_eq!(cuInit(0), SUCCESS);
            cuGLGetDevices_v2(std::ptr::null_mut(), std::ptr::null_mut(), 0, 0)
        };
        assert_eq!(code, NOT_SUPPORTED);
    }
}
