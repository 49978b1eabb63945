//! Buffers and images of OpenGL in kernels, drawn by nobody.

use ptxkit::driver::opengl::{self, Access, Image, ImageUse, Rendering};
use ptxkit::driver::{
    Array, ArrayFormat, ArrayShape, CudaError, Error, LaunchConfig, MipmappedArray, Module, Stream,
    Surface, Texture, TextureDescriptor,
};

use crate::examples::guide_opengl::egl::{OpenGl, R32F, RGBA8UI, Target};
use crate::kernels::PLACE;
use crate::support::{context, device, is_gpu, isolated};
use crate::surface;
use crate::texture::{self, at, fetch, numbers, reds};

#[test]
fn a_kernel_writes_a_buffer_of_opengl() {
    let name = "opengl::a_kernel_writes_a_buffer_of_opengl";
    isolated(name, &[], write_a_buffer);
}

fn write_a_buffer() {
    let context = context();
    if !is_gpu() {
        // Whether there is an OpenGL context or not.
        let name = OpenGl::of("").map_or(1, |opengl| opengl.buffer(&[0_u32; 8]));
        // SAFETY: the buffer lives as long as the process.
        let error = unsafe { opengl::Buffer::register(&context, name, Access::ReadWrite) };
        for error in [
            error.unwrap_err(),
            // SAFETY: as above.
            unsafe {
                let used = opengl::ImageUse::default();
                opengl::Image::register(&context, name, 0x0de1, Access::ReadOnly, used)
            }
            .unwrap_err(),
            opengl::devices(device().driver(), Rendering::All).unwrap_err(),
        ] {
            assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
            assert!(error.to_string().contains("OpenGL"), "{error}");
        }
        return;
    }
    let opengl = match OpenGl::of("NVIDIA") {
        Ok(opengl) => opengl,
        Err(why) => {
            eprintln!("OpenGL is left out: {why}");
            // Without a context of OpenGL the driver refuses, and nothing crashes.
            // SAFETY: no object is registered.
            unsafe { opengl::Buffer::register(&context, 1, Access::ReadWrite) }.unwrap_err();
            return;
        }
    };
    assert!(
        !opengl::devices(device().driver(), Rendering::All)
            .unwrap()
            .is_empty()
    );
    let name = opengl.buffer(&[77_u32; 8]);
    let stream = Stream::new(&context).unwrap();
    let place = Module::load(&context, PLACE.as_bytes())
        .unwrap()
        .kernel("place")
        .unwrap();
    // SAFETY: the OpenGL context is current, and the object lives as long as the process.
    let mut buffer =
        unsafe { opengl::Buffer::register(&context, name, Access::ReadWrite) }.unwrap();
    for _ in 0..2 {
        let mapped = buffer.map(&stream).unwrap();
        assert_eq!(mapped.bytes(), 32);
        unsafe { place.launch(LaunchConfig::new([2, 1, 1], [4, 1, 1]), &stream, (&mapped,)) }
            .unwrap();
        mapped.unmap().unwrap();
    }
    assert_eq!(opengl.numbers::<u32>(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    buffer.set_access(Access::WriteDiscard).unwrap();
    drop(buffer);
    assert_eq!(opengl.numbers::<u32>(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn kernels_read_and_write_an_image_of_opengl() {
    let name = "opengl::kernels_read_and_write_an_image_of_opengl";
    isolated(name, &[], use_images);
}

fn use_images() {
    let Some(opengl) = is_gpu().then(|| OpenGl::of("NVIDIA").ok()).flatten() else {
        eprintln!("images are left out, without OpenGL of NVIDIA");
        return;
    };
    a_plane(&opengl);
    layers_and_levels(&opengl);
    what_cannot_be_shared(&opengl);
}

const ALL: ImageUse = ImageUse {
    surface: true,
    gather: false,
};

/// A texture and a surface of the same texels, and copies.
fn a_plane(opengl: &OpenGl) {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let texels = numbers(32);
    let name = opengl.texture(Target::Plane, R32F, [8, 4, 1], &[&texels]);
    let target = Target::Plane as u32;
    // SAFETY: the OpenGL context is current, and the texture lives as long as the process.
    let mut image =
        unsafe { Image::register(&context, name, target, Access::ReadWrite, ALL) }.unwrap();
    let mapped = image.map(&stream).unwrap();
    // SAFETY: dropped before the image is given back, when its work is done.
    let mut array =
        unsafe { Array::<f32>::borrow_raw(&context, mapped.array(0, 0).unwrap()) }.unwrap();
    let plane = ArrayShape::D2 {
        width: 8,
        height: 4,
    };
    assert_eq!(array.shape(), plane);
    assert_eq!(array.to_vec().unwrap(), texels);
    let read = Texture::new(&array, &TextureDescriptor::default()).unwrap();
    let found = fetch(&read, texture::TEX_2D, &[at([0.0, 0.0]), at([7.0, 3.0])]);
    assert_eq!(reds(&found), [texels[0], texels[31]]);
    drop(read);
    let written = Surface::new(&array).unwrap();
    let store = "sust.b.2d.b32.trap [%t, {%i0, %i1}], %i2;";
    let seven = 7.0_f32.to_bits().cast_signed();
    surface::run(&written, store, &[surface::with([4 * 5, 2, seven])]);
    drop(written);
    array.write_at([1, 0, 0], [2, 1, 1], &[-1.0, -2.0]).unwrap();
    drop(array);
    mapped.unmap().unwrap();
    let mut expected = texels;
    expected[2 * 8 + 5] = 7.0;
    expected[1..3].copy_from_slice(&[-1.0, -2.0]);
    let found: Vec<f32> = opengl.texels((Target::Plane, name), R32F, 0, 32);
    assert_eq!(found, expected);
    // Mapped again, with less to do.
    image.set_access(Access::ReadOnly).unwrap();
    let mapped = image.map(&stream).unwrap();
    let raw = mapped.array(0, 0).unwrap();
    // SAFETY: as above.
    let other = unsafe { Array::<u32>::borrow_raw(&context, raw) };
    assert!(matches!(
        other,
        Err(Error::ArrayFormat {
            found: Some(ArrayFormat::F32),
            channels: 1,
            ..
        })
    ));
    for (layer, level) in [(1, 0), (0, 1)] {
        let error = mapped.array(layer, level).unwrap_err();
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{error}");
    }
    // SAFETY: as above.
    let array = unsafe { Array::<f32>::borrow_raw(&context, raw) }.unwrap();
    assert_eq!(array.to_vec().unwrap(), expected);
}

/// Each layer of each level alone, and all levels together.
fn layers_and_levels(opengl: &OpenGl) {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let texels: Vec<[u8; 4]> = (0..60).map(|n| [n, 2 * n, 3 * n, 4 * n]).collect();
    let (large, small) = texels.split_at(48);
    let name = opengl.texture(Target::Layers, RGBA8UI, [4, 4, 3], &[large, small]);
    let target = Target::Layers as u32;
    let used = ImageUse::default();
    // SAFETY: the OpenGL context is current, and the texture lives as long as the process.
    let mut image =
        unsafe { Image::register(&context, name, target, Access::ReadOnly, used) }.unwrap();
    let mapped = image.map(&stream).unwrap();
    for layer in 0..3 {
        for (level, texels, side) in [(0, large, 4), (1, small, 2)] {
            let raw = mapped.array(layer, level).unwrap();
            // SAFETY: dropped before the image is given back, when its work is done.
            let array = unsafe { Array::<[u8; 4]>::borrow_raw(&context, raw) }.unwrap();
            let [width, height] = [side; 2];
            assert_eq!(array.shape(), ArrayShape::D2 { width, height });
            let first = layer as usize * side * side;
            assert_eq!(array.to_vec().unwrap(), texels[first..first + side * side]);
        }
    }
    // SAFETY: as above.
    let levels =
        unsafe { MipmappedArray::<[u8; 4]>::borrow_raw(&context, mapped.levels().unwrap(), 2) }
            .unwrap();
    let layered = |side| ArrayShape::D2Layered {
        width: side,
        height: side,
        layers: 3,
    };
    assert_eq!(levels.shape(), layered(4));
    let level = levels.level(1).unwrap();
    assert_eq!(level.shape(), layered(2));
    assert_eq!(level.to_vec().unwrap(), small);
    assert!(matches!(levels.level(2), Err(Error::MipmapLevel { .. })));
}

/// The driver takes a texture of three channels, and one by another target.
fn what_cannot_be_shared(opengl: &OpenGl) {
    let context = context();
    let whole = opengl.texture(Target::Plane, R32F, [1, 1, 1], &[&[1.0_f32]]);
    let plane = Target::Plane as u32;
    for (name, target, refused) in [
        (9999, plane, CudaError::INVALID_HANDLE),
        (whole, 1, CudaError::INVALID_VALUE),
    ] {
        // SAFETY: the OpenGL context is current.
        let image = unsafe { Image::register(&context, name, target, Access::ReadOnly, ALL) };
        assert_eq!(image.unwrap_err().code(), Some(refused), "{name} {target}");
    }
}
