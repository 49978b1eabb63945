//! The names of NVIDIA's driver, each of which jumps to the driver's function.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! forward {
    ($name:ident = $number:literal) => {
        /// Jumps to the driver's function.
        ///
        /// # Safety
        /// As CUDA's documentation of the entry says.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                "jmp qword ptr [rip + {table} + {at}]",
                table = sym TABLE,
                at = const 8 * $number,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "adrp x16, {table}",
                "add x16, x16, :lo12:{table}",
                "ldr x16, [x16, #{at}]",
                "br x16",
                table = sym TABLE,
                at = const 8 * $number,
            );
        }
    };
}

/// The functions, with the C names of the driver.
#[allow(non_snake_case)]
mod names {
    use std::ffi::c_void;

    use super::TABLE;

    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

pub use names::*;

const CUDA_ERROR_NO_DEVICE: c_int = 100;

/// By name: the driver's function.
static TABLE: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(no_driver as *mut c_void) }; NAMES.len()];

/// Takes the place of each entry while no driver is open.
extern "C" fn no_driver() -> c_int {
    CUDA_ERROR_NO_DEVICE
}

/// Takes the place of entries that the driver lacks.
extern "C" fn not_supported() -> c_int {
    super::NOT_SUPPORTED
}

/// Fills the table. `find` returns the driver's function of a name.
pub fn fill(find: impl Fn(&str) -> Option<*mut c_void>) {
    for (name, entry) in NAMES.iter().zip(&TABLE) {
        let found = find(name).unwrap_or(not_supported as *mut c_void);
        entry.store(found, Ordering::Release);
    }
}

/// Returns the function at a place of the table: the driver's, or one that returns an error.
pub fn real(number: usize) -> *mut c_void {
    TABLE[number].load(Ordering::Acquire)
}
