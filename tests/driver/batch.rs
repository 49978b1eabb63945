use ptxkit::driver::{
    Attach, CaptureMode, Context, CopyBatch, DeviceBuffer, Error, Graph, ManagedBuffer,
    PinnedBuffer, Stream,
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
