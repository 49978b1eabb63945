//! Launching kernels.

use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

use super::context::Context;
use super::device::{MAX_SHARED_OPTIN, engine, workers};
use super::function::max_active_blocks;
use super::handle;
use super::library;
use super::module::CompiledFunction;
use super::node::{NodeKind, Params, Work};
use super::status::{Failure, Result, Status};
use super::stream;
use super::user_pointer::UserPointer;
use crate::abi::FaultKind;
use crate::module::LoadedModule;
use crate::run::{Engine, Fault, Grid, LaunchConfig, MAX_CLUSTER, ParamBlock};
use api::CUDA_KERNEL_NODE_PARAMS_v2;

/// `CU_LAUNCH_PARAM_…`: the keys of the list `extra`.
const BUFFER_END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// Fails for a grid that the kernel cannot be launched with.
fn check(function: &CompiledFunction, grid: &Grid) -> Result {
    let refuse = |detail: String| Err(Status::INVALID_VALUE.because(detail));
    let (config, threads) = (grid.config(), grid.threads());
    let image = function.image();
    if let Some(required) = image.required_threads
        && required != config.block
    {
        return refuse(format!(
            "kernel {} requires blocks of {required:?} threads (.reqntid)",
            image.name
        ));
    }
    if threads > function.max_threads() {
        let most = function.max_threads();
        return refuse(format!(
            "kernel {} allows at most {most} threads a block (.maxntid), not {threads}",
            image.name
        ));
    }
    let (dynamic, limit) = (config.shared_bytes, function.shared_limit());
    if dynamic > limit {
        let most = MAX_SHARED_OPTIN.saturating_sub(image.shared_bytes);
        return refuse(format!(
            "{dynamic} bytes of dynamic shared memory: the limit of the kernel is {limit}, and \
             cuFuncSetAttribute can raise it to {most}"
        ));
    }
    Ok(())
}

/// Copies the arguments into one block, laid out as the kernel declares them.
fn arguments(
    function: &CompiledFunction,
    params: UserPointer<*mut c_void>,
    extra: UserPointer<*mut c_void>,
) -> Result<ParamBlock> {
    let image = function.image();
    let size = image.param_bytes as usize;
    if !extra.is_null() {
        if !params.is_null() {
            return Err(Status::INVALID_VALUE
                .because("arguments come as a list or as a buffer, not as both"));
        }
        return buffered(&image.name, size, extra);
    }
    let mut block = ParamBlock::zeroed(size);
    let bytes = block.bytes_mut();
    for (index, param) in image.params.iter().enumerate() {
        let (offset, size) = (param.offset as usize, param.size as usize);
        let argument = params.follow(index)?.bytes(size)?;
        // Parameters lie within the block, which was checked when the image was read.
        bytes[offset..offset + size].copy_from_slice(argument);
    }
    Ok(block)
}

fn buffered(kernel: &str, size: usize, extra: UserPointer<*mut c_void>) -> Result<ParamBlock> {
    let (mut buffer, mut length) = (None, None);
    // There are at most two pairs and the end.
    for pair in 0..3 {
        let value = || extra.follow(2 * pair + 1);
        match extra.get_at(2 * pair)?.addr() {
            BUFFER_END => break,
            BUFFER_POINTER => buffer = Some(value()?),
            BUFFER_SIZE => length = Some(value()?.cast::<usize>().get()?),
            _ => {
                return Err(
                    Status::INVALID_VALUE.because("unknown entry in the list `extra` of a launch")
                );
            }
        }
    }
    let (Some(buffer), Some(length)) = (buffer, length) else {
        return Err(Status::INVALID_VALUE
            .because("the list `extra` of a launch names no buffer, or not its size"));
    };
    if length == 0 && size > 0 {
        return Err(Status::INVALID_VALUE.because(format!(
            "kernel {kernel} takes {size} bytes of arguments, CU_LAUNCH_PARAM_BUFFER_SIZE is 0"
        )));
    }
    if length > size {
        return Err(Status::LAUNCH_OUT_OF_RESOURCES.because(format!(
            "kernel {kernel} takes {size} bytes of arguments, CU_LAUNCH_PARAM_BUFFER_SIZE is {length}"
        )));
    }
    Ok(ParamBlock::new(buffer.bytes(length)?, size))
}

/// The blocks of a cluster: what the launch says, or else what the kernel requires.
fn cluster(function: &CompiledFunction, config: &LaunchConfig) -> Result<[u32; 3]> {
    let image = function.image();
    let cluster = match function.required_cluster() {
        None if image.explicit_cluster && config.cluster == [1; 3] => {
            return Err(Status::INVALID_CLUSTER_SIZE.because(format!(
                "kernel {} needs a cluster (.explicitcluster); set CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
                image.name
            )));
        }
        None => config.cluster,
        Some(required) if [[1; 3], required].contains(&config.cluster) => required,
        Some(required) => {
            return Err(Status::INVALID_CLUSTER_SIZE.because(format!(
                "kernel {} requires clusters of {required:?} blocks",
                image.name
            )));
        }
    };
    let blocks = LaunchConfig { cluster, ..*config }.cluster_blocks();
    if blocks > MAX_CLUSTER {
        return Err(Status::INVALID_CLUSTER_SIZE.because(format!(
            "a cluster of {cluster:?} blocks: at most {MAX_CLUSTER} are possible"
        )));
    }
    let is_multiple = |(size, blocks): (u32, u32)| blocks == 0 || size.is_multiple_of(blocks);
    if !config.grid.into_iter().zip(cluster).all(is_multiple) {
        return Err(Status::INVALID_CLUSTER_SIZE.because(format!(
            "a grid of {:?} blocks is no multiple of a cluster of {cluster:?}",
            config.grid
        )));
    }
    Ok(cluster)
}

/// Fails for a cooperative grid whose blocks the reported multiprocessors do not hold all at once.
/// (Here blocks that wait yield to others, so any grid would run.)
pub(crate) fn check_cooperative(handle: usize, config: &LaunchConfig) -> Result {
    let function = library::compiled(handle)?;
    let threads = config
        .block
        .iter()
        .fold(1_u32, |all, axis| all.saturating_mul(*axis));
    if threads == 0 {
        return Ok(()); // the launch refuses it
    }
    let active = max_active_blocks(&function, threads, config.shared_bytes as usize);
    let most = u64::from(active) * u64::from(workers()?);
    let blocks = config
        .grid
        .iter()
        .fold(1_u64, |all, axis| all.saturating_mul((*axis).into()));
    if blocks > most {
        Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE.because(format!(
            "a cooperative grid of {blocks} blocks; {most} blocks fit on the device at once"
        )))
    } else {
        Ok(())
    }
}

/// Queues a launch of a function, or of a library's kernel, in a stream.
pub(crate) fn launch(
    handle: usize,
    config: LaunchConfig,
    stream: usize,
    params: UserPointer<*mut c_void>,
    extra: UserPointer<*mut c_void>,
) -> Result {
    let function = library::compiled(handle)?;
    let (context, stream) = stream::find(stream)?;
    let own = function.function.context()?;
    if !own.shares_with(&context) {
        return Err(
            Status::INVALID_HANDLE.because("the kernel and the stream are of different contexts")
        );
    }
    let launch = Launch::new(&function, &own, config, params, extra)
        .map_err(|failure| stream.fail_capture(failure))?;
    if stream.may_capture() {
        let work = launch.node(&own);
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
            ..
        } = config;
        let params = Params::Kernel(CUDA_KERNEL_NODE_PARAMS_v2 {
            func: handle::pointer(handle),
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            kernelParams: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        });
        if !stream.record_in(NodeKind::Kernel, |_| Ok((params, work.clone())))? {
            // The capture has ended meanwhile.
            stream.push(&context, move |context| work(context));
        }
        return Ok(());
    }
    let end = stream.push(&context, move |context| {
        if let Err(failure) = launch.run() {
            context.fail(failure);
        }
    });
    if blocking() {
        end.wait();
        return context.finish_wait();
    }
    Ok(())
}

/// The work of a kernel node, which runs on the function's device, also in a graph that is launched
/// on another.
pub(crate) fn node(
    function: &CompiledFunction,
    config: LaunchConfig,
    params: UserPointer<*mut c_void>,
    extra: UserPointer<*mut c_void>,
) -> Result<Work> {
    let own = function.function.context()?;
    Ok(Launch::new(function, &own, config, params, extra)?.node(&own))
}

/// A launch, which is checked and can run any number of times.
struct Launch {
    engine: &'static Engine,
    device: usize,
    code: Arc<LoadedModule>,
    kernel: usize,
    grid: Grid,
    params: ParamBlock,
}

impl Launch {
    /// A launch of a function of the context `own`.
    fn new(
        function: &CompiledFunction,
        own: &Context,
        config: LaunchConfig,
        params: UserPointer<*mut c_void>,
        extra: UserPointer<*mut c_void>,
    ) -> Result<Launch> {
        let cluster = cluster(function, &config)?;
        let config = LaunchConfig { cluster, ..config };
        let grid = Grid::new(config).map_err(|why| Status::INVALID_VALUE.because(why))?;
        check(function, &grid)?;
        Ok(Launch {
            engine: engine()?,
            device: own.device() as usize, // a device's number is not negative
            code: function.function.code.clone(),
            kernel: function.function.index,
            params: arguments(function, params, extra)?,
            grid,
        })
    }

    fn run(&self) -> Result {
        let (engine, device) = (self.engine, self.device);
        let outcome = engine.launch_on(device, &self.code, self.kernel, &self.grid, &self.params);
        outcome.map_err(|fault| failure(*fault))
    }

    /// The work of a node. Who waits for a graph hears of the faults of all its nodes.
    fn node(self, own: &Arc<Context>) -> Work {
        let own = Arc::downgrade(own);
        Arc::new(move |context| {
            if let Err(failure) = self.run() {
                if let Some(own) = own.upgrade().filter(|own| !own.shares_with(context)) {
                    own.fail(failure.clone());
                }
                context.fail(failure);
            }
        })
    }
}

/// Whether every launch waits for its end, as `CUDA_LAUNCH_BLOCKING=1` demands.
fn blocking() -> bool {
    static BLOCKING: LazyLock<bool> = LazyLock::new(|| {
        std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == "1")
    });
    *BLOCKING
}

/// Whether an access is beyond the addresses that shared memory has in the generic space.
fn is_outside_window(fault: &Fault) -> bool {
    const WINDOW: u64 = 16 << 20;
    let offset = fault.access.as_ref().and_then(|access| access.shared);
    offset.is_some_and(|offset| offset >= WINDOW)
}

fn failure(fault: Fault) -> Failure {
    let status = match fault.kind {
        // As an H200 answers.
        FaultKind::OutOfBounds if is_outside_window(&fault) => Status::ILLEGAL_INSTRUCTION,
        FaultKind::OutOfBounds | FaultKind::BadTexture | FaultKind::OutsideSurface => {
            Status::ILLEGAL_ADDRESS
        }
        FaultKind::Misaligned => Status::MISALIGNED_ADDRESS,
        FaultKind::Assert => Status::ASSERT,
        FaultKind::IllegalInstruction
        | FaultKind::TensorMemory
        | FaultKind::TensorCopy
        | FaultKind::NoCluster => Status::ILLEGAL_INSTRUCTION,
        FaultKind::OutOfMemory => Status::OUT_OF_MEMORY,
        FaultKind::BadCall => Status::INVALID_PC,
        FaultKind::Stack => Status::HARDWARE_STACK_ERROR,
        FaultKind::Race | FaultKind::Uninitialised => Status::LAUNCH_FAILED,
        FaultKind::Trap | FaultKind::Deadlock | FaultKind::BadFree => Status::LAUNCH_FAILED,
    };
    status.because(fault.message)
}
