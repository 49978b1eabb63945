//! Devices and their primary contexts.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::entries;
use crate::state::status::Status;
use crate::state::user_pointer::UserPointer;
use crate::state::{device, primary};
use api::{CUcontext, CUdevice, CUuuid};

/// Bytes of a PCI address as text, with the final NUL.
const PCI_ADDRESS: c_int = 13;

entries! {
    fn cuDeviceGetCount(result: *mut c_int) {
        result.put(device::count())
    }

    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        device::check(ordinal)?;
        device.put(ordinal)
    }

    fn cuDeviceGetName(text: *mut c_char, capacity: c_int, device: CUdevice) {
        device::check(device)?;
        text.put_text(&device::name()?, usize::try_from(capacity).unwrap_or(0))
    }

    fn cuDeviceGetUuid_v2(result: *mut CUuuid, device: CUdevice) {
        device::check(device)?;
        let result: UserPointer<[u8; 16]> = result.cast();
        result.put(device::uuid(device::physical(device)))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        device::check(device)?;
        bytes.put(device::total()?)
    }

    fn cuDeviceGetAttribute(value: *mut c_int, number: c_uint, device: CUdevice) {
        device::check(device)?;
        match device::attribute(number, device::physical(device), device::workers()?) {
            Some(found) => value.put(found),
            None => Err(Status::INVALID_VALUE
                .because(format!("no device attribute has the number {number}"))),
        }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        device::check(device)?;
        let (told_major, told_minor) = device::compute_capability(device);
        major.put(told_major)?;
        minor.put(told_minor)
    }

    fn cuDeviceGetPCIBusId(text: *mut c_char, capacity: c_int, device: CUdevice) {
        device::check(device)?;
        if capacity < PCI_ADDRESS {
            return Err(Status::INVALID_VALUE
                .because(format!("the buffer has {capacity} bytes; a PCI address needs {PCI_ADDRESS}")));
        }
        text.put_text(&device::pci_address(device::physical(device)), usize::try_from(capacity).unwrap_or(0))
    }

    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, text: *const c_char) {
        let address = text.text()?;
        let is_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        if !address.to_bytes().iter().all(is_address) {
            return Err(Status::INVALID_VALUE.because("not a PCI address; pass one like 0000:41:00.0"));
        }
        match (0..device::count()).find(|device| {
            device::pci_address(device::physical(*device))
                .as_bytes()
                .eq_ignore_ascii_case(address.to_bytes())
        }) {
            Some(found) => device.put(found),
            None => Err(Status::INVALID_DEVICE.into()),
        }
    }

    fn cuDeviceGetLuid(_luid: *mut c_char, _node: *mut c_uint, device: CUdevice) {
        device::check(device)?;
        Err(Status::NOT_SUPPORTED.because("the CPU device is no adapter of Windows"))
    }

    /// Kernels of all contexts share the workers.
    /// Reports 0 for every kind, as an H200 does for kinds that it does not know.
    fn cuDeviceGetExecAffinitySupport(supported: *mut c_int, _kind: c_uint, device: CUdevice) {
        device::check(device)?;
        supported.put(0)
    }

    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        device::check(device)?;
        if context.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        context.put(primary::retain(device)?.pointer())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        device::check(device)?;
        primary::release(device)
    }

    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        device::check(device)?;
        primary::reset(device);
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) {
        device::check(device)?;
        primary::set_flags(device, flags)
    }

    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        device::check(device)?;
        let (current, is_active) = primary::state(device);
        flags.put(current)?;
        active.put(c_int::from(is_active))
    }
}
