//! Parts of buffers: what copies, fills and launches work on.

use ptxkit::driver::{
    Attach, Count, DeviceBuffer, Error, LaunchConfig, ManagedBuffer, PinnedBuffer, Stream, copy,
    copy_async,
};

use crate::kernels::VECADD;
use crate::support::{alone, context, kernel};

#[test]
fn parts_are_those_of_slices_of_the_host() {
    let context = context();
    let numbers: Vec<u32> = (0..10).collect();
    let buffer = DeviceBuffer::from_slice(&context, &numbers).unwrap();
    let all = buffer.all();
    assert_eq!(
        (all.len(), all.bytes(), all.address()),
        (10, 40, buffer.address())
    );
    assert_eq!(all.slice(2..=4).unwrap().to_vec().unwrap(), [2, 3, 4]);
    let part = buffer.slice(3..9).unwrap();
    assert_eq!(part.slice(..2).unwrap().to_vec().unwrap(), [3, 4]);
    let (left, right) = part.split_at(1).unwrap();
    assert_eq!((left.to_vec().unwrap(), right.len()), (vec![3], 5));
    assert_eq!(right.address(), buffer.address() + 16);
    let chunks: Vec<_> = part
        .chunks(4)
        .map(|chunk| chunk.to_vec().unwrap())
        .collect();
    assert_eq!(chunks, [vec![3, 4, 5, 6], vec![7, 8]]);
    assert_eq!(part.chunks(0).count(), 6);
    assert!(part.split_at(6).unwrap().1.is_empty());
    for error in [
        part.slice(..7).map(|_| ()),
        part.slice(7..).map(|_| ()),
        part.slice(usize::MAX..).map(|_| ()),
        part.split_at(7).map(|_| ()),
        buffer.read_at(usize::MAX, &mut [0]),
    ] {
        assert!(matches!(error, Err(Error::Length { .. })), "{error:?}");
    }
}

#[test]
fn casts_keep_size_and_alignment() {
    let context = context();
    let mut bytes = DeviceBuffer::from_slice(&context, &[1_u8, 0, 0, 0, 2, 0, 0, 0, 3]).unwrap();
    let words = bytes.slice(..8).unwrap();
    let words = words.cast::<u32>().unwrap();
    assert_eq!(words.to_vec().unwrap(), [1, 2]);
    assert_eq!(
        words.cast::<[u16; 2]>().unwrap().to_vec().unwrap(),
        [[1, 0], [2, 0]]
    );
    for (range, what) in [(0..9, "a byte over"), (1..9, "not aligned")] {
        let part = bytes.slice(range).unwrap();
        let error = part.cast::<u32>().map(|_| ());
        assert!(
            matches!(
                error,
                Err(Error::Cast {
                    size: 4,
                    align: 4,
                    ..
                })
            ),
            "{what}: {error:?}"
        );
    }
    assert!(bytes.all().cast::<[u8; 0]>().is_err());
    let mut end = bytes.slice_mut(4..8).unwrap();
    end.cast_mut::<u32>().unwrap().fill(0x0605_0403).unwrap();
    assert_eq!(bytes.to_vec().unwrap(), [1, 0, 0, 0, 3, 4, 5, 6, 3]);
}

#[test]
fn copies_and_fills_stay_within_their_part() {
    alone();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let mut buffer = DeviceBuffer::from_slice(&context, &[0_u32, 1, 2, 3, 4, 5]).unwrap();
    let (mut left, mut right) = buffer.all_mut().split_at_mut(3).unwrap();
    left.slice_mut(1..)
        .unwrap()
        .copy_from(&right.slice(..2).unwrap())
        .unwrap();
    right
        .slice_mut(2..)
        .unwrap()
        .fill_async(9, &stream)
        .unwrap();
    left.slice_mut(..1).unwrap().write(&[7]).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [7, 3, 4, 3, 4, 9]);

    for (number, mut chunk) in (10..).zip(buffer.all_mut().chunks_mut(4)) {
        chunk.fill(number).unwrap();
    }
    assert_eq!(buffer.to_vec().unwrap(), [10, 10, 10, 10, 11, 11]);
    let mut part = buffer.slice_mut(1..3).unwrap();
    let error = part.write(&[1, 2, 3]);
    assert!(
        matches!(
            error,
            Err(Error::Length {
                given: 3,
                capacity: 2,
                ..
            })
        ),
        "{error:?}"
    );

    let mut pinned = PinnedBuffer::from_slice(&context, &[20_u32, 21]).unwrap();
    part.write_async(&pinned, &stream).unwrap();
    part.fill_bytes_async(1, &stream).unwrap();
    part.slice_mut(1..).unwrap().fill_bytes(0).unwrap();
    part.read_async(&mut pinned, &stream).unwrap();
    assert_eq!(pinned.to_vec().unwrap(), [0x0101_0101, 0]);

    // Between kinds of memory.
    let managed = ManagedBuffer::from_slice(&context, &[30_u32, 31], Attach::Global).unwrap();
    copy(&mut part, &managed).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&context, 2).unwrap();
    copy_async(&mut other, &part, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(other.to_vec().unwrap(), [30, 31]);
    assert_eq!(buffer.to_vec().unwrap(), [10, 30, 31, 10, 11, 11]);
}

#[test]
fn a_kernel_writes_one_part_and_reads_others_of_one_buffer() {
    let (context, stream, vecadd) = kernel(VECADD, "vecadd");
    // SAFETY: `vecadd(a, b, sum, n)` stays below `n`.
    let typed = unsafe {
        vecadd
            .clone()
            .typed::<(*const f32, *const f32, *mut f32, Count<u32>)>()
    };
    let mut buffer = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0, 10.0, 20.0, 0.0, 0.0]);
    let (inputs, mut sums) = buffer.as_mut().unwrap().all_mut().split_at_mut(4).unwrap();
    let (a, b) = inputs.split_at(2).unwrap();
    let config = LaunchConfig::for_elements(2, 32);
    typed
        .unwrap()
        .launch(config, &stream, (&a, &b, &mut sums, 2))
        .unwrap();
    assert_eq!(sums.to_vec().unwrap(), [11.0, 22.0]);
    // SAFETY: each part has two elements.
    unsafe { vecadd.launch(config, &stream, (&a, &a, &mut sums, 2_u32)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sums.to_vec().unwrap(), [2.0, 4.0]);
}
