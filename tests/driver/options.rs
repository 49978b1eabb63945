//! Launches with more than a grid and a block, structures as parameters, and
//! occupancy.

use ptxkit::driver::{
    CacheConfig, CudaError, DeviceAttribute, DeviceBuffer, Error, Event, Float4, KernelAttribute,
    LaunchConfig, LaunchOptions, ParamBuffer,
};
use ptxkit::{device_param, launch};

use crate::kernels::{ADD, FIXED, MIXED, PLACE, REVERSE, STRUCTURE};
use crate::support::{device, is_gpu, kernel};

device_param! {
    struct Structure { f: f32, f4: Float4 }
}

#[test]
fn a_structure_has_the_layout_of_the_device() {
    let (context, stream, structure) = kernel(STRUCTURE, "structure");
    let value = Structure {
        f: 1.0,
        f4: [2.0, 3.0, 4.0, 5.0].into(),
    };
    let expected = [1.0_f32, 2.0, 3.0, 4.0, 5.0];
    let out = DeviceBuffer::<f32>::zeroed(&context, 5).unwrap();
    unsafe { structure.launch(LaunchConfig::default(), &stream, (value, &out)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), expected);

    let out = DeviceBuffer::<f32>::zeroed(&context, 5).unwrap();
    let mut params = ParamBuffer::new();
    params.push(value).push(&out);
    assert_eq!(params.bytes()[4..16], [0; 12]);
    unsafe { structure.launch_buffer(LaunchConfig::default(), &stream, &params) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), expected);
}

#[test]
fn a_type_aligned_to_more_than_its_parameter_is_told() {
    let (context, stream, mixed) = kernel(MIXED, "mixed");
    let out = DeviceBuffer::<u64>::zeroed(&context, 5).unwrap();
    #[repr(C, align(2))]
    #[derive(Clone, Copy)]
    struct Short(u8, u8);
    // SAFETY: two bytes without padding.
    unsafe impl ptxkit::driver::Pod for Short {}
    let vector = [0_u64; 2];
    unsafe {
        mixed.launch(
            LaunchConfig::default(),
            &stream,
            (1_u8, Short(2, 0), 3.0_f64, vector, &out),
        )
    }
    .unwrap();
    stream.synchronize().unwrap();

    // Eight bytes, but not where eight bytes would be: a kernel of three words.
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry words(.param .u32 a, .param .align 4 .b8 b[8]) { ret; }";
    let (_, stream, words) = kernel(ptx, "words");
    unsafe { words.launch(LaunchConfig::default(), &stream, (1_u32, [2_u32, 3])) }.unwrap();
    let error =
        unsafe { words.launch(LaunchConfig::default(), &stream, (1_u32, 2_u64)) }.unwrap_err();
    assert!(
        matches!(
            error,
            Error::ArgumentAlignment {
                index: 1,
                offset: 4,
                given: 8,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_macro_takes_every_form() {
    let (context, stream, place) = kernel(PLACE, "place");
    let run = |launch: &dyn Fn(&DeviceBuffer<u32>) -> Result<(), Error>, threads: u32| {
        let out = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
        launch(&out).unwrap();
        stream.synchronize().unwrap();
        let expected: Vec<u32> = (0..64).map(|n| if n < threads { n } else { 0 }).collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    };
    run(&|out| unsafe { launch!(place[2, 8, &stream](out)) }, 16);
    run(
        &|out| unsafe { launch!(place[(2, 2), (4, 2, 1), &stream](out)) },
        32,
    );
    run(
        &|out| unsafe { launch!(place[[1, 1, 2], 5, 64, &stream](out)) },
        10,
    );
    run(
        &|out| unsafe { launch!(place[LaunchConfig::for_elements(30, 6), &stream](out,)) },
        30,
    );
    let options = LaunchOptions::new().priority(0);
    run(
        &|out| unsafe {
            launch!(place[LaunchConfig::for_elements(30, 6), &stream; &options](out,))
        },
        30,
    );

    let (a, b) = (1, 2);
    let error = unsafe { launch!(place[1, 1, &stream](a, b)) }.unwrap_err();
    assert!(
        matches!(
            error,
            Error::ArgumentCount {
                expected: 1,
                given: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn options_are_taken() {
    let (context, stream, place) = kernel(PLACE, "place");
    let config = LaunchConfig::new([2, 1, 1], [32, 1, 1]);
    let event = Event::without_timing(&context).unwrap();
    let mut all = vec![
        LaunchOptions::new(),
        LaunchOptions::new().cooperative(),
        LaunchOptions::new().priority(-1),
        LaunchOptions::new().cluster([1, 1, 1]),
        LaunchOptions::new().remote_memory_domain(),
    ];
    if !is_gpu() || device().compute_capability().unwrap() >= (9, 0) {
        all.push(LaunchOptions::new().programmatic());
        all.push(LaunchOptions::new().programmatic_event(&event, false));
        all.push(LaunchOptions::new().completion_event(&event));
    }
    for options in &all {
        let out = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
        unsafe { place.launch_with(config, options, &stream, (&out,)) }
            .unwrap_or_else(|error| panic!("{options:?}: {error}"));
        stream.synchronize().unwrap();
        assert_eq!(
            out.to_vec().unwrap(),
            (0..64).collect::<Vec<_>>(),
            "{options:?}"
        );
    }
    event.synchronize().unwrap();

    let odd = LaunchOptions::new().cluster([3, 1, 1]);
    let error = unsafe { place.launch_with(config, &odd, &stream, (0_u64,)) }.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Cluster {
                cluster: [3, 1, 1],
                ..
            }
        ),
        "{error}"
    );
    // A cluster of two blocks runs where there are clusters, and is refused elsewhere.
    let out = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
    let pairs = LaunchOptions::new().cluster([2, 1, 1]);
    let launched = unsafe { place.launch_with(config, &pairs, &stream, (&out,)) };
    let has_clusters = device().attribute(DeviceAttribute::CLUSTER_LAUNCH).unwrap();
    assert_eq!(launched.is_ok(), has_clusters, "{launched:?}");
    let clusters = place.max_active_clusters(config, &pairs);
    if has_clusters {
        assert!(clusters.unwrap() > 0)
    } else {
        assert_eq!(clusters.unwrap_or(0), 0)
    }
    stream.synchronize().unwrap();
}

#[test]
fn a_cooperative_launch_too_large_is_told() {
    if !is_gpu() {
        return; // blocks of the CPU device that wait make room for others
    }
    let (context, stream, place) = kernel(PLACE, "place");
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let config = LaunchConfig::new([1 << 20, 1, 1], [1024, 1, 1]);
    let error = unsafe { place.launch_cooperative(config, &stream, (&out,)) }.unwrap_err();
    assert_eq!(
        error.code(),
        Some(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE),
        "{error}"
    );
}

#[test]
fn occupancy_is_told() {
    let (context, _, reverse) = kernel(REVERSE, "reverse");
    let alone = reverse.max_active_blocks(64, 0).unwrap();
    let crowded = reverse.max_active_blocks(1024, 0).unwrap();
    assert!(alone > crowded && crowded >= 1, "{alone} {crowded}");
    let hungry = reverse.max_active_blocks(64, 40 * 1024).unwrap();
    assert!(hungry < alone && hungry >= 1, "{hungry}");

    let best = reverse.suggested_block(0, None).unwrap();
    assert!(
        best.threads >= 128 && best.threads <= 1024 && best.threads % 32 == 0,
        "{best:?}"
    );
    assert!(best.blocks >= 1);
    let limited = reverse.suggested_block(0, Some(64)).unwrap();
    assert_eq!(limited.threads, 64);

    // A kilobyte a thread: large blocks do not fit 48 KB.
    let asked = std::cell::Cell::new(0);
    let shared = |threads| {
        asked.set(asked.get() + 1);
        threads * 1024
    };
    let small = reverse.suggested_block_with(shared, None).unwrap();
    assert!(asked.get() > 0);
    let limit = context.limits().shared_per_block_optin;
    assert!(
        small.threads > 0 && small.threads * 1024 <= limit,
        "{small:?}"
    );

    let fails = std::panic::AssertUnwindSafe(|| {
        let fail = |_| std::panic::panic_any("expected in this test");
        reverse.suggested_block_with(fail, None)
    });
    let payload = std::panic::catch_unwind(fails).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"expected in this test"));

    let room = reverse.available_shared(1, 64).unwrap();
    assert!(room >= 16 * 1024, "{room}");
    assert!(reverse.available_shared(alone, 64).unwrap() < room);
}

#[test]
fn attributes_of_a_kernel() {
    let (_, _, fixed) = kernel(FIXED, "fixed");
    fixed.set_cache_config(CacheConfig::PreferL1).unwrap();
    fixed.load().unwrap();
    assert!(fixed.is_loaded().unwrap());
    assert!(fixed.attribute(KernelAttribute::NUM_REGS).unwrap() > 0);
    assert_eq!(
        fixed
            .attribute(KernelAttribute::CLUSTER_SIZE_MUST_BE_SET)
            .unwrap(),
        0
    );
    assert!(fixed.attribute(KernelAttribute(1000)).is_err());
    let (_, _, add) = kernel(ADD, "add");
    let before = add
        .attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES)
        .unwrap();
    add.set_attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024)
        .unwrap();
    assert_eq!(
        add.attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES)
            .unwrap(),
        1024
    );
    assert_ne!(before, 1024);
}
