//! Devices, contexts and handles.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::Barrier;

use ptxkit::driver::api::{CUcontext, CUstream, ContextParams, EdgeData, ExecAffinity};

use crate::entry::{
    CONTEXT_IS_DESTROYED, Current, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE,
    alloc, detail, event, stream,
};

#[test]
fn a_device_says_what_it_is() {
    ok!(cuInit(0));
    let (mut device, mut value, mut bytes) = (-1, 0, 0);
    ok!(cuDeviceGet(&mut device, 0));
    let mut name = [0_u8; 128];
    ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 128, device));
    let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
    assert!(
        name.starts_with("CPU: ") && name.ends_with(" threads"),
        "{name}"
    );
    let mut cut = [1_u8; 4];
    ok!(cuDeviceGetName(cut.as_mut_ptr().cast(), 4, device));
    assert_eq!(&cut, b"CPU\0");
    ok!(cuDeviceGetAttribute(&mut value, 75, device));
    assert_eq!(value, 9);
    ok!(cuDeviceTotalMem_v2(&mut bytes, device));
    assert!(bytes >= 1 << 20);
    assert_eq!(cu!(cuDeviceGet(&mut device, 99)), INVALID_DEVICE);
    assert_eq!(cu!(cuDeviceGetAttribute(&mut value, 0, 0)), INVALID_VALUE);
    assert_eq!(cu!(cuDeviceGetCount(null_mut())), INVALID_VALUE);
}

#[test]
fn contexts_stack_up_on_each_thread() {
    let first = Current::new();
    let second = Current::new();
    let mut context = null_mut();
    ok!(cuCtxGetCurrent(&mut context));
    assert_eq!(context, second.0);
    ok!(cuCtxPopCurrent_v2(&mut context));
    assert_eq!(context, second.0);
    ok!(cuCtxGetCurrent(&mut context));
    assert_eq!(context, first.0);
    ok!(cuCtxSetCurrent(null_mut()));
    ok!(cuCtxGetCurrent(&mut context));
    assert!(context.is_null());
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), INVALID_CONTEXT);
    assert_eq!(cu!(cuCtxPopCurrent_v2(&mut context)), INVALID_CONTEXT);
    ok!(cuCtxPushCurrent_v2(first.0));
    ok!(cuMemAlloc_v2(&mut address, 16));
    std::thread::spawn(move || {
        let mut context = null_mut();
        ok!(cuCtxGetCurrent(&mut context));
        assert!(context.is_null());
    })
    .join()
    .unwrap();
}

#[test]
fn a_destroyed_context_takes_its_objects_with_it() {
    let outer = Current::new();
    let doomed = Current::new();
    let (stream, event, memory) = (stream(0), event(0), alloc(64));
    let handle = doomed.0 as usize;
    let step = Barrier::new(2);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            ok!(cuCtxPushCurrent_v2(handle as CUcontext));
            step.wait();
            step.wait();
            let mut address = 0;
            assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), CONTEXT_IS_DESTROYED);
        });
        step.wait();
        ok!(cuCtxDestroy_v2(doomed.0));
        step.wait();
    });
    let mut current = null_mut();
    ok!(cuCtxGetCurrent(&mut current));
    assert_eq!(current, outer.0);
    assert_eq!(cu!(cuCtxDestroy_v2(doomed.0)), INVALID_CONTEXT);
    assert_eq!(cu!(cuCtxPushCurrent_v2(doomed.0)), INVALID_CONTEXT);
    assert_eq!(cu!(cuStreamSynchronize(stream)), INVALID_HANDLE);
    assert_eq!(cu!(cuEventSynchronize(event)), INVALID_HANDLE);
    assert_eq!(cu!(cuMemsetD8_v2(memory, 0, 64)), INVALID_VALUE);
}

#[test]
fn wrong_and_freed_handles_are_refused() {
    let _context = Current::new();
    let (stream, event, memory) = (stream(0), event(0), alloc(64));
    assert_eq!(cu!(cuStreamSynchronize(event.cast())), INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(stream.cast())), INVALID_HANDLE);
    assert_eq!(
        cu!(cuStreamQuery(0xdead_beef_usize as CUstream)),
        INVALID_HANDLE
    );
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(cu!(cuStreamDestroy_v2(stream)), INVALID_HANDLE);
    ok!(cuEventDestroy_v2(event));
    assert_eq!(cu!(cuEventDestroy_v2(event)), INVALID_HANDLE);
    ok!(cuMemFree_v2(memory));
    assert_eq!(cu!(cuMemFree_v2(memory)), INVALID_VALUE);
    assert!(detail().contains("cannot be freed"), "{}", detail());
}

#[test]
fn contexts_are_named_as_since_cuda_13() {
    let first = Current::new();
    let second = Current::new();
    let mut device = -1;
    ok!(cuCtxGetDevice_v2(&mut device, first.0));
    assert_eq!(device, 0);
    ok!(cuCtxSynchronize_v2(first.0));
    ok!(cuCtxSynchronize_v2(null_mut()));
    let gone = second.0;
    drop(second);
    assert_eq!(cu!(cuCtxSynchronize_v2(gone)), INVALID_CONTEXT);
    assert_eq!(cu!(cuCtxGetDevice_v2(&mut device, gone)), INVALID_CONTEXT);
    let (mut made, mut current) = (null_mut(), null_mut());
    ok!(cuCtxCreate_v4(&mut made, null_mut(), 0, 0));
    ok!(cuCtxGetCurrent(&mut current));
    assert_eq!(made, current);
    ok!(cuCtxDestroy_v2(made));
    let mut half = ExecAffinity { kind: 0, count: 1 };
    let mut params = ContextParams {
        affinities: &mut half,
        num_affinities: 1,
        graphics: null_mut(),
    };
    assert_eq!(cu!(cuCtxCreate_v4(&mut made, &mut params, 0, 0)), 224);
}

#[test]
fn edges_of_graphs_are_full_dependencies() {
    let _current = Current::new();
    let (mut graph, mut nodes) = (null_mut(), [null_mut(); 2]);
    ok!(cuGraphCreate(&mut graph, 0));
    for node in &mut nodes {
        ok!(cuGraphAddEmptyNode(node, graph, null_mut(), 0));
    }
    let [before, after] = nodes;
    let programmatic = EdgeData {
        kind: 1,
        ..EdgeData::default()
    };
    assert_eq!(
        cu!(cuGraphAddDependencies_v2(
            graph,
            &before,
            &after,
            &programmatic,
            1
        )),
        // An empty node starts nothing early.
        INVALID_VALUE
    );
    let edges = || {
        let (mut from, mut to, mut count) = (null_mut(), null_mut(), 1);
        let mut data = programmatic;
        ok!(cuGraphGetEdges_v2(
            graph, &mut from, &mut to, &mut data, &mut count
        ));
        assert_eq!(data, EdgeData::default());
        (count, from, to)
    };
    assert_eq!(edges(), (0, null_mut(), null_mut()));
    let full = EdgeData::default();
    ok!(cuGraphAddDependencies_v2(graph, &before, &after, &full, 1));
    assert_eq!(edges(), (1, before, after));
    ok!(cuGraphRemoveDependencies_v2(
        graph,
        &before,
        &after,
        std::ptr::null(),
        1
    ));
    assert_eq!(edges().0, 0);
    ok!(cuGraphDestroy(graph));
}
