//! Forms of earlier CUDA versions: programs that look up symbols by their plain names, as
//! bindings without the headers do, get these.
//!
//! Those whose addresses and sizes have 32 bits (`cuMemAlloc` of CUDA 2.0) are not here.

use std::ffi::{c_char, c_int, c_uint, c_void};

use api::*;

use super::{Export, INVALID_VALUE};

/// Forms with the signature of the later one, which they are.
macro_rules! earlier {
    ($( fn $name:ident($($arg:ident: $ty:ty),*) = $later:ident, $since:literal; )*) => {
        $(
            #[doc = concat!("As [`", stringify!($later), "`](crate::", stringify!($later), ").")]
            ///
            /// # Safety
            /// The arguments must be what the entry's CUDA documentation asks for.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)] // as many as the entry has
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                // SAFETY: the caller's word for this entry is that for the other.
                unsafe { super::$later($($arg),*) }
            }
        )*

        pub(super) fn exports() -> impl Iterator<Item = Export> {
            let same = [$( Export { base: stringify!($name), since: $since, address: $name as *const c_void, per_thread: None } ),*];
            same.into_iter().chain(of_graphs())
        }
    };
}

earlier! {
    fn cuCtxCreate(context: *mut CUcontext, flags: c_uint, device: CUdevice) = cuCtxCreate_v2, 2000;
    fn cuCtxDestroy(context: CUcontext) = cuCtxDestroy_v2, 2000;
    fn cuCtxPopCurrent(context: *mut CUcontext) = cuCtxPopCurrent_v2, 2000;
    fn cuCtxPushCurrent(context: CUcontext) = cuCtxPushCurrent_v2, 2000;
    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) = cuDeviceGetUuid_v2, 9020;
    fn cuDevicePrimaryCtxRelease(device: CUdevice) = cuDevicePrimaryCtxRelease_v2, 7000;
    fn cuDevicePrimaryCtxReset(device: CUdevice) = cuDevicePrimaryCtxReset_v2, 7000;
    fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) = cuDevicePrimaryCtxSetFlags_v2, 7000;
    fn cuGraphicsResourceGetMappedPointer(address: *mut CUdeviceptr, bytes: *mut usize, resource: CUgraphicsResource) = cuGraphicsResourceGetMappedPointer_v2, 3000;
    fn cuEventDestroy(event: CUevent) = cuEventDestroy_v2, 2000;
    fn cuStreamDestroy(stream: CUstream) = cuStreamDestroy_v2, 2000;
    fn cuMemHostRegister(start: *mut c_void, bytes: usize, flags: c_uint) = cuMemHostRegister_v2, 4000;
    fn cuIpcOpenMemHandle(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) = cuIpcOpenMemHandle_v2, 4010;
    fn cuLinkCreate(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, state: *mut CUlinkState) = cuLinkCreate_v2, 5050;
    fn cuLinkAddData(state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) = cuLinkAddData_v2, 5050;
    fn cuLinkAddFile(state: CUlinkState, kind: c_uint, path: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) = cuLinkAddFile_v2, 5050;
    fn cuStreamWaitValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) = cuStreamWaitValue32_v2, 8000;
    fn cuStreamWaitValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) = cuStreamWaitValue64_v2, 9000;
    fn cuStreamWriteValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) = cuStreamWriteValue32_v2, 8000;
    fn cuStreamWriteValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) = cuStreamWriteValue64_v2, 9000;
}

/// Forms of graphs whose parameters became others.
fn of_graphs() -> impl Iterator<Item = Export> {
    [
        (
            "cuGraphAddKernelNode",
            10000,
            cuGraphAddKernelNode as *const c_void,
        ),
        (
            "cuGraphExecKernelNodeSetParams",
            10010,
            cuGraphExecKernelNodeSetParams as *const c_void,
        ),
        (
            "cuGraphInstantiate",
            10000,
            cuGraphInstantiate as *const c_void,
        ),
        (
            "cuGraphInstantiate",
            11000,
            cuGraphInstantiate_v2 as *const c_void,
        ),
        // Since CUDA 12 the headers mean this one by the plain name.
        (
            "cuGraphInstantiate",
            12000,
            super::cuGraphInstantiateWithFlags as *const c_void,
        ),
    ]
    .into_iter()
    .map(|(base, since, address)| Export {
        base,
        since,
        address,
        per_thread: None,
    })
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`: the later form without its last two fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams {
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl KernelNodeParams {
    fn later(self) -> CUDA_KERNEL_NODE_PARAMS_v2 {
        let KernelNodeParams {
            function,
            grid,
            block,
            shared_bytes,
            arguments,
            extra,
        } = self;
        CUDA_KERNEL_NODE_PARAMS_v2 {
            func: function,
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            kernelParams: arguments,
            extra,
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        }
    }
}

/// As [`cuGraphAddKernelNode_v2`](crate::cuGraphAddKernelNode_v2).
///
/// # Safety
/// The arguments must be what the entry's CUDA documentation asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddKernelNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    params: *const KernelNodeParams,
) -> c_int {
    // SAFETY: null, or the caller's parameters.
    let Some(params) = (unsafe { params.as_ref() }) else {
        return INVALID_VALUE;
    };
    // SAFETY: the caller's word for this entry is that for the other.
    unsafe { super::cuGraphAddKernelNode_v2(node, graph, after, count, &params.later()) }
}

/// As [`cuGraphExecKernelNodeSetParams_v2`](crate::cuGraphExecKernelNodeSetParams_v2).
///
/// # Safety
/// The arguments must be what the entry's CUDA documentation asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    params: *const KernelNodeParams,
) -> c_int {
    // SAFETY: null, or the caller's parameters.
    let Some(params) = (unsafe { params.as_ref() }) else {
        return INVALID_VALUE;
    };
    // SAFETY: the caller's word for this entry is that for the other.
    unsafe { super::cuGraphExecKernelNodeSetParams_v2(graph, node, &params.later()) }
}

/// As [`cuGraphInstantiateWithFlags`](crate::cuGraphInstantiateWithFlags) without flags. Names
/// no node that fails, and logs nothing.
///
/// # Safety
/// The arguments must be what the entry's CUDA documentation asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiate_v2(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    error_node: *mut CUgraphNode,
    log: *mut c_char,
    log_bytes: usize,
) -> c_int {
    // SAFETY: where they are not null, the caller's places for a node and for a text.
    unsafe {
        if !error_node.is_null() {
            error_node.write(std::ptr::null_mut());
        }
        if !log.is_null() && log_bytes > 0 {
            log.write(0);
        }
        super::cuGraphInstantiateWithFlags(exec, graph, 0)
    }
}

/// As [`cuGraphInstantiate_v2`].
///
/// # Safety
/// The arguments must be what the entry's CUDA documentation asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiate(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    error_node: *mut CUgraphNode,
    log: *mut c_char,
    log_bytes: usize,
) -> c_int {
    // SAFETY: the caller's word for this entry is that for the other.
    unsafe { cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes) }
}
