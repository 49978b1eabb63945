//! Attributes and occupancy of kernels.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::binary::{function, kernel};
use crate::context::ready;
use crate::entry::{driver, entries};
use crate::error::Result;
use crate::execution::driver_config;
use crate::types::{FunctionAttributes, LaunchConfig};

/// `CU_FUNC_ATTRIBUTE_…` number `number`.
fn attribute(function: api::CUfunction, number: c_uint) -> Result<c_int> {
    let mut value = 0;
    driver!(cuFuncGetAttribute(&mut value, number, function))?;
    Ok(value)
}

entries! {
    /// What is known of a kernel.
    fn cudaFuncGetAttributes(result: *mut FunctionAttributes, host_function: *const c_void) {
        let function = function(host_function)?;
        let number = |number| attribute(function, number);
        let bytes = |number| Ok(attribute(function, number)?.unsigned_abs() as usize);
        result.put(FunctionAttributes {
            shared_bytes: bytes(1)?,
            constant_bytes: bytes(2)?,
            local_bytes: bytes(3)?,
            max_threads: number(0)?,
            registers: number(4)?,
            ptx_version: number(5)?,
            binary_version: number(6)?,
            cache_mode: number(7)?,
            max_dynamic_shared: number(8)?,
            shared_carveout: number(9)?,
            cluster_required: number(10)?,
            cluster: [number(11)?, number(12)?, number(13)?],
            cluster_policy: number(15)?,
            non_portable_cluster: number(14)?,
            reserved: [0; 16],
        })
    }

    /// Sets one attribute: dynamic shared memory, preferences.
    fn cudaFuncSetAttribute(host_function: *const c_void, number: c_uint, value: c_int) {
        driver!(cuFuncSetAttribute(function(host_function)?, number, value))
    }

    /// Preference between L1 and shared memory.
    fn cudaFuncSetCacheConfig(host_function: *const c_void, config: c_uint) {
        driver!(cuFuncSetCacheConfig(function(host_function)?, config))
    }

    /// The width of the banks of shared memory.
    fn cudaFuncSetSharedMemConfig(host_function: *const c_void, config: c_uint) {
        driver!(cuFuncSetSharedMemConfig(function(host_function)?, config))
    }

    /// The name in the PTX.
    fn cudaFuncGetName(name: *mut *const c_char, host_function: *const c_void) {
        driver!(cuKernelGetName(name.required()?, kernel(host_function)?))
    }

    /// Offset and size of a parameter.
    fn cudaFuncGetParamInfo(host_function: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize) {
        driver!(cuKernelGetParamInfo(kernel(host_function)?, index, offset.required()?, bytes.ptr()))
    }

    /// How many blocks of a kernel a multiprocessor holds.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        count: *mut c_int,
        host_function: *const c_void,
        threads: c_int,
        shared_bytes: usize,
    ) {
        let function = function(host_function)?;
        driver!(cuOccupancyMaxActiveBlocksPerMultiprocessor(count.required()?, function, threads, shared_bytes))
    }

    /// The same with flags.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut c_int,
        host_function: *const c_void,
        threads: c_int,
        shared_bytes: usize,
        flags: c_uint,
    ) {
        let function = function(host_function)?;
        driver!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count.required()?, function, threads, shared_bytes, flags))
    }

    /// How much dynamic shared memory is left for so many blocks.
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        host_function: *const c_void,
        blocks: c_int,
        threads: c_int,
    ) {
        let function = function(host_function)?;
        driver!(cuOccupancyAvailableDynamicSMemPerBlock(bytes.required()?, function, blocks, threads))
    }

    /// How many clusters run at a time.
    fn cudaOccupancyMaxActiveClusters(count: *mut c_int, host_function: *const c_void, config: *const LaunchConfig) {
        ready()?;
        let config = driver_config(&config.get()?, |stream| stream)?;
        driver!(cuOccupancyMaxActiveClusters(count.required()?, function(host_function)?, &config))
    }

    /// The largest cluster.
    fn cudaOccupancyMaxPotentialClusterSize(blocks: *mut c_int, host_function: *const c_void, config: *const LaunchConfig) {
        let config = driver_config(&config.get()?, |stream| stream)?;
        driver!(cuOccupancyMaxPotentialClusterSize(blocks.required()?, function(host_function)?, &config))
    }
}
