//! Launches, and the faults of kernels.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use ptxkit::driver::api::{CUcontext, CUevent, CUlaunchConfig, CUstream, DeviceResource};

use crate::entry::{
    Current, Gate, INVALID_HANDLE, INVALID_VALUE, NOT_READY, alloc, detail, download, event,
    isolated, stream, upload,
};
use crate::kernels::{PTX, kernel, launch, load};

#[test]
fn a_kernel_gets_its_arguments_as_a_list_or_as_a_buffer() {
    let _context = Current::new();
    let add = kernel(load(PTX), c"add");
    let mut out = upload(&[0; 4]);
    let (mut value, mut half) = (100_u32, 1000_u16);
    let mut arguments = [
        (&raw mut out).cast(),
        (&raw mut value).cast(),
        (&raw mut half).cast(),
    ];
    assert_eq!(launch(add, 4, 0, null_mut(), &mut arguments), 0);
    value = 0;
    half = 0; // they were copied
    assert_eq!(download(out, 4), [1100, 1101, 1102, 1103]);
    assert_eq!((value, half), (0, 0));

    let (mut offset, mut size) = (0, 0);
    ok!(cuFuncGetParamInfo(add, 2, &mut offset, &mut size));
    assert_eq!((offset, size), (12, 2));
    assert_eq!(
        cu!(cuFuncGetParamInfo(add, 3, &mut offset, &mut size)),
        INVALID_VALUE
    );

    let mut buffer = [0_u8; 14];
    buffer[..8].copy_from_slice(&out.to_le_bytes());
    buffer[8..12].copy_from_slice(&5_u32.to_le_bytes());
    buffer[12..].copy_from_slice(&2_u16.to_le_bytes());
    let mut by_buffer = |mut given: usize, params| {
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1), // CU_LAUNCH_PARAM_BUFFER_POINTER
            buffer.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(2), // CU_LAUNCH_PARAM_BUFFER_SIZE
            (&raw mut given).cast(),
            null_mut(),
        ];
        let extra = extra.as_mut_ptr();
        cu!(cuLaunchKernel(
            add,
            1,
            1,
            1,
            4,
            1,
            1,
            0,
            null_mut(),
            params,
            extra
        ))
    };
    assert_eq!(by_buffer(14, null_mut()), 0);
    assert_eq!(download(out, 4), [7, 8, 9, 10]);
    assert_eq!(by_buffer(14, arguments.as_mut_ptr()), INVALID_VALUE);
    const OUT_OF_RESOURCES: i32 = 701;
    assert_eq!(by_buffer(15, null_mut()), OUT_OF_RESOURCES);
    assert!(detail().contains("14 bytes"), "{}", detail());
    let none = &mut [null_mut(); 3];
    assert_eq!(launch(add, 4, 0, null_mut(), none), INVALID_VALUE);
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let _context = Current::new();
    let (module, mut value) = (load(PTX), 0);
    let small = kernel(module, c"small");
    let mut none = [null_mut()];
    let mut try_launch = |threads, shared| launch(small, threads, shared, null_mut(), &mut none);
    assert_eq!(try_launch(64, 0), 0);
    assert_eq!(try_launch(0, 0), INVALID_VALUE);
    assert_eq!(try_launch(65, 0), INVALID_VALUE);
    assert!(detail().contains(".maxntid"), "{}", detail());
    assert_eq!(try_launch(1025, 0), INVALID_VALUE);
    // 1024 of the 48 KiB are the kernel's own.
    assert_eq!(try_launch(64, 47 << 10), 0);
    assert_eq!(try_launch(64, (47 << 10) + 1), INVALID_VALUE);
    ok!(cuFuncSetAttribute(small, 8, 226 << 10));
    assert_eq!(try_launch(64, 226 << 10), 0);
    assert_eq!(
        cu!(cuFuncSetAttribute(small, 8, (226 << 10) + 1)),
        INVALID_VALUE
    );
    ok!(cuFuncGetAttribute(&mut value, 0, small));
    assert_eq!(value, 64);
    ok!(cuFuncGetAttribute(&mut value, 1, small));
    assert_eq!(value, 1024);
    assert_eq!(
        launch(module.cast(), 1, 0, null_mut(), &mut none),
        INVALID_HANDLE
    );
    ok!(cuCtxSynchronize());
}

#[test]
fn a_launch_returns_while_the_kernel_runs() {
    let _context = Current::new();
    let spin = kernel(load(PTX), c"spin");
    let stream = stream(1);
    let (mut flag, done) = (upload(&[0]), event(0));
    let mut arguments = [(&raw mut flag).cast()];
    assert_eq!(launch(spin, 1, 0, stream, &mut arguments), 0);
    ok!(cuEventRecord(done, stream));
    assert_eq!(cu!(cuEventQuery(done)), NOT_READY);
    ok!(cuMemsetD32_v2(flag, 1, 1));
    ok!(cuEventSynchronize(done));
}

#[test]
fn a_fault_ends_its_context_and_the_device_takes_no_others() {
    isolated(
        "launch::a_fault_ends_its_context_and_the_device_takes_no_others",
        &[],
        || {
            const ILLEGAL_ADDRESS: i32 = 700;
            let healthy = Current::new();
            let faulty = Current::new();
            let add = kernel(load(PTX), c"add");
            let (stream, memory, point) = (stream(1), alloc(4), event(0));
            let (mut out, mut value, mut half) = (memory + 4, 0_u32, 0_u16);
            let mut arguments = [
                (&raw mut out).cast(),
                (&raw mut value).cast(),
                (&raw mut half).cast(),
            ];
            assert_eq!(launch(add, 1, 0, stream, &mut arguments), 0);
            assert_eq!(cu!(cuStreamSynchronize(stream)), ILLEGAL_ADDRESS);
            for part in [
                "kernel add",
                "thread (0,0,0)",
                "write of 4 bytes",
                "line 21",
            ] {
                assert!(detail().contains(part), "{part}: {}", detail());
            }
            assert_eq!(launch(add, 1, 0, stream, &mut arguments), ILLEGAL_ADDRESS);
            assert_eq!(cu!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
            assert_eq!(cu!(cuMemAlloc_v2(&mut out, 4)), ILLEGAL_ADDRESS);
            assert_eq!(cu!(cuEventQuery(point)), ILLEGAL_ADDRESS);
            // The other context stays usable, and no new ones are made.
            assert_eq!(cu!(cuCtxCreate_v2(&mut null_mut(), 0, 0)), ILLEGAL_ADDRESS);
            ok!(cuCtxPushCurrent_v2(healthy.0));
            ok!(cuCtxSynchronize());
            ok!(cuMemAlloc_v2(&mut out, 4));
            ok!(cuCtxPopCurrent_v2(null_mut()));
            ok!(cuCtxDestroy_v2(faulty.0));
            ok!(cuCtxSynchronize());
        },
    );
}

#[test]
fn a_blocking_launch_tells_of_its_own_fault() {
    isolated(
        "launch::a_blocking_launch_tells_of_its_own_fault",
        &[("CUDA_LAUNCH_BLOCKING", "1")],
        || {
            let _context = Current::new();
            let spin = kernel(load(PTX), c"spin");
            let mut nowhere = 16_u64;
            let mut arguments = [(&raw mut nowhere).cast()];
            assert_eq!(launch(spin, 1, 0, null_mut(), &mut arguments), 700);
        },
    );
}

#[test]
fn kernels_are_launched_with_attributes_that_mean_something() {
    let _context = Current::new();
    let small = kernel(load(PTX), c"small");
    /// `CUlaunchAttribute`
    #[repr(C)]
    struct Attribute {
        number: u32,
        pad: u32,
        value: [u32; 16],
    }
    let run = |number, value| {
        let mut attribute = Attribute {
            number,
            pad: 0,
            value: [1; 16],
        };
        attribute.value[0] = value;
        let config = CUlaunchConfig {
            gridDimX: 2,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: null_mut(),
            attrs: (&raw mut attribute).cast(),
            numAttrs: 1,
        };
        cu!(cuLaunchKernelEx(&config, small, null_mut(), null_mut()))
    };
    assert_eq!(run(4, 1), 0); // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert_eq!(run(4, 2), 0);
    assert_eq!(run(4, 3), 912); // the grid is no multiple
    assert_eq!(run(4, 17), 912);
    // The caller requires clusters of two blocks, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH and so on.
    for (attribute, blocks) in [(11, 2), (12, 1), (13, 1)] {
        ok!(cuFuncSetAttribute(small, attribute, blocks));
    }
    assert_eq!(launch(small, 1, 0, null_mut(), &mut []), 912); // a grid of one block
    assert_eq!(run(4, 2), 0);
    ok!(cuFuncSetAttribute(small, 11, 0));
    assert_eq!(launch(small, 1, 0, null_mut(), &mut []), 0);
    assert_eq!(run(2, 1), 0); // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    assert_eq!(run(11, 1), 801);
    assert_eq!(run(900, 1), 1);
    ok!(cuCtxSynchronize());
}

#[test]
fn a_callback_hears_of_the_fault_and_a_host_function_is_passed_over() {
    isolated(
        "launch::a_callback_hears_of_the_fault_and_a_host_function_is_passed_over",
        &[],
        || {
            static HEARD: AtomicI32 = AtomicI32::new(-1);
            static CALLED: AtomicBool = AtomicBool::new(false);
            unsafe extern "C" fn hear(_: CUstream, code: u32, _: *mut c_void) {
                HEARD.store(code.cast_signed(), Ordering::SeqCst);
            }
            unsafe extern "C" fn call(_: *mut c_void) {
                CALLED.store(true, Ordering::SeqCst);
            }
            let _context = Current::new();
            let spin = kernel(load(PTX), c"spin");
            let stream = stream(1);
            let gate = Gate::close(stream);
            let mut nowhere = 16_u64;
            let mut arguments = [(&raw mut nowhere).cast()];
            assert_eq!(launch(spin, 1, 0, stream, &mut arguments), 0);
            ok!(cuLaunchHostFunc(stream, Some(call), null_mut()));
            ok!(cuStreamAddCallback(stream, Some(hear), null_mut(), 0));
            gate.open();
            assert_eq!(cu!(cuStreamSynchronize(stream)), 700);
            assert_eq!(HEARD.load(Ordering::SeqCst), 700);
            assert!(!CALLED.load(Ordering::SeqCst));
        },
    );
}

#[test]
fn many_threads_and_streams_come_to_an_end() {
    let context = Current::new();
    let (handle, memory) = (context.0 as usize, upload(&[0; 64]));
    let shared = event(2) as usize;
    std::thread::scope(|threads| {
        for thread in 0..4_u32 {
            threads.spawn(move || {
                ok!(cuCtxPushCurrent_v2(handle as CUcontext));
                let mine = stream(thread % 2);
                let at = memory + u64::from(thread) * 64;
                for round in 0..200 {
                    // Each stream has words of its own: one that does not wait for the
                    // default stream is not ordered with it.
                    let (stream, words) = match round % 7 {
                        0 => (null_mut(), at + 32),
                        _ => (mine, at + 8),
                    };
                    ok!(cuMemsetD32Async(words, round, 6, stream));
                    ok!(cuEventRecord(shared as CUevent, mine));
                    ok!(cuStreamWaitEvent(mine, shared as CUevent, 0));
                    let gate = (round % 50 == 0).then(|| Gate::close(mine));
                    ok!(cuMemsetD32Async(at + 4, round, 1, mine));
                    gate.inspect(|gate| gate.open());
                    if round % 20 == 0 {
                        ok!(cuStreamSynchronize(stream));
                    }
                }
                ok!(cuStreamSynchronize(mine));
                ok!(cuStreamDestroy_v2(mine));
            });
        }
    });
    ok!(cuCtxSynchronize());
    for thread in 0..4 {
        assert_eq!(download(memory + thread * 64, 2)[1], 199);
    }
}

#[test]
fn a_green_context_runs_kernels_of_the_primary_one() {
    ok!(cuInit(0));
    let mut primary = null_mut();
    ok!(cuDevicePrimaryCtxRetain(&mut primary, 0));
    ok!(cuCtxSetCurrent(primary));
    let add = kernel(load(PTX), c"add");
    let mut out = upload(&[0; 4]);
    let (mut resource, mut description) = (DeviceResource::EMPTY, null_mut());
    ok!(cuDeviceGetDevResource(0, &mut resource, 1));
    ok!(cuDevResourceGenerateDesc(
        &mut description,
        &mut resource,
        1
    ));
    let (mut green, mut in_green) = (null_mut(), null_mut());
    ok!(cuGreenCtxCreate(&mut green, description, 0, 1));
    ok!(cuGreenCtxStreamCreate(&mut in_green, green, 1, 0));
    let (mut value, mut half) = (100_u32, 1000_u16);
    let mut arguments = [
        (&raw mut out).cast(),
        (&raw mut value).cast(),
        (&raw mut half).cast(),
    ];
    assert_eq!(launch(add, 4, 0, in_green, &mut arguments), 0);
    let done = event(2);
    ok!(cuEventRecord(done, in_green));
    ok!(cuEventSynchronize(done));
    assert_eq!(download(out, 4), [1100, 1101, 1102, 1103]);
    let mut of_stream = null_mut();
    ok!(cuStreamGetGreenCtx(in_green, &mut of_stream));
    assert_eq!(of_stream, green);
    ok!(cuGreenCtxRecordEvent(green, done));
    ok!(cuGreenCtxWaitEvent(green, done));
    ok!(cuEventSynchronize(done));

    // What `cuCtxCreate` made has nothing in common with either.
    let own = Current::new();
    assert_eq!(cu!(cuEventRecord(done, stream(1))), INVALID_HANDLE);
    assert_eq!(launch(add, 4, 0, stream(1), &mut arguments), INVALID_HANDLE);
    drop(own);
    ok!(cuGreenCtxDestroy(green));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
}
