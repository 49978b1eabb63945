//! Textures of layers, faces and levels, and what textures say of themselves.

use ptxkit::driver::{
    AddressMode, Array, ArrayFlags, ArrayShape, Context, FilterMode, MipmappedArray, Module,
    ResourceView, Texture, TextureDescriptor,
};

use crate::support::{context, is_gpu};
use crate::texture::{Given, TEX_2D, at, fetch, kernel_of, linear, numbers, reds, row};

/// The same behind a layer.
fn in_layer<const N: usize>(layer: u32, coordinates: [f32; N]) -> Given {
    let mut given = at(coordinates);
    given.rotate_right(1);
    given[0] = layer;
    given
}

const TEX_A1D: &str = "tex.a1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%i0, %f1}];";
const TEX_A2D: &str = "tex.a2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%i0, %f1, %f2, %f2}];";
const TEX_CUBE: &str = "tex.cube.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1, %f2, %f2}];";
const TEX_ACUBE: &str = "tex.acube.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%i0, %f1, %f2, %f3}];";

#[test]
fn layers() {
    let context = context();
    let shape = ArrayShape::D1Layered {
        width: 3,
        layers: 2,
    };
    let texels = [1.0_f32, 2.0, 3.0, 11.0, 12.0, 13.0];
    let rows = Array::from_slice(&context, shape, &texels).unwrap();
    let texture = Texture::new(&rows, &linear(false)).unwrap();
    // Rows are filtered, layers are not; beyond the last one stands the last one.
    let places = [in_layer(0, [1.0]), in_layer(1, [2.5]), in_layer(7, [0.0])];
    assert_eq!(reds(&fetch(&texture, TEX_A1D, &places)), [1.5, 13.0, 11.0]);

    let shape = ArrayShape::D2Layered {
        width: 2,
        height: 2,
        layers: 3,
    };
    let planes = Array::from_slice(&context, shape, &numbers(12)).unwrap();
    let texture = Texture::new(&planes, &TextureDescriptor::default()).unwrap();
    let places = [
        in_layer(0, [1.5, 0.5]),
        in_layer(1, [0.5, 1.5]),
        in_layer(2, [1.5, 1.5]),
    ];
    assert_eq!(reds(&fetch(&texture, TEX_A2D, &places)), [2.0, 37.0, 122.0]);
}

#[test]
fn cubes_by_direction() {
    let context = context();
    let descriptor = TextureDescriptor {
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    // Texel n of face f is 10 f + n.
    let faces = |cubes: usize| -> Vec<f32> {
        (0..cubes * 6)
            .flat_map(|face| [0, 1, 2, 3].map(|n| (10 * face + n) as f32))
            .collect()
    };
    let shape = ArrayShape::Cubemap { side: 2 };
    let cube = Array::from_slice(&context, shape, &faces(1)).unwrap();
    let texture = Texture::new(&cube, &descriptor).unwrap();
    // Directions, and the face with the column and row that the guide's table gives.
    let directions = [
        ([1.0, 0.5, 0.5], 0.0),
        ([1.0, -0.5, -0.5], 3.0),
        ([-1.0, 0.5, 0.5], 11.0),
        ([0.5, 1.0, -0.5], 21.0),
        ([0.5, 1.0, 0.5], 23.0),
        ([-0.5, -2.0, 0.5], 30.0),
        ([0.25, 0.25, 1.0], 41.0),
        ([-0.5, -0.5, 1.0], 42.0),
        ([0.5, 0.5, -1.0], 50.0),
    ];
    let places: Vec<Given> = directions
        .iter()
        .map(|&(direction, _)| at(direction))
        .collect();
    let expected: Vec<f32> = directions.iter().map(|&(_, texel)| texel).collect();
    assert_eq!(reds(&fetch(&texture, TEX_CUBE, &places)), expected);

    let shape = ArrayShape::CubemapLayered { side: 2, cubes: 2 };
    let cubes = Array::from_slice(&context, shape, &faces(2)).unwrap();
    let texture = Texture::new(&cubes, &descriptor).unwrap();
    let places = [
        in_layer(0, [1.0, 0.5, 0.5]),
        in_layer(1, [1.0, 0.5, 0.5]),
        in_layer(1, [0.5, 0.5, -1.0]),
    ];
    assert_eq!(
        reds(&fetch(&texture, TEX_ACUBE, &places)),
        [0.0, 60.0, 110.0]
    );

    // Between the four texels of a face.
    let smooth = TextureDescriptor {
        filter: FilterMode::Linear,
        ..descriptor
    };
    let texture = Texture::new(&cube, &smooth).unwrap();
    let places = [at([1.0, 0.0, 0.0]), at([0.0, 0.0, -1.0])];
    assert_eq!(reds(&fetch(&texture, TEX_CUBE, &places)), [1.5, 51.5]);
}

#[test]
fn filtering_goes_over_the_edges_of_a_seamless_cube() {
    let context = context();
    let shape = ArrayShape::Cubemap { side: 2 };
    let texels: Vec<f32> = (0..24).map(|n| (n / 4) as f32 * 8.0).collect();
    let cube = Array::from_slice(&context, shape, &texels).unwrap();
    let seamless = TextureDescriptor {
        seamless_cubemap: true,
        ..linear(true)
    };
    let texture = Texture::new(&cube, &seamless).unwrap();
    // On the edge of +x and +z, half way up; in the middle of +y.
    let places = [at([1.0, 0.0, 1.0]), at([0.0, 1.0, 0.0])];
    assert_eq!(reds(&fetch(&texture, TEX_CUBE, &places)), [16.0, 16.0]);
}

fn pyramid(context: &Context) -> MipmappedArray<f32> {
    let shape = ArrayShape::D2 {
        width: 8,
        height: 8,
    };
    let array = MipmappedArray::new(context, shape, 4, ArrayFlags::default()).unwrap();
    for n in 0..4 {
        let mut level = array.level(n).unwrap();
        let texels = vec![(100 * n) as f32; level.len()];
        level.write(&texels).unwrap();
    }
    array
}

const LEVEL: &str = "tex.level.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0, %f1}], %f2;";

#[test]
fn levels_of_a_mipmapped_array() {
    let context = context();
    let array = pyramid(&context);
    let plain = TextureDescriptor {
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    let texture = Texture::new(&array, &plain).unwrap();
    let places = [0.0, 1.0, 1.25, 1.75, 3.0, 9.0, -2.0].map(|lod| at([0.4, 0.4, lod]));
    assert_eq!(
        reds(&fetch(&texture, LEVEL, &places)),
        [0.0, 100.0, 100.0, 200.0, 300.0, 300.0, 0.0]
    );
    // Without a level, it is the first.
    assert_eq!(reds(&fetch(&texture, TEX_2D, &[at([0.4, 0.4])])), [0.0]);

    let between = TextureDescriptor {
        mipmap_filter: FilterMode::Linear,
        ..plain
    };
    let texture = Texture::new(&array, &between).unwrap();
    let places = [0.0, 0.5, 1.25, 2.75, 3.0].map(|lod| at([0.4, 0.4, lod]));
    assert_eq!(
        reds(&fetch(&texture, LEVEL, &places)),
        [0.0, 50.0, 125.0, 275.0, 300.0]
    );

    let narrowed = TextureDescriptor {
        mipmap_bias: 0.5,
        mipmap_levels: [1.0, 2.25],
        ..between
    };
    let texture = Texture::new(&array, &narrowed).unwrap();
    let places = [0.0, 1.0, 1.5, 3.0].map(|lod| at([0.4, 0.4, lod]));
    assert_eq!(
        reds(&fetch(&texture, LEVEL, &places)),
        [100.0, 150.0, 200.0, 225.0]
    );
}

/// With coordinates that are integers, so is the level: it is that one, whatever the sampler says.
#[test]
fn levels_by_number() {
    let context = context();
    let by_number = "tex.level.2d.v4.f32.s32 {%v0, %v1, %v2, %v3}, [%t, {%i0, %i0}], %i1;";
    let places = [1, 2, 3, 0, 4, 9, u32::MAX].map(|level| [0, level, 0, 0, 0, 0, 0, 0, 0, 0]);
    let plain = TextureDescriptor {
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    let narrowed = TextureDescriptor {
        mipmap_filter: FilterMode::Linear,
        mipmap_bias: 0.5,
        mipmap_levels: [1.0, 2.25],
        ..plain
    };
    let array = pyramid(&context);
    for descriptor in [plain, narrowed] {
        let texture = Texture::new(&array, &descriptor).unwrap();
        assert_eq!(
            reds(&fetch(&texture, by_number, &places)),
            [100.0, 200.0, 300.0, 0.0, 0.0, 0.0, 0.0]
        );
    }
    // An array without a pyramid has one level.
    let shape = ArrayShape::D2 {
        width: 2,
        height: 2,
    };
    let flat = Array::from_slice(&context, shape, &[5.0_f32; 4]).unwrap();
    let texture = Texture::new(&flat, &plain).unwrap();
    let found = reds(&fetch(&texture, by_number, &places));
    assert_eq!(found, [0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]);
}

#[test]
fn levels_by_derivatives() {
    let context = context();
    let texture = Texture::new(
        &pyramid(&context),
        &TextureDescriptor {
            normalized_coordinates: true,
            ..TextureDescriptor::default()
        },
    )
    .unwrap();
    let instruction = "tex.grad.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, \
        [%t, {%f0, %f1}], {%f2, %f3}, {%f4, %f5};";
    // Steps of 1, 2, 4 and 8 of the 8 texels, along x and along y.
    let places = [
        at([0.4, 0.4, 0.125, 0.0, 0.0, 0.125]),
        at([0.4, 0.4, 0.25, 0.0, 0.0, 0.125]),
        at([0.4, 0.4, 0.0, 0.125, 0.0, 0.5]),
        at([0.4, 0.4, 1.0, 0.0, 0.0, 1.0]),
    ];
    assert_eq!(
        reds(&fetch(&texture, instruction, &places)),
        [0.0, 100.0, 200.0, 300.0]
    );
}

#[test]
fn four_neighbours_at_once() {
    let context = context();
    let shape = ArrayShape::D2 {
        width: 3,
        height: 3,
    };
    let texels: Vec<[f32; 2]> = (0..9).map(|n| [n as f32, n as f32 + 50.0]).collect();
    let mut array = Array::with_flags(&context, shape, ArrayFlags::default().gather()).unwrap();
    array.write(&texels).unwrap();
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    for (channel, more) in [("r", 0.0), ("g", 50.0)] {
        let instruction =
            format!("tld4.{channel}.2d.v4.f32.f32 {{%v0, %v1, %v2, %v3}}, [%t, {{%f0, %f1}}];");
        let found = fetch(&texture, &instruction, &[at([1.0, 1.0]), at([2.1, 2.1])]);
        let found: Vec<_> = found
            .iter()
            .map(|texel| texel.map(f32::from_bits))
            .collect();
        let expected = [[3.0, 4.0, 1.0, 0.0], [7.0, 8.0, 5.0, 4.0]];
        assert_eq!(found, expected.map(|texels| texels.map(|n| n + more)));
    }
}

#[test]
fn kernels_ask_for_extents() {
    let context = context();
    let shape = ArrayShape::D3 {
        width: 5,
        height: 4,
        depth: 3,
    };
    let array = Array::<f32>::new(&context, shape).unwrap();
    let texture = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    let normalized = TextureDescriptor {
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    let levels = Texture::new(&pyramid(&context), &normalized).unwrap();
    for (texture, ask, answer) in [
        (&texture, "txq.width.b32 %v0, [%t];", 5),
        (&texture, "txq.height.b32 %v0, [%t];", 4),
        (&texture, "txq.depth.b32 %v0, [%t];", 3),
        (&levels, "txq.num_mipmap_levels.b32 %v0, [%t];", 4),
        (&levels, "txq.level.width.b32 %v0, [%t], 1;", 4),
        (&levels, "txq.level.height.b32 %v0, [%t], 2;", 2),
    ] {
        let module = Module::load(&context, kernel_of(ask).as_bytes());
        let kernel = module.and_then(|module| module.kernel("fetch"));
        if let (true, Err(error)) = (is_gpu(), kernel) {
            // Drivers make no code of some of them.
            eprintln!("left out: {ask}: {error}");
            continue;
        }
        assert_eq!(fetch(texture, ask, &[[0; 10]])[0][0], answer, "{ask}");
    }
}

#[test]
fn descriptors_come_back() {
    let context = context();
    let descriptor = TextureDescriptor {
        address: [AddressMode::Mirror, AddressMode::Border, AddressMode::Wrap],
        filter: FilterMode::Linear,
        normalized_coordinates: true,
        max_anisotropy: 4,
        mipmap_filter: FilterMode::Linear,
        mipmap_bias: 0.25,
        mipmap_levels: [1.0, 2.0],
        border: [0.1, 0.2, 0.3, 0.4],
        ..TextureDescriptor::default()
    };
    let texture = Texture::new(&pyramid(&context), &descriptor).unwrap();
    let found = texture.descriptor().unwrap();
    // NVIDIA's driver does not tell the border's colour.
    let border = if is_gpu() {
        found.border
    } else {
        descriptor.border
    };
    assert_eq!(
        found,
        TextureDescriptor {
            border,
            ..descriptor
        }
    );
    assert_eq!(texture.resource().unwrap().kind, 1);
    assert_eq!(texture.view().unwrap(), None);
}

#[test]
fn views_show_parts_and_other_texels() {
    let context = context();
    let texels = [1.0_f32, -2.0];
    let array = row(&context, &texels);
    let plain = TextureDescriptor::default();
    let bits = Texture::with_view(&array, &plain, &ResourceView::of::<u32>()).unwrap();
    let instruction = "tex.1d.v4.u32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0}];";
    let found = fetch(&bits, instruction, &[at([0.5]), at([1.5])]);
    assert_eq!([found[0][0], found[1][0]], texels.map(f32::to_bits));
    let view = bits.view().unwrap().unwrap();
    assert_eq!((view.width, view.last_mipmap_level), (2, 0));

    let shape = ArrayShape::D2Layered {
        width: 1,
        height: 1,
        layers: 4,
    };
    let layers = Array::from_slice(&context, shape, &[10.0_f32, 11.0, 12.0, 13.0]).unwrap();
    let view = ResourceView::of::<f32>().layers(1..=2);
    let texture = Texture::with_view(&layers, &plain, &view).unwrap();
    let places = [in_layer(0, [0.5, 0.5]), in_layer(1, [0.5, 0.5])];
    assert_eq!(reds(&fetch(&texture, TEX_A2D, &places)), [11.0, 12.0]);

    let view = ResourceView::of::<f32>().levels(1..=2);
    let plain = TextureDescriptor {
        normalized_coordinates: true,
        ..plain
    };
    let texture = Texture::with_view(&pyramid(&context), &plain, &view).unwrap();
    let places = [0.0, 1.0, 5.0].map(|lod| at([0.4, 0.4, lod]));
    assert_eq!(
        reds(&fetch(&texture, LEVEL, &places)),
        [100.0, 200.0, 200.0]
    );
}
