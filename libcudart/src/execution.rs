//! Launches.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};

use api::{CUfunction, CUhostFn, CUlaunchConfig, CUstream};

use crate::binary::function;
use crate::context::{device, ready};
use crate::entry::{Place, Stream, driver, entries, per_thread};
use crate::error::{Code, Result};
use crate::types::{Dim3, LaunchConfig};

/// What `<<<…>>>` says of a launch.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
}

thread_local! {
    /// The launches that this thread has begun.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what stands in `<<<…>>>` until the call of the host function.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
) -> c_uint {
    let configuration = Configuration {
        grid,
        block,
        shared_bytes,
        stream,
    };
    CONFIGURATIONS.with_borrow_mut(|all| all.push(configuration));
    0
}

/// `CU_DEVICE_ATTRIBUTE_MAX_…`, from threads in a block to the third extent of a grid.
const MAX_THREADS: c_uint = 1;
const MAX_BLOCK: c_uint = 2;
const MAX_GRID: c_uint = 5;

fn limit(attribute: c_uint, device: c_int) -> Result<u64> {
    let mut value = 0;
    driver!(cuDeviceGetAttribute(&mut value, attribute, device))?;
    Ok(u64::from(value.unsigned_abs()))
}

/// Whether no kernel can be launched so: the driver says no more than that a value is invalid.
fn is_impossible(grid: Dim3, block: Dim3) -> Result<bool> {
    let device = device()?;
    let extents = |size: Dim3| [size.x, size.y, size.z].map(u64::from);
    for (first, size) in [(MAX_BLOCK, block), (MAX_GRID, grid)] {
        for (attribute, extent) in (first..).zip(extents(size)) {
            if extent == 0 || extent > limit(attribute, device)? {
                return Ok(true);
            }
        }
    }
    let threads: u64 = extents(block).iter().product();
    Ok(threads > limit(MAX_THREADS, device)?)
}

/// The error of a launch.
fn launched(result: Result, grid: Dim3, block: Dim3) -> Result {
    match result {
        Err(Code::INVALID_VALUE) if is_impossible(grid, block)? => Err(Code::INVALID_CONFIGURATION),
        result => result,
    }
}

fn launch(
    function: CUfunction,
    configuration: Configuration,
    arguments: Place<*mut c_void>,
    cooperative: bool,
) -> Result {
    let Configuration {
        grid: g,
        block: b,
        shared_bytes,
        stream,
    } = configuration;
    let shared = c_uint::try_from(shared_bytes).map_err(|_| Code::INVALID_VALUE)?;
    let arguments = arguments.ptr();
    let result = if cooperative {
        driver!(cuLaunchCooperativeKernel(
            function, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, arguments
        ))
    } else {
        driver!(cuLaunchKernel(
            function,
            g.x,
            g.y,
            g.z,
            b.x,
            b.y,
            b.z,
            shared,
            stream,
            arguments,
            std::ptr::null_mut()
        ))
    };
    launched(result, g, b)
}

fn launch_ex(
    config: Place<LaunchConfig>,
    kernel: Place<c_void>,
    arguments: Place<*mut c_void>,
    stream_of: fn(CUstream) -> CUstream,
) -> Result {
    let config = config.get()?;
    let config_of_driver = driver_config(&config, stream_of)?;
    let function = function(kernel)?;
    let result = driver!(cuLaunchKernelEx(
        &config_of_driver,
        function,
        arguments.ptr(),
        std::ptr::null_mut()
    ));
    launched(result, config.grid, config.block)
}

/// The driver's form of a configuration.
pub(crate) fn driver_config(
    config: &LaunchConfig,
    stream_of: fn(CUstream) -> CUstream,
) -> Result<CUlaunchConfig> {
    Ok(CUlaunchConfig {
        gridDimX: config.grid.x,
        gridDimY: config.grid.y,
        gridDimZ: config.grid.z,
        blockDimX: config.block.x,
        blockDimY: config.block.y,
        blockDimZ: config.block.z,
        sharedMemBytes: c_uint::try_from(config.shared_bytes).map_err(|_| Code::INVALID_VALUE)?,
        hStream: stream_of(config.stream),
        attrs: config.attributes.cast(),
        numAttrs: config.count,
    })
}

entries! {
    /// What stands in the `<<<…>>>` of the call that is being made.
    fn __cudaPopCallConfiguration(
        grid: *mut Dim3,
        block: *mut Dim3,
        shared_bytes: *mut usize,
        stream: *mut c_void,
    ) {
        let popped = CONFIGURATIONS.with_borrow_mut(Vec::pop);
        let configuration = popped.ok_or(Code::MISSING_CONFIGURATION)?;
        grid.put(configuration.grid)?;
        block.put(configuration.block)?;
        shared_bytes.put(configuration.shared_bytes)?;
        let stream: *mut CUstream = stream.required()?.cast();
        // SAFETY: not null, so the caller's place for a stream.
        unsafe { stream.write(configuration.stream) };
        Ok(())
    }

    /// Launches the kernel of a handle.
    fn __cudaLaunchKernel / __cudaLaunchKernel_ptsz(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: Stream,
    ) {
        launch(function(kernel)?, Configuration { grid, block, shared_bytes, stream }, arguments, false)
    }

    /// Launches the kernel of a host function or of a handle.
    fn cudaLaunchKernel / cudaLaunchKernel_ptsz(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: Stream,
    ) {
        launch(function(kernel)?, Configuration { grid, block, shared_bytes, stream }, arguments, false)
    }

    /// The same with blocks that can wait for each other.
    fn cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: Stream,
    ) {
        launch(function(kernel)?, Configuration { grid, block, shared_bytes, stream }, arguments, true)
    }

    /// A launch with attributes.
    fn cudaLaunchKernelExC(config: *const LaunchConfig, kernel: *const c_void, arguments: *mut *mut c_void) {
        launch_ex(config, kernel, arguments, |stream| stream)
    }

    /// As [`cudaLaunchKernelExC`], with the thread's own default stream.
    fn cudaLaunchKernelExC_ptsz(config: *const LaunchConfig, kernel: *const c_void, arguments: *mut *mut c_void) {
        launch_ex(config, kernel, arguments, per_thread)
    }

    /// A function of the host in stream order.
    fn cudaLaunchHostFunc / cudaLaunchHostFunc_ptsz(stream: Stream, function: CUhostFn, data: *mut c_void) {
        ready()?;
        driver!(cuLaunchHostFunc(stream, function, data.ptr()))
    }
}
