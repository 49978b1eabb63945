//! Copies between device memory and the program's in the order of a stream, and pinned memory as
//! slices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ptxkit::driver::{
    CaptureMode, DeviceBuffer, Error, Graph, PinnedBuffer, RegisterFlags, Stream, copy, copy_async,
};

use crate::support::{alone, context};

#[test]
fn host_copies_are_in_the_order_of_their_stream() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let flag = called.clone();
    stream
        .call(move || {
            std::thread::sleep(Duration::from_millis(50));
            flag.store(true, Ordering::SeqCst);
        })
        .unwrap();
    let mut part = buffer.slice_mut(1..3).unwrap();
    part.copy_from_host(&[7, 8], &stream).unwrap();
    assert!(called.load(Ordering::SeqCst));
    assert_eq!(part.to_host(&stream).unwrap(), [7, 8]);
    let mut copy = buffer.try_clone(&stream).unwrap();
    copy.fill_async(0, &stream).unwrap();
    assert_eq!(buffer.to_host(&stream).unwrap(), [1, 7, 8, 4]);
    assert_eq!(copy.to_vec().unwrap(), [0; 4]);
    assert_eq!(
        DeviceBuffer::<u64>::zeroed_async(&stream, 3)
            .unwrap()
            .to_host(&stream)
            .unwrap(),
        [0; 3]
    );
    let short = buffer.copy_to_host(&mut [0; 3], &stream);
    assert!(matches!(short, Err(Error::Length { .. })), "{short:?}");
    let empty = DeviceBuffer::<u32>::from_host(&stream, &[]).unwrap();
    assert!(empty.to_host(&stream).unwrap().is_empty());
}

#[test]
fn a_capture_takes_no_memory_of_the_program() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    context.synchronize().unwrap();
    Graph::capture(&stream, CaptureMode::Relaxed, |stream| {
        let written = buffer.copy_from_host(&[1; 4], stream);
        assert!(
            matches!(written, Err(Error::Captured { .. })),
            "{written:?}"
        );
        let read = buffer.to_host(stream);
        assert!(matches!(read, Err(Error::Captured { .. })), "{read:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn slices_of_pinned_memory_wait_and_keep_work_away() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let from = DeviceBuffer::from_slice(&context, &[3_u32, 1, 2]).unwrap();
    let mut pinned = PinnedBuffer::zeroed(&context, 3).unwrap();
    stream
        .call(|| std::thread::sleep(Duration::from_millis(50)))
        .unwrap();
    from.read_async(&mut pinned, &stream).unwrap();
    pinned.as_mut_slice().unwrap().sort_unstable();
    let exec = Graph::capture(&stream, CaptureMode::Relaxed, |stream| {
        from.read_async(&mut pinned, stream)
    })
    .unwrap()
    .instantiate()
    .unwrap();
    let slice = pinned.as_slice().unwrap();
    assert_eq!(*slice, [1, 2, 3]);
    let launched = exec.launch(&stream);
    assert!(matches!(launched, Err(Error::HostSlice)), "{launched:?}");
    let again = pinned.as_slice().unwrap();
    drop(slice);
    assert!(exec.launch(&stream).is_err());
    drop(again);
    exec.launch(&stream).unwrap();
    assert_eq!(*pinned.as_slice().unwrap(), [3, 1, 2]);
    let mut vector = PinnedBuffer::from_vec(&context, vec![1_u16, 2], RegisterFlags::default());
    vector.as_mut().unwrap().as_mut_slice().unwrap()[0] = 9;
    assert_eq!(vector.unwrap().into_vec().unwrap(), [9, 2]);
    let empty = PinnedBuffer::<u64>::zeroed(&context, 0).unwrap();
    assert!(empty.as_slice().unwrap().is_empty());
}

/// A buffer that is leaked would leave a slice of memory that its owner has again.
#[test]
fn borrowed_memory_has_no_slices() {
    let context = context();
    let mut values = [1_u32, 2];
    let flags = RegisterFlags::default();
    PinnedBuffer::borrowed(&context, &mut values, flags, |pinned| {
        assert!(matches!(pinned.as_slice(), Err(Error::HostSlice)));
    })
    .unwrap();
}

#[test]
fn parts_of_pinned_memory_are_copied_in_two_streams() {
    alone();
    let context = context();
    let streams = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let numbers: Vec<u32> = (0..1000).collect();
    let from = PinnedBuffer::from_slice(&context, &numbers).unwrap();
    let mut to = PinnedBuffer::<u32>::zeroed(&context, 1000).unwrap();
    let mut buffer = DeviceBuffer::<u32>::new(&context, 1000).unwrap();
    let parts = from.chunks(150).zip(to.chunks_mut(150));
    let mut all = buffer.all_mut();
    let parts = parts.zip(all.chunks_mut(150));
    for (((from, mut to), mut part), stream) in parts.zip(streams.iter().cycle()) {
        assert_eq!(from.len(), part.len());
        copy_async(&mut part, &from, stream).unwrap();
        copy_async(&mut to, &part, stream).unwrap();
    }
    assert_eq!(*to.as_slice().unwrap(), numbers);
    let (mut end, all) = (to.part_mut(998..).unwrap(), buffer.all());
    copy(&mut end, &all.slice(..2).unwrap()).unwrap();
    assert_eq!(to.to_vec().unwrap()[997..], [997, 0, 1]);
    assert!(matches!(from.part(999..1001), Err(Error::Length { .. })));
    let (short, mut long) = (from.part(..3).unwrap(), to.part_mut(..4).unwrap());
    assert!(copy_async(&mut long, &short, &streams[0]).is_err());
    assert!(from.part(7..7).unwrap().is_empty());
}
