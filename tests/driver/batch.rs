use ptxkit::driver::{
    Attach, BoxBatch, CaptureMode, Context, CopyBatch, DeviceAttribute, DeviceBuffer, Error, Graph,
    Location, ManagedBatch, ManagedBuffer, PinnedBuffer, RowsMut, Stream,
};

use crate::support::{alone, context, device};

/// Whether the driver has them, which came with CUDA 12.8.
fn are_there() -> bool {
    let api = device().driver().api();
    api.cuMemcpyBatchAsync.is_some() || api.cuMemcpyBatchAsync_v2.is_some()
}

#[test]
fn copies_between_memory_of_all_kinds() {
    if !are_there() {
        return;
    }
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let numbers: Vec<u32> = (0..5000).collect();
    let pinned = PinnedBuffer::from_slice(&context, &numbers).unwrap();
    let bytes = DeviceBuffer::from_slice(&context, &[7_u8; 13]).unwrap();
    let shared = ManagedBuffer::from_slice(&context, &[1.5_f64, 2.5], Attach::Global).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 5000).unwrap();
    let mut also = ManagedBuffer::<u32>::zeroed(&context, 5000, Attach::Global).unwrap();
    let mut other = PinnedBuffer::<u8>::zeroed(&context, 13).unwrap();
    let mut wide = DeviceBuffer::<f64>::zeroed(&context, 2).unwrap();
    let mut nothing = DeviceBuffer::<f64>::zeroed(&context, 0).unwrap();
    let none = DeviceBuffer::<f64>::zeroed(&context, 0).unwrap();
    context.synchronize().unwrap();

    let mut batch = CopyBatch::new();
    batch.copy(&mut to, &pinned).unwrap();
    batch.copy(&mut also, &pinned).unwrap();
    batch.copy(&mut other, &bytes).unwrap();
    batch.copy(&mut wide, &shared).unwrap();
    batch.copy(&mut nothing, &none).unwrap();
    assert_eq!(batch.len(), 4);
    batch.queue(&stream).unwrap();
    // Whatever the host reads or frees waits for the stream.
    drop((pinned, bytes));
    assert_eq!(other.to_vec().unwrap(), [7; 13]);
    assert_eq!(also.to_vec().unwrap(), numbers);
    stream.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), numbers);
    assert_eq!(wide.to_vec().unwrap(), [1.5, 2.5]);

    let empty = CopyBatch::new();
    assert!(empty.is_empty());
    empty.queue(&stream).unwrap();
}

#[test]
fn a_batch_comes_after_the_work_before_it() {
    alone();
    if !are_there() {
        return;
    }
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut first = DeviceBuffer::<u32>::new_async(&stream, 100).unwrap();
    let mut second = DeviceBuffer::<u32>::new_async(&stream, 100).unwrap();
    let mut last = PinnedBuffer::<u32>::zeroed(&context, 100).unwrap();
    first.fill_async(8, &stream).unwrap();
    let mut batch = CopyBatch::new();
    batch.copy(&mut second, &first).unwrap();
    batch.queue(&stream).unwrap();
    second.read_async(&mut last, &stream).unwrap();
    drop((first, second));
    assert_eq!(last.to_vec().unwrap(), [8; 100]);
}

/// A batch of one copy.
fn one(to: &mut DeviceBuffer<u32>, from: &DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
    let mut batch = CopyBatch::new();
    batch.copy(to, from)?;
    batch.queue(stream)
}

#[test]
fn batches_that_cannot_be() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let long = DeviceBuffer::<u32>::zeroed(&context, 5).unwrap();
    let mut short = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    let error = CopyBatch::new().copy(&mut short, &long).map(drop);
    assert!(
        matches!(
            error,
            Err(Error::Length {
                given: 5,
                capacity: 4,
                ..
            })
        ),
        "{error:?}"
    );

    let foreign = Stream::new(&Context::create(&device(), 0).unwrap()).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&context, 5).unwrap();
    let refused = one(&mut target, &long, &foreign);
    assert!(
        matches!(refused, Err(Error::DifferentContexts { .. })),
        "{refused:?}"
    );
    let captured = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        one(&mut target, &long, stream)
    });
    assert!(
        matches!(captured, Err(Error::Captured { .. })),
        "{captured:?}"
    );
}

/// Whether the driver has batches of boxes, which came with CUDA 12.8.
fn has_boxes() -> bool {
    let api = device().driver().api();
    api.cuMemcpy3DBatchAsync.is_some() || api.cuMemcpy3DBatchAsync_v2.is_some()
}

#[test]
fn boxes_between_memory_of_all_kinds() {
    if !has_boxes() {
        return;
    }
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    // Two planes of three rows of four, and a frame around them.
    let numbers: Vec<u32> = (0..24).collect();
    let from = DeviceBuffer::from_slice(&context, &numbers).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 5 * 4 * 3).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 4).unwrap();
    let mut shared = ManagedBuffer::<u32>::zeroed(&context, 24, Attach::Global).unwrap();
    context.synchronize().unwrap();

    let mut batch = BoxBatch::new();
    let planes = || from.rows(4).unwrap().planes(3).unwrap();
    let target = to.rows_mut(5).unwrap().planes(4).unwrap();
    batch
        .copy(target.at([1, 1, 1]), planes().at([1, 1, 0]), [3, 2, 2])
        .unwrap();
    batch
        .copy(
            pinned.rows_mut(2).unwrap(),
            planes().at([2, 1, 1]),
            [2, 2, 1],
        )
        .unwrap();
    batch
        .copy(
            shared.rows_mut(4).unwrap(),
            from.rows(4).unwrap(),
            [4, 6, 1],
        )
        .unwrap();
    assert_eq!(batch.len(), 3);
    batch.queue(&stream).unwrap();
    assert_eq!(pinned.to_vec().unwrap(), [18, 19, 22, 23]);
    assert_eq!(shared.to_vec().unwrap(), numbers);
    let to = to.to_vec().unwrap();
    let mut expected = vec![0; 60];
    for (z, y, x) in (0..2).flat_map(|z| (0..2).flat_map(move |y| (0..3).map(move |x| (z, y, x)))) {
        expected[(z + 1) * 20 + (y + 1) * 5 + x + 1] = (z * 12 + (y + 1) * 4 + x + 1) as u32;
    }
    assert_eq!(to, expected);
}

#[test]
fn boxes_that_do_not_fit_are_refused() {
    let context = context();
    let from = DeviceBuffer::<u32>::zeroed(&context, 12).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 12).unwrap();
    let mut own = [0_u32; 12];
    let mut batch = BoxBatch::new();
    let large = batch.copy(to.rows_mut(4).unwrap(), from.rows(4).unwrap(), [4, 4, 1]);
    assert!(matches!(large, Err(Error::Region { axis: 1, .. })));
    let mut batch = BoxBatch::new();
    let pageable = RowsMut::of_slice(&mut own, 4).unwrap();
    let pageable = batch.copy(pageable, from.rows(4).unwrap(), [4, 3, 1]);
    assert!(matches!(pageable, Err(Error::Pageable)));
    let mut batch = BoxBatch::new();
    batch
        .copy(to.rows_mut(4).unwrap(), from.rows(4).unwrap(), [0, 3, 1])
        .unwrap();
    // Nothing of a row that is longer than all memory.
    let mut other = DeviceBuffer::<u32>::zeroed(&context, 12).unwrap();
    let far = from.rows(usize::MAX).unwrap().at([usize::MAX / 2, 0, 0]);
    batch
        .copy(other.rows_mut(4).unwrap(), far, [0, 0, 0])
        .unwrap();
    assert!(batch.is_empty());
    batch
        .queue(&Stream::non_blocking(&context).unwrap())
        .unwrap();
}

#[test]
fn managed_memory_is_moved_and_given_up_in_batches() {
    alone();
    let api = device().driver().api();
    let concurrent = device().attribute(DeviceAttribute::CONCURRENT_MANAGED_ACCESS);
    if api.cuMemPrefetchBatchAsync.is_none() || !concurrent.unwrap() {
        return; // it came with CUDA 13.0
    }
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let here = Location::from(&device());
    const MANY: usize = 1 << 20;
    let managed = || ManagedBuffer::<u32>::zeroed(&context, MANY, Attach::Global).unwrap();
    let [mut kept, mut given, mut both] = [managed(), managed(), managed()];
    kept.write(&vec![7; MANY]).unwrap();

    let mut batch = ManagedBatch::new();
    batch.prefetch(&kept, here);
    batch.discard(&mut given);
    batch.discard_and_prefetch(&mut both, here);
    assert_eq!(batch.len(), 3);
    batch.queue(&stream).unwrap();
    assert_eq!(kept.to_vec().unwrap(), vec![7; MANY]);
    assert_eq!(kept.last_prefetch().unwrap(), Some(here));
    assert_eq!(both.last_prefetch().unwrap(), Some(here));
    // What is written after that is there.
    given.write(&vec![8; MANY]).unwrap();
    assert_eq!(given.to_vec().unwrap(), vec![8; MANY]);

    let nothing = ManagedBuffer::<u32>::zeroed(&context, 0, Attach::Global).unwrap();
    let mut batch = ManagedBatch::new();
    batch.prefetch(&nothing, here);
    assert!(batch.is_empty());
    batch.queue(&stream).unwrap();

    // Of several, each goes where it is to go.
    let mut batch = ManagedBatch::new();
    batch.prefetch(&kept, Location::Host);
    batch.prefetch(&given, here);
    batch.queue(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(kept.last_prefetch().unwrap(), Some(Location::Host));
    assert_eq!(given.last_prefetch().unwrap(), Some(here));
}
