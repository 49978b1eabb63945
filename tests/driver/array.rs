//! Arrays of every shape, and the copies to and from them.

use ptxkit::driver::{
    Array, ArrayFlags, ArrayFormat, ArrayShape, CaptureMode, Context, CudaError, DeviceBuffer,
    Error, F16, Float4, Graph, MipmappedArray, PinnedBuffer, PitchedBuffer, Stream, Texel,
};

use crate::support::{alone, context};

const SHAPES: [ArrayShape; 7] = [
    ArrayShape::D1 { width: 37 },
    ArrayShape::D2 {
        width: 13,
        height: 5,
    },
    ArrayShape::D3 {
        width: 7,
        height: 3,
        depth: 4,
    },
    ArrayShape::D1Layered {
        width: 9,
        layers: 3,
    },
    ArrayShape::D2Layered {
        width: 6,
        height: 5,
        layers: 2,
    },
    ArrayShape::Cubemap { side: 4 },
    ArrayShape::CubemapLayered { side: 3, cubes: 2 },
];

fn counted(len: usize) -> Vec<u32> {
    (0..len as u32).map(|n| n * n + 7).collect()
}

#[test]
fn arrays_of_every_shape_hold_what_is_written() {
    let context = context();
    for shape in SHAPES {
        let texels = counted(shape.texels());
        let array = Array::from_slice(&context, shape, &texels).unwrap();
        assert_eq!(array.len(), texels.len());
        assert_eq!(array.to_vec().unwrap(), texels, "{shape:?}");
    }
}

#[test]
fn the_driver_says_what_an_array_is() {
    let context = context();
    for shape in SHAPES {
        let flags = ArrayFlags::default().surface();
        let array = Array::<[i16; 2]>::with_flags(&context, shape, flags).unwrap();
        let found = array.descriptor().unwrap();
        assert_eq!(found.shape, shape);
        assert_eq!((found.format, found.channels), (Some(ArrayFormat::I16), 2));
        assert_eq!(found.flags, flags);
    }
    let shape = SHAPES[1];
    let gather = ArrayFlags::default().gather();
    let array = Array::<f32>::with_flags(&context, shape, gather).unwrap();
    assert!(array.descriptor().unwrap().flags.has_gather());
    let sides = |shape| {
        let array = Array::<u8>::new(&context, shape).unwrap();
        array.width_and_height().unwrap()
    };
    assert_eq!(sides(SHAPES[0]), (37, 0));
    assert_eq!(sides(SHAPES[1]), (13, 5));
}

fn keeps<T: Texel + PartialEq + std::fmt::Debug>(context: &Context, texels: &[T; 6]) {
    let shape = ArrayShape::D2 {
        width: 3,
        height: 2,
    };
    let array = Array::from_slice(context, shape, texels).unwrap();
    assert_eq!(array.to_vec().unwrap(), texels);
    let found = array.descriptor().unwrap();
    assert_eq!(found.format, Some(T::FORMAT));
    assert_eq!(found.channels, T::CHANNELS);
}

#[test]
fn texels_of_every_format() {
    let context = context();
    keeps(&context, &[1_u8, 2, 3, 4, 5, 255]);
    keeps(&context, &[-1_i8, 2, 3, 4, 5, -128]);
    keeps(&context, &[1_u16, 2, 3, 4, 5, 65535]);
    keeps(&context, &[-1_i16, 2, 3, 4, 5, 6]);
    keeps(&context, &[1_u32, 2, 3, 4, 5, u32::MAX]);
    keeps(&context, &[-1_i32, 2, 3, 4, 5, 6]);
    keeps(&context, &[0.5_f32, 2.0, 3.0, 4.0, 5.0, -6.0]);
    keeps(&context, &[1, 2, 3, 4, 5, 0x3C00].map(F16));
    keeps(&context, &[1, 2, 3, 4, 5, 6].map(|n: u8| [n, n + 100]));
    keeps(&context, &[1, 2, 3, 4, 5, 6].map(|n: i32| [n, -n, 0, 9]));
    let floats = |n: i32| Float4::from([n as f32, 0.5, -1.0, 9.0]);
    keeps(&context, &[1, 2, 3, 4, 5, 6].map(floats));
}

#[test]
fn boxes_of_arrays() {
    let context = context();
    let shape = ArrayShape::D3 {
        width: 4,
        height: 3,
        depth: 2,
    };
    let mut texels = counted(24);
    let mut array = Array::from_slice(&context, shape, &texels).unwrap();
    array
        .write_at([1, 1, 1], [2, 2, 1], &[1000, 1001, 1002, 1003])
        .unwrap();
    for (place, value) in [(17, 1000), (18, 1001), (21, 1002), (22, 1003)] {
        texels[place] = value;
    }
    assert_eq!(array.to_vec().unwrap(), texels);
    let mut piece = [0; 4];
    array.read_at([3, 0, 0], [1, 2, 2], &mut piece).unwrap();
    assert_eq!(piece, [texels[3], texels[7], texels[15], texels[19]]);

    let mut row = Array::from_slice(&context, SHAPES[0], &counted(37)).unwrap();
    row.write_at([35, 0, 0], [2, 1, 1], &[1, 2]).unwrap();
    let mut end = [0; 3];
    row.read_at([34, 0, 0], [3, 1, 1], &mut end).unwrap();
    assert_eq!(end, [34 * 34 + 7, 1, 2]);
}

#[test]
fn copies_stay_within_the_array() {
    let context = context();
    let mut array = Array::<u32>::new(&context, SHAPES[1]).unwrap();
    assert!(matches!(
        array.write(&[0; 64]),
        Err(Error::Length {
            given: 64,
            capacity: 65,
            ..
        })
    ));
    assert!(matches!(
        array.read(&mut [0; 66]),
        Err(Error::Length { .. })
    ));
    for (origin, extent, wrong) in [
        ([13, 0, 0], [1, 1, 1], 0),
        ([0, 4, 0], [1, 2, 1], 1),
        ([0, 0, 1], [1, 1, 1], 2),
        ([usize::MAX, 0, 0], [2, 1, 1], 0),
    ] {
        let outside = array.write_at(origin, extent, &[0; 2]);
        assert!(
            matches!(outside, Err(Error::ArrayBox { axis, .. }) if axis == wrong),
            "{outside:?}"
        );
    }
    let short = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
    assert!(matches!(
        array.copy_from_buffer(&short),
        Err(Error::Length { .. })
    ));
    let other = Array::<u32>::new(&context, SHAPES[2]).unwrap();
    assert!(matches!(
        array.copy_from(&other),
        Err(Error::ArrayBox { .. })
    ));
}

#[test]
fn arrays_and_buffers() {
    let context = context();
    for shape in SHAPES {
        let texels = counted(shape.texels());
        let source = DeviceBuffer::from_slice(&context, &texels).unwrap();
        let mut first = Array::new(&context, shape).unwrap();
        first.copy_from_buffer(&source).unwrap();
        let mut second = Array::new(&context, shape).unwrap();
        second.copy_from(&first).unwrap();
        let mut back = DeviceBuffer::zeroed(&context, texels.len()).unwrap();
        second.copy_to_buffer(&mut back).unwrap();
        assert_eq!(back.to_vec().unwrap(), texels, "{shape:?}");
    }
    let shape = SHAPES[1];
    let texels = counted(65);
    let mut rows = PitchedBuffer::new(&context, 13, 5).unwrap();
    rows.write(&texels).unwrap();
    let mut array = Array::new(&context, shape).unwrap();
    array.copy_from_rows(&rows).unwrap();
    assert_eq!(array.to_vec().unwrap(), texels);
    let mut back = PitchedBuffer::new(&context, 13, 5).unwrap();
    array.copy_to_rows(&mut back).unwrap();
    assert_eq!(back.to_vec().unwrap(), texels);
    let narrow = PitchedBuffer::<u32>::new(&context, 12, 5).unwrap();
    assert!(matches!(
        array.copy_from_rows(&narrow),
        Err(Error::ArrayBox { .. })
    ));
}

#[test]
fn copies_in_streams() {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    for shape in SHAPES {
        let texels = counted(shape.texels());
        let from = PinnedBuffer::from_slice(&context, &texels).unwrap();
        let mut to = PinnedBuffer::zeroed(&context, texels.len()).unwrap();
        let mut between = DeviceBuffer::zeroed(&context, texels.len()).unwrap();
        let mut arrays = [(); 3].map(|()| Array::new(&context, shape).unwrap());
        context.synchronize().unwrap();
        let [first, second, third] = &mut arrays;
        first.write_async(&from, &stream).unwrap();
        second.copy_from_async(first, &stream).unwrap();
        second.copy_to_buffer_async(&mut between, &stream).unwrap();
        third.copy_from_buffer_async(&between, &stream).unwrap();
        third.read_async(&mut to, &stream).unwrap();
        assert_eq!(to.to_vec().unwrap(), texels, "{shape:?}");
    }
}

#[test]
fn a_graph_keeps_its_arrays() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let shape = SHAPES[2];
    let texels = counted(shape.texels());
    let source = Array::from_slice(&context, shape, &texels).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&context, texels.len()).unwrap();
    context.synchronize().unwrap();
    let graph = {
        let mut between = Array::new(&context, shape).unwrap();
        let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            between.copy_from_async(&source, stream)?;
            between.copy_to_buffer_async(&mut target, stream)
        });
        graph.unwrap().instantiate().unwrap()
    };
    drop(source);
    assert_eq!(target.to_vec().unwrap(), vec![0; texels.len()]);
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(target.to_vec().unwrap(), texels);
}

#[test]
fn what_no_array_can_be() {
    let context = context();
    let empty = Array::<u8>::new(&context, ArrayShape::D1 { width: 0 });
    assert_eq!(empty.unwrap_err().code(), Some(CudaError::INVALID_VALUE));
    // Nor one that would be another for a driver, to which 0 rows mean one row.
    let shapes = [
        ArrayShape::D2 {
            width: 4,
            height: 0,
        },
        ArrayShape::D3 {
            width: 4,
            height: 4,
            depth: 0,
        },
        ArrayShape::D2Layered {
            width: 4,
            height: 0,
            layers: 2,
        },
    ];
    for shape in shapes {
        let flat = Array::<f32>::new(&context, shape).map(drop);
        let error = flat.unwrap_err();
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{shape:?}");
        let levels = MipmappedArray::<f32>::new(&context, shape, 1, ArrayFlags::default());
        levels.map(drop).unwrap_err();
    }
    let flags = ArrayFlags::default().gather();
    let gathered = Array::<f32>::with_flags(&context, SHAPES[2], flags);
    assert_eq!(gathered.unwrap_err().code(), Some(CudaError::INVALID_VALUE));
}

#[test]
fn another_s_array_must_have_the_texels_asked_for() {
    let context = context();
    let array = Array::from_slice(&context, SHAPES[1], &counted(65)).unwrap();
    // SAFETY: the array outlives what borrows it.
    let borrowed = unsafe { Array::<u32>::borrow_raw(&context, array.raw()) }.unwrap();
    assert_eq!(borrowed.shape(), SHAPES[1]);
    assert_eq!(borrowed.to_vec().unwrap(), counted(65));
    drop(borrowed);
    assert_eq!(array.to_vec().unwrap(), counted(65));
    // SAFETY: as above.
    let other = unsafe { Array::<f32>::borrow_raw(&context, array.raw()) };
    assert!(matches!(
        other,
        Err(Error::ArrayFormat {
            found: Some(ArrayFormat::U32),
            channels: 1,
            ..
        })
    ));
}

#[test]
fn levels_are_half_as_large() {
    let context = context();
    for (shape, most) in [
        (ArrayShape::D1 { width: 9 }, 4),
        (SHAPES[1], 4),
        (SHAPES[2], 3),
        (SHAPES[4], 3),
        (SHAPES[5], 3),
    ] {
        assert_eq!(shape.most_levels(), most);
        let array =
            MipmappedArray::<u32>::new(&context, shape, most, ArrayFlags::default()).unwrap();
        let mut levels: Vec<_> = (0..most).map(|n| array.level(n).unwrap()).collect();
        drop(array);
        for (n, level) in levels.iter_mut().enumerate() {
            assert_eq!(level.descriptor().unwrap().shape, level.shape());
            let texels = vec![n as u32 + 1; level.len()];
            level.write(&texels).unwrap();
        }
        for (n, level) in levels.iter().enumerate() {
            let texels = level.to_vec().unwrap();
            assert_eq!(texels, vec![n as u32 + 1; level.len()], "{shape:?}");
        }
    }
    let shape = ArrayShape::D2 {
        width: 13,
        height: 5,
    };
    let level = |n| shape.level(n).extent();
    assert_eq!(
        [level(0), level(1), level(2), level(3), level(40)],
        [[13, 5, 1], [6, 2, 1], [3, 1, 1], [1, 1, 1], [1, 1, 1]]
    );
}

#[test]
fn levels_that_are_not_there() {
    let context = context();
    let flags = ArrayFlags::default();
    let made = |levels| MipmappedArray::<u8>::new(&context, SHAPES[1], levels, flags);
    assert!(matches!(
        made(5).unwrap_err(),
        Error::MipmapLevel {
            given: 5,
            levels: 4,
            ..
        }
    ));
    assert!(matches!(made(0), Err(Error::MipmapLevel { .. })));
    let three = made(3).unwrap();
    assert!(matches!(
        three.level(3),
        Err(Error::MipmapLevel {
            given: 3,
            levels: 3,
            ..
        })
    ));
}
