use ptxkit::driver::{
    Context, CudaError, DeviceBuffer, Error, PinnedBuffer, PitchedBuffer, Stream,
};

use crate::support::{alone, context, device};

#[test]
fn what_is_written_is_read() {
    let context = context();
    let values: Vec<u64> = (0..10_000).map(|n| n * n).collect();
    let mut buffer = DeviceBuffer::from_slice(&context, &values).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), values);
    assert_eq!((buffer.len(), buffer.bytes()), (10_000, 80_000));

    buffer.write_at(9_998, &[1, 2]).unwrap();
    let mut end = [0; 3];
    buffer.read_at(9_997, &mut end).unwrap();
    assert_eq!(end, [values[9_997], 1, 2]);
}

#[test]
fn buffers_do_not_share_memory() {
    let context = context();
    let first = DeviceBuffer::from_slice(&context, &[1_u8; 300]).unwrap();
    let second = DeviceBuffer::from_slice(&context, &[2_u8; 300]).unwrap();
    assert_eq!(first.to_vec().unwrap(), [1; 300]);
    assert_eq!(second.to_vec().unwrap(), [2; 300]);
    assert_ne!(first.address(), second.address());
}

#[test]
fn copies_stay_within_the_buffer() {
    let context = context();
    let mut buffer = DeviceBuffer::from_slice(&context, &[5_u32; 8]).unwrap();
    let too_long = |result: Result<(), Error>| {
        assert!(
            matches!(result, Err(Error::Length { capacity: 8, .. })),
            "{result:?}"
        );
    };
    too_long(buffer.write(&[0; 9]));
    too_long(buffer.write(&[0; 7]));
    too_long(buffer.write_at(7, &[0; 2]));
    too_long(buffer.write_at(usize::MAX, &[0; 2]));
    too_long(buffer.read(&mut [0; 9]));
    too_long(buffer.read_at(8, &mut [0; 1]));
    assert!(buffer.slice(3..9).is_err());
    assert!(buffer.slice(9..).is_err());
    assert_eq!(buffer.slice(2..=3).unwrap().address(), buffer.address() + 8);
    assert_eq!(buffer.slice(8..).unwrap().len(), 0);
    assert_eq!(buffer.to_vec().unwrap(), [5; 8]);
}

#[test]
fn nothing_is_a_buffer_too() {
    let context = context();
    let mut buffer = DeviceBuffer::<f32>::zeroed(&context, 0).unwrap();
    buffer.write(&[]).unwrap();
    buffer.fill(1.0).unwrap();
    assert!(buffer.to_vec().unwrap().is_empty());
    let pinned = PinnedBuffer::<u8>::zeroed(&context, 0).unwrap();
    assert!(pinned.to_vec().unwrap().is_empty());
    let rows = PitchedBuffer::<u8>::new(&context, 0, 7).unwrap();
    assert!(rows.to_vec().unwrap().is_empty());
}

#[test]
fn fills_of_every_width() {
    let context = context();
    let mut bytes = DeviceBuffer::<u8>::zeroed(&context, 5).unwrap();
    assert_eq!(bytes.to_vec().unwrap(), [0; 5]);
    bytes.fill(0xA5).unwrap();
    assert_eq!(bytes.to_vec().unwrap(), [0xA5; 5]);

    let mut shorts = DeviceBuffer::<i16>::new(&context, 5).unwrap();
    shorts.fill(-2).unwrap();
    assert_eq!(shorts.to_vec().unwrap(), [-2; 5]);

    let mut floats = DeviceBuffer::<f32>::new(&context, 5).unwrap();
    floats.fill(1.5).unwrap();
    assert_eq!(floats.to_vec().unwrap(), [1.5; 5]);

    let mut pairs = DeviceBuffer::<[u32; 2]>::new(&context, 3).unwrap();
    pairs.fill([1, 2]).unwrap();
    assert_eq!(pairs.to_vec().unwrap(), [[1, 2]; 3]);
    pairs.fill_bytes(1).unwrap();
    assert_eq!(pairs.to_vec().unwrap(), [[0x0101_0101; 2]; 3]);
}

#[test]
fn copies_between_buffers() {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let source = DeviceBuffer::from_slice(&context, &[1_i32, -2, 3]).unwrap();
    let mut first = DeviceBuffer::zeroed(&context, 3).unwrap();
    first.copy_from(&source).unwrap();
    assert_eq!(first.to_vec().unwrap(), [1, -2, 3]);

    let mut second = DeviceBuffer::zeroed(&context, 3).unwrap();
    context.synchronize().unwrap();
    second.copy_from_async(&first, &stream).unwrap();
    first.fill_bytes_async(0xFF, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(second.to_vec().unwrap(), [1, -2, 3]);
    assert_eq!(first.to_vec().unwrap(), [-1; 3]);

    let other = DeviceBuffer::<i32>::zeroed(&context, 4).unwrap();
    assert!(matches!(
        first.copy_from(&other),
        Err(Error::Length {
            given: 4,
            capacity: 3,
            ..
        })
    ));
}

#[test]
fn no_rows_of_any_width_are_nothing() {
    let context = context();
    let mut none = PitchedBuffer::<u32>::new(&context, usize::MAX, 0).unwrap();
    none.write(&[]).unwrap();
    assert!(none.to_vec().unwrap().is_empty());
}

#[test]
fn pinned_memory_waits_for_its_copies() {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let values: Vec<u32> = (0..1 << 20).collect();
    let mut pinned = PinnedBuffer::from_slice(&context, &values).unwrap();
    let mut buffer = DeviceBuffer::new(&context, values.len()).unwrap();
    buffer.write_async(&pinned, &stream).unwrap();
    // Overwritten only after the copy out of it.
    pinned.write(&vec![7; values.len()]).unwrap();
    assert_eq!(pinned.to_vec().unwrap()[..2], [7, 7]);
    buffer.read_async(&mut pinned, &stream).unwrap();
    assert_eq!(pinned.to_vec().unwrap(), values);

    // Freed while its copy may still run.
    let last = PinnedBuffer::from_slice(&context, &vec![9; values.len()]).unwrap();
    buffer.write_async(&last, &stream).unwrap();
    drop(last);
    stream.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![9; values.len()]);
    assert!(pinned.write(&[1]).is_err());
}

#[test]
fn pinned_memory_waits_for_the_default_streams_of_all_contexts() {
    alone();
    let values = vec![1_u32; 1 << 10];
    let contexts = [context(), Context::create(&device(), 0).unwrap()];
    // Its stream is stopped below, and nothing may wait for it in between.
    contexts[1].set_check_mode(false);
    let mut pinned = PinnedBuffer::<u32>::zeroed(&contexts[0], values.len()).unwrap();
    let buffers = contexts.each_ref().map(|context| {
        let buffer = DeviceBuffer::from_slice(context, &values).unwrap();
        (buffer, Stream::default_of(context))
    });
    let (go, wait) = std::sync::mpsc::channel();
    let (first, second) = (&buffers[0], &buffers[1]);
    first.0.read_async(&mut pinned, &first.1).unwrap();
    // The second copy stands behind this until it is let go.
    second
        .1
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    second.0.read_async(&mut pinned, &second.1).unwrap();
    let waiting = std::thread::spawn(move || pinned.wait());
    std::thread::sleep(std::time::Duration::from_millis(50));
    let waited = !waiting.is_finished();
    go.send(()).unwrap();
    waiting.join().unwrap().unwrap();
    assert!(waited, "the second copy was not waited for");
}

#[test]
fn pitched_rows_come_back_without_gaps() {
    let context = context();
    let mut rows = PitchedBuffer::<f64>::new(&context, 33, 5).unwrap();
    assert!(
        rows.pitch() >= 33 * 8 && rows.pitch().is_multiple_of(8),
        "{}",
        rows.pitch()
    );
    let values: Vec<f64> = (0..33 * 5).map(f64::from).collect();
    rows.write(&values).unwrap();
    assert_eq!(rows.to_vec().unwrap(), values);
    assert!(matches!(
        rows.write(&values[1..]),
        Err(Error::Length {
            given: 164,
            capacity: 165,
            ..
        })
    ));
}

#[test]
fn too_much_memory_is_an_error_that_passes() {
    let context = context();
    // 2^51 bytes are more than any device has; the other number of bytes overflows.
    let error = DeviceBuffer::<u64>::new(&context, 1 << 48).unwrap_err();
    assert_eq!(error.code(), Some(CudaError::OUT_OF_MEMORY), "{error}");
    assert!(error.to_string().contains("cuMemAlloc_v2"), "{error}");
    assert!(!error.is_sticky());
    assert!(DeviceBuffer::<u64>::new(&context, usize::MAX).is_err());
    assert!(PinnedBuffer::<u64>::zeroed(&context, usize::MAX).is_err());
    assert!(DeviceBuffer::<u64>::new(&context, 1).is_ok());
}

#[test]
fn dropped_memory_is_free_again() {
    // Others take memory meanwhile.
    alone();
    let context = context();
    let (before, _) = context.memory_info().unwrap();
    for round in 0..64 {
        let mut buffer = DeviceBuffer::<u8>::new(&context, 256 << 20)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        buffer.write_at(0, &[1]).unwrap();
    }
    let (after, total) = context.memory_info().unwrap();
    assert!(after > 0 && after <= total);
    // 16 GiB in all; other processes may take a little meanwhile.
    assert!(
        after + (4 << 30) > before,
        "{before} bytes free before, {after} after"
    );
}
