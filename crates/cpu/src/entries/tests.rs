//! Raw calls of entries that the safe API has no function for.

use std::ffi::{c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use api::*;

use crate::table;

/// Each sets the value of a conditional node, or counts.
const KERNELS: &std::ffi::CStr = c"
.version 7.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry choose(.param .u64 handle, .param .u32 value)
{
    .reg .b64 %rd;
    .reg .b32 %r;
    .param .b64 p0;
    .param .b32 p1;
    ld.param.u64 %rd, [handle];
    ld.param.u32 %r, [value];
    st.param.b64 [p0], %rd;
    st.param.b32 [p1], %r;
    call.uni cudaGraphSetConditional, (p0, p1);
    ret;
}
.visible .entry count_down(.param .u64 handle, .param .u64 counter)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r;
    .param .b64 p0;
    .param .b32 p1;
    ld.param.u64 %rd0, [handle];
    ld.param.u64 %rd1, [counter];
    ld.global.u32 %r, [%rd1];
    sub.u32 %r, %r, 1;
    st.global.u32 [%rd1], %r;
    st.param.b64 [p0], %rd0;
    st.param.b32 [p1], %r;
    call.uni cudaGraphSetConditional, (p0, p1);
    ret;
}
.visible .entry add(.param .u64 counter, .param .u32 value)
{
    .reg .b64 %rd;
    .reg .b32 %r<2>;
    ld.param.u64 %rd, [counter];
    ld.param.u32 %r0, [value];
    ld.global.u32 %r1, [%rd];
    add.u32 %r1, %r1, %r0;
    st.global.u32 [%rd], %r1;
    ret;
}
";

/// The status of an entry.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the arguments are variables, handles or null, as the entry asks for.
        unsafe { table().$name.unwrap()($($arg),*) }
    };
}

macro_rules! ok {
    ($name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!(cu!($name($($arg),*)), 0, stringify!($name))
    };
}

mod edges;
mod tensor_map;

const INVALID_VALUE: i32 = 1;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: a global capture forbids calls of the tests in other threads.
const THREAD_LOCAL: u32 = 1;

/// A context that ends with the test, and its module.
struct Current(CUcontext, CUmodule);

impl Current {
    fn new() -> Current {
        let (mut context, mut module) = (null_mut(), null_mut());
        ok!(cuInit(0));
        ok!(cuCtxCreate_v2(&mut context, 0, 0));
        ok!(cuModuleLoadData(&mut module, KERNELS.as_ptr().cast()));
        Current(context, module)
    }

    /// A node that launches a kernel with two arguments.
    fn launch<A, B>(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        name: &std::ffi::CStr,
        mut a: A,
        mut b: B,
    ) -> CUgraphNode {
        let (mut function, mut node) = (null_mut(), null_mut());
        ok!(cuModuleGetFunction(&mut function, self.1, name.as_ptr()));
        let mut arguments = [(&raw mut a).cast::<c_void>(), (&raw mut b).cast()];
        let params = CUDA_KERNEL_NODE_PARAMS_v2 {
            func: function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        ok!(cuGraphAddKernelNode_v2(
            &mut node,
            graph,
            after.as_ptr(),
            after.len(),
            &params
        ));
        node
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        ok!(cuCtxDestroy_v2(self.0));
    }
}

fn graph() -> CUgraph {
    let mut graph = null_mut();
    ok!(cuGraphCreate(&mut graph, 0));
    graph
}

fn counter(value: u32) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, 4));
    ok!(cuMemsetD32_v2(address, value, 1));
    address
}

fn read(address: CUdeviceptr) -> u32 {
    let mut value = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4));
    value
}

fn run(graph: CUgraph) {
    let mut ready = null_mut();
    ok!(cuGraphInstantiateWithFlags(&mut ready, graph, 0));
    ok!(cuGraphLaunch(ready, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    ok!(cuGraphExecDestroy(ready));
}

/// A conditional node and its graphs.
fn conditional(
    graph: CUgraph,
    after: &[CUgraphNode],
    handle: u64,
    kind: c_uint,
    size: c_uint,
) -> Result<Vec<CUgraph>, i32> {
    let of = ConditionalParams {
        handle,
        kind,
        size,
        graphs: null_mut(),
        context: null_mut(),
    };
    let mut params = GraphNodeParams {
        kind: 13,
        reserved0: [0; 3],
        of_kind: [0; 29],
        reserved2: 0,
    };
    // SAFETY: the parameters of a kind are within the 29 numbers.
    unsafe {
        params
            .of_kind
            .as_mut_ptr()
            .cast::<ConditionalParams>()
            .write(of)
    };
    let mut node = null_mut();
    match cu!(cuGraphAddNode(
        &mut node,
        graph,
        after.as_ptr(),
        after.len(),
        &mut params
    )) {
        0 => {
            // SAFETY: as above; the driver's array has `size` handles.
            let told = unsafe { params.of_kind.as_ptr().cast::<ConditionalParams>().read() };
            // SAFETY: as above.
            Ok(unsafe { std::slice::from_raw_parts(told.graphs, size as usize) }.to_vec())
        }
        code => Err(code),
    }
}

fn condition(graph: CUgraph, default: c_uint) -> u64 {
    let mut handle = 0;
    ok!(cuGraphConditionalHandleCreate(
        &mut handle,
        graph,
        null_mut(),
        default,
        1
    ));
    handle
}

#[test]
fn kernels_choose_which_graph_runs() {
    let current = Current::new();
    let (sum, outer) = (counter(0), graph());
    let handle = condition(outer, 0);
    let first = current.launch(outer, &[], c"choose", handle, 2_u32);
    let bodies = conditional(outer, &[first], handle, 2, 3).unwrap();
    for (body, value) in bodies.iter().zip([1_u32, 10, 100]) {
        current.launch(*body, &[], c"add", sum, value);
    }
    run(outer);
    assert_eq!(read(sum), 100);
    // Without the kernel, the default is the value of each launch.
    ok!(cuGraphDestroyNode(first));
    run(outer);
    assert_eq!(read(sum), 101);
    ok!(cuGraphDestroy(outer));
}

#[test]
fn a_graph_runs_while_its_value_is_not_zero() {
    let current = Current::new();
    let (left, sum, outer) = (counter(5), counter(0), graph());
    let handle = condition(outer, 1);
    let body = conditional(outer, &[], handle, 1, 1).unwrap()[0];
    let add = current.launch(body, &[], c"add", sum, 3_u32);
    current.launch(body, &[add], c"count_down", handle, left);
    run(outer);
    assert_eq!((read(left), read(sum)), (0, 15));
}

#[test]
fn conditions_belong_to_their_graph() {
    let _current = Current::new();
    let (one, other) = (graph(), graph());
    let handle = condition(one, 0);
    assert_eq!(conditional(other, &[], handle, 0, 1), Err(INVALID_VALUE));
    assert_eq!(conditional(one, &[], handle, 0, 3), Err(INVALID_VALUE));
    assert_eq!(conditional(one, &[], handle, 9, 1), Err(INVALID_VALUE));
    assert_eq!(
        conditional(one, &[], handle, 2, u32::MAX),
        Err(INVALID_VALUE)
    );
    assert_eq!(conditional(one, &[], handle + 4, 0, 1), Err(INVALID_VALUE));
    assert_eq!(
        cu!(cuGraphConditionalHandleCreate(
            null_mut(),
            one,
            null_mut(),
            0,
            0
        )),
        INVALID_VALUE
    );
}

#[test]
fn nodes_tell_what_they_are_made_of() {
    let current = Current::new();
    let (sum, made) = (counter(0), graph());
    let first = current.launch(made, &[], c"add", sum, 1_u32);
    let second = current.launch(made, &[first], c"add", sum, 2_u32);
    let mut kernel = std::mem::MaybeUninit::<CUDA_KERNEL_NODE_PARAMS_v2>::uninit();
    ok!(cuGraphKernelNodeGetParams_v2(second, kernel.as_mut_ptr()));
    // SAFETY: the entry wrote it.
    assert_eq!(unsafe { kernel.assume_init() }.blockDimX, 1);
    let mut memset = std::mem::MaybeUninit::uninit();
    assert_eq!(
        cu!(cuGraphMemsetNodeGetParams(second, memset.as_mut_ptr())),
        INVALID_VALUE
    );
    let (mut nodes, mut count) = ([null_mut(); 2], 2);
    ok!(cuGraphNodeGetDependencies(
        second,
        nodes.as_mut_ptr(),
        &mut count
    ));
    assert_eq!((nodes, count), ([first, null_mut()], 1));
    count = 2;
    ok!(cuGraphNodeGetDependentNodes(
        first,
        nodes.as_mut_ptr(),
        &mut count
    ));
    assert_eq!((nodes, count), ([second, null_mut()], 1));
    ok!(cuGraphGetRootNodes(made, null_mut(), &mut count));
    assert_eq!(count, 1);
    ok!(cuGraphDestroyNode(first));
    assert_eq!(cu!(cuGraphDestroyNode(first)), INVALID_VALUE);
    ok!(cuGraphGetRootNodes(made, nodes.as_mut_ptr(), &mut count));
    assert_eq!((nodes[0], count), (second, 1));
    run(made);
    assert_eq!(read(sum), 2);
}

#[test]
fn a_capture_is_told_and_changed() {
    let current = Current::new();
    let (sum, mut stream) = (counter(0), null_mut());
    ok!(cuStreamCreate(&mut stream, 1));
    let (mut status, mut id, mut made, mut nodes, mut count) = (9, 0, null_mut(), null(), 9);
    let told = |status: &mut c_uint,
                id: &mut u64,
                made: &mut CUgraph,
                nodes: &mut *const CUgraphNode,
                count: &mut usize| {
        ok!(cuStreamGetCaptureInfo_v3(
            stream,
            status,
            id,
            made,
            nodes,
            null_mut(),
            count
        ));
    };
    told(&mut status, &mut id, &mut made, &mut nodes, &mut count);
    assert_eq!(status, 0);
    ok!(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    told(&mut status, &mut id, &mut made, &mut nodes, &mut count);
    assert_eq!((status, count), (1, 0));
    let mut by_hand = current.launch(made, &[], c"add", sum, 1_u32);
    ok!(cuStreamUpdateCaptureDependencies(
        stream,
        &mut by_hand,
        1,
        1
    ));
    ok!(cuMemsetD32Async(sum + 4 - 4, 7, 1, stream));
    told(&mut status, &mut id, &mut made, &mut nodes, &mut count);
    assert_eq!(count, 1);
    let mut ended = null_mut();
    ok!(cuStreamEndCapture(stream, &mut ended));
    assert_eq!(ended, made);
    let mut edges = 0;
    ok!(cuGraphGetEdges(made, null_mut(), null_mut(), &mut edges));
    assert_eq!(edges, 1);
    // A capture into a graph that is there.
    ok!(cuStreamBeginCaptureToGraph(
        stream,
        made,
        null(),
        null(),
        0,
        THREAD_LOCAL
    ));
    ok!(cuMemsetD32Async(sum, 9, 1, stream));
    ok!(cuStreamEndCapture(stream, &mut ended));
    assert_eq!(ended, made);
    let mut all = 0;
    ok!(cuGraphGetNodes(made, null_mut(), &mut all));
    assert_eq!(all, 3);
}

#[test]
fn captured_allocations_are_freed_outside() {
    let _current = Current::new();
    let (mut stream, mut address, mut made) = (null_mut(), 0, null_mut());
    ok!(cuStreamCreate(&mut stream, 1));
    ok!(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    ok!(cuMemAllocAsync(&mut address, 64, stream));
    ok!(cuMemsetD32Async(address, 5, 16, stream));
    ok!(cuStreamEndCapture(stream, &mut made));
    // No launch has allocated it.
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID_VALUE);
    let mut ready = null_mut();
    ok!(cuGraphInstantiateWithFlags(&mut ready, made, 0));
    ok!(cuGraphLaunch(ready, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(address + 60), 5);
    ok!(cuMemFree_v2(address));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID_VALUE);
}

#[test]
fn memory_of_a_graph_ends_with_its_context() {
    let first = Current::new();
    let (mut node, mut addresses, made) = (null_mut(), [0; 64], graph());
    // SAFETY: all zeros are such parameters.
    let mut params: MemAllocNodeParams = unsafe { std::mem::zeroed() };
    (
        params.pool.alloc_type,
        params.pool.location.kind,
        params.bytes,
    ) = (1, 1, 64);
    ok!(cuGraphAddMemAllocNode(
        &mut node,
        made,
        null(),
        0,
        &mut params
    ));
    drop(first);
    // Whatever has the address now is no graph's, and is not freed with the graph.
    let _second = Current::new();
    for address in &mut addresses {
        ok!(cuMemAlloc_v2(address, 64));
    }
    ok!(cuGraphDestroy(made));
    for address in addresses {
        ok!(cuMemFree_v2(address));
    }
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn destroy(number: *mut c_void) {
    DESTROYED.fetch_add(number.addr() as u32, Ordering::SeqCst);
}

#[test]
fn objects_end_with_their_last_reference() {
    let _current = Current::new();
    let (mut object, made, mut ready) = (null_mut(), graph(), null_mut());
    let number = std::ptr::without_provenance_mut(1);
    assert_eq!(
        cu!(cuUserObjectCreate(&mut object, number, None, 1, 1)),
        INVALID_VALUE
    );
    assert_eq!(
        cu!(cuUserObjectCreate(&mut object, number, Some(destroy), 1, 0)),
        INVALID_VALUE
    );
    ok!(cuUserObjectCreate(&mut object, number, Some(destroy), 1, 1));
    ok!(cuGraphRetainUserObject(made, object, 1, 1));
    assert_eq!(
        cu!(cuGraphReleaseUserObject(made, object, 2)),
        INVALID_VALUE
    );
    ok!(cuGraphInstantiateWithFlags(&mut ready, made, 0));
    ok!(cuGraphDestroy(made));
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 0);
    ok!(cuGraphExecDestroy(ready));
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 1);
    assert_eq!(cu!(cuUserObjectRetain(object, 1)), INVALID_VALUE);
    ok!(cuUserObjectCreate(&mut object, number, Some(destroy), 2, 1));
    assert_eq!(cu!(cuUserObjectRelease(object, 3)), INVALID_VALUE);
    ok!(cuUserObjectRelease(object, 2));
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 2);
}

#[test]
fn pools_of_managed_memory_are_the_hosts_too() {
    let _current = Current::new();
    let mut location = MemLocation { kind: 1, id: 0 };
    let (mut pool, mut default, mut device) = (null_mut(), null_mut(), null_mut());
    ok!(cuMemGetMemPool(&mut pool, &mut location, 2));
    ok!(cuMemGetDefaultMemPool(&mut default, &mut location, 2));
    ok!(cuMemGetMemPool(&mut device, &mut location, 1));
    assert_eq!(pool, default);
    assert_ne!(pool, device);
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(&mut address, 4, pool, null_mut()));
    // SAFETY: managed memory is the host's too.
    unsafe { std::ptr::with_exposed_provenance_mut::<u32>(address as usize).write(6) };
    assert_eq!(read(address), 6);
    ok!(cuMemFreeAsync(address, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    let mut nowhere = MemLocation { kind: 9, id: 0 };
    assert_eq!(
        cu!(cuMemGetMemPool(&mut pool, &mut nowhere, 1)),
        INVALID_VALUE
    );
    assert_eq!(
        cu!(cuMemSetMemPool(&mut location, 2, device)),
        INVALID_VALUE
    );
}

const GRID: &std::ffi::CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);\n\
    .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);\n\
    .visible .entry sums(.param .u64 out) {\n\
    .reg .b64 %rd<6>; .reg .b32 %r<6>;\n\
    ld.param.u64 %rd1, [out];\n\
    { .param .b32 scope; .param .b64 handle; st.param.b32 [scope], 1;\n\
    call (handle), cudaCGGetIntrinsicHandle, (scope); ld.param.b64 %rd2, [handle]; }\n\
    mov.u32 %r1, %ctaid.x; add.u32 %r2, %r1, 1; atom.global.add.u32 %r3, [%rd1], %r2;\n\
    { .param .b64 handle; .param .b32 flags; .param .b32 done; st.param.b64 [handle], %rd2;\n\
    st.param.b32 [flags], 0; call (done), cudaCGSynchronize, (handle, flags);\n\
    ld.param.b32 %r4, [done]; }\n\
    ld.volatile.global.u32 %r5, [%rd1]; add.u32 %r5, %r5, %r4;\n\
    { .param .b64 handle; .param .b32 flags; .param .b32 done; st.param.b64 [handle], %rd2;\n\
    st.param.b32 [flags], 0; call (done), cudaCGSynchronize, (handle, flags); }\n\
    mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r5; ret; }\n";

#[test]
fn blocks_of_a_grid_wait_for_each_other_without_the_archive_of_the_device_runtime() {
    let _current = Current::new();
    let (mut module, mut sums, mut out) = (null_mut(), null_mut(), 0);
    ok!(cuModuleLoadData(&mut module, GRID.as_ptr().cast()));
    ok!(cuModuleGetFunction(&mut sums, module, c"sums".as_ptr()));
    ok!(cuMemAlloc_v2(&mut out, 4 * 8));
    ok!(cuMemsetD32_v2(out, 0, 8));
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let (grid, block) = ([7, 1, 1], [33, 2, 1]);
    ok!(cuLaunchCooperativeKernel(
        sums,
        grid[0],
        grid[1],
        grid[2],
        block[0],
        block[1],
        block[2],
        0,
        null_mut(),
        arguments.as_mut_ptr()
    ));
    ok!(cuCtxSynchronize());
    let all = 66 * (1..=7).sum::<u32>();
    for place in 0..8 {
        assert_eq!(read(out + 4 * place), all, "{place}");
    }
}

/// Each call adds its number to the place that it is given, and its calls get another place.
const TWICE: &std::ffi::CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .func adds(.param .b64 to, .param .b64 n) {\n\
    .reg .b64 %rd<6>; .reg .pred %p;\n\
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [n];\n\
    setp.eq.u64 %p, %rd2, 0; @%p bra end;\n\
    add.u64 %rd3, %rd1, 8; sub.u64 %rd4, %rd2, 1;\n\
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd3; st.param.b64 [b], %rd4; call adds, (a, b); }\n\
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd3; st.param.b64 [b], %rd4; call adds, (a, b); }\n\
    ld.u64 %rd5, [%rd1]; add.u64 %rd5, %rd5, %rd2; st.u64 [%rd1], %rd5;\n\
    end: ret; }\n\
    .visible .entry k(.param .u64 out) {\n\
    .reg .b64 %rd; ld.param.u64 %rd, [out];\n\
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd; st.param.b64 [b], 3; call adds, (a, b); }\n\
    ret; }\n";

#[test]
fn what_is_needed_after_two_calls_of_the_function_itself_is_kept() {
    let _current = Current::new();
    let (mut module, mut k, mut out) = (null_mut(), null_mut(), 0);
    ok!(cuModuleLoadData(&mut module, TWICE.as_ptr().cast()));
    ok!(cuModuleGetFunction(&mut k, module, c"k".as_ptr()));
    ok!(cuMemAlloc_v2(&mut out, 32));
    ok!(cuMemsetD32_v2(out, 0, 8));
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let (one, arguments) = (1, arguments.as_mut_ptr());
    ok!(cuLaunchKernel(
        k,
        one,
        one,
        one,
        one,
        one,
        one,
        0,
        null_mut(),
        arguments,
        null_mut()
    ));
    ok!(cuCtxSynchronize());
    // 1 call with 3, 2 with 2, 4 with 1.
    assert_eq!([0, 8, 16].map(|at| read(out + at)), [3, 4, 4]);
}
