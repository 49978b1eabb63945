//! A library in front of NVIDIA's driver. Programs that find it under the name `libcuda.so.1` run on the driver as
//! before, but the PTX that they load is compiled through ptxkit's compute cache.
//!
//! | module | |
//! |---|---|
//! | `driver_file`, `ld_cache` | find the file of the driver |
//! | `forward` | each name of the driver, with a jump to the driver's function |
//! | `procedure` | `cuGetProcAddress`, which also returns the functions of this library |
//! | `loads` | the entries that load modules and libraries |
//! | `links` | the entries of the driver's linker |
//! | `image_bytes`, `options` | read their arguments |
//! | `sliced` | modules whose kernels are compiled when they are used |
//! | `serve` | selects the PTX, compiles it through the cache, and makes the image for the driver |
//! | `restored` | restores the state of the calling thread |
//! | `report` | what was served and why not: `PTXKIT_REPORT` |
//!
//! A load that this library does not serve is forwarded unchanged.

#![allow(non_snake_case, reason = "the driver's C names")]

mod driver_file;
mod forward;
mod image_bytes;
mod ld_cache;
pub mod links;
pub mod loads;
mod options;
pub mod procedure;
mod report;
mod restored;
mod serve;
pub mod sliced;

use std::ffi::{OsString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The symbol by which this library recognizes a copy of itself.
const MARK: &str = "ptxkitInterposer";

/// The symbol by which a copy of this library is recognized.
#[unsafe(no_mangle)]
pub static ptxkitInterposer: u8 = 1;

/// Opens the driver before any of its names is called.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let _ = without_panic(open_driver);
}

/// The result of a function; `None` if it panics. No panic reaches the program.
fn without_panic<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

fn open_driver() {
    for file in driver_file::candidates() {
        // SAFETY: the user names the file, or it has the driver's name in the system's folders.
        let library = match unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => library,
            Err(error) => {
                report::not_opened(&file, &error);
                continue;
            }
        };
        let symbol = |name: &str| {
            // SAFETY: only the address is taken.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok()?;
            let address = symbol.into_raw();
            (!address.is_null()).then_some(address)
        };
        if symbol(MARK).is_some() {
            // Another copy would look for the driver in the same way, and find this one.
            report::is_a_copy(&file);
            continue;
        }
        forward::fill(symbol);
        api::set_driver_file(file);
        // The table has its functions.
        std::mem::forget(library);
        return;
    }
}

/// `CUDA_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: c_int = 801;

/// The number of a driver's error.
fn number(error: api::Error) -> c_int {
    // Entries that the driver lacks have none.
    error.code().map_or(NOT_SUPPORTED, |code| code.0)
}

/// Whether the program runs with the rights of another user than the one who started it.
fn is_privileged() -> bool {
    // SAFETY: only reads a value that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of an environment variable; `None` if it is empty. The environment of a privileged program is its
/// caller's, who must not choose libraries or files for it.
fn variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.filter(|_| !is_privileged())
}

/// Whether loads are served: not with `PTXKIT_INTERPOSE=0`, and not in privileged programs, whose cache another user
/// could choose.
fn is_on() -> bool {
    !is_privileged() && variable("PTXKIT_INTERPOSE").is_none_or(|word| word != "0")
}
