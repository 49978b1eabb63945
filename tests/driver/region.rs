//! Rectangles and boxes, between memory of all kinds.

use ptxkit::driver::{
    Attach, Context, DeviceBuffer, Error, GrowableBuffer, ManagedBuffer, PinnedBuffer,
    PitchedBuffer, Rows, RowsMut, Stream, copy, copy_async,
};

use crate::support::{alone, context};

/// 5 rows of 7 values that differ.
fn picture() -> Vec<u32> {
    (0..35).map(|n| 100 + n).collect()
}

/// What a copy of a 3 x 2 rectangle from (2, 1) to (4, 3) leaves.
fn expected() -> Vec<u32> {
    let (from, mut to) = (picture(), vec![0; 35]);
    for y in 0..2 {
        for x in 0..3 {
            to[(3 + y) * 7 + 4 + x] = from[(1 + y) * 7 + 2 + x];
        }
    }
    to
}

const FROM: [usize; 3] = [2, 1, 0];
const TO: [usize; 3] = [4, 3, 0];
const EXTENT: [usize; 3] = [3, 2, 1];

/// Copies the rectangle, in a stream where there is one.
fn copy_rows(to: RowsMut<'_, u32>, from: Rows<'_, u32>, stream: Option<&Stream>) {
    let (to, from) = (to.at(TO), from.at(FROM));
    match stream {
        Some(stream) => to.copy_from_async(from, EXTENT, stream).unwrap(),
        None => to.copy_from(from, EXTENT).unwrap(),
    }
}

#[test]
fn rectangles_go_from_all_memory_to_all_memory() {
    let context = context();
    let own = Stream::non_blocking(&context).unwrap();
    let device = DeviceBuffer::from_slice(&context, &picture()).unwrap();
    let pinned = PinnedBuffer::from_slice(&context, &picture()).unwrap();
    let managed = ManagedBuffer::from_slice(&context, &picture(), Attach::Global).unwrap();
    let mut pitched = PitchedBuffer::new(&context, 7, 5).unwrap();
    pitched.write(&picture()).unwrap();
    for stream in [None, Some(&own)] {
        for source in 0..4 {
            let from = || match source {
                0 => device.rows(7).unwrap(),
                1 => pinned.rows(7).unwrap(),
                2 => managed.rows(7).unwrap(),
                _ => pitched.rows(),
            };
            let mut to_device = DeviceBuffer::<u32>::zeroed(&context, 35).unwrap();
            let mut to_pinned = PinnedBuffer::<u32>::zeroed(&context, 35).unwrap();
            let mut to_managed =
                ManagedBuffer::<u32>::zeroed(&context, 35, Attach::Global).unwrap();
            let mut to_pitched = PitchedBuffer::<u32>::new(&context, 7, 5).unwrap();
            to_pitched.fill(0).unwrap();
            context.synchronize().unwrap();
            copy_rows(to_device.rows_mut(7).unwrap(), from(), stream);
            copy_rows(to_pinned.rows_mut(7).unwrap(), from(), stream);
            copy_rows(to_managed.rows_mut(7).unwrap(), from(), stream);
            copy_rows(to_pitched.rows_mut(), from(), stream);
            own.synchronize().unwrap();
            let at = format!("from {source}, {stream:?}");
            assert_eq!(to_device.to_vec().unwrap(), expected(), "{at}");
            assert_eq!(to_pinned.to_vec().unwrap(), expected(), "{at}");
            assert_eq!(to_managed.to_vec().unwrap(), expected(), "{at}");
            assert_eq!(to_pitched.to_vec().unwrap(), expected(), "{at}");
        }
    }
}

#[test]
fn rectangles_of_the_programs_own_memory() {
    let context = context();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 35).unwrap();
    let picture = picture();
    let from = Rows::of_slice(&picture, 7).unwrap();
    copy_rows(buffer.rows_mut(7).unwrap(), from, None);
    assert_eq!(buffer.to_vec().unwrap(), expected());

    let mut back = vec![0; 35];
    buffer.write(&picture).unwrap();
    let to = RowsMut::of_slice(&mut back, 7).unwrap();
    copy_rows(to, buffer.rows(7).unwrap(), None);
    assert_eq!(back, expected());

    // Not in a stream's order, and not without the driver.
    let stream = Stream::new(&context).unwrap();
    let from = Rows::of_slice(&picture, 7).unwrap();
    let to = buffer.rows_mut(7).unwrap();
    assert!(matches!(
        to.copy_from_async(from, EXTENT, &stream),
        Err(Error::Pageable)
    ));
    let to = RowsMut::of_slice(&mut back, 7).unwrap();
    let from = Rows::of_slice(&picture, 7).unwrap();
    assert!(matches!(to.copy_from(from, EXTENT), Err(Error::Pageable)));
}

#[test]
fn boxes_with_planes() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    // 4 planes of 3 rows of 5.
    let values: Vec<u16> = (0..60).collect();
    let source = DeviceBuffer::from_slice(&context, &values).unwrap();
    let mut pitched = PitchedBuffer::<u16>::with_planes(&context, 6, 4, 3).unwrap();
    pitched.fill(999).unwrap();
    let from = source.rows(5).unwrap().planes(3).unwrap().at([1, 1, 1]);
    let to = pitched.rows_mut().at([2, 0, 1]);
    to.copy_from(from, [4, 2, 2]).unwrap();
    let mut pinned = PinnedBuffer::<u16>::zeroed(&context, 72).unwrap();
    let to = pinned.rows_mut(6).unwrap().planes(4).unwrap();
    to.copy_from_async(pitched.rows(), [6, 4, 3], &stream)
        .unwrap();
    let mut expected = vec![999; 72];
    for z in 0..2 {
        for y in 0..2 {
            for x in 0..4 {
                let value = values[((z + 1) * 3 + y + 1) * 5 + x + 1];
                expected[((z + 1) * 4 + y) * 6 + x + 2] = value;
            }
        }
    }
    assert_eq!(pinned.to_vec().unwrap(), expected);
    assert_eq!(pitched.to_vec().unwrap(), expected);
}

#[test]
fn fills_of_rectangles_of_every_width() {
    fn check<T: ptxkit::driver::Pod + PartialEq + std::fmt::Debug>(zero: T, value: T) {
        let context = context();
        let stream = Stream::non_blocking(&context).unwrap();
        let mut pitched = PitchedBuffer::<T>::with_planes(&context, 5, 4, 2).unwrap();
        pitched.fill(zero).unwrap();
        let mut linear = DeviceBuffer::<T>::zeroed(&context, 40).unwrap();
        context.synchronize().unwrap();
        let corner = pitched.rows_mut().at([1, 2, 0]);
        corner.fill(value, [3, 2, 2]).unwrap();
        let corner = linear.rows_mut(5).unwrap().planes(4).unwrap().at([1, 2, 0]);
        corner.fill_async(value, [3, 2, 2], &stream).unwrap();
        stream.synchronize().unwrap();
        let is_set = |at: usize| (1..4).contains(&(at % 5)) && at / 5 % 4 >= 2;
        let expected: Vec<T> = (0..40)
            .map(|at| if is_set(at) { value } else { zero })
            .collect();
        assert_eq!(pitched.to_vec().unwrap(), expected);
        assert_eq!(linear.to_vec().unwrap(), expected);
    }
    check(0_u8, 0xAB);
    check(0_i16, -2);
    check(0.0_f32, 1.5);

    let context = context();
    let mut wide = DeviceBuffer::<u64>::zeroed(&context, 4).unwrap();
    let error = wide.rows_mut(2).unwrap().fill(1, [2, 2, 1]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Length {
                given: 8,
                capacity: 4,
                ..
            }
        ),
        "{error}"
    );
    let stream = Stream::new(&context).unwrap();
    assert!(wide.fill_async(1, &stream).is_err());
}

#[test]
fn linear_fills_in_stream_order() {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut bytes = DeviceBuffer::<u8>::zeroed(&context, 9).unwrap();
    let mut shorts = DeviceBuffer::<u16>::zeroed(&context, 9).unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&context, 9).unwrap();
    context.synchronize().unwrap();
    bytes.fill_async(0xCD, &stream).unwrap();
    shorts.fill_async(0xCDEF, &stream).unwrap();
    words.fill_async(0x89AB_CDEF, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(bytes.to_vec().unwrap(), [0xCD; 9]);
    assert_eq!(shorts.to_vec().unwrap(), [0xCDEF; 9]);
    assert_eq!(words.to_vec().unwrap(), [0x89AB_CDEF; 9]);
}

#[test]
fn misaligned_fills_are_the_drivers_errors() {
    let context = context();
    let buffer = DeviceBuffer::<u8>::zeroed(&context, 64).unwrap();
    let api = context.bind().unwrap();
    let at = buffer.address();
    // SAFETY: within the buffer; the driver refuses addresses between its words.
    unsafe {
        assert!(api.cuMemsetD16_v2(at + 1, 7, 4).is_err());
        assert!(api.cuMemsetD32_v2(at + 2, 7, 4).is_err());
        assert!(api.cuMemsetD2D32_v2(at, 6, 7, 1, 2).is_err());
    }
    assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
}

#[test]
fn boxes_stay_within_their_memory() {
    let context = context();
    let source = DeviceBuffer::from_slice(&context, &picture()).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 35).unwrap();
    for (origin, extent, wrong) in [
        ([5, 0, 0], [3, 1, 1], 0),
        ([0, 4, 0], [1, 2, 1], 1),
        ([0, 0, 1], [1, 1, 1], 2),
        ([0, 0, 0], [8, 1, 1], 0),
        ([usize::MAX, 0, 0], [2, 1, 1], 0),
    ] {
        let rows = source.rows(7).unwrap().at(origin);
        let result = to.rows_mut(7).unwrap().copy_from(rows, extent);
        assert!(
            matches!(result, Err(Error::Region { axis, capacity, .. })
                if axis == wrong && capacity == [7, 5, 1][axis]),
            "{origin:?} {extent:?}: {result:?}"
        );
        let rows = to.rows_mut(7).unwrap().at(origin);
        assert!(rows.copy_from(source.rows(7).unwrap(), extent).is_err());
        assert!(to.rows_mut(7).unwrap().at(origin).fill(1, extent).is_err());
    }
    assert!(source.rows(0).is_err());
    assert!(source.rows(7).unwrap().planes(6).is_err());
    to.rows_mut(7)
        .unwrap()
        .copy_from(source.rows(7).unwrap(), [0, 5, 1])
        .unwrap();
    assert_eq!(to.to_vec().unwrap(), [0; 35]);
}

#[test]
fn unified_copies_of_every_direction() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut device = DeviceBuffer::<u32>::zeroed(&context, 35).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 35).unwrap();
    let mut managed = ManagedBuffer::from_slice(&context, &picture(), Attach::Global).unwrap();
    copy(&mut device, &managed).unwrap();
    managed.write(&[0; 35]).unwrap();
    copy(&mut pinned, &device).unwrap();
    context.synchronize().unwrap();
    copy_async(&mut managed, &pinned, &stream).unwrap();
    assert_eq!(managed.to_vec().unwrap(), picture());
    let mut last = PinnedBuffer::<u32>::zeroed(&context, 35).unwrap();
    copy_async(&mut last, &managed, &stream).unwrap();
    assert_eq!(last.to_vec().unwrap(), picture());

    let short = DeviceBuffer::<u32>::zeroed(&context, 34).unwrap();
    assert!(matches!(
        copy(&mut managed, &short),
        Err(Error::Length {
            given: 34,
            capacity: 35,
            ..
        })
    ));
    let other = Context::create(context.device(), 0).unwrap();
    let theirs = DeviceBuffer::<u32>::zeroed(&other, 35).unwrap();
    assert!(matches!(
        copy(&mut device, &theirs),
        Err(Error::DifferentContexts { .. })
    ));
    // Managed memory has no side to take.
    copy(&mut managed, &theirs).unwrap();
    assert_eq!(managed.to_vec().unwrap(), [0; 35]);
}

#[test]
fn a_copy_is_as_long_as_the_arrays() {
    let context = context();
    let Ok(mut grown) = GrowableBuffer::<u32>::with_capacity(&context, 1 << 16) else {
        return; // a device without virtual memory
    };
    // There is more memory behind it, and much less behind the other.
    grown.extend(&[1, 2, 3]).unwrap();
    let pinned = PinnedBuffer::from_slice(&context, &[7_u32, 8, 9]).unwrap();
    copy(grown.buffer_mut(), &pinned).unwrap();
    assert_eq!(grown.to_vec().unwrap(), [7, 8, 9]);
    grown.resize(4).unwrap();
    grown.buffer_mut().write(&[4, 5, 6, 10]).unwrap();
    grown.resize(3).unwrap();
    copy(grown.buffer_mut(), &pinned).unwrap();
    grown.resize(4).unwrap();
    assert_eq!(grown.to_vec().unwrap(), [7, 8, 9, 10]);
}
