//! Texture and surface references of modules, where the driver still has them.

use std::sync::mpsc;
use std::time::Duration;

use ptxkit::driver::{
    AddressMode, Array, ArrayFlags, ArrayShape, Context, DeviceBuffer, EntryMissing, Error,
    FilterMode, LaunchConfig, Library, MipmappedArray, Module, PitchedBuffer, Stream,
    TextureDescriptor,
};

use crate::support::{alone, context};

const PTX: &str = ".version 8.0
.target sm_80
.address_size 64
.global .texref picture;
.global .texref table;
.global .surfref canvas;
.global .b32 number;
.visible .entry fetch(.param .f32 x, .param .f32 y, .param .u64 results) {
    .reg .f32 %x, %y, %r, %g, %b, %a; .reg .b64 %to;
    ld.param.f32 %x, [x];
    ld.param.f32 %y, [y];
    ld.param.u64 %to, [results];
    tex.2d.v4.f32.f32 {%r, %g, %b, %a}, [picture, {%x, %y}];
    st.global.f32 [%to], %r;
    ret;
}
.visible .entry look_up(.param .u32 n, .param .u64 results) {
    .reg .b32 %n; .reg .f32 %r, %g, %b, %a; .reg .b64 %to;
    ld.param.u32 %n, [n];
    ld.param.u64 %to, [results];
    tex.1d.v4.f32.s32 {%r, %g, %b, %a}, [table, {%n}];
    st.global.f32 [%to], %r;
    ret;
}
.visible .entry paint(.param .u32 x, .param .u32 value) {
    .reg .b32 %x, %v;
    ld.param.u32 %x, [x];
    ld.param.u32 %v, [value];
    sust.b.1d.b32.trap [canvas, {%x}], %v;
    ret;
}";

/// The module, unless the driver has no references any more.
fn module(context: &Context) -> Option<Module> {
    let module = match Module::load(context, PTX.as_bytes()) {
        Ok(module) => module,
        Err(error) => {
            eprintln!("not tested: {error}");
            return None;
        }
    };
    match module.texture_reference("picture") {
        Err(Error::EntryMissing(EntryMissing { entry, .. })) => {
            assert_eq!(entry, "cuModuleGetTexRef");
            None
        }
        found => found.ok().map(|_| module),
    }
}

fn result(
    module: &Module,
    kernel: &str,
    launch: impl FnOnce(&ptxkit::driver::Kernel, &Stream, &DeviceBuffer<f32>),
) -> f32 {
    let stream = Stream::new(module.context()).unwrap();
    let results = DeviceBuffer::<f32>::zeroed(module.context(), 1).unwrap();
    launch(&module.kernel(kernel).unwrap(), &stream, &results);
    stream.synchronize().unwrap();
    results.to_vec().unwrap()[0]
}

fn fetch(module: &Module, x: f32, y: f32) -> f32 {
    result(module, "fetch", |kernel, stream, results| {
        let one = LaunchConfig::default();
        unsafe { kernel.launch(one, stream, (x, y, results)) }.unwrap();
    })
}

fn look_up(module: &Module, n: u32) -> f32 {
    result(module, "look_up", |kernel, stream, results| {
        let one = LaunchConfig::default();
        unsafe { kernel.launch(one, stream, (n, results)) }.unwrap();
    })
}

/// Two threads bind the same reference. What it is bound to then is kept.
#[test]
fn a_reference_keeps_what_the_driver_has() {
    alone();
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    let picture = module.texture_reference("picture").unwrap();
    let plain = TextureDescriptor::default();
    for _ in 0..50 {
        let arrays =
            [1.0_f32, 2.0].map(|value| Array::from_slice(&context, SQUARE, &[value; 4]).unwrap());
        std::thread::scope(|scope| {
            for array in &arrays {
                scope.spawn(|| picture.bind(array, &plain).unwrap());
            }
        });
        let bound = picture.array().unwrap();
        let is_first = bound == arrays[0].raw();
        assert!(is_first || bound == arrays[1].raw());
        drop(arrays);
        // It would get the memory of one that is not kept.
        let next = [(); 4].map(|()| Array::from_slice(&context, SQUARE, &[9.0_f32; 4]).unwrap());
        assert_eq!(fetch(&module, 0.5, 0.5), if is_first { 1.0 } else { 2.0 });
        drop(next);
    }
}

const SQUARE: ArrayShape = ArrayShape::D2 {
    width: 2,
    height: 2,
};

#[test]
fn a_reference_reads_what_is_bound_to_it() {
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    let picture = module.texture_reference("picture").unwrap();
    let array = Array::from_slice(&context, SQUARE, &[1.0_f32, 2.0, 5.0, 10.0]).unwrap();
    let plain = TextureDescriptor::default();
    picture.bind(&array, &plain).unwrap();
    assert_eq!(picture.array().unwrap(), array.raw());
    drop(array);
    assert_eq!(fetch(&module, 1.5, 1.5), 10.0);

    // Bound again, read otherwise.
    let other = Array::from_slice(&context, SQUARE, &[3.0_f32, 5.0, 7.0, 9.0]).unwrap();
    let smooth = TextureDescriptor {
        address: [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp],
        filter: FilterMode::Linear,
        normalized_coordinates: true,
        ..plain
    };
    picture.bind(&other, &smooth).unwrap();
    assert_eq!(picture.descriptor().unwrap(), smooth);
    assert_eq!(fetch(&module, 0.5, 0.5), 6.0);
    // Half way over the edge that wraps, in the upper row.
    assert_eq!(fetch(&module, 1.0, 0.25), 4.0);

    let mut rows = PitchedBuffer::new(&context, 2, 2).unwrap();
    rows.write(&[11.0_f32, 12.0, 13.0, 14.0]).unwrap();
    picture.bind(&rows, &plain).unwrap();
    assert_eq!(fetch(&module, 1.5, 0.5), 12.0);

    let levels = MipmappedArray::<f32>::new(&context, SQUARE, 2, ArrayFlags::default()).unwrap();
    levels
        .level(0)
        .unwrap()
        .write(&[21.0, 22.0, 23.0, 24.0])
        .unwrap();
    let normalized = TextureDescriptor {
        normalized_coordinates: true,
        ..plain
    };
    picture.bind(&levels, &normalized).unwrap();
    assert_eq!(fetch(&module, 0.25, 0.75), 23.0);
}

#[test]
fn references_of_one_module_are_apart() {
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    let array = Array::from_slice(&context, SQUARE, &[1.0_f32; 4]).unwrap();
    let table = DeviceBuffer::from_slice(&context, &[0.5_f32, 1.5, 2.5]).unwrap();
    let plain = TextureDescriptor::default();
    module
        .texture_reference("picture")
        .unwrap()
        .bind(&array, &plain)
        .unwrap();
    module
        .texture_reference("table")
        .unwrap()
        .bind(&table, &plain)
        .unwrap();
    drop(table);
    let _others: Vec<_> = (0..4)
        .map(|_| DeviceBuffer::from_slice(&context, &[9.0_f32; 3]))
        .collect();
    assert_eq!((look_up(&module, 0), look_up(&module, 2)), (0.5, 2.5));
    assert_eq!(fetch(&module, 0.5, 0.5), 1.0);
}

#[test]
fn a_surface_reference_writes() {
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    let canvas = module.surface_reference("canvas").unwrap();
    let shape = ArrayShape::D1 { width: 3 };
    let flags = ArrayFlags::default().surface();
    let mut row = Array::with_flags(&context, shape, flags).unwrap();
    row.write(&[1_u32, 2, 3]).unwrap();
    canvas.bind(&row).unwrap();
    assert_eq!(canvas.array().unwrap(), row.raw());
    let stream = Stream::new(&context).unwrap();
    let paint = module.kernel("paint").unwrap();
    unsafe { paint.launch(LaunchConfig::default(), &stream, (8_u32, 77_u32)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(row.to_vec().unwrap(), [1, 2, 77]);

    let plain = Array::<u32>::new(&context, shape).unwrap();
    assert!(matches!(canvas.bind(&plain), Err(Error::NotForSurfaces)));
}

#[test]
fn what_is_no_reference() {
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    for name in ["nothing", "number", "with\0nul"] {
        let missing = module.texture_reference(name).unwrap_err();
        assert!(
            matches!(&missing, Error::UnknownReference { name: found } if found == name),
            "{missing}"
        );
    }
    assert!(module.surface_reference("nothing").is_err());
    let words = Array::<u32>::new(&context, SQUARE).unwrap();
    let smooth = TextureDescriptor {
        filter: FilterMode::Linear,
        ..TextureDescriptor::default()
    };
    let picture = module.texture_reference("picture").unwrap();
    assert!(matches!(
        picture.bind(&words, &smooth),
        Err(Error::IntegerFilter { .. })
    ));
}

#[test]
fn a_library_keeps_what_its_modules_are_bound_to() {
    let context = context();
    if module(&context).is_none() {
        return;
    }
    let library = Library::load(&context, PTX.as_bytes()).unwrap();
    let bind = |values: &[f32]| {
        let module = library.module(&context).unwrap();
        let table = DeviceBuffer::from_slice(&context, values).unwrap();
        let reference = module.texture_reference("table").unwrap();
        reference
            .bind(&table, &TextureDescriptor::default())
            .unwrap();
    };
    bind(&[0.5, 1.5, 2.5]);
    // What is allocated now must not lie where the table is.
    let others: Vec<_> = (0..8)
        .map(|_| DeviceBuffer::from_slice(&context, &[9.0_f32; 3]).unwrap())
        .collect();
    let module = library.module(&context).unwrap();
    assert_eq!(look_up(&module, 1), 1.5);
    bind(&[3.5, 4.5, 5.5]);
    assert_eq!(look_up(&module, 2), 5.5);
    assert_eq!(others[0].to_vec().unwrap(), [9.0; 3]);
}

#[test]
fn a_module_is_unloaded_after_the_kernels_that_read_what_is_bound() {
    alone();
    let context = context();
    let Some(module) = module(&context) else {
        return;
    };
    // A texel by its number is one of linear memory: from an array, an H200 gave 0.
    let row = DeviceBuffer::from_slice(&context, &[0.5_f32, 1.5, 2.5]).unwrap();
    module
        .texture_reference("table")
        .unwrap()
        .bind(&row, &TextureDescriptor::default())
        .unwrap();
    let results = DeviceBuffer::<f32>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    let stream = Stream::non_blocking(&context).unwrap();
    let (_go, wait) = mpsc::channel::<()>();
    let patience = Duration::from_millis(100);
    stream
        .call(move || wait.recv_timeout(patience).unwrap_or_default())
        .unwrap();
    let look_up = module.kernel("look_up").unwrap();
    unsafe { look_up.launch(LaunchConfig::default(), &stream, (2_u32, &results)) }.unwrap();
    drop((look_up, module, row));
    stream.synchronize().unwrap();
    assert_eq!(results.to_vec().unwrap(), [2.5]);
}
