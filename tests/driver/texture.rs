//! Textures of every kind, read by kernels: what the hardware's rules give,
//! computed by hand.

use std::sync::mpsc;
use std::time::Duration;

use ptxkit::driver::{
    AddressMode, Array, ArrayFlags, ArrayFormat, ArrayShape, CaptureMode, Context, DeviceBuffer,
    Error, F16, FilterMode, Graph, LaunchConfig, MipmappedArray, Module, PitchedBuffer,
    ResourceView, Stream, Texel, Texture, TextureDescriptor,
};

use crate::support::{alone, context, device, is_gpu, isolated};

/// What a thread hands to its fetch, as bits: `%i0` to `%i9`, and as numbers `%f0`
/// to `%f9`.
pub type Given = [u32; 10];

/// A kernel with one texture or surface instruction, whose results are the 32-bit
/// registers `%v0` to `%v3`.
pub fn kernel_of(instruction: &str) -> String {
    let words = |line: &dyn Fn(usize) -> String| (0..10).map(line).collect::<String>();
    let loads = words(&|n| {
        format!(
            "ld.global.b32 %i{n}, [%at+{}]; mov.b32 %f{n}, %i{n};\n",
            4 * n
        )
    });
    format!(
        ".version 8.0 .target sm_80 .address_size 64
        .visible .entry fetch(.param .u64 object, .param .u64 given, .param .u64 results) {{
            .reg .b64 %t, %at, %to, %far; .reg .b32 %n, %i<10>, %v<4>; .reg .f32 %f<10>;
            .reg .b16 %h<4>; .reg .b64 %w<4>; .reg .pred %p;
            ld.param.u64 %t, [object];
            ld.param.u64 %at, [given];
            ld.param.u64 %to, [results];
            mov.u32 %n, %tid.x;
            mul.wide.u32 %far, %n, 40;
            add.u64 %at, %at, %far;
            mul.wide.u32 %far, %n, 16;
            add.u64 %to, %to, %far;
            mov.b32 %v0, 0; mov.b32 %v1, 0; mov.b32 %v2, 0; mov.b32 %v3, 0;
            {loads}
            {instruction}
            st.global.v4.b32 [%to], {{%v0, %v1, %v2, %v3}};
            ret;
        }}"
    )
}

/// Runs the instruction in as many threads as there are operands.
pub fn fetch(texture: &Texture, instruction: &str, given: &[Given]) -> Vec<[u32; 4]> {
    let context = texture.context();
    let module = Module::load(context, kernel_of(instruction).as_bytes()).unwrap();
    let kernel = module.kernel("fetch").unwrap();
    let stream = Stream::new(context).unwrap();
    let operands = DeviceBuffer::from_slice(context, given).unwrap();
    let results = DeviceBuffer::<[u32; 4]>::zeroed(context, given.len()).unwrap();
    let config = LaunchConfig::new([1; 3], [given.len() as u32, 1, 1]);
    unsafe { kernel.launch(config, &stream, (texture, &operands, &results)) }.unwrap();
    stream.synchronize().unwrap();
    results.to_vec().unwrap()
}

pub fn at<const N: usize>(coordinates: [f32; N]) -> Given {
    let mut given = [0; 10];
    for (word, coordinate) in given.iter_mut().zip(coordinates) {
        *word = coordinate.to_bits();
    }
    given
}

/// The first channel of each result, as a number.
pub fn reds(results: &[[u32; 4]]) -> Vec<f32> {
    results
        .iter()
        .map(|texel| f32::from_bits(texel[0]))
        .collect()
}

pub fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|n| (n * n + 1) as f32).collect()
}

const BY_NUMBER: &str = "tex.1d.v4.f32.s32 {%v0, %v1, %v2, %v3}, [%t, {%i0}];";
const TEX_1D: &str = "tex.1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0}];";
pub const TEX_2D: &str = "tex.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1}];";
const TEX_3D: &str = "tex.3d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1, %f2, %f2}];";

pub fn row(context: &Context, texels: &[f32]) -> Array<f32> {
    let width = texels.len();
    Array::from_slice(context, ArrayShape::D1 { width }, texels).unwrap()
}

#[test]
fn points_of_a_row() {
    let context = context();
    let texels = numbers(5);
    let texture = Texture::new(&row(&context, &texels), &TextureDescriptor::default()).unwrap();
    let places = [0.0, 0.99, 1.0, 2.5, 4.99, 5.0, 100.0, -0.01, -7.0];
    let results = fetch(&texture, TEX_1D, &places.map(|x| at([x])));
    assert_eq!(
        reds(&results),
        [1.0, 1.0, 2.0, 5.0, 17.0, 17.0, 17.0, 1.0, 1.0]
    );
}

#[test]
fn every_address_mode() {
    let context = context();
    let array = row(&context, &numbers(4));
    let [a, b, c, d, o] = [1.0, 2.0, 5.0, 10.0, 77.0];
    // The middles of texels, from one period and a half before the texture on.
    let places: Vec<Given> = (-6..10).map(|n| at([(n as f32 + 0.5) / 4.0])).collect();
    for (mode, expected) in [
        (
            AddressMode::Wrap,
            [c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b],
        ),
        (
            AddressMode::Clamp,
            [a, a, a, a, a, a, a, b, c, d, d, d, d, d, d, d],
        ),
        (
            AddressMode::Mirror,
            [c, d, d, c, b, a, a, b, c, d, d, c, b, a, a, b],
        ),
        (
            AddressMode::Border,
            [o, o, o, o, o, o, a, b, c, d, o, o, o, o, o, o],
        ),
    ] {
        let descriptor = TextureDescriptor {
            address: [mode; 3],
            normalized_coordinates: true,
            border: [o, 0.0, 0.0, 0.0],
            ..TextureDescriptor::default()
        };
        let texture = Texture::new(&array, &descriptor).unwrap();
        assert_eq!(
            reds(&fetch(&texture, TEX_1D, &places)),
            expected,
            "{mode:?}"
        );
    }
}

#[test]
fn only_normalised_coordinates_repeat() {
    let context = context();
    let array = row(&context, &numbers(4));
    for (mode, outside) in [
        (AddressMode::Wrap, 10.0),
        (AddressMode::Mirror, 10.0),
        (AddressMode::Border, 7.0),
    ] {
        let descriptor = TextureDescriptor {
            address: [mode; 3],
            border: [7.0; 4],
            ..TextureDescriptor::default()
        };
        let texture = Texture::new(&array, &descriptor).unwrap();
        let results = fetch(&texture, TEX_1D, &[at([1.5]), at([5.5])]);
        assert_eq!(reds(&results), [2.0, outside], "{mode:?}");
    }
}

pub fn linear(normalized_coordinates: bool) -> TextureDescriptor {
    TextureDescriptor {
        filter: FilterMode::Linear,
        normalized_coordinates,
        ..TextureDescriptor::default()
    }
}

#[test]
fn lines_between_points() {
    let context = context();
    let array = row(&context, &[1.0, 2.0, 5.0, 10.0]);
    let texture = Texture::new(&array, &linear(false)).unwrap();
    // Weights of quarters are exact in hardware's 8 bits.
    let places = [0.5, 1.0, 1.75, 3.5, 0.0, 4.0, 2.0];
    let results = fetch(&texture, TEX_1D, &places.map(|x| at([x])));
    assert_eq!(reds(&results), [1.0, 1.5, 2.75, 10.0, 1.0, 10.0, 3.5]);

    // The middle of the last and the first texel, where it wraps.
    let wrap = TextureDescriptor {
        address: [AddressMode::Wrap; 3],
        ..linear(true)
    };
    let texture = Texture::new(&array, &wrap).unwrap();
    let places = [0.0, 1.0, 0.25, -0.25].map(|x| at([x]));
    assert_eq!(
        reds(&fetch(&texture, TEX_1D, &places)),
        [5.5, 5.5, 1.5, 7.5]
    );
    let border = TextureDescriptor {
        // A GPU filters a row as a plane of one: along y it would meet the border, too.
        address: [AddressMode::Border, AddressMode::Clamp, AddressMode::Clamp],
        border: [4.0; 4],
        ..linear(true)
    };
    let texture = Texture::new(&array, &border).unwrap();
    let places = [0.0, 1.0, -1.0].map(|x| at([x]));
    assert_eq!(reds(&fetch(&texture, TEX_1D, &places)), [2.5, 7.0, 4.0]);
}

#[test]
fn weights_between_exact_ones_are_close() {
    let context = context();
    let texels = [0.0, 1000.0, -500.0, 250.0];
    let texture = Texture::new(&row(&context, &texels), &linear(false)).unwrap();
    let places: Vec<f32> = (0..300).map(|n| n as f32 * 0.0131 + 0.03).collect();
    let given: Vec<Given> = places.iter().map(|&x| at([x])).collect();
    for (x, found) in places.iter().zip(reds(&fetch(&texture, TEX_1D, &given))) {
        let from = (x - 0.5).clamp(0.0, 3.0);
        let (left, right) = (from as usize, (from as usize + 1).min(3));
        let exact = texels[left] + (texels[right] - texels[left]) * from.fract();
        // A weight of 8 bits is off by its last one at most.
        let most = (texels[right] - texels[left]).abs() * (1.0 / 256.0);
        assert!(
            (found - exact).abs() <= most,
            "{x}: {found}, exactly {exact}"
        );
    }
}

#[test]
fn planes_and_boxes() {
    let context = context();
    let shape = ArrayShape::D2 {
        width: 4,
        height: 2,
    };
    let plane = Array::from_slice(
        &context,
        shape,
        &[1.0_f32, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0],
    );
    let plane = plane.unwrap();
    let points = Texture::new(&plane, &TextureDescriptor::default()).unwrap();
    let places = [
        at([0.5, 0.5]),
        at([3.5, 1.5]),
        at([2.2, 1.0]),
        at([9.0, -1.0]),
    ];
    assert_eq!(
        reds(&fetch(&points, TEX_2D, &places)),
        [1.0, 14.0, 13.0, 4.0]
    );
    let smooth = Texture::new(&plane, &linear(false)).unwrap();
    let places = [at([1.0, 0.5]), at([1.0, 1.0]), at([2.25, 1.25])];
    assert_eq!(reds(&fetch(&smooth, TEX_2D, &places)), [1.5, 6.5, 10.25]);

    let shape = ArrayShape::D3 {
        width: 2,
        height: 2,
        depth: 2,
    };
    let texels = [1.0_f32, 2.0, 3.0, 4.0, 101.0, 102.0, 103.0, 104.0];
    let cube = Array::from_slice(&context, shape, &texels).unwrap();
    let points = Texture::new(&cube, &TextureDescriptor::default()).unwrap();
    let places = [
        at([0.5, 0.5, 0.5]),
        at([1.5, 0.5, 1.5]),
        at([0.0, 1.0, 1.0]),
    ];
    assert_eq!(reds(&fetch(&points, TEX_3D, &places)), [1.0, 102.0, 103.0]);
    let smooth = Texture::new(&cube, &linear(true)).unwrap();
    let places = [
        at([0.5, 0.5, 0.5]),
        at([0.25, 0.25, 0.5]),
        at([0.5, 0.25, 0.375]),
    ];
    assert_eq!(reds(&fetch(&smooth, TEX_3D, &places)), [52.5, 51.0, 26.5]);
}

/// What a texture of these texels gives of the second one.
fn second<T: Texel>(descriptor: &TextureDescriptor, texels: [T; 2], ty: &str) -> [u32; 4] {
    let context = context();
    let array = Array::from_slice(&context, ArrayShape::D1 { width: 2 }, &texels).unwrap();
    let texture = Texture::new(&array, descriptor).unwrap();
    let instruction = format!("tex.1d.v4.{ty}.f32 {{%v0, %v1, %v2, %v3}}, [%t, {{%f0}}];");
    fetch(&texture, &instruction, &[at([1.5])])[0]
}

#[test]
fn integers_are_fractions_or_themselves() {
    let fractions = TextureDescriptor::default();
    let close = |found: u32, expected: f32| {
        let found = f32::from_bits(found);
        assert!((found - expected).abs() < 1e-6, "{found}, {expected}");
    };
    close(second(&fractions, [0_u8, 51], "f32")[0], 0.2);
    close(second(&fractions, [0_i8, -127], "f32")[0], -1.0);
    close(second(&fractions, [0_i8, -128], "f32")[0], -1.0);
    close(second(&fractions, [0_u16, 65535], "f32")[0], 1.0);
    close(
        second(&fractions, [0_i16, 16384], "f32")[0],
        16384.0 / 32767.0,
    );
    let colours = second(&fractions, [[0_u8; 4], [255, 0, 102, 51]], "f32");
    for (found, expected) in colours.into_iter().zip([1.0, 0.0, 0.4, 0.2]) {
        close(found, expected);
    }

    let integers = TextureDescriptor {
        read_as_integer: true,
        ..fractions
    };
    assert_eq!(second(&integers, [0_u8, 200], "u32")[0], 200);
    assert_eq!(
        second(&integers, [0_i8, -100], "s32")[0],
        (-100_i32).cast_unsigned()
    );
    assert_eq!(second(&integers, [0_u16, 65000], "u32")[0], 65000);
    assert_eq!(
        second(&integers, [0_i16, -3], "s32")[0],
        (-3_i32).cast_unsigned()
    );
    let pair = second(&integers, [[0_i16; 2], [-7, 30000]], "s32");
    assert_eq!(pair[..2], [(-7_i32).cast_unsigned(), 30000]);
    // Those of 32 bits are always themselves.
    for descriptor in [fractions, integers] {
        assert_eq!(
            second(&descriptor, [0_u32, 4_000_000_000], "u32")[0],
            4_000_000_000
        );
        let four = second(&descriptor, [[0_i32; 4], [1, -2, 3, -4]], "s32");
        assert_eq!(four.map(u32::cast_signed), [1, -2, 3, -4]);
    }
}

#[test]
fn numbers_of_half_and_single_precision() {
    let plain = TextureDescriptor::default();
    let halves = second(&plain, [F16(0), F16(0x3E00)], "f32"); // 1.5
    assert_eq!(halves[0], 1.5_f32.to_bits());
    let four = second(&plain, [[0.0_f32; 4], [1.0, -2.5, 1e30, 0.1]], "f32");
    assert_eq!(four.map(f32::from_bits), [1.0, -2.5, 1e30, 0.1]);
}

#[test]
fn fractions_are_filtered() {
    let context = context();
    let texels = [0_u8, 255, 51];
    let array = Array::from_slice(&context, ArrayShape::D1 { width: 3 }, &texels).unwrap();
    let texture = Texture::new(&array, &linear(false)).unwrap();
    let found = reds(&fetch(
        &texture,
        TEX_1D,
        &[at([1.0]), at([2.0]), at([1.75])],
    ));
    for (found, expected) in found.into_iter().zip([0.5, 0.6, 0.8]) {
        assert!((found - expected).abs() < 2e-3, "{found}, {expected}");
    }
}

#[test]
fn the_srgb_curve() {
    let curve = TextureDescriptor {
        srgb: true,
        ..TextureDescriptor::default()
    };
    let found = second(&curve, [[0_u8; 4], [255, 128, 10, 128]], "f32");
    for (found, expected) in found
        .map(f32::from_bits)
        .into_iter()
        .zip([1.0, 0.21586, 0.003035, 0.50196])
    {
        assert!((found - expected).abs() < 2e-3, "{found}, {expected}");
    }
}

#[test]
fn half_precision_results() {
    let context = context();
    let shape = ArrayShape::D1 { width: 1 };
    let array = Array::from_slice(&context, shape, &[[1.0_f32, -2.0, 0.5, 4.0]]).unwrap();
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    let four = "tex.1d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%t, {%f0}];
        cvt.u32.u16 %v0, %h0; cvt.u32.u16 %v1, %h1; cvt.u32.u16 %v2, %h2; cvt.u32.u16 %v3, %h3;";
    let found = fetch(&texture, four, &[at([0.5])]);
    assert_eq!(found, [[0x3C00, 0xC000, 0x3800, 0x4400]]);
    let pairs = "tex.1d.v2.f16x2.f32 {%v0, %v1}, [%t, {%f0}];";
    let found = fetch(&texture, pairs, &[at([0.5])]);
    assert_eq!(found[0][..2], [0xC000_3C00, 0x4400_3800]);
}

#[test]
fn linear_memory_by_number() {
    let context = context();
    let buffer = DeviceBuffer::from_slice(&context, &[3_i32, -4, 5, 6]).unwrap();
    let texture = Texture::new(&buffer, &TextureDescriptor::default()).unwrap();
    let instruction = "tex.1d.v4.s32.s32 {%v0, %v1, %v2, %v3}, [%t, {%i0}];";
    let places: Vec<Given> = [3, 1, 0, 2].map(|n| [n; 10]).to_vec();
    let found = fetch(&texture, instruction, &places);
    let found: Vec<i32> = found.iter().map(|texel| texel[0].cast_signed()).collect();
    assert_eq!(found, [6, -4, 3, 5]);
    let resource = texture.resource().unwrap();
    assert_eq!((resource.kind, resource.width), (2, 16));
    assert!(device().most_linear_texels::<f32>().unwrap() >= 1 << 27);
}

/// A GPU gives 0, and the CPU device tells what is wrong.
#[test]
fn one_dimension_is_memory_by_number_or_an_array_by_coordinate() {
    isolated(
        "texture::one_dimension_is_memory_by_number_or_an_array_by_coordinate",
        &[],
        || {
            let context = context();
            let texels = [[1.0_f32, 2.0], [3.0, 4.0]];
            let array = Array::from_slice(&context, ArrayShape::D1 { width: 2 }, &texels).unwrap();
            let memory = DeviceBuffer::from_slice(&context, &texels).unwrap();
            let describe = TextureDescriptor::default();
            let array = Texture::new(&array, &describe).unwrap();
            let memory = Texture::new(&memory, &describe).unwrap();
            let places = [[0; 10], [1; 10]];
            let texels = texels.map(|[red, green]| [red.to_bits(), green.to_bits(), 0, 0]);
            assert_eq!(fetch(&memory, BY_NUMBER, &places), texels);
            let coordinates = [at([0.5]), at([1.5])];
            assert_eq!(fetch(&array, TEX_1D, &coordinates), texels);
            if is_gpu() {
                assert_eq!(fetch(&memory, TEX_1D, &coordinates), [[0; 4]; 2]);
                assert_eq!(fetch(&array, BY_NUMBER, &places), [[0; 4]; 2]);
                return;
            }
            let module = Module::load(&context, kernel_of(BY_NUMBER).as_bytes()).unwrap();
            let kernel = module.kernel("fetch").unwrap();
            let stream = Stream::new(&context).unwrap();
            let given = DeviceBuffer::from_slice(&context, &places).unwrap();
            let results = DeviceBuffer::<[u32; 4]>::zeroed(&context, 2).unwrap();
            let config = LaunchConfig::new([1; 3], [2, 1, 1]);
            unsafe { kernel.launch(config, &stream, (&array, &given, &results)) }.unwrap();
            let error = stream.synchronize().unwrap_err().to_string();
            assert!(error.contains("an array .f32"), "{error}");
        },
    );
}

#[test]
fn levels_have_normalised_coordinates() {
    let context = context();
    let shape = ArrayShape::D1 { width: 4 };
    let levels = MipmappedArray::new(&context, shape, 2, ArrayFlags::default()).unwrap();
    for (level, texels) in [(0, &[1.0_f32, 2.0, 3.0, 4.0][..]), (1, &[5.0, 6.0])] {
        levels.level(level).unwrap().write(texels).unwrap();
    }
    let texture = Texture::new(&levels, &TextureDescriptor::default()).unwrap();
    let places = [at([0.0]), at([0.3]), at([0.6]), at([1.0]), at([3.0])];
    let largest = "tex.level.1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0}], %f5;";
    assert_eq!(
        reds(&fetch(&texture, largest, &places)),
        [1.0, 2.0, 3.0, 4.0, 4.0]
    );
}

#[test]
fn pitched_memory_is_filtered_too() {
    let context = context();
    let mut rows = PitchedBuffer::new(&context, 3, 2).unwrap();
    rows.write(&[1.0_f32, 2.0, 3.0, 5.0, 6.0, 7.0]).unwrap();
    let points = Texture::new(&rows, &TextureDescriptor::default()).unwrap();
    let places = [at([2.5, 0.5]), at([0.5, 1.5]), at([9.0, 9.0])];
    assert_eq!(reds(&fetch(&points, TEX_2D, &places)), [3.0, 5.0, 7.0]);
    let smooth = Texture::new(&rows, &linear(false)).unwrap();
    let places = [at([1.0, 1.0]), at([2.25, 0.5])];
    assert_eq!(reds(&fetch(&smooth, TEX_2D, &places)), [3.5, 2.75]);
}

#[test]
fn offsets_in_texels() {
    let context = context();
    let shape = ArrayShape::D2 {
        width: 4,
        height: 4,
    };
    let array = Array::from_slice(&context, shape, &numbers(16)).unwrap();
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    let instruction = "tex.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1}], {2, -1};";
    let found = fetch(&texture, instruction, &[at([0.5, 2.5]), at([3.5, 0.5])]);
    // The texels 6 and, clamped, 3.
    assert_eq!(reds(&found), [37.0, 10.0]);
}

#[test]
fn what_cannot_be_a_texture() {
    let context = context();
    let shape = ArrayShape::D1 { width: 2 };
    let smooth = linear(false);
    let words = Array::<u32>::new(&context, shape).unwrap();
    let refused = Texture::new(&words, &smooth).unwrap_err();
    assert!(matches!(
        refused,
        Error::IntegerFilter {
            format: ArrayFormat::U32
        }
    ));
    assert!(refused.to_string().contains("Point"), "{refused}");
    let bytes = Array::<u8>::new(&context, shape).unwrap();
    let as_integers = TextureDescriptor {
        read_as_integer: true,
        ..smooth
    };
    assert!(matches!(
        Texture::new(&bytes, &as_integers),
        Err(Error::IntegerFilter { .. })
    ));
    assert!(Texture::new(&bytes, &smooth).is_ok());

    let plain = TextureDescriptor::default();
    let larger = Texture::with_view(&bytes, &plain, &ResourceView::of::<u32>());
    assert!(matches!(larger, Err(Error::ArrayFormat { .. })));
    let view = ResourceView::of::<u8>().levels(0..=1);
    let deeper = Texture::with_view(&bytes, &plain, &view);
    assert!(matches!(deeper, Err(Error::MipmapLevel { .. })));
    let view = ResourceView::of::<u8>().layers(0..=1);
    let wider = Texture::with_view(&bytes, &plain, &view);
    assert!(matches!(wider, Err(Error::ArrayBox { axis: 2, .. })));
    let buffer = DeviceBuffer::<u8>::zeroed(&context, 16).unwrap();
    let view = Texture::with_view(&buffer, &plain, &ResourceView::of::<u8>());
    assert!(matches!(view, Err(Error::NotAnArray)));
}

#[test]
fn a_texture_keeps_its_array() {
    let context = context();
    let array = row(&context, &[1.0, 2.0, 3.0]);
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    drop(array);
    // What would take its place.
    let _others: Vec<_> = (0..8).map(|_| row(&context, &[9.0; 3])).collect();
    let places = [at([0.5]), at([2.5])];
    assert_eq!(reds(&fetch(&texture, TEX_1D, &places)), [1.0, 3.0]);
}

#[test]
fn a_graph_keeps_its_textures() {
    alone();
    let context = context();
    let module = Module::load(&context, kernel_of(TEX_1D).as_bytes()).unwrap();
    let kernel = module.kernel("fetch").unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let operands = DeviceBuffer::from_slice(&context, &[at([1.5])]).unwrap();
    let results = DeviceBuffer::<[u32; 4]>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    let graph = {
        let array = row(&context, &[4.0, 6.0]);
        let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
        let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| unsafe {
            kernel.launch(
                LaunchConfig::default(),
                stream,
                (&texture, &operands, &results),
            )
        });
        graph.unwrap().instantiate().unwrap()
    };
    let _others: Vec<_> = (0..8).map(|_| row(&context, &[9.0; 2])).collect();
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(reds(&results.to_vec().unwrap()), [6.0]);
}

#[test]
fn a_handle_that_is_none_is_a_fault_with_a_name() {
    if is_gpu() {
        return; // it does not look
    }
    isolated(
        "texture::a_handle_that_is_none_is_a_fault_with_a_name",
        &[],
        || {
            let context = context();
            let module = Module::load(&context, kernel_of(TEX_1D).as_bytes()).unwrap();
            let kernel = module.kernel("fetch").unwrap();
            let stream = Stream::new(&context).unwrap();
            let operands = DeviceBuffer::from_slice(&context, &[at([0.5])]).unwrap();
            let one = LaunchConfig::default();
            unsafe { kernel.launch(one, &stream, (0x1234_u64, &operands, &operands)) }.unwrap();
            let fault = stream.synchronize().unwrap_err();
            assert!(fault.to_string().contains("0x1234"), "{fault}");
        },
    );
}

#[test]
fn memory_that_is_gone_is_a_fault_with_a_name() {
    if is_gpu() {
        return; // it does not look
    }
    isolated(
        "texture::memory_that_is_gone_is_a_fault_with_a_name",
        &[],
        || {
            let context = context();
            let buffer = DeviceBuffer::from_slice(&context, &[1.0_f32; 4]).unwrap();
            let texture = Texture::new(&buffer, &TextureDescriptor::default()).unwrap();
            // Before: it could take the place of what is freed.
            let operands = DeviceBuffer::from_slice(&context, &[[0; 10]; 64]).unwrap();
            // SAFETY: the CPU device finds what is wrong with that.
            unsafe { context.api().cuMemFree_v2(buffer.address()) }.unwrap();
            let module = Module::load(&context, kernel_of(BY_NUMBER).as_bytes()).unwrap();
            let kernel = module.kernel("fetch").unwrap();
            let stream = Stream::new(&context).unwrap();
            let one = LaunchConfig::default();
            unsafe { kernel.launch(one, &stream, (&texture, &operands, &operands)) }.unwrap();
            let fault = stream.synchronize().unwrap_err();
            assert!(fault.to_string().contains("read of 4 bytes"), "{fault}");
        },
    );
}

#[test]
fn what_the_cpu_device_lacks_it_refuses_by_name() {
    if is_gpu() {
        return;
    }
    let context = context();
    for (instruction, name) in [
        (
            "tex.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1}], {%i0, %i1}, %f3;",
            "depth comparison",
        ),
        (
            "tex.2dms.v4.f32.s32 {%v0, %v1, %v2, %v3}, [%t, {%i0, %i1, %i2, %i2}];",
            "cannot run `tex.2dms.v4",
        ),
        ("txq.channel_order.b32 %v0, [%t];", "unsupported query"),
    ] {
        let refused = Module::load(&context, kernel_of(instruction).as_bytes()).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn a_texture_dropped_within_a_capture_stays_for_its_kernels() {
    alone();
    let context = context();
    let module = Module::load(&context, kernel_of(TEX_1D).as_bytes()).unwrap();
    let kernel = module.kernel("fetch").unwrap();
    let array = row(&context, &[1.0, 2.0, 3.0]);
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    let operands = DeviceBuffer::from_slice(&context, &[at([2.5])]).unwrap();
    let results = DeviceBuffer::<[u32; 4]>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let patience = Duration::from_secs(2);
    stream
        .call(move || wait.recv_timeout(patience).unwrap_or_default())
        .unwrap();
    let arguments = (&texture, &operands, &results);
    unsafe { kernel.launch(LaunchConfig::default(), &stream, arguments) }.unwrap();
    // There nobody can wait for the kernel: the array must not go.
    let graph = Graph::capture(&stream, CaptureMode::Relaxed, |_| {
        drop((texture, array));
        Ok(())
    });
    assert!(!stream.is_done().unwrap(), "it waited within the capture");
    let _others: Vec<_> = (0..8).map(|_| row(&context, &[9.0; 3])).collect();
    let _ = go.send(());
    stream.synchronize().unwrap();
    assert_eq!(reds(&results.to_vec().unwrap()), [3.0]);
    drop(graph);
}
