//! Functions: kernels of modules, and their occupancy.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::entries;
use super::launch::attributes;
use crate::run::MAX_CLUSTER;
use crate::state::function::{self, available_shared, best_block, max_active_blocks};
use crate::state::handle::pointer;
use crate::state::module::CompiledFunction;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, device, library};
use api::{CUfunction, CUlaunchConfig, CUmodule, CUoccupancyB2DSize};

/// Blocks of a cluster that every device with clusters can run.
const PORTABLE_CLUSTER: c_int = 8;

/// The number of blocks in a cluster of the launch.
fn cluster(config: &CUlaunchConfig) -> Result<u32> {
    const CLUSTER_DIMENSION: c_uint = 4;
    for attribute in attributes(config) {
        let attribute = attribute?;
        if attribute.number == CLUSTER_DIMENSION {
            let [x, y, z] = [0, 1, 2].map(|axis| attribute.value[axis]);
            return Ok(x.saturating_mul(y).saturating_mul(z));
        }
    }
    Ok(1)
}

fn active_blocks(
    count: UserPointer<c_int>,
    function: &CompiledFunction,
    threads: c_int,
    dynamic: usize,
) -> Result {
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads =
        threads.ok_or_else(|| Status::INVALID_VALUE.because("a block has at least one thread"))?;
    count.put(max_active_blocks(function, threads, dynamic).cast_signed())
}

fn potential_block(
    blocks: UserPointer<c_int>,
    threads: UserPointer<c_int>,
    function: &CompiledFunction,
    shared_of: CUoccupancyB2DSize,
    dynamic: usize,
    limit: c_int,
) -> Result {
    let shared = |threads: u32| match shared_of {
        // SAFETY: the caller passed the function for this call.
        Some(shared_of) => unsafe { shared_of(threads.cast_signed()) },
        None => dynamic,
    };
    let limit = u32::try_from(limit)
        .map_err(|_| Status::INVALID_VALUE.because("blockSizeLimit is negative; 0 is no limit"))?;
    let (size, active) = best_block(function, shared, limit)?;
    blocks.put((active * device::workers()?).cast_signed())?;
    threads.put(size.cast_signed())
}

/// Fails for a null function with the code of entries that describe functions. Others report an
/// invalid handle.
fn refuse_null(function: UserPointer<cudarc::driver::sys::CUfunc_st>) -> Result {
    if function.is_null() {
        Err(Status::INVALID_VALUE.because("the function is null"))
    } else {
        Ok(())
    }
}

entries! {
    fn cuFuncGetAttribute(value: *mut c_int, number: c_uint, function: CUfunction) {
        context::working()?;
        let function = library::compiled(function.addr())?;
        let device = context::current_device();
        value.put(function::attribute(number, &function, device).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuFuncSetAttribute(function: CUfunction, number: c_uint, value: c_int) {
        context::working()?;
        let function = library::compiled(function.addr())?;
        function::set_attribute(&function, number, value)
    }

    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) {
        context::working()?;
        library::function(function.addr())?;
        if config > 3 {
            Err(Status::INVALID_VALUE.into())
        } else {
            Ok(())
        }
    }

    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        context::working()?;
        library::function(function.addr())?;
        match config {
            0..=2 => Ok(()),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    fn cuFuncGetModule(result: *mut CUmodule, function: CUfunction) {
        refuse_null(function)?;
        result.put(pointer(library::function(function.addr())?.module))
    }

    /// The name is good until the module is unloaded.
    fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) {
        refuse_null(function)?;
        name.put(library::function(function.addr())?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(
        function: CUfunction,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) {
        refuse_null(function)?;
        let function = library::compiled(function.addr())?;
        let params = &function.image().params;
        let param = params.get(index).ok_or_else(|| {
            let detail = format!(
                "parameter {index} of a kernel that has {}",
                params.len()
            );
            Status::INVALID_VALUE.because(detail)
        })?;
        offset.put(param.offset as usize)?;
        size.put_optional(param.size as usize);
        Ok(())
    }

    /// `CU_FUNCTION_LOADING_STATE_…`: 1 is loaded.
    fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) {
        state.put(library::function(function.addr())?.is_compiled().into())
    }

    fn cuFuncLoad(function: CUfunction) {
        library::compiled(function.addr())?;
        Ok(())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        count: *mut c_int,
        function: CUfunction,
        threads: c_int,
        dynamic: usize,
    ) {
        active_blocks(count, &library::compiled(function.addr())?, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut c_int,
        function: CUfunction,
        threads: c_int,
        dynamic: usize,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE.into());
        }
        active_blocks(count, &library::compiled(function.addr())?, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: CUfunction,
        shared_of: CUoccupancyB2DSize,
        dynamic: usize,
        limit: c_int,
    ) {
        potential_block(blocks, threads, &library::compiled(function.addr())?, shared_of, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: CUfunction,
        shared_of: CUoccupancyB2DSize,
        dynamic: usize,
        limit: c_int,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE.into());
        }
        potential_block(blocks, threads, &library::compiled(function.addr())?, shared_of, dynamic, limit)
    }

    /// The blocks of a cluster are on one multiprocessor, which runs them in turn.
    fn cuOccupancyMaxActiveClusters(
        count: *mut c_int,
        function: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        refuse_null(function)?;
        let function = library::compiled(function.addr())?;
        let config = config.get()?;
        let threads = config
            .blockDimX
            .saturating_mul(config.blockDimY)
            .saturating_mul(config.blockDimZ);
        if threads == 0 {
            return Err(Status::INVALID_VALUE.because("a block has at least one thread"));
        }
        let blocks = cluster(&config)?;
        let active = max_active_blocks(&function, threads, config.sharedMemBytes as usize);
        let fit = match blocks {
            1..=MAX_CLUSTER if active > 0 => (active / blocks).max(1),
            _ => 0,
        };
        count.put((fit * device::workers()?).cast_signed())
    }

    fn cuOccupancyMaxPotentialClusterSize(
        blocks: *mut c_int,
        function: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        refuse_null(function)?;
        let function = library::compiled(function.addr())?;
        config.get()?;
        blocks.put(if function.allows_large_clusters() { MAX_CLUSTER.cast_signed() } else { PORTABLE_CLUSTER })
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: CUfunction,
        blocks: c_int,
        threads: c_int,
    ) {
        let function = library::compiled(function.addr())?;
        let (Ok(blocks), Ok(threads)) = (u32::try_from(blocks), u32::try_from(threads)) else {
            return Err(Status::INVALID_VALUE.into());
        };
        let room = (threads > 0).then(|| available_shared(&function, threads, blocks)).flatten();
        let room = room.ok_or_else(|| {
            Status::INVALID_VALUE.because("so many blocks do not fit a multiprocessor")
        })?;
        bytes.put(room as usize)
    }
}
