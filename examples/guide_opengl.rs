//! OpenGL, as in the guide's driver chapter (3.3.13.1): a kernel moves the
//! vertices of a surface in a buffer object. Here no window shows them: EGL makes
//! an OpenGL context without a display, and the buffer is read back.
//!
//! `cargo run --release --example guide_opengl [auto|nvidia|nvidia:N|cpu]`

pub mod egl;

use std::error::Error;

use ptxkit::driver::opengl::{Access, Buffer};
use ptxkit::driver::{Context, CudaError, Device, Module, Stream, select};
use ptxkit::launch;

const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry createVertices(.param .u64 positions, .param .f32 time,
                               .param .u32 width, .param .u32 height)
{
    .reg .b32 %r<9>;
    .reg .f32 %f<12>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [positions];
    ld.param.f32 %f1, [time];
    ld.param.u32 %r1, [width];
    ld.param.u32 %r2, [height];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %ntid.y;
    mov.u32 %r5, %tid.y;
    mad.lo.u32 %r7, %r3, %r4, %r5;
    // u = 2 x / width - 1, v = 2 y / height - 1
    cvt.rn.f32.u32 %f2, %r6;
    cvt.rn.f32.u32 %f3, %r1;
    div.rn.f32 %f4, %f2, %f3;
    fma.rn.f32 %f4, %f4, 0f40000000, 0fBF800000;
    cvt.rn.f32.u32 %f2, %r7;
    cvt.rn.f32.u32 %f3, %r2;
    div.rn.f32 %f5, %f2, %f3;
    fma.rn.f32 %f5, %f5, 0f40000000, 0fBF800000;
    // w = sin(4 u + time) cos(4 v + time) / 2
    fma.rn.f32 %f6, %f4, 0f40800000, %f1;
    fma.rn.f32 %f7, %f5, 0f40800000, %f1;
    sin.approx.f32 %f6, %f6;
    cos.approx.f32 %f7, %f7;
    mul.f32 %f8, %f6, %f7;
    mul.f32 %f8, %f8, 0f3F000000;
    mov.f32 %f9, 0f3F800000;
    mad.lo.u32 %r8, %r7, %r1, %r6;
    mul.wide.u32 %rd2, %r8, 16;
    add.s64 %rd3, %rd1, %rd2;
    st.global.v4.f32 [%rd3], {%f4, %f8, %f5, %f9};
    ret;
}
";

const WIDTH: u32 = 256;
const HEIGHT: u32 = 128;

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let create_vertices = Module::load(&context, PTX.as_bytes())?.kernel("createVertices")?;
    let stream = Stream::new(&context)?;
    let opengl = match egl::OpenGl::of("NVIDIA") {
        Ok(opengl) => opengl,
        Err(why) => {
            println!("{}: left out, without OpenGL: {why}", device.name()?);
            return Ok(());
        }
    };
    let vertices = vec![[0.0_f32; 4]; (WIDTH * HEIGHT) as usize];
    let object = opengl.buffer(&vertices);
    // SAFETY: the OpenGL context is current on this thread and lives on, as the object does.
    let mut buffer = match unsafe { Buffer::register(&context, object, Access::WriteDiscard) } {
        Err(error) if error.code() == Some(CudaError::NOT_SUPPORTED) => {
            println!("{}: left out: {error}", device.name()?);
            return Ok(());
        }
        registered => registered?,
    };

    // What a window's display function does for each frame.
    for frame in 0..3 {
        let time = frame as f32 * 0.01;
        let positions = buffer.map(&stream)?;
        let grid = (WIDTH / 16, HEIGHT / 16);
        // SAFETY: the kernel writes WIDTH x HEIGHT positions, which the buffer object has.
        unsafe {
            launch!(create_vertices[grid, (16, 16), &stream](&positions, time, WIDTH, HEIGHT))
        }?;
        positions.unmap()?;
        // OpenGL has the buffer back, and draws.
        let drawn = opengl.numbers::<[f32; 4]>(object, vertices.len());
        let [u, w, v, one] = drawn[(HEIGHT / 2 * WIDTH + WIDTH / 4) as usize];
        assert_eq!((u, v, one), (-0.5, 0.0, 1.0));
        let expected = (4.0 * u + time).sin() * (4.0 * v + time).cos() / 2.0;
        assert!((w - expected).abs() < 1e-4, "{w} {expected}");
    }
    println!(
        "{}: {} vertices, three frames",
        device.name()?,
        vertices.len()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
