//! Node parameters as the driver takes them, and the resources that they use.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Arguments, list};
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::with_pointers;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::fill::FillValue;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::module::kernel::Kernel;
use crate::driver::pod::Pod;
use crate::driver::stream::host_function::HostFunction;
use crate::driver::stream::retained::RetainedRef;
use crate::driver::texture::object::Object;
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
pub(super) fn copy<T: Pod>(
    context: &Context,
    to: &DeviceBuffer<T>,
    from: &DeviceBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<RetainedRef>), Error> {
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
pub(super) fn write<T: Pod>(
    context: &Context,
    to: &DeviceBuffer<T>,
    from: &PinnedBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<RetainedRef>), Error> {
    let mut copy = bytes(context, from.len(), to)?;
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = from.pointer().cast_const().cast();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to.address();
    Ok((copy, vec![to.allocation().clone(), from.retained()?]))
}

/// A copy into pinned memory.
pub(super) fn read<T: Pod>(
    context: &Context,
    to: &mut PinnedBuffer<T>,
    from: &DeviceBuffer<T>,
) -> Result<(CUDA_MEMCPY3D, Vec<RetainedRef>), Error> {
    let mut copy = bytes(context, to.len(), from)?;
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from.address();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstHost = to.pointer().cast();
    Ok((copy, vec![from.allocation().clone(), to.retained()?]))
}

/// A copy of a buffer's bytes as one row; the endpoints are set by the caller.
fn bytes<T: Pod>(
    context: &Context,
    given: usize,
    buffer: &DeviceBuffer<T>,
) -> Result<CUDA_MEMCPY3D, Error> {
    check_context(context, buffer.context())?;
    if given != buffer.len() || given == 0 {
        return Err(Error::Length {
            what: "copy in a graph",
            given,
            capacity: buffer.len(),
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
pub(super) fn fill<T: Pod>(
    context: &Context,
    buffer: &DeviceBuffer<T>,
    value: T,
) -> Result<(CUDA_MEMSET_NODE_PARAMS_v1, Vec<RetainedRef>), Error> {
    check_context(context, buffer.context())?;
    let value = match FillValue::of(&value)? {
        FillValue::Byte(value) => value.into(),
        FillValue::Short(value) => value.into(),
        FillValue::Word(value) => value,
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

/// A call of a host function, which must be retained as long as it may be called.
pub(super) fn call(
    function: impl Fn() + Send + Sync + 'static,
) -> (CUDA_HOST_NODE_PARAMS_v1, Arc<HostFunction>) {
    let function = Arc::new(HostFunction::new(function));
    let params = CUDA_HOST_NODE_PARAMS_v1 {
        fn_: Some(HostFunction::RUN),
        userData: function.data(),
    };
    (params, function)
}

/// Checked kernel node parameters, and the resources they use. `arguments` is read once: a
/// second read might return other memory than what is retained.
pub(super) fn with_kernel_params<R>(
    kernel: &Kernel,
    context: &Context,
    config: LaunchConfig,
    arguments: &impl Arguments,
    call: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS_v2, Vec<RetainedRef>) -> Result<R, Error>,
) -> Result<R, Error> {
    if kernel.context() != context {
        return Err(Error::DifferentContexts {
            what: "kernel and graph",
        });
    }
    if !kernel.layout_is_certain() {
        // The node takes one pointer per parameter, and their number is unknown.
        return Err(context.api().missing("cuFuncGetParamInfo", 12_040).into());
    }
    kernel.check_config(&config)?;
    let args = list(arguments);
    kernel.check_args(&args)?;
    let retained = retained_by_launch(kernel, &args)?;
    with_pointers(&args, |pointers| {
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
        call(&params, retained)
    })
}

/// The resources that a launch uses.
fn retained_by_launch(kernel: &Kernel, args: &[Arg<'_>]) -> Result<Vec<RetainedRef>, Error> {
    let mut retained = vec![kernel.retained()];
    let memory = args.iter().filter_map(Arg::memory);
    for memory in memory.chain(kernel.module().resolved()) {
        memory.refuse_borrowed()?;
        retained.push(memory.clone());
    }
    retained.extend(args.iter().filter_map(Arg::object).map(Object::retained));
    Ok(retained)
}
