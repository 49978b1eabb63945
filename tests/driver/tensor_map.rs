//! Tensor maps: what is refused before the driver sees it, and copies of boxes by them.

use ptxkit::driver::{
    Context, DeviceBuffer, Error, Graph, Im2col, Im2colWide, Kernel, L2Promotion, LaunchConfig,
    Stream, TensorElement, TensorInterleave, TensorMap, TensorMapError, TensorSwizzle, TensorView,
};

use crate::support::{alone, context, is_gpu, kernel};

/// `double(from, to)` copies a tile of 8 rows of 16 numbers, doubled; a block for each tile.
const DOUBLE: &str = include_str!("tensor_map.ptx");

const TILE: [u32; 2] = [16, 8];

fn double() -> (Context, Stream, Kernel) {
    kernel(DOUBLE, "double")
}

fn tiles(columns: u64, rows: u64) -> LaunchConfig {
    let grid = [columns.div_ceil(16) as u32, rows.div_ceil(8) as u32, 1];
    LaunchConfig::new(grid, [128, 1, 1])
}

/// Whether the device copies boxes: sm_90 and later, and the CPU device.
fn has_tensor_maps(context: &Context) -> bool {
    let (major, _) = context.device().compute_capability().unwrap();
    !is_gpu() || major >= 9
}

fn matrix(context: &Context, buffer: &DeviceBuffer<f32>, rows: u64) -> TensorMap {
    let columns = buffer.len() as u64 / rows;
    assert_eq!(buffer.context(), context);
    let view = TensorView::new(&buffer.all(), &[columns, rows]);
    view.tiles(&TILE).unwrap()
}

#[test]
fn a_kernel_copies_boxes_by_maps() {
    let (context, stream, double) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    // Neither is a multiple of the tile.
    let (columns, rows) = (36, 21);
    let numbers: Vec<f32> = (0..columns * rows).map(|n| n as f32).collect();
    let from = DeviceBuffer::from_slice(&context, &numbers).unwrap();
    let to = DeviceBuffer::<f32>::zeroed(&context, numbers.len()).unwrap();
    let maps = [matrix(&context, &from, rows), matrix(&context, &to, rows)];
    let config = tiles(columns, rows);
    unsafe { double.launch(config, &stream, (&maps[0], &maps[1])) }.unwrap();
    stream.synchronize().unwrap();
    let doubled: Vec<f32> = numbers.iter().map(|n| 2.0 * n).collect();
    assert_eq!(to.to_vec().unwrap(), doubled);
    assert_eq!(maps[0].bytes(), 4 * numbers.len());
    assert_eq!(maps[0].element(), TensorElement::F32);
}

/// The map is declared, and launches need no `unsafe`; work of other streams is ordered.
#[test]
fn maps_are_typed_parameters() {
    let (context, _, double) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    // SAFETY: it copies from the first and to the second.
    let double = unsafe { double.typed::<(&TensorMap, &mut TensorMap)>() }.unwrap();
    let streams = [(); 3].map(|()| Stream::non_blocking(&context).unwrap());
    let numbers: Vec<f32> = (0..64 * 64).map(|n| n as f32).collect();
    let mut buffers = vec![DeviceBuffer::from_slice(&context, &numbers).unwrap()];
    for _ in 0..3 {
        buffers.push(DeviceBuffer::zeroed(&context, numbers.len()).unwrap());
    }
    let mut maps: Vec<TensorMap> = buffers.iter().map(|b| matrix(&context, b, 64)).collect();
    for (n, stream) in streams.iter().enumerate() {
        let (before, after) = maps.split_at_mut(n + 1);
        double
            .launch(tiles(64, 64), stream, (&before[n], &mut after[0]))
            .unwrap();
    }
    let eightfold: Vec<f32> = numbers.iter().map(|n| 8.0 * n).collect();
    assert_eq!(buffers[3].to_vec().unwrap(), eightfold);
}

/// A map shares its memory with the buffer, so that no borrow excludes another use of it.
#[test]
fn a_typed_launch_refuses_two_maps_of_memory_that_it_writes() {
    let (context, stream, double) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    // SAFETY: it copies from the first and to the second.
    let double = unsafe { double.typed::<(&TensorMap, &mut TensorMap)>() }.unwrap();
    let buffer = DeviceBuffer::<f32>::zeroed(&context, 2 * 64 * 64).unwrap();
    let map = |first: usize| {
        let part = buffer.slice(first..first + 64 * 64).unwrap();
        TensorView::new(&part, &[64, 64]).tiles(&TILE).unwrap()
    };
    let from = map(0);
    for (first, is_alias) in [(0, true), (64, true), (64 * 63, true), (64 * 64, false)] {
        let launched = double.launch(tiles(64, 64), &stream, (&from, &mut map(first)));
        if is_alias {
            assert!(
                matches!(
                    launched,
                    Err(Error::Aliases {
                        written: 1,
                        other: 0
                    })
                ),
                "{launched:?}"
            )
        } else {
            launched.unwrap()
        }
    }
    stream.synchronize().unwrap();
}

#[test]
fn a_map_and_a_graph_keep_the_memory() {
    alone();
    let (context, stream, double) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    let from = DeviceBuffer::from_slice(&context, &[3.0_f32; 16 * 8]).unwrap();
    let to = DeviceBuffer::<f32>::zeroed(&context, 16 * 8).unwrap();
    let maps = [matrix(&context, &from, 8), matrix(&context, &to, 8)];
    drop(from);
    let mut graph = Graph::new(&context).unwrap();
    let config = tiles(16, 8);
    unsafe { graph.add_kernel(&[], &double, config, (&maps[0], &maps[1])) }.unwrap();
    let ready = graph.instantiate().unwrap();
    drop((maps, graph));
    // Memory that was freed would be given out again.
    let others: Vec<_> = (0..8)
        .map(|_| DeviceBuffer::from_slice(&context, &[9.0_f32; 16 * 8]).unwrap())
        .collect();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [6.0; 16 * 8]);
    drop(others);
}

#[test]
fn a_map_gets_another_address() {
    let (context, stream, double) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    let from = DeviceBuffer::from_slice(&context, &[5.0_f32; 16 * 8]).unwrap();
    let to = DeviceBuffer::<f32>::zeroed(&context, 3 * 16 * 8).unwrap();
    let source = matrix(&context, &from, 8);
    let first = to.slice(..128).unwrap();
    let mut target = TensorView::new(&first, &[16, 8]).tiles(&TILE).unwrap();
    target.replace_address(&to.slice(128..).unwrap()).unwrap();
    assert_eq!(target.address(), to.address() + 512);
    unsafe { double.launch(tiles(16, 8), &stream, (&source, &target)) }.unwrap();
    stream.synchronize().unwrap();
    let values = to.to_vec().unwrap();
    assert_eq!(values[..128], [0.0; 128]);
    assert_eq!(values[128..256], [10.0; 128]);
    assert_eq!(values[256..], [0.0; 128]);

    let error = target
        .replace_address(&to.slice(257..).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("no multiple of 16"), "{error}");
    let error = target
        .replace_address(&to.slice(260..).unwrap())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no tensor map: the tensor reaches over 512 bytes, and the memory has 496"
    );
}

/// What a map of `sizes` says, where `change` describes it.
fn refusal<'a>(
    buffer: &'a DeviceBuffer<f32>,
    sizes: &[u64],
    change: impl FnOnce(TensorView<'a>) -> Result<TensorMap, Error>,
) -> String {
    let error = change(TensorView::new(&buffer.all(), sizes)).unwrap_err();
    assert!(matches!(error, Error::TensorMap(_)), "{error:?}");
    let text = error.to_string();
    text.strip_prefix("no tensor map: ").unwrap().to_owned()
}

#[test]
fn what_no_map_has_is_named_with_what_would_do() {
    let context = context();
    let buffer = DeviceBuffer::<f32>::zeroed(&context, 4096).unwrap();
    let b = &buffer;
    let cases = [
        (
            refusal(b, &[], |view| view.tiles(&[])),
            "0 dimensions, 1 to 5 are possible",
        ),
        (
            refusal(b, &[4; 6], |view| view.tiles(&[4; 6])),
            "6 dimensions, 1 to 5 are possible",
        ),
        (
            refusal(b, &[64, 0], |view| view.tiles(&[16, 8])),
            "0 elements of the tensor along dimension 1, 1 to 4294967296 are possible",
        ),
        (
            refusal(b, &[30, 8], |view| view.tiles(&[16, 8])),
            "120 bytes of the stride along dimension 1, which is no multiple of 16: the next one \
             is 128",
        ),
        (
            refusal(b, &[32, 8], |view| view.strides(&[1 << 40]).tiles(&[16, 8])),
            "1099511627776 bytes of the stride along dimension 1, 0 to 1099511627775 are possible",
        ),
        (
            refusal(b, &[32, 8], |view| {
                view.strides(&[128, 1024]).tiles(&[16, 8])
            }),
            "2 strides given, 1 expected",
        ),
        (
            refusal(b, &[32, 8], |view| view.tiles(&[16])),
            "1 numbers of elements of a box given, 2 expected",
        ),
        (
            refusal(b, &[32, 8], |view| view.tiles(&[16, 257])),
            "257 elements of a box along dimension 1, 1 to 256 are possible",
        ),
        (
            refusal(b, &[32, 8], |view| view.tiles(&[6, 8])),
            "24 bytes of a row of the box along dimension 0, which is no multiple of 16: the next \
             one is 32",
        ),
        (
            refusal(b, &[32, 8], |view| {
                view.swizzle(TensorSwizzle::Bytes64).tiles(&[32, 8])
            }),
            "a row of the box has 128 bytes, and this swizzling takes at most 64: make the box \
             narrower along dimension 0, or swizzle more bytes or none",
        ),
        (
            refusal(b, &[32, 8], |view| {
                view.element_strides(&[1, 9]).tiles(&[16, 8])
            }),
            "9 is the element stride along dimension 1, 1 to 8 are possible",
        ),
        (
            refusal(b, &[32, 8], |view| {
                view.element(TensorElement::U32)
                    .nan_outside()
                    .tiles(&[16, 8])
            }),
            "NaN outside of the tensor needs floats as its elements",
        ),
        (
            refusal(b, &[64, 65], |view| view.tiles(&[16, 8])),
            "the tensor reaches over 16640 bytes, and the memory has 16384",
        ),
        (
            refusal(b, &[32, 1 << 32], |view| {
                view.strides(&[(1 << 40) - 16]).tiles(&[16, 8])
            }),
            "the tensor reaches over 18446744073709551615 bytes, and the memory has 16384",
        ),
        (
            // SAFETY: it is refused.
            refusal(b, &[32, 8], |view| {
                unsafe { view.interleave(TensorInterleave::Bytes16) }.tiles(&[16, 8])
            }),
            "2 dimensions, 3 to 5 are possible",
        ),
        (
            // SAFETY: as above.
            refusal(b, &[8, 8, 8], |view| {
                unsafe { view.interleave(TensorInterleave::Bytes32) }.tiles(&[8, 8, 8])
            }),
            "interleaving of 32 bytes needs swizzling of 32 bytes",
        ),
    ];
    for (given, expected) in cases {
        let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(given, expected);
    }
    let unaligned = TensorView::new(&buffer.slice(1..).unwrap(), &[16, 8]).tiles(&TILE);
    assert!(matches!(
        unaligned,
        Err(Error::TensorMap(TensorMapError::Multiple { of: 16, .. }))
    ));
}

/// Columns of pixels: checked here, encoded by the driver.
#[test]
fn columns_of_images() {
    let context = context();
    let image = DeviceBuffer::<f32>::zeroed(&context, 16 * 12 * 10 * 2).unwrap();
    let view = TensorView::new(&image.all(), &[16, 12, 10, 2]);
    let columns = Im2col {
        lower: vec![-1, -1],
        upper: vec![-1, -1],
        channels: 16,
        pixels: 64,
    };
    let refused = |columns: Im2col| view.im2col(&columns).unwrap_err().to_string();
    let text = refused(Im2col {
        lower: vec![0],
        ..columns.clone()
    });
    assert!(
        text.contains("1 offsets of the lower corner given, 2 expected"),
        "{text}"
    );
    let text = refused(Im2col {
        upper: vec![0, -129],
        ..columns.clone()
    });
    assert!(
        text.contains("-129 offsets of the upper corner along dimension 2"),
        "{text}"
    );
    let text = refused(Im2col {
        upper: vec![-12, 0],
        lower: vec![0, 0],
        ..columns.clone()
    });
    assert!(
        text.contains("0 pixels between the corners along dimension 1"),
        "{text}"
    );
    let text = refused(Im2col {
        pixels: 1025,
        ..columns.clone()
    });
    assert!(
        text.contains("1025 pixels of a column, 1 to 1024 are possible"),
        "{text}"
    );
    let wide = Im2colWide {
        lower: 0,
        upper: 0,
        channels: 16,
        pixels: None,
    };
    let text = view.im2col_wide(&wide).unwrap_err().to_string();
    assert!(
        text.contains("needs swizzling of 64 or 128 bytes"),
        "{text}"
    );
    let swizzled = view.clone().swizzle(TensorSwizzle::Bytes64);
    let made = swizzled.im2col_wide(&wide);
    if has_tensor_maps(&context) && !is_gpu() {
        assert_eq!(made.unwrap().bytes(), image.bytes())
    } else {
        // An entry of CUDA 12.8, for sm_100.
        drop(made)
    }

    let made = view
        .clone()
        .l2_promotion(L2Promotion::Bytes128)
        .im2col(&columns);
    if has_tensor_maps(&context) {
        assert_eq!(made.unwrap().bytes(), image.bytes())
    } else {
        assert!(made.is_err())
    }
}

/// Sizes up to 2^32 are told apart by the driver alone: its headers named 2^32 up to CUDA 12, and
/// 2^31 since.
#[test]
fn a_row_may_be_as_long_as_the_driver_takes() {
    let (context, ..) = double();
    if !has_tensor_maps(&context) {
        return;
    }
    let buffer = DeviceBuffer::<u8>::zeroed(&context, 4096).unwrap();
    // Every row is the first one.
    let map = |rows| {
        TensorView::new(&buffer.all(), &[16, rows])
            .strides(&[0])
            .tiles(&[16, 8])
    };
    map(1 << 31).unwrap();
    assert!(map((1 << 32) + 1).is_err());
}
