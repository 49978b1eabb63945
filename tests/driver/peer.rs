//! Two devices: on the CPU two that share the cores, on GPUs where there are two.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use ptxkit::driver::api::Api;
use ptxkit::driver::{
    Context, CudaError, Device, DeviceBuffer, Error, LaunchConfig, Module, PinnedBuffer,
    PitchedBuffer, Stream,
};

use crate::kernels::ADD;
use crate::support::{device, in_child, is_gpu, isolated};

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

/// Runs `test` with two devices in a process of its own, or says that there are
/// none to test with.
pub fn two(name: &str, test: impl FnOnce([Device; 2])) {
    let driver = device().driver();
    if !in_child(name) && is_gpu() && driver.device_count().unwrap() < 2 {
        eprintln!("{name} is left out: it takes two devices");
        return;
    }
    isolated(name, &[("PTXKIT_CPU_DEVICES", "2")], || {
        test([0, 1].map(|ordinal| driver.device(ordinal).unwrap()));
    });
}

/// The same where the devices reach each other.
pub fn linked(name: &str, test: impl FnOnce([Context; 2])) {
    two(name, |devices| {
        let contexts = devices.map(|device| Context::primary(&device).unwrap());
        if !devices[0].can_access(&devices[1]).unwrap() {
            let error = contexts[0].enable_peer(&contexts[1]).unwrap_err();
            assert_eq!(error.code(), Some(CudaError::PEER_ACCESS_UNSUPPORTED));
            return;
        }
        test(contexts);
    });
}

#[test]
fn links_are_described() {
    two("peer::links_are_described", |[first, second]| {
        assert!(!first.can_access(&first).unwrap());
        let link = first.link_to(&second).unwrap();
        assert_eq!(link.access, first.can_access(&second).unwrap());
        assert_eq!(
            first.link_to(&first).unwrap_err().code(),
            Some(CudaError::INVALID_DEVICE)
        );
    });
}

/// The kernel of one device works on the memory of the other.
#[test]
fn a_kernel_reaches_its_peers_memory() {
    linked(
        "peer::a_kernel_reaches_its_peers_memory",
        |[first, second]| {
            let theirs = DeviceBuffer::from_slice(&first, &[40_u32]).unwrap();
            let stream = Stream::new(&second).unwrap();
            let add = Module::load(&second, ADD.as_bytes())
                .unwrap()
                .kernel("add")
                .unwrap();
            let error = unsafe { add.launch(ONE, &stream, (&theirs, 2_u32)) }.unwrap_err();
            assert!(
                matches!(error, Error::ArgumentContext { index: 0, .. }),
                "{error}"
            );
            assert!(error.to_string().contains("enable_peer"), "{error}");

            let access = second.enable_peer(&first).unwrap();
            unsafe { add.launch(ONE, &stream, (&theirs, 2_u32)) }.unwrap();
            stream.synchronize().unwrap();
            assert_eq!(theirs.to_vec().unwrap(), [42]);

            // It goes one way.
            let own = DeviceBuffer::from_slice(&second, &[1_u32]).unwrap();
            let back = Module::load(&first, ADD.as_bytes())
                .unwrap()
                .kernel("add")
                .unwrap();
            let queue = Stream::new(&first).unwrap();
            assert!(unsafe { back.launch(ONE, &queue, (&own, 1_u32)) }.is_err());

            drop(access);
            let error = unsafe { add.launch(ONE, &stream, (&theirs, 2_u32)) }.unwrap_err();
            assert!(matches!(error, Error::ArgumentContext { .. }), "{error}");
        },
    );
}

/// Enabled twice, it ends with the second.
#[test]
fn access_is_counted() {
    linked("peer::access_is_counted", |[first, second]| {
        let theirs = DeviceBuffer::from_slice(&first, &[0_u32]).unwrap();
        let stream = Stream::new(&second).unwrap();
        let add = Module::load(&second, ADD.as_bytes())
            .unwrap()
            .kernel("add")
            .unwrap();
        let once = second.enable_peer(&first).unwrap();
        let twice = second.enable_peer(&first).unwrap();
        drop(once);
        unsafe { add.launch(ONE, &stream, (&theirs, 1_u32)) }.unwrap();
        drop(twice);
        assert_eq!(
            theirs.to_vec().unwrap(),
            [1],
            "dropping waits for the kernel"
        );

        // By the driver's own count: it was on, and is off.
        let api = second.bind().unwrap();
        // SAFETY: both contexts are live.
        let error = unsafe { api.cuCtxDisablePeerAccess(first.raw()) }.unwrap_err();
        assert_eq!(error.code(), Some(CudaError::PEER_ACCESS_NOT_ENABLED));
        // What another library enabled is left to it.
        // SAFETY: as above.
        unsafe { api.cuCtxEnablePeerAccess(first.raw(), 0) }.unwrap();
        drop(second.enable_peer(&first).unwrap());
        // SAFETY: as above.
        let again = unsafe { second.bind().unwrap().cuCtxEnablePeerAccess(first.raw(), 0) };
        assert_eq!(
            again.unwrap_err().code(),
            Some(CudaError::PEER_ACCESS_ALREADY_ENABLED)
        );
    });
}

/// An address is no buffer: nobody checks it before the kernel does.
#[test]
fn an_address_without_access_is_a_fault() {
    linked(
        "peer::an_address_without_access_is_a_fault",
        |[first, second]| {
            let theirs = DeviceBuffer::from_slice(&first, &[5_u32]).unwrap();
            let stream = Stream::new(&second).unwrap();
            let add = Module::load(&second, ADD.as_bytes())
                .unwrap()
                .kernel("add")
                .unwrap();
            unsafe { add.launch(ONE, &stream, (theirs.address(), 1_u32)) }.unwrap();
            let error = stream.synchronize().unwrap_err();
            assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
            assert!(error.is_sticky());
            if !is_gpu() {
                assert!(error.to_string().contains("peer access"), "{error}");
                // The fault is the context's, not the other's.
                assert_eq!(theirs.to_vec().unwrap(), [5]);
            }
        },
    );
}

/// The variables of a module stay their device's own; copies reach them.
#[test]
fn a_kernel_does_not_reach_its_peers_variables() {
    linked(
        "peer::a_kernel_does_not_reach_its_peers_variables",
        |[first, second]| {
            let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .u32 n = 5;";
            let n = Module::load(&first, ptx.as_bytes())
                .unwrap()
                .global("n")
                .unwrap();
            let stream = Stream::new(&second).unwrap();
            let add = Module::load(&second, ADD.as_bytes())
                .unwrap()
                .kernel("add")
                .unwrap();
            let _access = second.enable_peer(&first).unwrap();
            assert_eq!(n.get::<u32>().unwrap(), 5);
            unsafe { add.launch(ONE, &stream, (n.address(), 2_u32)) }.unwrap();
            let error = stream.synchronize().unwrap_err();
            assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
        },
    );
}

#[test]
fn a_device_is_no_peer_of_itself() {
    two("peer::a_device_is_no_peer_of_itself", |[device, _]| {
        let contexts = [
            Context::primary(&device).unwrap(),
            Context::create(&device, 0).unwrap(),
        ];
        let error = contexts[0].enable_peer(&contexts[1]).unwrap_err();
        assert!(error.code().is_some(), "{error}");
        assert!(!error.is_sticky());
    });
}

#[test]
fn copies_between_peers() {
    two("peer::copies_between_peers", |devices| {
        let [first, second] = devices.map(|device| Context::primary(&device).unwrap());
        let numbers: Vec<u32> = (0..100_000).collect();
        let from = DeviceBuffer::from_slice(&first, &numbers).unwrap();
        let mut to = DeviceBuffer::<u32>::zeroed(&second, numbers.len()).unwrap();
        assert!(to.copy_from(&from).is_err(), "that one is within a context");
        to.copy_from_peer(&from).unwrap();
        assert_eq!(to.to_vec().unwrap(), numbers);

        // In stream order, in a stream of either end.
        let mut back = DeviceBuffer::<u32>::zeroed(&first, numbers.len()).unwrap();
        for context in [&first, &second] {
            let stream = Stream::new(context).unwrap();
            back.fill(0).unwrap();
            first.synchronize().unwrap();
            back.copy_from_peer_async(&to, &stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(back.to_vec().unwrap(), numbers);
        }
        let third = Context::create(&devices[0], 0).unwrap();
        let stream = Stream::new(&third).unwrap();
        let error = back.copy_from_peer_async(&to, &stream).unwrap_err();
        assert!(matches!(error, Error::DifferentContexts { .. }), "{error}");
        let short = DeviceBuffer::<u32>::zeroed(&second, 3).unwrap();
        let error = back.copy_from_peer(&short).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Length {
                    given: 3,
                    capacity: 100_000,
                    ..
                }
            ),
            "{error}"
        );
    });
}

/// In the default stream a copy between two devices is ordered with the work of both.
#[test]
fn a_copy_in_the_default_stream_is_ordered_with_both_devices() {
    let name = "peer::a_copy_in_the_default_stream_is_ordered_with_both_devices";
    two(name, |devices| {
        const AT_LEAST: u32 = 0;
        let [first, second] = devices.map(|device| Context::primary(&device).unwrap());
        let theirs = DeviceBuffer::from_slice(&first, &[1_u32]).unwrap();
        let own = DeviceBuffer::from_slice(&second, &[5_u32]).unwrap();
        let seen = DeviceBuffer::from_slice(&second, &[0_u32; 2]).unwrap();
        let flags = PinnedBuffer::from_slice(&first, &[0_u32; 2]).unwrap();
        let flag = |at: usize| flags.device_address() + 4 * at as u64;
        let raise = |at: usize| {
            // SAFETY: one of two words, which the device reads meanwhile.
            unsafe { AtomicU32::from_ptr(flags.pointer().add(at)) }.store(1, Ordering::Release);
        };
        let copy = |to, from| {
            move |api: &Api| {
                // SAFETY: words of buffers that are live until the end.
                unsafe { api.cuMemcpyDtoDAsync_v2(to, from, 4, null_mut()) }.unwrap();
            }
        };
        let wait = |at| {
            let address = flag(at);
            move |api: &Api| {
                // SAFETY: a word of pinned memory.
                unsafe { api.cuStreamWaitValue32_v2(null_mut(), address, 1, AT_LEAST) }.unwrap();
            }
        };
        let bound = |context: &Context| context.bind().unwrap();

        // What the other device was to read before it is overwritten.
        wait(0)(bound(&second));
        copy(seen.address(), own.address())(bound(&second));
        copy(own.address(), theirs.address())(bound(&first));
        raise(0);
        // What it reads after.
        wait(1)(bound(&first));
        // SAFETY: a word of a buffer.
        unsafe { bound(&first).cuMemsetD32Async(theirs.address(), 7, 1, null_mut()) }.unwrap();
        copy(own.address(), theirs.address())(bound(&first));
        copy(seen.address() + 4, own.address())(bound(&second));
        raise(1);
        second.synchronize().unwrap();
        assert_eq!(seen.to_vec().unwrap(), [5, 7]);
    });
}

/// A buffer that is freed while a copy in the other context's stream uses it.
#[test]
fn freeing_waits_for_the_peers_copy() {
    two("peer::freeing_waits_for_the_peers_copy", |devices| {
        let [first, second] = devices.map(|device| Context::primary(&device).unwrap());
        let stream = Stream::non_blocking(&second).unwrap();
        let mut to = DeviceBuffer::<u32>::zeroed(&second, 1 << 20).unwrap();
        second.synchronize().unwrap();
        for round in 1..6_u32 {
            let from = DeviceBuffer::from_slice(&first, &vec![round; 1 << 20]).unwrap();
            to.copy_from_peer_async(&from, &stream).unwrap();
            drop(from);
            // What is allocated now may lie where it was.
            let _other = DeviceBuffer::from_slice(&first, &vec![99_u32; 1 << 20]).unwrap();
            stream.synchronize().unwrap();
            assert!(to.to_vec().unwrap().iter().all(|n| *n == round));
        }
    });
}

#[test]
fn rows_are_copied_between_peers() {
    two("peer::rows_are_copied_between_peers", |devices| {
        let [first, second] = devices.map(|device| Context::primary(&device).unwrap());
        let numbers: Vec<f32> = (0..7 * 5).map(|n| n as f32).collect();
        let mut from = PitchedBuffer::<f32>::new(&first, 7, 5).unwrap();
        from.write(&numbers).unwrap();
        let mut to = PitchedBuffer::<f32>::new(&second, 7, 5).unwrap();
        to.write(&[0.0; 35]).unwrap();
        to.copy_from_peer(&from).unwrap();
        second.synchronize().unwrap();
        assert_eq!(to.to_vec().unwrap(), numbers);

        let stream = Stream::new(&second).unwrap();
        to.write(&[0.0; 35]).unwrap();
        to.copy_from_peer_async(&from, &stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(to.to_vec().unwrap(), numbers);

        let other = PitchedBuffer::<f32>::new(&first, 5, 7).unwrap();
        assert!(matches!(
            to.copy_from_peer(&other),
            Err(Error::Length { .. })
        ));
    });
}
