//! The device, for the report.

use std::ffi::{CStr, c_int, c_uint};

use cpu::table;
use report::Device;

/// `CU_DEVICE_ATTRIBUTE_…`
const MULTIPROCESSORS: c_uint = 16;
const MAJOR: c_uint = 75;
const MINOR: c_uint = 76;

/// The first device; `None` before `cuInit`.
pub(super) fn device() -> Option<Device> {
    let api = table();
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has this many bytes.
    let status = unsafe { api.cuDeviceGetName?(name.as_mut_ptr().cast(), name.len() as c_int, 0) };
    if status != 0 {
        return None;
    }
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy();
    let mut version: c_int = 0;
    // SAFETY: the place is an integer.
    unsafe { api.cuDriverGetVersion?(&mut version) };
    let attribute = |number| {
        let mut value: c_int = 0;
        // SAFETY: the place is an integer.
        let status = unsafe { api.cuDeviceGetAttribute?(&mut value, number, 0) };
        (status == 0).then_some(value)
    };
    let mut memory: usize = 0;
    // SAFETY: the place is an integer.
    let has_memory = unsafe { api.cuDeviceTotalMem_v2?(&mut memory, 0) } == 0;
    Some(Device {
        cuda: Some(format!("{}.{}", version / 1000, version % 1000 / 10)),
        compute_capability: attribute(MAJOR)
            .zip(attribute(MINOR))
            .map(|(major, minor)| format!("{major}.{minor}")),
        multiprocessors: attribute(MULTIPROCESSORS).and_then(|count| count.try_into().ok()),
        memory: has_memory.then_some(memory as u64),
        ..Device::new(name, "CPU device")
    })
}
