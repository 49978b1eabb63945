//! Devices.

use std::ffi::{c_char, c_int, c_uint};

use crate::context::{check_device, choose, device, device_count, driver as api, ready, reset};
use crate::entry::{Place, driver, entries};
use crate::error::{Code, Result, check};
use crate::types::DeviceProperties;

/// The CUDA version whose runtime API this is: 13.0.
const VERSION: c_int = 13000;

/// `CU_DEVICE_ATTRIBUTE_…` in the order of the properties.
const TEXTURES: [c_uint; 25] = [
    21, 77, 22, 23, 73, 74, 70, 71, 72, 45, 46, 24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53,
    54,
];
const SURFACES: [c_uint; 14] = [55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68];
const NUMBERS: [c_uint; 15] = [31, 32, 33, 34, 50, 35, 40, 41, 37, 38, 108, 39, 78, 79, 80];
const MORE_NUMBERS: [c_uint; 10] = [82, 83, 84, 85, 86, 88, 89, 90, 91, 95];
const ACCESS: [c_uint; 4] = [100, 101, 106, 109];
const FEATURES: [c_uint; 20] = [
    99, 112, 113, 114, 115, 116, 117, 118, 119, 121, 125, 120, 129, 130, 131, 133, 134, 139, 140,
    141,
];

/// A number about a device, 0 of what the driver does not know.
fn number(attribute: c_uint, device: c_int) -> c_int {
    let ask = || {
        let mut value = 0;
        driver!(cuDeviceGetAttribute(&mut value, attribute, device))?;
        Ok::<c_int, Code>(value)
    };
    ask().unwrap_or(0)
}

fn numbers<const N: usize>(attributes: [c_uint; N], device: c_int) -> [c_int; N] {
    attributes.map(|attribute| number(attribute, device))
}

fn properties(device: c_int) -> Result<DeviceProperties> {
    check_device(device)?;
    let mut name = [0; 256];
    driver!(cuDeviceGetName(name.as_mut_ptr(), 256, device))?;
    let mut uuid = [0; 16];
    driver!(cuDeviceGetUuid_v2((&raw mut uuid).cast(), device))?;
    let mut total_global = 0;
    driver!(cuDeviceTotalMem_v2(&mut total_global, device))?;
    let bytes = |attribute| number(attribute, device).unsigned_abs() as usize;
    Ok(DeviceProperties {
        name,
        uuid,
        luid: [0; 8],
        luid_mask: 0,
        total_global,
        shared_per_block: bytes(8),
        registers_per_block: number(12, device),
        warp_size: number(10, device),
        memory_pitch: bytes(11),
        max_threads: number(1, device),
        max_block: numbers([2, 3, 4], device),
        max_grid: numbers([5, 6, 7], device),
        total_constant: bytes(9),
        capability: numbers([75, 76], device),
        texture_alignment: bytes(14),
        texture_pitch_alignment: bytes(51),
        multiprocessors: numbers([16, 18, 19], device),
        textures: numbers(TEXTURES, device),
        surfaces: numbers(SURFACES, device),
        surface_alignment: bytes(30),
        numbers: numbers(NUMBERS, device),
        shared_per_multiprocessor: bytes(81),
        more_numbers: numbers(MORE_NUMBERS, device),
        shared_per_block_optin: bytes(97),
        access: numbers(ACCESS, device),
        reserved_shared_per_block: bytes(111),
        features: numbers(FEATURES, device),
        reserved: [0; 56],
    })
}

/// Takes what the current context's work has failed with.
fn synchronize() -> Result {
    ready()?;
    driver!(cuCtxSynchronize())
}

/// A version may be asked before the driver starts, and without one.
fn driver_version(version: Place<c_int>) -> Result {
    match api() {
        Ok(_) => driver!(cuDriverGetVersion(version.required()?)),
        Err(_) => version.put(0),
    }
}

entries! {
    /// How many devices there are.
    fn cudaGetDeviceCount(count: *mut c_int) {
        count.put(device_count()?)
    }

    /// The device of this thread.
    fn cudaGetDevice(result: *mut c_int) {
        device_count()?;
        result.put(device()?)
    }

    /// Chooses the device of this thread.
    fn cudaSetDevice(number: c_int) {
        choose(number)
    }

    /// Starts a device.
    fn cudaInitDevice(number: c_int, _device_flags: c_uint, _flags: c_uint) {
        crate::context::primary(number).map(drop)
    }

    /// What is known of a device.
    fn cudaGetDeviceProperties(result: *mut DeviceProperties, number: c_int) {
        result.required()?;
        result.put(properties(number)?)
    }

    /// One number about a device.
    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_uint, number: c_int) {
        check_device(number)?;
        driver!(cuDeviceGetAttribute(value.required()?, attribute, number))
    }

    /// The device that fits properties best: there is no worse one than the first.
    fn cudaChooseDevice(result: *mut c_int, wanted: *const DeviceProperties) {
        let wanted = wanted.get()?;
        let fits = |number: &c_int| {
            properties(*number).is_ok_and(|found| {
                found.capability >= wanted.capability && found.total_global >= wanted.total_global
            })
        };
        result.put((0..device_count()?).find(fits).unwrap_or(0))
    }

    /// Waits for all work of the current device.
    fn cudaDeviceSynchronize() {
        synchronize()
    }

    /// Destroys all that is on the current device.
    fn cudaDeviceReset() {
        reset(device()?)
    }

    /// How the host waits for a device.
    fn cudaSetDeviceFlags(flags: c_uint) {
        driver!(cuDevicePrimaryCtxSetFlags_v2(device()?, flags))
    }

    /// The flags of the current device.
    fn cudaGetDeviceFlags(flags: *mut c_uint) {
        let mut active = 0;
        driver!(cuDevicePrimaryCtxGetState(device()?, flags.required()?, &mut active))
    }

    /// A limit: stack, heap, buffer of `printf`.
    fn cudaDeviceGetLimit(value: *mut usize, limit: c_uint) {
        ready()?;
        driver!(cuCtxGetLimit(value.required()?, limit))
    }

    /// Sets a limit.
    fn cudaDeviceSetLimit(limit: c_uint, value: usize) {
        ready()?;
        driver!(cuCtxSetLimit(limit, value))
    }

    /// Preference between L1 and shared memory.
    fn cudaDeviceGetCacheConfig(config: *mut c_uint) {
        ready()?;
        driver!(cuCtxGetCacheConfig(config.required()?))
    }

    /// Sets it.
    fn cudaDeviceSetCacheConfig(config: c_uint) {
        ready()?;
        driver!(cuCtxSetCacheConfig(config))
    }

    /// The width of the banks of shared memory.
    fn cudaDeviceGetSharedMemConfig(config: *mut c_uint) {
        ready()?;
        driver!(cuCtxGetSharedMemConfig(config.required()?))
    }

    /// Sets it.
    fn cudaDeviceSetSharedMemConfig(config: c_uint) {
        ready()?;
        driver!(cuCtxSetSharedMemConfig(config))
    }

    /// Forgets which lines of L2 were to persist.
    fn cudaCtxResetPersistingL2Cache() {
        ready()?;
        driver!(cuCtxResetPersistingL2Cache())
    }

    /// Least and greatest priority of streams.
    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        ready()?;
        driver!(cuCtxGetStreamPriorityRange(least.ptr(), greatest.ptr()))
    }

    /// The PCI address as text.
    fn cudaDeviceGetPCIBusId(text: *mut c_char, capacity: c_int, number: c_int) {
        driver!(cuDeviceGetPCIBusId(text.required()?, capacity, number))
    }

    /// The device at a PCI address.
    fn cudaDeviceGetByPCIBusId(result: *mut c_int, text: *const c_char) {
        driver!(cuDeviceGetByPCIBusId(result.required()?, text.required()?))
    }

    /// One number about two devices as peers.
    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, source: c_int, target: c_int) {
        driver!(cuDeviceGetP2PAttribute(value.required()?, attribute, source, target))
    }

    /// The version of this runtime.
    fn cudaRuntimeGetVersion(version: *mut c_int) {
        version.put(VERSION)
    }

    /// The newest version that the driver serves, 0 without a driver.
    fn cudaDriverGetVersion(version: *mut c_int) {
        driver_version(version)
    }

    /// Starts profiling.
    fn cudaProfilerStart() {
        ready()?;
        driver!(cuProfilerStart())
    }

    /// Stops profiling.
    fn cudaProfilerStop() {
        ready()?;
        driver!(cuProfilerStop())
    }

    /// Devices to choose from: a thread without a choice takes the first.
    fn cudaSetValidDevices(devices: *mut c_int, count: c_int) {
        match devices.get_optional() {
            Some(first) if count > 0 => check_device(first),
            _ if count == 0 => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The address of a driver entry, in the form that a CUDA version has.
    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        address: *mut *mut std::ffi::c_void,
        version: c_uint,
        flags: u64,
        status: *mut c_uint,
    ) {
        symbol.required()?;
        address.required()?;
        let get = api()?.get_proc_address().ok_or(Code::NOT_SUPPORTED)?;
        let version = c_int::try_from(version).map_err(|_| Code::INVALID_VALUE)?;
        // SAFETY: the caller's name and places, and the driver's own entry.
        let code = unsafe { get(symbol.ptr(), address.ptr(), version, flags, status.ptr()) };
        match check(code) {
            // The status says it.
            Err(Code::NOT_FOUND) if !status.is_null() => Ok(()),
            result => result,
        }
    }
}
