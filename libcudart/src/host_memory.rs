//! Memory of the host that devices reach.

use std::ffi::{c_uint, c_void};

use crate::context::ready;
use crate::entry::{driver, entries};
use crate::error::Code;

entries! {
    /// Memory of the host that stays in place.
    fn cudaMallocHost(address: *mut *mut c_void, bytes: usize) {
        ready()?;
        address.required()?;
        if bytes == 0 {
            return address.put(std::ptr::null_mut());
        }
        driver!(cuMemHostAlloc(address.ptr(), bytes, 0))
    }

    /// The same with flags.
    fn cudaHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        ready()?;
        address.required()?;
        if bytes == 0 {
            return address.put(std::ptr::null_mut());
        }
        driver!(cuMemHostAlloc(address.ptr(), bytes, flags))
    }

    /// Frees it; null is nothing to free.
    fn cudaFreeHost(address: *mut c_void) {
        ready()?;
        if address.is_null() { Ok(()) } else { driver!(cuMemFreeHost(address.ptr())) }
    }

    /// Where a device finds it.
    fn cudaHostGetDevicePointer(result: *mut *mut c_void, address: *mut c_void, flags: c_uint) {
        ready()?;
        result.required()?;
        let mut found = 0;
        driver!(cuMemHostGetDevicePointer_v2(&mut found, address.ptr(), flags))?;
        result.put_address(found)
    }

    /// With what flags it was made.
    fn cudaHostGetFlags(flags: *mut c_uint, address: *mut c_void) {
        ready()?;
        driver!(cuMemHostGetFlags(flags.required()?, address.ptr()))
    }

    /// Lets devices reach memory that the program has.
    fn cudaHostRegister(address: *mut c_void, bytes: usize, flags: c_uint) {
        ready()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver!(cuMemHostRegister_v2(address.required()?, bytes, flags))
    }

    /// Ends that.
    fn cudaHostUnregister(address: *mut c_void) {
        ready()?;
        driver!(cuMemHostUnregister(address.required()?))
    }
}
