//! Pinned memory: allocated with flags, or the program's own.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use ptxkit::driver::{
    CaptureMode, Context, CudaError, DeviceAttribute, DeviceBuffer, Error, Graph, HostFlags,
    LaunchConfig, Module, PinnedBuffer, RegisterFlags, Stream, Symbol,
};

use crate::module::bump;
use crate::pool::{BLOCK, INCREMENT};
use crate::support::{alone, context, device};

/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`, `CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED`
const ALREADY_REGISTERED: CudaError = CudaError(712);
const NOT_REGISTERED: CudaError = CudaError(713);

/// How many values are pinned. Pages are pinned as a whole, and two vectors can
/// have one in common, so that the tests take turns.
const PAGES: usize = 1 << 18;
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    device(); // this test's turn beside or without others comes first, in all tests
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn flags_are_told() {
    let context = context();
    let all = HostFlags(0).portable().mapped().write_combined();
    for flags in [HostFlags::default(), all] {
        let mut buffer = PinnedBuffer::<u32>::with_flags(&context, 100, flags).unwrap();
        assert_eq!(buffer.flags().unwrap().0 & flags.0, flags.0);
        buffer.write(&[7; 100]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
    }
    let bad = PinnedBuffer::<u32>::with_flags(&context, 100, HostFlags(0x100));
    assert_eq!(bad.unwrap_err().code(), Some(CudaError::INVALID_VALUE));
}

#[test]
fn kernels_reach_mapped_memory() {
    alone();
    let context = context();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let numbers = PinnedBuffer::from_slice(&context, &[4_u32; 32]).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    stream
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| numbers.to_vec().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let waited = !reader.is_finished();
        go.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), [6; 32]);
        assert!(waited, "it read under the kernels");
    });
}

#[test]
fn a_vector_is_pinned_where_it_is() {
    let _turn = turn();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let values: Vec<u32> = (0..PAGES as u32).collect();
    let place = values.as_ptr();
    let mut pinned = PinnedBuffer::from_vec(&context, values, RegisterFlags::default()).unwrap();
    assert_eq!(pinned.pointer().cast_const(), place);
    let mut buffer = DeviceBuffer::<u32>::new(&context, PAGES).unwrap();
    buffer.write_async(&pinned, &stream).unwrap();
    buffer.fill_async(3, &stream).unwrap();
    pinned.wait().unwrap();
    buffer.read_async(&mut pinned, &stream).unwrap();
    let values = pinned.into_vec().unwrap();
    assert_eq!(values.as_ptr(), place);
    assert_eq!(values, vec![3; PAGES]);
    // The driver forgot it: it can be pinned again.
    drop(PinnedBuffer::from_vec(&context, values, RegisterFlags::default()).unwrap());
}

#[test]
fn pinning_twice_is_an_error() {
    let _turn = turn();
    let context = context();
    let mut values = vec![1_u8; PAGES];
    let (pointer, len) = (values.as_mut_ptr(), values.len());
    let outcome =
        PinnedBuffer::borrowed(&context, &mut values, RegisterFlags::default(), |_pinned| {
            let api = context.bind().unwrap();
            // SAFETY: the memory stays; the driver refuses it.
            unsafe { api.cuMemHostRegister_v2(pointer.cast(), len, 1) }
        });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ALREADY_REGISTERED), "{error}");
    let api = context.bind().unwrap();
    // SAFETY: nothing uses the memory; it is registered no more.
    let error = unsafe { api.cuMemHostUnregister(pointer.cast()) }.unwrap_err();
    assert_eq!(error.code(), Some(NOT_REGISTERED), "{error}");
}

#[test]
fn borrowed_memory_goes_back_after_its_copies() {
    alone();
    let _turn = turn();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut values = vec![0_u32; PAGES];
    let source = DeviceBuffer::from_slice(&context, &vec![5_u32; PAGES]).unwrap();
    context.synchronize().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let mut escaped = PinnedBuffer::<u32>::zeroed(&context, 1).unwrap();
    PinnedBuffer::borrowed(&context, &mut values, RegisterFlags::default(), |pinned| {
        let stop = move || wait.recv().unwrap_or_default();
        stream.call(stop).unwrap();
        source.read_async(pinned, &stream).unwrap();
        std::mem::swap(pinned, &mut escaped);
        go.send(()).unwrap();
    })
    .unwrap();
    assert_eq!(values, vec![5; PAGES]);

    // What was carried outside is of no use.
    assert!(matches!(escaped.to_vec(), Err(Error::Ended)));
    assert!(matches!(
        source.read_async(&mut escaped, &stream),
        Err(Error::Ended)
    ));
    assert!(matches!(escaped.wait(), Err(Error::Ended)));
}

/// Another thread may capture the stream that uses the memory: it knows nothing of the copy.
#[test]
fn borrowed_memory_goes_back_while_its_stream_is_captured() {
    alone();
    let _turn = turn();
    let context = context();
    let blocking = Stream::new(&context).unwrap();
    let non_blocking = Stream::non_blocking(&context).unwrap();
    let default = Stream::default_of(&context);
    let cases = [
        (&non_blocking, &non_blocking),
        (&blocking, &blocking),
        (&blocking, &non_blocking),
        // It takes no work during the capture.
        (&default, &blocking),
    ];
    let modes = [
        CaptureMode::Relaxed,
        CaptureMode::ThreadLocal,
        CaptureMode::Global,
    ];
    for ((used, captured), mode) in cases
        .into_iter()
        .flat_map(|case| modes.map(|mode| (case, mode)))
    {
        let mut values = vec![7_u32; PAGES];
        let mut buffer = DeviceBuffer::<u32>::zeroed(&context, PAGES).unwrap();
        let (begin, wait) = mpsc::channel::<()>();
        let (begun, is_begun) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                wait.recv().unwrap();
                Graph::capture(captured, mode, |_| {
                    begun.send(()).unwrap();
                    ended.recv().unwrap();
                    Ok(())
                })
            });
            PinnedBuffer::borrowed(&context, &mut values, RegisterFlags::default(), |pinned| {
                buffer.write_async(pinned, used).unwrap();
                begin.send(()).unwrap();
                is_begun.recv().unwrap();
            })
            .unwrap();
            end.send(()).unwrap();
            let graph = thread.join().unwrap();
            assert!(graph.is_ok(), "the capture is spoiled: {graph:?}");
        });
        assert_eq!(buffer.to_vec().unwrap(), values);
    }
}

/// What the host reads is there before the capture, and waiting for it spoils none.
#[test]
fn pinned_memory_is_read_while_its_stream_is_captured() {
    alone();
    let _turn = turn();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let buffer = DeviceBuffer::from_slice(&context, &vec![3_u32; PAGES]).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&context, PAGES).unwrap();
    context.synchronize().unwrap();
    buffer.read_async(&mut pinned, &stream).unwrap();
    let graph = Graph::capture(&stream, CaptureMode::Global, |_| {
        assert_eq!(pinned.to_vec()?, vec![3; PAGES]);
        assert_eq!(pinned.as_slice()?[..2], [3, 3]);
        Ok(())
    });
    assert!(graph.is_ok(), "the capture is spoiled: {graph:?}");
}

#[test]
fn no_graph_keeps_borrowed_memory() {
    alone();
    let _turn = turn();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let mut values = vec![0_u32; PAGES];
    let mut buffer = DeviceBuffer::<u32>::zeroed(&context, PAGES).unwrap();
    PinnedBuffer::borrowed(&context, &mut values, RegisterFlags::default(), |pinned| {
        let captured = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            buffer.write_async(pinned, stream)
        });
        assert!(
            matches!(captured, Err(Error::Captured { .. })),
            "{captured:?}"
        );
        let mut graph = Graph::new(&context).unwrap();
        let node = graph.add_write(&[], &buffer, pinned);
        assert!(matches!(node, Err(Error::Captured { .. })), "{node:?}");
        let increment = Module::load(&context, INCREMENT).unwrap();
        let increment = increment.kernel("increment").unwrap();
        let node = unsafe { graph.add_kernel(&[], &increment, BLOCK, (&*pinned,)) };
        assert!(matches!(node, Err(Error::Captured { .. })), "{node:?}");
        assert!(graph.nodes().unwrap().is_empty());
    })
    .unwrap();
}

#[test]
fn memory_that_is_not_portable_is_of_one_context() {
    alone();
    let context = context();
    let other = Context::create(&device(), 0).unwrap();
    let increment = Module::load(&other, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&other).unwrap();
    let own = PinnedBuffer::<u32>::with_flags(&context, 32, HostFlags(0).mapped()).unwrap();
    assert!(matches!(
        unsafe { increment.launch(BLOCK, &stream, (&own,)) },
        Err(Error::ArgumentContext { .. })
    ));
    let portable = PinnedBuffer::<u32>::zeroed(&context, 32).unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&portable,)) }.unwrap();
    assert_eq!(portable.to_vec().unwrap(), [1; 32]);
}

#[test]
fn memory_for_the_device_to_read_alone() {
    let _turn = turn();
    let context = context();
    let attribute = DeviceAttribute::READ_ONLY_HOST_REGISTER_SUPPORTED;
    if !device().attribute(attribute).unwrap() {
        return;
    }
    let flags = RegisterFlags::default().read_only();
    let pinned = PinnedBuffer::from_vec(&context, vec![6_u32; PAGES], flags).unwrap();
    let stream = Stream::new(&context).unwrap();
    let mut buffer = DeviceBuffer::<u32>::new(&context, PAGES).unwrap();
    buffer.write_async(&pinned, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![6; PAGES]);
}

/// A variable of PTX that the caller gives is used by all kernels of the module.
#[test]
fn readers_wait_for_kernels_that_reach_it_as_a_variable() {
    alone();
    let context = context();
    let Some(image) = bump() else { return };
    let numbers = PinnedBuffer::from_slice(&context, &[1_u32, 2, 41, 4]).unwrap();
    let symbols = [Symbol::new("numbers", &numbers)];
    let module = unsafe { Module::load_resolving(&context, image, &symbols) }.unwrap();
    let bump = module.kernel("bump").unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let one = LaunchConfig::default();
    let by_arguments = || unsafe { bump.launch(one, &stream, ()) };
    let by_bytes = || unsafe { bump.launch_bytes(one, &stream, &[]) };
    let ways: [&dyn Fn() -> Result<(), Error>; 2] = [&by_arguments, &by_bytes];
    for (launch, bumped) in ways.into_iter().zip(42..) {
        let (go, wait) = mpsc::channel::<()>();
        stream
            .call(move || wait.recv().unwrap_or_default())
            .unwrap();
        launch().unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| numbers.to_vec().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(50));
            let waited = !reader.is_finished();
            go.send(()).unwrap();
            assert_eq!(reader.join().unwrap(), [1, 2, bumped, 4]);
            assert!(waited, "it read under the kernel");
        });
    }
}
