//! The work of graph nodes, from the structures that describe it.

use std::sync::Arc;

use super::entry::Argument;
use super::region::copy_3d;
use crate::run::LaunchConfig;
use crate::state::context::Context;
use crate::state::node::Work;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{copy, host_function, launch, library, region};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_v1,
};

pub(super) fn kernel(params: UserPointer<CUDA_KERNEL_NODE_PARAMS_v2>) -> Result<Work> {
    let params = params.get()?;
    // SAFETY: fields of the caller's structure, for which its contract holds as well.
    let (arguments, extra) = unsafe { (params.kernelParams.decode(), params.extra.decode()) };
    let handle = match params.func.is_null() {
        true => params.kern.addr(),
        false => params.func.addr(),
    };
    let config = LaunchConfig {
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared_bytes: params.sharedMemBytes,
        cluster: [1; 3],
    };
    let function = library::function(handle)?;
    Ok(Arc::new(launch::prepare(
        &function, config, arguments, extra,
    )?))
}

pub(super) fn copy(params: UserPointer<CUDA_MEMCPY3D>) -> Result<Work> {
    let (from, to, extent) = copy_3d(params)?;
    let copy = region::copy_work(&from, &to, extent)?;
    Ok(Arc::new(move |_| copy()))
}

pub(super) fn fill(params: UserPointer<CUDA_MEMSET_NODE_PARAMS_v1>) -> Result<Work> {
    let fill = params.get()?;
    let (to, pitch, value) = (fill.dst, fill.pitch, fill.value);
    let (width, height) = (fill.width, fill.height);
    Ok(match fill.elementSize {
        1 => {
            let work = copy::fill_work(to, pitch, value as u8, width, height)?;
            Arc::new(move |_| work())
        }
        2 => {
            let work = copy::fill_work(to, pitch, value as u16, width, height)?;
            Arc::new(move |_| work())
        }
        4 => {
            let work = copy::fill_work(to, pitch, value, width, height)?;
            Arc::new(move |_| work())
        }
        _ => {
            return Err(Status::INVALID_VALUE.because("elements of a fill have 1, 2 or 4 bytes"));
        }
    })
}

pub(super) fn host(params: UserPointer<CUDA_HOST_NODE_PARAMS_v1>) -> Result<Work> {
    let params = params.get()?;
    let function = params.fn_.ok_or(Status::INVALID_VALUE)?;
    // SAFETY: a field of the caller's structure, for which its contract holds as well.
    let data = unsafe { params.userData.decode() };
    Ok(Arc::new(move |_: &Arc<Context>| {
        host_function::run(|| {
            // SAFETY: the caller passed the function and its argument for this call.
            unsafe { function(data.as_ptr()) }
        });
    }))
}
