//! Buffers of OpenGL in kernels, drawn by nobody.

use ptxkit::driver::opengl::{self, Access, Rendering};
use ptxkit::driver::{CudaError, LaunchConfig, Module, Stream};

use crate::examples::guide_opengl::egl::OpenGl;
use crate::kernels::PLACE;
use crate::support::{context, device, is_gpu, isolated};

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
        place
            .launch(LaunchConfig::new([2, 1, 1], [4, 1, 1]), &stream, (&mapped,))
            .unwrap();
        mapped.unmap().unwrap();
    }
    assert_eq!(opengl.numbers::<u32>(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    buffer.set_access(Access::WriteDiscard).unwrap();
    drop(buffer);
    assert_eq!(opengl.numbers::<u32>(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}
