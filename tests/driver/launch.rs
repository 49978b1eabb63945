use ptxkit::driver::{
    Arg, Arguments, Context, DeviceAttribute, DeviceBuffer, Error, LaunchConfig, Module,
    ParamBuffer, PinnedBuffer, Stream,
};
use ptxkit::ptx::{read, signature::signatures};

use crate::kernels::{FIXED, MIXED, PLACE, REVERSE, SLOW, VECADD, slow_result};
use crate::support::{alone, context, device, kernel};

/// Not a multiple of the block: the last block is cut.
const N: usize = 1000;

fn addends() -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let a: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let b: Vec<f32> = (0..N).map(|n| 0.5 * n as f32).collect();
    let sum = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    (a, b, sum)
}

#[test]
fn vecadd_by_pointers_and_by_buffer() {
    let (context, stream, vecadd) = kernel(VECADD, "vecadd");
    let (a, b, expected) = addends();
    let a = DeviceBuffer::from_slice(&context, &a).unwrap();
    let b = DeviceBuffer::from_slice(&context, &b).unwrap();
    let config = LaunchConfig::for_elements(N as u32, 128);

    let mut sum = DeviceBuffer::<f32>::zeroed(&context, N + 1).unwrap();
    unsafe { vecadd.launch(config, &stream, (&a, &b, &mut sum, N as u32)) }.unwrap();
    stream.synchronize().unwrap();
    let got = sum.to_vec().unwrap();
    assert_eq!(got[..N], expected);
    assert_eq!(got[N], 0.0, "a thread beyond n wrote");

    let sum = DeviceBuffer::<f32>::zeroed(&context, N).unwrap();
    let mut params = ParamBuffer::new();
    params.push(&a).push(&b).push(&sum).push(N as u32);
    unsafe { vecadd.launch_buffer(config, &stream, &params) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), expected);

    let sum = DeviceBuffer::<f32>::zeroed(&context, N).unwrap();
    let count = (N as u32).to_le_bytes();
    let args = [a.arg(), b.arg(), sum.arg(), Arg::bytes(&count, 4)];
    unsafe { vecadd.launch(config, &stream, &args[..]) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), expected);
}

#[test]
fn parameters_of_mixed_alignment() {
    let (context, stream, mixed) = kernel(MIXED, "mixed");
    let vector = [0x0102_0304_0506_0708_u64, 0x1112_1314_1516_1718];
    let expected = [200, 60_000, 1.25_f64.to_bits(), vector[0], vector[1]];
    let one = LaunchConfig::default();

    let out = DeviceBuffer::<u64>::zeroed(&context, 5).unwrap();
    unsafe { mixed.launch(one, &stream, (200_u8, 60_000_u16, 1.25_f64, vector, &out)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), expected);

    let out = DeviceBuffer::<u64>::zeroed(&context, 5).unwrap();
    let bytes: Vec<u8> = vector.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut params = ParamBuffer::new();
    params.push(200_u8).push(60_000_u16).push(1.25_f64);
    params.push(Arg::bytes(&bytes, 16)).push(&out);
    assert_eq!(params.bytes().len(), 40);
    unsafe { mixed.launch_buffer(one, &stream, &params) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), expected);
}

#[test]
fn grids_and_blocks_in_three_dimensions() {
    let (context, stream, place) = kernel(PLACE, "place");
    let config = LaunchConfig::new([3, 2, 4], [5, 3, 2]);
    let count = 3 * 2 * 4 * 5 * 3 * 2;
    let mut out = DeviceBuffer::<u32>::new(&context, count).unwrap();
    out.fill(u32::MAX).unwrap();
    unsafe { place.launch(config, &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), (0..count as u32).collect::<Vec<_>>());
}

#[test]
fn part_of_a_buffer_is_an_argument() {
    let (context, stream, place) = kernel(PLACE, "place");
    let out = DeviceBuffer::<u32>::zeroed(&context, 8).unwrap();
    let part = out.slice(3..).unwrap();
    unsafe { place.launch(LaunchConfig::new([1; 3], [4, 1, 1]), &stream, (part,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0, 0, 0, 0, 1, 2, 3, 0]);
}

#[test]
fn pinned_memory_is_reached_by_a_kernel() {
    let (context, stream, place) = kernel(PLACE, "place");
    let pinned = PinnedBuffer::<u32>::zeroed(&context, 6).unwrap();
    let address = pinned.device_address();
    unsafe { place.launch(LaunchConfig::new([3, 1, 1], [2, 1, 1]), &stream, (address,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pinned.to_vec().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn dynamic_shared_memory_by_default_and_by_opting_in() {
    let (context, stream, reverse) = kernel(REVERSE, "reverse");
    let limit = context.limits().shared_per_block_optin;
    let values: Vec<u32> = (100..164).collect();
    let backwards: Vec<u32> = values.iter().rev().copied().collect();
    // The last is more than a block has without asking, wherever there is more.
    for bytes in [256, 48 * 1024, limit] {
        let data = DeviceBuffer::from_slice(&context, &values).unwrap();
        let config = LaunchConfig::new([1; 3], [64, 1, 1]).with_shared(bytes);
        unsafe { reverse.launch(config, &stream, (&data, 64_u32, bytes)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(data.to_vec().unwrap(), backwards, "{bytes} bytes");
    }
    let data = DeviceBuffer::from_slice(&context, &values).unwrap();
    let config = LaunchConfig::new([1; 3], [64, 1, 1]).with_shared(limit + 1);
    let error = unsafe { reverse.launch(config, &stream, (&data, 64_u32, 256_u32)) }.unwrap_err();
    assert!(
        matches!(error, Error::SharedMemory { dynamic, limit: l, .. } if dynamic == l + 1),
        "{error}"
    );
}

#[test]
fn kernels_of_one_function_opt_in_beside_one_another() {
    let (context, stream, one) = kernel(REVERSE, "reverse");
    let other = one.module().kernel("reverse").unwrap();
    let limit = context.limits().shared_per_block_optin;
    let data = DeviceBuffer::from_slice(&context, &[0_u32; 64]).unwrap();
    for (kernel, bytes) in [(&one, limit), (&other, 49 * 1024), (&one, limit)] {
        let config = LaunchConfig::new([1; 3], [64, 1, 1]).with_shared(bytes);
        unsafe { kernel.launch(config, &stream, (&data, 64_u32, bytes)) }.unwrap();
    }
    stream.synchronize().unwrap();
}

#[test]
fn wrong_arguments_are_told_before_the_launch() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = signatures(&read(VECADD).module, VECADD);
    let known = unsafe { Module::load_with(&context, VECADD.as_bytes(), kernels) }.unwrap();
    let plain = Module::load(&context, VECADD.as_bytes()).unwrap();
    let buffer = DeviceBuffer::<f32>::zeroed(&context, 4).unwrap();
    let (one, b) = (LaunchConfig::default(), &buffer);

    for module in [&known, &plain] {
        let vecadd = module.kernel("vecadd").unwrap();
        if vecadd.layout().is_none() {
            continue; // a driver before CUDA 12.4, and no PTX told
        }
        let error = unsafe { vecadd.launch(one, &stream, (b, b, b)) }.unwrap_err();
        assert!(
            matches!(
                error,
                Error::ArgumentCount {
                    expected: 4,
                    given: 3,
                    ..
                }
            ),
            "{error}"
        );
        let error = unsafe { vecadd.launch(one, &stream, (b, b, b, 4_u64)) }.unwrap_err();
        assert!(
            matches!(
                error,
                Error::ArgumentSize {
                    index: 3,
                    expected: 4,
                    given: 8,
                    ..
                }
            ),
            "{error}"
        );

        let mut params = ParamBuffer::new();
        params.push(b).push(b).push(b);
        let error = unsafe { vecadd.launch_buffer(one, &stream, &params) }.unwrap_err();
        assert!(matches!(error, Error::ArgumentCount { .. }), "{error}");
        let error = unsafe { vecadd.launch_bytes(one, &stream, &[0; 24]) }.unwrap_err();
        assert!(
            matches!(
                error,
                Error::ParameterBytes {
                    expected: 28,
                    given: 24,
                    ..
                }
            ),
            "{error}"
        );
    }
    let vecadd = known.kernel("vecadd").unwrap();
    let error = unsafe { vecadd.launch(one, &stream, (b, 1_u32, b, 4_u32)) }.unwrap_err();
    let text = error.to_string();
    for part in ["argument 1", "`vecadd`", "8 bytes", "4 given", ".u64 b"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn wrongly_aligned_parameters_are_told() {
    let (context, stream, mixed) = kernel(MIXED, "mixed");
    let out = DeviceBuffer::<u64>::zeroed(&context, 5).unwrap();
    let mut params = ParamBuffer::new();
    params.push(1_u8).push(2_u16).push(3.0_f64);
    params.push([0_u8; 16]).push(&out);
    // The vector lands at 16 by chance; the short does not when it is two bytes.
    unsafe { mixed.launch_buffer(LaunchConfig::default(), &stream, &params) }.unwrap();
    stream.synchronize().unwrap();
    let mut params = ParamBuffer::new();
    params
        .push(1_u8)
        .push([2_u8, 0])
        .push(3.0_f64)
        .push([0_u8; 16])
        .push(&out);
    let error =
        unsafe { mixed.launch_buffer(LaunchConfig::default(), &stream, &params) }.unwrap_err();
    assert!(
        matches!(
            error,
            Error::ArgumentOffset {
                index: 1,
                expected: 2,
                given: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn grids_and_blocks_out_of_range_are_told() {
    let (context, stream, place) = kernel(PLACE, "place");
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let try_it = |grid, block| {
        unsafe { place.launch(LaunchConfig::new(grid, block), &stream, (&out,)) }.unwrap_err()
    };

    let limit = device()
        .attribute(DeviceAttribute::MAX_THREADS_PER_BLOCK)
        .unwrap();
    let error = try_it([1; 3], [limit + 1, 1, 1]);
    assert!(matches!(error, Error::BlockTooLarge { .. }), "{error}");
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
    let error = try_it([1; 3], [u32::MAX; 3]);
    assert!(matches!(error, Error::BlockTooLarge { .. }), "{error}");
    let error = try_it([1; 3], [1, 1, 65]);
    assert!(
        matches!(
            error,
            Error::Dimension {
                what: "block",
                axis: 2,
                limit: 64,
                ..
            }
        ),
        "{error}"
    );
    let error = try_it([1; 3], [0, 1, 1]);
    assert!(
        matches!(
            error,
            Error::Dimension {
                what: "block",
                axis: 0,
                given: 0,
                ..
            }
        ),
        "{error}"
    );
    let error = try_it([1, 65_536, 1], [1; 3]);
    assert!(
        matches!(
            error,
            Error::Dimension {
                what: "grid",
                axis: 1,
                ..
            }
        ),
        "{error}"
    );

    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0], "something was launched");
}

#[test]
fn a_required_block_is_told() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = signatures(&read(FIXED).module, FIXED);
    let module = unsafe { Module::load_with(&context, FIXED.as_bytes(), kernels) }.unwrap();
    let fixed = module.kernel("fixed").unwrap();
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let error = unsafe { fixed.launch(LaunchConfig::new([1; 3], [32, 1, 1]), &stream, (&out,)) }
        .unwrap_err();
    assert!(error.to_string().contains("8 x 4 x 1"), "{error}");
    unsafe { fixed.launch(LaunchConfig::new([1; 3], [8, 4, 1]), &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [32]);
}

#[test]
fn contexts_do_not_mix() {
    alone();
    let (_, stream, place) = kernel(PLACE, "place");
    let other = Context::create(&device(), 0).unwrap();
    let out = DeviceBuffer::<u32>::zeroed(&other, 1).unwrap();
    let theirs = Stream::new(&other).unwrap();
    let one = LaunchConfig::default();
    let error = unsafe { place.launch(one, &stream, (&out,)) }.unwrap_err();
    assert!(
        matches!(error, Error::ArgumentContext { index: 0, .. }),
        "{error}"
    );
    let mut params = ParamBuffer::new();
    params.push(&out);
    let error = unsafe { place.launch_buffer(one, &stream, &params) }.unwrap_err();
    assert!(
        matches!(error, Error::ArgumentContext { index: 0, .. }),
        "{error}"
    );
    let error = unsafe { place.launch(one, &theirs, (0_u64,)) }.unwrap_err();
    assert!(matches!(error, Error::DifferentContexts { .. }), "{error}");
}

#[test]
fn two_values_for_one_context_are_one() {
    let (context, stream, place) = kernel(PLACE, "place");
    let again = Context::primary(&device()).unwrap();
    assert_eq!(context, again);
    let out = DeviceBuffer::from_slice(&again, &[7_u32]).unwrap();
    let theirs = Stream::new(&again).unwrap();
    let one = LaunchConfig::default();
    unsafe { place.launch(one, &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0]);
    let mut params = ParamBuffer::new();
    params.push(&out);
    unsafe { place.launch_buffer(one, &theirs, &params) }.unwrap();
    theirs.synchronize().unwrap();
}

/// Arguments that are others each time they are asked for.
pub struct Fickle<'a> {
    pub asked: std::cell::Cell<usize>,
    pub answers: [&'a [Arg<'a>]; 2],
}

impl Arguments for Fickle<'_> {
    fn count(&self) -> usize {
        self.answers[self.asked.get().min(1)].len()
    }

    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        let asked = self.asked.replace(self.asked.get() + 1);
        self.answers[asked.min(1)].iter().copied().for_each(take);
    }
}

#[test]
fn arguments_that_are_others_when_asked_again_are_checked_again() {
    let (context, stream, place) = kernel(PLACE, "place");
    if place.layout().is_none() {
        return; // a driver before CUDA 12.4, and no PTX told
    }
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    // Pinned memory wants to hear of the launch, which takes another look.
    let pinned = PinnedBuffer::<u32>::zeroed(&context, 1).unwrap();
    let (first, short) = ([pinned.arg()], [Arg::value(&7_u32)]);
    let one = LaunchConfig::default();
    for answers in [[&first[..], &[]], [&first[..], &short]] {
        let asked = std::cell::Cell::new(0);
        let error = unsafe { place.launch(one, &stream, Fickle { asked, answers }) };
        let error = error.unwrap_err();
        let told = matches!(
            error,
            Error::ArgumentCount { given: 0, .. } | Error::ArgumentSize { given: 4, .. }
        );
        assert!(told, "{error}");
    }
    // The stream has used this one before, so nothing is noted of it.
    unsafe { place.launch(one, &stream, (&out,)) }.unwrap();
    let (asked, right) = (std::cell::Cell::new(0), [out.arg()]);
    let answers = [&right[..], &short];
    unsafe { place.launch(one, &stream, Fickle { asked, answers }) }.unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn memory_dropped_after_the_launch_is_freed_after_the_kernel() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, 2_000_000_u32)) }.unwrap();
    drop(data);
    stream.synchronize().unwrap();
    context.synchronize().unwrap();
}

#[test]
fn a_kernel_outlives_the_module_it_came_from() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    // `kernel` has dropped the module.
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, 1000_u32)) }.unwrap();
    drop(slow);
    stream.synchronize().unwrap();
    assert_eq!(data.to_vec().unwrap(), [slow_result(1000)]);
}

#[test]
fn several_threads_launch_at_once() {
    let (context, _, vecadd) = kernel(VECADD, "vecadd");
    let (a, b, expected) = addends();
    let a = DeviceBuffer::from_slice(&context, &a).unwrap();
    let b = DeviceBuffer::from_slice(&context, &b).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = Stream::new(&context).unwrap();
                let mut sum = DeviceBuffer::<f32>::new(&context, N).unwrap();
                for _ in 0..20 {
                    sum.fill_bytes(0).unwrap();
                    let config = LaunchConfig::for_elements(N as u32, 64);
                    unsafe { vecadd.launch(config, &stream, (&a, &b, &sum, N as u32)) }.unwrap();
                    stream.synchronize().unwrap();
                    assert_eq!(sum.to_vec().unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn a_cooperative_launch_computes_too() {
    let (context, stream, place) = kernel(PLACE, "place");
    let out = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
    let config = LaunchConfig::new([2, 1, 1], [32, 1, 1]);
    unsafe { place.launch_cooperative(config, &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), (0..64).collect::<Vec<_>>());
}
