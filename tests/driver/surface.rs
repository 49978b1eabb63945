//! Surfaces, read and written by kernels.

use ptxkit::driver::{
    Array, ArrayFlags, ArrayShape, CaptureMode, Context, CudaError, DeviceBuffer, Error, Graph,
    LaunchConfig, MipmappedArray, Module, Stream, Surface, Texel, Texture, TextureDescriptor,
};

use crate::support::{alone, context, isolated};
use crate::texture::{Given, kernel_of};

/// Runs the instruction in as many threads as there are operands.
pub fn run(surface: &Surface, instruction: &str, given: &[Given]) -> Vec<[u32; 4]> {
    try_run(surface, instruction, given).unwrap()
}

fn try_run(surface: &Surface, instruction: &str, given: &[Given]) -> Result<Vec<[u32; 4]>, Error> {
    let context = surface.context();
    let module = Module::load(context, kernel_of(instruction).as_bytes())?;
    let kernel = module.kernel("fetch")?;
    let stream = Stream::new(context)?;
    let operands = DeviceBuffer::from_slice(context, given)?;
    let results = DeviceBuffer::<[u32; 4]>::zeroed(context, given.len())?;
    let config = LaunchConfig::new([1; 3], [given.len() as u32, 1, 1]);
    unsafe { kernel.launch(config, &stream, (surface, &operands, &results)) }?;
    stream.synchronize()?;
    results.to_vec()
}

/// Coordinates and values.
pub fn with<const N: usize>(numbers: [i32; N]) -> Given {
    let mut given = [0; 10];
    for (word, number) in given.iter_mut().zip(numbers) {
        *word = number.cast_unsigned();
    }
    given
}

fn array<T: Texel>(context: &Context, shape: ArrayShape, texels: &[T]) -> Array<T> {
    let flags = ArrayFlags::default().surface();
    let mut array = Array::with_flags(context, shape, flags).unwrap();
    array.write(texels).unwrap();
    array
}

fn counted(len: u32) -> Vec<u32> {
    (0..len).map(|n| n * n + 1).collect()
}

const PLANE: ArrayShape = ArrayShape::D2 {
    width: 4,
    height: 3,
};

#[test]
fn texels_are_loaded_by_bytes_and_rows() {
    let context = context();
    let texels = counted(12);
    let surface = Surface::new(&array(&context, PLANE, &texels)).unwrap();
    let load = "suld.b.2d.b32.trap %v0, [%t, {%i0, %i1}];";
    let found = run(&surface, load, &[with([0, 0]), with([12, 0]), with([4, 2])]);
    let found: Vec<u32> = found.iter().map(|texel| texel[0]).collect();
    assert_eq!(found, [texels[0], texels[3], texels[9]]);
    let four = "suld.b.2d.v4.b32.trap {%v0, %v1, %v2, %v3}, [%t, {%i0, %i1}];";
    assert_eq!(run(&surface, four, &[with([0, 1])])[0], texels[4..8]);
    let pair = "suld.b.2d.v2.b32.trap {%v0, %v1}, [%t, {%i0, %i1}];";
    assert_eq!(run(&surface, pair, &[with([8, 2])])[0][..2], texels[10..12]);
    let long = "suld.b.2d.b64.trap %w0, [%t, {%i0, %i1}]; mov.b64 {%v0, %v1}, %w0;";
    assert_eq!(run(&surface, long, &[with([8, 2])])[0][..2], texels[10..12]);
    assert_eq!(surface.resource().unwrap().kind, 0);
}

#[test]
fn narrow_texels() {
    let context = context();
    let shape = ArrayShape::D1 { width: 6 };
    let mut bytes = array(&context, shape, &[1_u8, 2, 3, 4, 5, 250]);
    let surface = Surface::new(&bytes).unwrap();
    let load = "suld.b.1d.b8.trap %h0, [%t, {%i0}]; cvt.u32.u16 %v0, %h0;";
    let found = run(&surface, load, &[with([5]), with([2])]);
    assert_eq!([found[0][0] & 0xff, found[1][0] & 0xff], [250, 3]);
    let store = "cvt.u16.u32 %h0, %i1; sust.b.1d.b8.trap [%t, {%i0}], %h0;";
    run(&surface, store, &[with([1, 77]), with([4, 511])]);
    assert_eq!(bytes.to_vec().unwrap(), [1, 77, 3, 4, 255, 250]);
    bytes.write(&[0; 6]).unwrap();
    let pair = "cvt.u16.u32 %h0, %i1; sust.b.1d.b16.trap [%t, {%i0}], %h0;";
    run(&surface, pair, &[with([2, 0x1234])]);
    assert_eq!(bytes.to_vec().unwrap(), [0, 0, 0x34, 0x12, 0, 0]);
}

#[test]
fn wide_accesses_of_narrow_rows() {
    let context = context();
    let shape = ArrayShape::D2 {
        width: 3,
        height: 3,
    };
    let texels = counted(9);
    let plane = array(&context, shape, &texels);
    let surface = Surface::new(&plane).unwrap();
    // The second row begins behind twelve bytes of the first.
    let long = "suld.b.2d.b64.zero %w0, [%t, {%i0, %i1}]; mov.b64 {%v0, %v1}, %w0;";
    let found = run(&surface, long, &[with([0, 1]), with([0, 2])]);
    assert_eq!(
        [&found[0][..2], &found[1][..2]],
        [&texels[3..5], &texels[6..8]]
    );
    let add = "mov.b64 %w0, {%i2, %i3}; sured.b.add.2d.u64.trap [%t, {%i0, %i1}], %w0;";
    run(&surface, add, &[with([0, 1, 1, 2])]);
    assert_eq!(
        plane.to_vec().unwrap()[3..5],
        [texels[3] + 1, texels[4] + 2]
    );
}

#[test]
fn what_is_stored_is_there() {
    let context = context();
    let plane = array(&context, PLANE, &[0_u32; 12]);
    let surface = Surface::new(&plane).unwrap();
    let store = "sust.b.2d.b32.trap [%t, {%i0, %i1}], %i2;";
    let given: Vec<Given> = (0..12)
        .map(|n| with([n % 4 * 4, n / 4, n * n + 1]))
        .collect();
    run(&surface, store, &given);
    assert_eq!(plane.to_vec().unwrap(), counted(12));
    let four = "sust.b.2d.v4.b32.trap [%t, {%i0, %i1}], {%i2, %i3, %i4, %i5};";
    run(&surface, four, &[with([0, 1, 9, 8, 7, 6])]);
    assert_eq!(plane.to_vec().unwrap()[4..8], [9, 8, 7, 6]);
}

#[test]
fn boxes_and_layers() {
    let context = context();
    let shape = ArrayShape::D3 {
        width: 2,
        height: 2,
        depth: 2,
    };
    let cube = array(&context, shape, &counted(8));
    let surface = Surface::new(&cube).unwrap();
    let double = "suld.b.3d.b32.trap %v0, [%t, {%i0, %i1, %i2, %i2}];
        add.u32 %v1, %v0, %v0; sust.b.3d.b32.trap [%t, {%i0, %i1, %i2, %i2}], %v1;";
    assert_eq!(run(&surface, double, &[with([4, 0, 1])])[0][0], 26);
    assert_eq!(cube.to_vec().unwrap()[5], 52);

    let shape = ArrayShape::D1Layered {
        width: 2,
        layers: 3,
    };
    let rows = array(&context, shape, &counted(6));
    let surface = Surface::new(&rows).unwrap();
    let negate = "suld.b.a1d.b32.trap %v0, [%t, {%i0, %i1}];
        neg.s32 %v1, %v0; sust.b.a1d.b32.trap [%t, {%i0, %i1}], %v1;";
    assert_eq!(run(&surface, negate, &[with([2, 4])])[0][0], 26);
    assert_eq!(rows.to_vec().unwrap()[5].cast_signed(), -26);

    // Faces of a cube map are layers of a surface.
    for shape in [
        ArrayShape::D2Layered {
            width: 2,
            height: 2,
            layers: 6,
        },
        ArrayShape::Cubemap { side: 2 },
    ] {
        let planes = array(&context, shape, &counted(24));
        let surface = Surface::new(&planes).unwrap();
        let load = "suld.b.a2d.b32.trap %v0, [%t, {%i0, %i1, %i2, %i2}];
            sust.b.a2d.b32.trap [%t, {%i0, %i1, %i2, %i2}], %i3;";
        assert_eq!(
            run(&surface, load, &[with([4, 4, 1, 3])])[0][0],
            19 * 19 + 1
        );
        assert_eq!(planes.to_vec().unwrap()[19], 3);
    }
}

#[test]
fn beyond_the_edges() {
    let context = context();
    let texels = counted(12);
    let plane = array(&context, PLANE, &texels);
    let surface = Surface::new(&plane).unwrap();
    let places = [[-4, 0], [16, 1], [4, 3], [8, -1], [400, 400], [8, 2]];
    let given = places.map(with);
    let load = |how: &str| {
        let load = format!("suld.b.2d.b32.{how} %v0, [%t, {{%i0, %i1}}];");
        let found = run(&surface, &load, &given);
        found.iter().map(|texel| texel[0]).collect::<Vec<_>>()
    };
    assert_eq!(load("zero"), [0, 0, 0, 0, 0, texels[10]]);
    let clamped = [0, 7, 9, 2, 11, 10].map(|n| texels[n]);
    assert_eq!(load("clamp"), clamped);

    let store = "sust.b.2d.b32.zero [%t, {%i0, %i1}], 77;";
    run(&surface, store, &given);
    let mut expected = texels.clone();
    expected[10] = 77;
    assert_eq!(plane.to_vec().unwrap(), expected);
    let store = "sust.b.2d.b32.clamp [%t, {%i0, %i1}], 5;";
    run(&surface, store, &given[4..5]);
    expected[11] = 5;
    assert_eq!(plane.to_vec().unwrap(), expected);
}

#[test]
fn a_trap_outside_of_a_surface_stops_the_kernel() {
    isolated(
        "surface::a_trap_outside_of_a_surface_stops_the_kernel",
        &[],
        || {
            let context = context();
            let surface = Surface::new(&array(&context, PLANE, &[0_u32; 12])).unwrap();
            let store = "sust.b.2d.b32.trap [%t, {%i0, %i1}], 1;";
            let fault = try_run(&surface, store, &[with([0, 4000])]).unwrap_err();
            assert!(fault.is_sticky(), "{fault}");
        },
    );
}

#[test]
fn formatted_stores() {
    let context = context();
    let shape = ArrayShape::D1 { width: 3 };
    let store = "sust.p.1d.v4.b32.trap [%t, {%i0}], {%i1, %i2, %i3, %i4};";
    let bytes = array(&context, shape, &[[0_u8; 4]; 3]);
    run(
        &Surface::new(&bytes).unwrap(),
        store,
        &[with([1, 1, 2, 3, 255])],
    );
    assert_eq!(bytes.to_vec().unwrap(), [[0; 4], [1, 2, 3, 255], [0; 4]]);

    let halves = array(&context, shape, &[ptxkit::driver::F16(0); 3]);
    let number = 1.5_f32.to_bits().cast_signed();
    run(
        &Surface::new(&halves).unwrap(),
        store,
        &[with([2, number, 0, 0, 0])],
    );
    assert_eq!(halves.to_vec().unwrap()[2].0, 0x3E00);

    let floats = array(&context, shape, &[[0.0_f32; 2]; 3]);
    run(
        &Surface::new(&floats).unwrap(),
        store,
        &[with([0, number, number, 0, 0])],
    );
    assert_eq!(floats.to_vec().unwrap()[0], [1.5; 2]);
}

#[test]
fn reductions() {
    let context = context();
    let shape = ArrayShape::D1 { width: 6 };
    let words = array(&context, shape, &[0_u32, 500, 7, 0, 0xFF, 0]);
    let surface = Surface::new(&words).unwrap();
    let all = "sured.b.add.1d.u32.trap [%t, {0}], %i0;
        sured.b.min.1d.u32.trap [%t, {4}], %i0;
        sured.b.max.1d.u32.trap [%t, {8}], %i0;
        sured.b.min.1d.s32.trap [%t, {12}], %i1;
        sured.b.and.1d.b32.trap [%t, {16}], %i2;
        sured.b.or.1d.b32.trap [%t, {20}], %i3;";
    // Coordinates belong in registers.
    let mut registers = all.to_owned();
    for (n, byte) in ["{0}", "{4}", "{8}", "{12}", "{16}", "{20}"]
        .into_iter()
        .enumerate()
    {
        let register = format!("{{%i{}}}", n + 4);
        registers = registers.replace(byte, &register);
    }
    let given: Vec<Given> = (1..=256)
        .map(|n| with([n, -n, !(1 << (n % 4)), 1 << (n % 8), 0, 4, 8, 12, 16, 20]))
        .collect();
    run(&surface, &registers, &given);
    let expected = [
        256 * 257 / 2,
        1,
        256,
        (-256_i32).cast_unsigned(),
        0xF0,
        0xFF,
    ];
    assert_eq!(words.to_vec().unwrap(), expected);

    let longs = array(&context, shape, &[[0_u32; 2]; 6]);
    let surface = Surface::new(&longs).unwrap();
    let add = "mov.b64 %w0, {%i1, %i2}; sured.b.add.1d.u64.trap [%t, {%i0}], %w0;";
    run(&surface, add, &[with([8, -1, 0]), with([8, 3, 1])]);
    assert_eq!(longs.to_vec().unwrap()[1], [2, 2]);
}

#[test]
fn kernels_ask_for_extents() {
    let context = context();
    let surface = Surface::new(&array(&context, PLANE, &[0_u32; 12])).unwrap();
    let ask = "suq.width.b32 %v0, [%t]; suq.height.b32 %v1, [%t];";
    assert_eq!(run(&surface, ask, &[[0; 10]])[0][..2], [4, 3]);
}

#[test]
fn one_array_is_texture_and_surface() {
    let context = context();
    let shape = ArrayShape::D1 { width: 4 };
    let row = array(&context, shape, &[0.0_f32; 4]);
    let surface = Surface::new(&row).unwrap();
    let texture = Texture::new(&row, &TextureDescriptor::default()).unwrap();
    let store = "sust.b.1d.b32.trap [%t, {%i0}], %i1;";
    run(
        &surface,
        store,
        &[with([8, 2.5_f32.to_bits().cast_signed()])],
    );
    // What an earlier kernel wrote, a texture reads.
    let module = Module::load(
        &context,
        kernel_of("tex.1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%f0}];").as_bytes(),
    )
    .unwrap();
    let stream = Stream::new(&context).unwrap();
    let operands = DeviceBuffer::from_slice(&context, &[[2.5_f32; 10]]).unwrap();
    let results = DeviceBuffer::<[f32; 4]>::zeroed(&context, 1).unwrap();
    let fetch = module.kernel("fetch").unwrap();
    unsafe {
        fetch.launch(
            LaunchConfig::default(),
            &stream,
            (&texture, &operands, &results),
        )
    }
    .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(results.to_vec().unwrap()[0][0], 2.5);
}

#[test]
fn levels_are_surfaces() {
    let context = context();
    let flags = ArrayFlags::default().surface();
    let array = MipmappedArray::<u32>::new(&context, PLANE, 2, flags).unwrap();
    let level = array.level(1).unwrap();
    let surface = Surface::new(&level).unwrap();
    let store = "sust.b.2d.b32.trap [%t, {%i0, %i1}], %i2;";
    run(&surface, store, &[with([0, 0, 8]), with([4, 0, 9])]);
    assert_eq!(level.to_vec().unwrap(), [8, 9]);
}

#[test]
fn a_graph_keeps_its_surfaces() {
    alone();
    let context = context();
    let store = kernel_of("sust.b.1d.b32.trap [%t, {%i0}], %i1;");
    let module = Module::load(&context, store.as_bytes()).unwrap();
    let kernel = module.kernel("fetch").unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let row = array(&context, ArrayShape::D1 { width: 2 }, &[1_u32, 2]);
    let operands = DeviceBuffer::from_slice(&context, &[with([4, 30])]).unwrap();
    let results = DeviceBuffer::<[u32; 4]>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    let graph = {
        let surface = Surface::new(&row).unwrap();
        let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| unsafe {
            kernel.launch(
                LaunchConfig::default(),
                stream,
                (&surface, &operands, &results),
            )
        });
        graph.unwrap().instantiate().unwrap()
    };
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(row.to_vec().unwrap(), [1, 30]);
}

#[test]
fn what_cannot_be_a_surface() {
    let context = context();
    let plain = Array::<u32>::new(&context, PLANE).unwrap();
    let refused = Surface::new(&plain).unwrap_err();
    assert!(matches!(refused, Error::NotForSurfaces));
    assert!(
        refused.to_string().contains("ArrayFlags::surface"),
        "{refused}"
    );
    let floats = Array::<f32>::with_flags(
        &context,
        ArrayShape::D3 {
            width: 2,
            height: 2,
            depth: 2,
        },
        ArrayFlags::default().surface().gather(),
    );
    assert_eq!(floats.unwrap_err().code(), Some(CudaError::INVALID_VALUE));
}
