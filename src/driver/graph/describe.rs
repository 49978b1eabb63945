//! What the nodes of graphs do, as the driver takes it, and what they use.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Arguments};
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::with_pointers;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::fill::Element;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::module::kernel::Kernel;
use crate::driver::pod::Plain;
use crate::driver::stream::HostFunction;
use crate::driver::stream::keep::{Kept, Object};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_v1,
};

pub(super) fn check_context(context: &Context, other: &Context) -> Result<(), Error> {
    if other != context {
        return Err(Error::DifferentContexts {
            what: "a graph and what its node uses",
        });
    }
    Ok(())
}

/// A copy between two buffers of one length.
pub(super) fn copy<T: Plain>(
    context: &Context,
    to: &DeviceBuffer<T>,
    from: &DeviceBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<Kept>), Error> {
    let mut copy = bytes(context, from.len(), to)?;
    check_context(context, from.context())?;
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from.address();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to.address();
    Ok((
        copy,
        vec![to.allocation().clone(), from.allocation().clone()],
    ))
}

/// A copy from pinned memory.
pub(super) fn write<T: Plain>(
    context: &Context,
    to: &DeviceBuffer<T>,
    from: &PinnedBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<Kept>), Error> {
    let mut copy = bytes(context, from.len(), to)?;
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = from.pointer().cast_const().cast();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to.address();
    Ok((copy, vec![to.allocation().clone(), from.kept()?]))
}

/// A copy into pinned memory.
pub(super) fn read<T: Plain>(
    context: &Context,
    to: &mut PinnedBuffer<T>,
    from: &DeviceBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<Kept>), Error> {
    let mut copy = bytes(context, to.len(), from)?;
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from.address();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstHost = to.pointer().cast();
    Ok((copy, vec![from.allocation().clone(), to.kept()?]))
}

/// A copy of a buffer's bytes in one row; its ends are still to be set.
fn bytes<T: Plain>(
    context: &Context,
    given: usize,
    buffer: &DeviceBuffer<T>,
) -> Result<CUDA_MEMCPY3D, Error> {
    check_context(context, buffer.context())?;
    if given != buffer.len() || given == 0 {
        return Err(Error::Length {
            what: "copy in a graph",
            given,
            room: buffer.len(),
        });
    }
    Ok(CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: buffer.bytes(),
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: null_mut(),
        dstDevice: 0,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: buffer.bytes(),
        dstHeight: 1,
        WidthInBytes: buffer.bytes(),
        Height: 1,
        Depth: 1,
    })
}

/// A fill of a whole buffer.
pub(super) fn fill<T: Plain>(
    context: &Context,
    buffer: &DeviceBuffer<T>,
    value: T,
) -> Result<(CUDA_MEMSET_NODE_PARAMS_v1, Vec<Kept>), Error> {
    check_context(context, buffer.context())?;
    let value = match Element::of(&value)? {
        Element::Byte(value) => value.into(),
        Element::Short(value) => value.into(),
        Element::Word(value) => value,
    };
    let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: buffer.address(),
        pitch: 0,
        value,
        elementSize: size_of::<T>() as c_uint,
        width: buffer.len(),
        height: 1,
    };
    Ok((fill, vec![buffer.allocation().clone()]))
}

/// A call of a function, which must be kept as long as it may be called.
pub(super) fn call(
    function: impl Fn() + Send + Sync + 'static,
) -> (CUDA_HOST_NODE_PARAMS_v1, Arc<HostFunction>) {
    let function = Arc::new(HostFunction::new(function));
    let described = CUDA_HOST_NODE_PARAMS_v1 {
        fn_: Some(HostFunction::RUN),
        userData: function.data(),
    };
    (described, function)
}

/// A launch as a node's parameters, checked, and what it uses. The arguments are
/// asked for once: a second answer might name other memory than what is kept.
pub(super) fn with_launch<R>(
    kernel: &Kernel,
    context: &Context,
    config: LaunchConfig,
    arguments: &impl Arguments,
    call: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS_v2, Vec<Kept>) -> Result<R, Error>,
) -> Result<R, Error> {
    if kernel.context() != context {
        return Err(Error::DifferentContexts {
            what: "kernel and graph",
        });
    }
    if !kernel.layout_is_certain() {
        // Only a pointer for each parameter can be given, and nobody knows how many there are.
        return Err(context.api().missing("cuFuncGetParamInfo", 12_040).into());
    }
    kernel.check_config(&config)?;
    arguments.with(|args| {
        kernel.check_args(args)?;
        let kept = kept_by_launch(kernel, args)?;
        with_pointers(args, |pointers| {
            let params = CUDA_KERNEL_NODE_PARAMS_v2 {
                func: kernel.raw(),
                gridDimX: config.grid[0],
                gridDimY: config.grid[1],
                gridDimZ: config.grid[2],
                blockDimX: config.block[0],
                blockDimY: config.block[1],
                blockDimZ: config.block[2],
                sharedMemBytes: config.shared_bytes,
                kernelParams: pointers,
                extra: null_mut(),
                kern: null_mut(),
                ctx: context.raw(),
            };
            call(&params, kept)
        })
    })
}

/// What a launch uses.
fn kept_by_launch(kernel: &Kernel, args: &[Arg<'_>]) -> Result<Vec<Kept>, Error> {
    let mut kept = vec![kernel.kept()];
    let memory = args.iter().filter_map(Arg::memory);
    for memory in memory.chain(kernel.module().resolved()) {
        memory.refuse_borrowed()?;
        kept.push(memory.clone());
    }
    kept.extend(args.iter().filter_map(Arg::object).map(Object::kept));
    Ok(kept)
}
