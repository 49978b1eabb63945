//! Launching kernels.

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, LazyLock};

use super::context::Context;
use super::device::{MAX_BLOCK, MAX_GRID, MAX_SHARED_ASKED, MAX_THREADS, engine};
use super::entry::{Argument, Given, entries};
use super::event;
use super::graph::{Kind, Work};
use super::handle;
use super::module::{self, Function};
use super::status::{Answer, Failure, Status};
use super::stream;
use crate::abi::FaultKind;
use crate::run::{Fault, LaunchShape};
use api::{CUfunction, CUlaunchConfig, CUstream};

/// `CU_LAUNCH_PARAM_…`: what stands before each value of the `extra` list.
const BUFFER_END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// `CU_LAUNCH_ATTRIBUTE_…` that change nothing here, and those that are
/// refused unless they ask for what holds anyway.
const IGNORE: c_uint = 0;
const ACCESS_POLICY_WINDOW: c_uint = 1;
const COOPERATIVE: c_uint = 2;
const CLUSTER_DIMENSION: c_uint = 4;
const CLUSTER_SCHEDULING: c_uint = 5;
const PROGRAMMATIC_SERIALIZATION: c_uint = 6;
const PROGRAMMATIC_EVENT: c_uint = 7;
const PRIORITY: c_uint = 8;
const MEMORY_SYNC_MAP: c_uint = 9;
const MEMORY_SYNC_DOMAIN: c_uint = 10;
const COMPLETION_EVENT: c_uint = 12;
const SHARED_CARVEOUT: c_uint = 14;

/// `CUlaunchAttribute` with its number as a plain one.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Attribute {
    pub(super) number: c_uint,
    pad: u32,
    pub(super) value: [u32; 16],
}

const _: () =
    assert!(size_of::<Attribute>() == size_of::<cudarc::driver::sys::CUlaunchAttribute>());

impl Attribute {
    /// The event that begins the value of some attributes.
    fn event(&self) -> Given<cudarc::driver::sys::CUevent_st> {
        let [low, high] = [self.value[0], self.value[1]].map(u32::to_ne_bytes);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&low);
        bytes[4..].copy_from_slice(&high);
        let handle = handle::pointer(u64::from_ne_bytes(bytes) as usize);
        // SAFETY: a handle; nothing is read through it.
        unsafe { Argument::seen(handle) }
    }
}

/// Refuses what no launch of the kernel can be.
fn check(function: &Function, shape: &LaunchShape) -> Answer {
    let refuse = |detail: String| Err(Status::INVALID_VALUE.because(detail));
    let [x, y, z] = shape.block;
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    for (what, is, most) in [
        ("grid", shape.grid, MAX_GRID),
        ("block", shape.block, MAX_BLOCK),
    ] {
        if is.contains(&0) || is.iter().zip(most).any(|(is, most)| *is > most) {
            return refuse(format!(
                "a {what} of {is:?} asked for: each of its sides is at least 1 and at most {most:?}"
            ));
        }
    }
    if threads > u64::from(MAX_THREADS) {
        return refuse(format!(
            "blocks of {threads} threads asked for, at most {MAX_THREADS} can be had"
        ));
    }
    let image = function.image();
    if let Some(required) = image.required_threads
        && required != shape.block
    {
        return refuse(format!(
            "kernel {} requires blocks of {required:?} threads (.reqntid)",
            image.name
        ));
    }
    if threads > u64::from(function.max_threads()) {
        let most = function.max_threads();
        return refuse(format!(
            "kernel {} allows at most {most} threads a block (.maxntid), not {threads}",
            image.name
        ));
    }
    let (dynamic, limit) = (shape.shared_bytes, function.shared_limit());
    if dynamic > limit {
        let most = MAX_SHARED_ASKED.saturating_sub(image.shared_bytes);
        return refuse(format!(
            "{dynamic} bytes of dynamic shared memory asked for, the kernel may have {limit}; \
             cuFuncSetAttribute allows up to {most}"
        ));
    }
    Ok(())
}

/// Copies the arguments into one block, laid out as the kernel declares them.
fn arguments(
    function: &Function,
    params: Given<*mut c_void>,
    extra: Given<*mut c_void>,
) -> Answer<Box<[u8]>> {
    let image = function.image();
    let size = image.param_bytes as usize;
    if !extra.is_null() {
        if !params.is_null() {
            return Err(Status::INVALID_VALUE
                .because("arguments come as a list or as a buffer, not as both"));
        }
        return buffered(&image.name, size, extra);
    }
    let mut block = vec![0; size].into_boxed_slice();
    for (index, param) in image.params.iter().enumerate() {
        let (offset, size) = (param.offset as usize, param.size as usize);
        let argument = params.follow(index)?.bytes(size)?;
        // Reading the image saw to it that parameters lie within the block.
        block[offset..offset + size].copy_from_slice(argument);
    }
    Ok(block)
}

fn buffered(kernel: &str, size: usize, extra: Given<*mut c_void>) -> Answer<Box<[u8]>> {
    let (mut buffer, mut given) = (None, None);
    // Two pairs and the end are all there can be.
    for pair in 0..3 {
        let value = || extra.follow(2 * pair + 1);
        match extra.get_at(2 * pair)?.addr() {
            BUFFER_END => break,
            BUFFER_POINTER => buffer = Some(value()?),
            BUFFER_SIZE => given = Some(value()?.cast::<usize>().get()?),
            _ => {
                return Err(
                    Status::INVALID_VALUE.because("unknown entry in the list `extra` of a launch")
                );
            }
        }
    }
    let (Some(buffer), Some(given)) = (buffer, given) else {
        return Err(Status::INVALID_VALUE
            .because("the list `extra` of a launch names no buffer, or not its size"));
    };
    if given < size {
        let detail = format!("kernel {kernel} takes {size} bytes of arguments, {given} are given");
        return Err(Status::INVALID_VALUE.because(detail));
    }
    Ok(buffer.bytes(size)?.into())
}

fn launch(
    function: Given<cudarc::driver::sys::CUfunc_st>,
    shape: LaunchShape,
    stream: Given<cudarc::driver::sys::CUstream_st>,
    params: Given<*mut c_void>,
    extra: Given<*mut c_void>,
) -> Answer {
    let function = module::function(function)?;
    let (context, stream) = stream::find(stream)?;
    if !Arc::ptr_eq(&function.context()?, &context) {
        return Err(
            Status::INVALID_HANDLE.because("the kernel and the stream are of different contexts")
        );
    }
    let work = prepare(&function, shape, params, extra)?;
    if stream.may_capture() {
        let work: Work = Arc::new(work);
        if !stream.record(Kind::Kernel, || work.clone())? {
            // The capture ended meanwhile.
            stream.push(&context, move |context| work(context));
        }
        return Ok(());
    }
    let end = stream.push(&context, work);
    if blocking() {
        end.wait();
        return context.settle();
    }
    Ok(())
}

/// A launch that was found good, and can be made any number of times.
pub(super) fn prepare(
    function: &Function,
    shape: LaunchShape,
    params: Given<*mut c_void>,
    extra: Given<*mut c_void>,
) -> Answer<impl Fn(&Arc<Context>) + Send + Sync + use<>> {
    check(function, &shape)?;
    let block = arguments(function, params, extra)?;
    let engine = engine()?;
    let (code, index) = (function.code.clone(), function.index);
    Ok(move |context: &Arc<Context>| {
        if let Err(fault) = engine.launch_on(context.device() as usize, &code, index, shape, &block)
        {
            context.fail(failure(fault));
        }
    })
}

/// Whether `CUDA_LAUNCH_BLOCKING` asks that every launch waits for its end.
fn blocking() -> bool {
    static BLOCKING: LazyLock<bool> = LazyLock::new(|| {
        std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == "1")
    });
    *BLOCKING
}

fn failure(fault: Fault) -> Failure {
    let status = match fault.kind {
        FaultKind::OutOfBounds | FaultKind::BadTexture | FaultKind::OutsideSurface => {
            Status::ILLEGAL_ADDRESS
        }
        FaultKind::Misaligned => Status::MISALIGNED_ADDRESS,
        FaultKind::Assert => Status::ASSERT,
        FaultKind::IllegalInstruction => Status::ILLEGAL_INSTRUCTION,
        FaultKind::OutOfMemory => Status::OUT_OF_MEMORY,
        FaultKind::Trap | FaultKind::Deadlock | FaultKind::BadFree => Status::LAUNCH_FAILED,
    };
    status.because(fault.message)
}

/// Whether a launch with this attribute can be had.
fn check_attribute(attribute: &Attribute) -> Answer {
    match attribute.number {
        // A kernel that may begin early begins when the one before it has ended.
        IGNORE
        | ACCESS_POLICY_WINDOW
        | COOPERATIVE
        | CLUSTER_SCHEDULING
        | PROGRAMMATIC_SERIALIZATION
        | PROGRAMMATIC_EVENT
        | PRIORITY
        | MEMORY_SYNC_MAP
        | MEMORY_SYNC_DOMAIN
        | COMPLETION_EVENT
        | SHARED_CARVEOUT => Ok(()),
        CLUSTER_DIMENSION if attribute.value[..3] == [1, 1, 1] => Ok(()),
        CLUSTER_DIMENSION => {
            Err(Status::NOT_SUPPORTED.because("the CPU device has no clusters of several blocks"))
        }
        number => Err(Status::NOT_SUPPORTED.because(format!(
            "the CPU device does not know launch attribute {number}"
        ))),
    }
}

entries! {
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let shape = LaunchShape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
        };
        launch(function, shape, stream, params, extra)
    }

    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = config.get()?;
        // SAFETY: fields of the caller's structure, for which its promise holds as well.
        let (attributes, stream) = unsafe { (config.attrs.seen(), config.hStream.seen()) };
        let attributes = attributes.cast::<Attribute>();
        for index in 0..config.numAttrs as usize {
            check_attribute(&attributes.get_at(index)?)?;
        }
        let shape = LaunchShape {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
        };
        launch(function, shape, stream, params, extra)?;
        // Events that may come before the kernel's end come with it.
        for index in 0..config.numAttrs as usize {
            let attribute = attributes.get_at(index)?;
            if matches!(attribute.number, PROGRAMMATIC_EVENT | COMPLETION_EVENT) {
                event::record(attribute.event(), stream, false)?;
            }
        }
        Ok(())
    }

    /// Every launch here can wait for other blocks: those that spin make room.
    fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
    ) {
        let shape = LaunchShape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
        };
        launch(function, shape, stream, params, Given::null())
    }
}
