//! Attributes and occupancy of kernels.

use std::ffi::{c_int, c_uint};

use super::device::{MAX_SHARED, MAX_SHARED_OPTIN, MULTIPROCESSOR, compute_capability};
use super::kernel_settings::{CLUSTER, Setting};
use super::module::ConfiguredKernel;
use super::status::{Result, Status};
use crate::abi::WARP_SIZE;
use crate::run::MAX_THREADS;
use api::CUdevice;
use occupancy::BlockResources;

/// `CU_FUNC_ATTRIBUTE_…`
const MAX_DYNAMIC_SHARED: c_uint = 8;
const SHARED_CARVEOUT: c_uint = 9;
const CLUSTER_WIDTH: c_uint = 11;
const CLUSTER_DEPTH: c_uint = 13;
const NON_PORTABLE_CLUSTER: c_uint = 14;
const CLUSTER_POLICY: c_uint = 15;

/// Not 0, as clients divide by it: the CPU device has no such registers.
const REGISTERS: u32 = 32;

/// `CU_FUNC_ATTRIBUTE_…` number `number`.
pub(crate) fn attribute(
    number: c_uint,
    function: &ConfiguredKernel,
    device: CUdevice,
) -> Option<c_int> {
    let image = function.image();
    let (major, minor) = compute_capability(device);
    Some(match number {
        0 => function.max_threads().cast_signed(), // MAX_THREADS_PER_BLOCK
        1 => image.shared_bytes.cast_signed(),     // SHARED_SIZE_BYTES
        2 => i32::try_from(function.constant_bytes()).unwrap_or(i32::MAX), // CONST_SIZE_BYTES
        3 => image.local_bytes.cast_signed(),      // LOCAL_SIZE_BYTES
        4 => REGISTERS.cast_signed(),              // NUM_REGS
        5 => image.target.cast_signed(),           // PTX_VERSION
        6 => major * 10 + minor,                   // BINARY_VERSION
        MAX_DYNAMIC_SHARED => function.shared_limit().cast_signed(),
        SHARED_CARVEOUT => function.carveout(),
        CLUSTER_WIDTH..=CLUSTER_DEPTH => function
            .required_cluster()
            .map_or(0, |cluster| cluster[(number - CLUSTER_WIDTH) as usize])
            .cast_signed(),
        10 => image.explicit_cluster.into(), // CLUSTER_SIZE_MUST_BE_SET
        NON_PORTABLE_CLUSTER => function.allows_large_clusters().into(),
        7 | 15 => 0, // CACHE_MODE_CA, CLUSTER_SCHEDULING_POLICY_PREFERENCE
        _ => return None,
    })
}

pub(crate) fn set_attribute(function: &ConfiguredKernel, number: c_uint, value: c_int) -> Result {
    match number {
        MAX_DYNAMIC_SHARED => {
            let most = MAX_SHARED_OPTIN.saturating_sub(function.image().shared_bytes);
            let bytes = u32::try_from(value).ok().filter(|bytes| *bytes <= most);
            let refused = || {
                let detail = format!(
                    "{value} bytes of dynamic shared memory requested, at most {most} are possible"
                );
                Status::INVALID_VALUE.because(detail)
            };
            function.set(Setting::SharedLimit, bytes.ok_or_else(refused)?);
            Ok(())
        }
        // Only occupancy is calculated with it.
        SHARED_CARVEOUT if (-1..=100).contains(&value) => {
            function.set(Setting::Carveout, value);
            Ok(())
        }
        CLUSTER_WIDTH..=CLUSTER_DEPTH if function.image().required_cluster.is_some() => {
            Err(Status::NOT_PERMITTED.because("the PTX sets the cluster (.reqnctapercluster)"))
        }
        CLUSTER_WIDTH..=CLUSTER_DEPTH if value >= 0 => {
            let axis = (number - CLUSTER_WIDTH) as usize;
            function.set(CLUSTER[axis], value);
            Ok(())
        }
        NON_PORTABLE_CLUSTER => {
            function.set(Setting::LargeClusters, value != 0);
            Ok(())
        }
        // A preference that has no effect here.
        CLUSTER_POLICY if (0..=2).contains(&value) => Ok(()),
        _ => Err(Status::INVALID_VALUE.because(format!(
            "function attribute {number} cannot be set to {value}"
        ))),
    }
}

/// The number of blocks of a kernel that a multiprocessor holds at a time.
pub(crate) fn max_active_blocks(function: &ConfiguredKernel, threads: u32, dynamic: usize) -> u32 {
    let dynamic = u32::try_from(dynamic).unwrap_or(u32::MAX);
    let block = resources(function, threads, dynamic);
    // What every block may have needs no opting in, whatever the limit says.
    let is_too_much = dynamic > function.shared_limit() && block.shared > MAX_SHARED;
    if threads > MAX_THREADS || is_too_much {
        return 0;
    }
    MULTIPROCESSOR.occupancy(&block).blocks
}

/// The bytes of dynamic shared memory with which so many blocks of a kernel fit a
/// multiprocessor; `None` if they do not.
pub(crate) fn available_shared(
    function: &ConfiguredKernel,
    threads: u32,
    blocks: u32,
) -> Option<u32> {
    if blocks == 0 || max_active_blocks(function, threads, 0) < blocks {
        return None;
    }
    let block = resources(function, threads, 0);
    // NVIDIA's driver does not take off what the system reserves of each block.
    let shared = MULTIPROCESSOR.shared_for(&block, blocks)? + MULTIPROCESSOR.reserved;
    let shared = shared.min(MULTIPROCESSOR.shared_of_block);
    let dynamic = shared.saturating_sub(function.image().shared_bytes);
    Some(dynamic.min(function.shared_limit()))
}

fn resources(function: &ConfiguredKernel, threads: u32, dynamic: u32) -> BlockResources {
    BlockResources {
        threads,
        registers: REGISTERS,
        shared: function.image().shared_bytes.saturating_add(dynamic),
        carveout: u32::try_from(function.carveout()).ok(),
        ..BlockResources::default()
    }
}

/// The block size with the most threads per multiprocessor, the largest of equals, and the number
/// of its blocks per multiprocessor. `shared` returns the dynamic shared memory of a block with
/// that many threads. A limit of 0 is none.
pub(crate) fn best_block(
    function: &ConfiguredKernel,
    shared: impl Fn(u32) -> usize,
    limit: u32,
) -> Result<(u32, u32)> {
    let limit = if limit == 0 { MAX_THREADS } else { limit };
    let largest = function.max_threads().min(limit);
    let mut best = None;
    let mut most = 0;
    for warps in (1..=largest.div_ceil(WARP_SIZE)).rev() {
        let threads = largest.min(warps * WARP_SIZE);
        let blocks = max_active_blocks(function, threads, shared(threads));
        if blocks * threads > most {
            most = blocks * threads;
            best = Some((threads, blocks));
        }
    }
    best.ok_or_else(|| Status::INVALID_VALUE.because("no block of the kernel fits"))
}
