//! What is known of a kernel, and how many of its blocks fit.

use std::ffi::{c_char, c_int, c_uint};

use super::context;
use super::device::{
    BLOCKS_PER_MULTIPROCESSOR, COMPUTE_CAPABILITY, MAX_SHARED_ASKED, MAX_THREADS,
    THREADS_PER_MULTIPROCESSOR, workers,
};
use super::entry::{Argument, Given, entries};
use super::handle::pointer;
use super::launch::Attribute;
use super::module::{self, Function};
use super::status::{Answer, Status};
use api::{CUfunction, CUlaunchConfig, CUmodule, CUoccupancyB2DSize};

/// `CU_FUNC_ATTRIBUTE_…`
const MAX_DYNAMIC_SHARED: c_uint = 8;
const SHARED_CARVEOUT: c_uint = 9;
const NON_PORTABLE_CLUSTER: c_uint = 14;
const CLUSTER_POLICY: c_uint = 15;

/// Reported where clients divide by it: the CPU device has no such registers.
const REGISTERS: c_int = 32;

pub(super) fn attribute(number: c_uint, function: &Function) -> Option<c_int> {
    let image = function.image();
    let (major, minor) = COMPUTE_CAPABILITY;
    Some(match number {
        0 => function.max_threads().cast_signed(), // MAX_THREADS_PER_BLOCK
        1 => image.shared_bytes.cast_signed(),     // SHARED_SIZE_BYTES
        2 => 0,                                    // CONST_SIZE_BYTES
        3 => image.local_bytes.cast_signed(),      // LOCAL_SIZE_BYTES
        4 => REGISTERS,                            // NUM_REGS
        5 | 6 => major * 10 + minor,               // PTX_VERSION, BINARY_VERSION
        MAX_DYNAMIC_SHARED => function.shared_limit().cast_signed(),
        SHARED_CARVEOUT => -1, // no preference
        7 | 10..=15 => 0,      // CACHE_MODE_CA, and what concerns clusters
        _ => return None,
    })
}

pub(super) fn set_attribute(function: &Function, number: c_uint, value: c_int) -> Answer {
    match number {
        MAX_DYNAMIC_SHARED => {
            let most = MAX_SHARED_ASKED.saturating_sub(function.image().shared_bytes);
            let bytes = u32::try_from(value).ok().filter(|bytes| *bytes <= most);
            let refused = || {
                let detail = format!(
                    "{value} bytes of dynamic shared memory asked for, at most {most} can be had"
                );
                Status::INVALID_VALUE.because(detail)
            };
            function.set_shared_limit(bytes.ok_or_else(refused)?);
            Ok(())
        }
        // Preferences that have no meaning here.
        SHARED_CARVEOUT if (-1..=100).contains(&value) => Ok(()),
        NON_PORTABLE_CLUSTER if (0..=1).contains(&value) => Ok(()),
        CLUSTER_POLICY if (0..=2).contains(&value) => Ok(()),
        _ => Err(Status::INVALID_VALUE.because(format!(
            "function attribute {number} cannot be set to {value}"
        ))),
    }
}

/// The blocks of a cluster that a launch asks for.
fn cluster(config: &CUlaunchConfig) -> Answer<u32> {
    const CLUSTER_DIMENSION: c_uint = 4;
    // SAFETY: a field of the caller's structure, for which its promise holds as well.
    let attributes = unsafe { config.attrs.seen() }.cast::<Attribute>();
    for index in 0..config.numAttrs as usize {
        let attribute = attributes.get_at(index)?;
        if attribute.number == CLUSTER_DIMENSION {
            let [x, y, z] = [0, 1, 2].map(|axis| attribute.value[axis]);
            return Ok(x.saturating_mul(y).saturating_mul(z));
        }
    }
    Ok(1)
}

/// Blocks of a kernel that a multiprocessor would hold at a time.
fn blocks_that_fit(function: &Function, threads: u32, dynamic: usize) -> u32 {
    let shared = (function.image().shared_bytes as usize).saturating_add(dynamic);
    if threads > function.max_threads() || shared > MAX_SHARED_ASKED as usize {
        return 0;
    }
    let by_threads = THREADS_PER_MULTIPROCESSOR / threads.next_multiple_of(crate::abi::WARP);
    let by_shared = (MAX_SHARED_ASKED as usize)
        .checked_div(shared)
        .unwrap_or(usize::MAX);
    by_threads
        .min(BLOCKS_PER_MULTIPROCESSOR)
        .min(u32::try_from(by_shared).unwrap_or(u32::MAX))
}

fn active_blocks(
    count: Given<c_int>,
    function: &Function,
    threads: c_int,
    dynamic: usize,
) -> Answer {
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads =
        threads.ok_or_else(|| Status::INVALID_VALUE.because("a block has at least one thread"))?;
    count.put(blocks_that_fit(function, threads, dynamic).cast_signed())
}

/// The largest block that fits: the fewest blocks cost the least here.
fn potential_block(
    blocks: Given<c_int>,
    threads: Given<c_int>,
    function: &Function,
    shared_of: CUoccupancyB2DSize,
    dynamic: usize,
    limit: c_int,
) -> Answer {
    let limit = u32::try_from(limit)
        .ok()
        .filter(|limit| *limit > 0)
        .unwrap_or(MAX_THREADS);
    let warp = crate::abi::WARP;
    let mut size = function.max_threads().min(limit);
    while size > 0 {
        let shared = match shared_of {
            // SAFETY: the caller gave the function to be asked so.
            Some(ask) => unsafe { ask(size.cast_signed()) },
            None => dynamic,
        };
        let fit = blocks_that_fit(function, size, shared);
        if fit > 0 {
            blocks.put((fit * workers()?).cast_signed())?;
            return threads.put(size.cast_signed());
        }
        size = if size % warp == 0 {
            size - warp
        } else {
            size - size % warp
        };
    }
    Err(Status::INVALID_VALUE.because("no block of the kernel fits"))
}

entries! {
    fn cuFuncGetAttribute(value: *mut c_int, number: c_uint, function: CUfunction) {
        context::working()?;
        let function = module::function(function)?;
        value.put(attribute(number, &function).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuFuncSetAttribute(function: CUfunction, number: c_uint, value: c_int) {
        context::working()?;
        let function = module::function(function)?;
        set_attribute(&function, number, value)
    }

    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) {
        context::working()?;
        module::function(function)?;
        if config > 3 {
            Err(Status::INVALID_VALUE.into())
        } else {
            Ok(())
        }
    }

    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        context::working()?;
        module::function(function)?;
        match config {
            0..=2 => Ok(()),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    fn cuFuncGetModule(result: *mut CUmodule, function: CUfunction) {
        result.put(pointer(module::function(function)?.module))
    }

    /// The name is good until the module is unloaded.
    fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) {
        name.put(module::function(function)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(
        function: CUfunction,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) {
        let function = module::function(function)?;
        let params = &function.image().params;
        let param = params.get(index).ok_or_else(|| {
            let detail = format!(
                "parameter {index} asked for, the kernel has {}",
                params.len()
            );
            Status::INVALID_VALUE.because(detail)
        })?;
        offset.put(param.offset as usize)?;
        size.put_if_asked(param.size as usize);
        Ok(())
    }

    /// `CU_FUNCTION_LOADING_STATE_LOADED`
    fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) {
        module::function(function)?;
        state.put(1)
    }

    fn cuFuncLoad(function: CUfunction) {
        module::function(function)?;
        Ok(())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        count: *mut c_int,
        function: CUfunction,
        threads: c_int,
        dynamic: usize,
    ) {
        active_blocks(count, &*module::function(function)?, threads, dynamic)
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
        active_blocks(count, &*module::function(function)?, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: CUfunction,
        shared_of: CUoccupancyB2DSize,
        dynamic: usize,
        limit: c_int,
    ) {
        potential_block(blocks, threads, &*module::function(function)?, shared_of, dynamic, limit)
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
        potential_block(blocks, threads, &*module::function(function)?, shared_of, dynamic, limit)
    }

    /// A cluster here is one block.
    fn cuOccupancyMaxActiveClusters(
        count: *mut c_int,
        function: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        let function = module::function(function)?;
        let config = config.get()?;
        let threads = config
            .blockDimX
            .saturating_mul(config.blockDimY)
            .saturating_mul(config.blockDimZ);
        if threads == 0 {
            return Err(Status::INVALID_VALUE.because("a block has at least one thread"));
        }
        let fit = match cluster(&config)? {
            1 => blocks_that_fit(&function, threads, config.sharedMemBytes as usize),
            _ => 0,
        };
        count.put((fit * workers()?).cast_signed())
    }

    fn cuOccupancyMaxPotentialClusterSize(
        blocks: *mut c_int,
        function: CUfunction,
        _config: *const CUlaunchConfig,
    ) {
        module::function(function)?;
        blocks.put(1)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: CUfunction,
        blocks: c_int,
        threads: c_int,
    ) {
        let function = module::function(function)?;
        let (Ok(blocks), Ok(threads)) = (u32::try_from(blocks), u32::try_from(threads)) else {
            return Err(Status::INVALID_VALUE.into());
        };
        if blocks == 0 || threads == 0 || blocks_that_fit(&function, threads, 0) < blocks {
            return Err(Status::INVALID_VALUE.because("so many blocks do not fit a multiprocessor"));
        }
        bytes
            .put((MAX_SHARED_ASKED / blocks).saturating_sub(function.image().shared_bytes) as usize)
    }
}
