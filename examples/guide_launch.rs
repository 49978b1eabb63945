//! Launches, as in the guide's driver chapter: arguments as pointers and as one
//! buffer with the device's alignment (3.3.3), a structure by value, and dynamic
//! shared memory (3.3.5).
//!
//! `cargo run --release --example guide_launch [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{
    Context, Device, DeviceBuffer, Float2, Float4, Module, ParamBuffer, Stream, select,
};
use ptxkit::{device_param, launch};

// `gather` has the parameters of the guide's sample, and gives their sum.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry gather(.param .u32 i, .param .align 16 .b8 f4[16], .param .u8 c,
                       .param .f32 f, .param .u64 devPtr, .param .align 8 .b8 f2[8])
{
    .reg .b16 %h;
    .reg .b32 %r<3>;
    .reg .f32 %f<16>;
    .reg .b64 %rd;
    ld.param.u32 %r1, [i];
    cvt.rn.f32.u32 %f0, %r1;
    ld.param.v4.f32 {%f1, %f2, %f3, %f4}, [f4];
    ld.param.u8 %h, [c];
    cvt.rn.f32.u16 %f5, %h;
    ld.param.f32 %f6, [f];
    ld.param.v2.f32 {%f7, %f8}, [f2];
    add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2; add.f32 %f0, %f0, %f3;
    add.f32 %f0, %f0, %f4; add.f32 %f0, %f0, %f5; add.f32 %f0, %f0, %f6;
    add.f32 %f0, %f0, %f7; add.f32 %f0, %f0, %f8;
    ld.param.u64 %rd, [devPtr];
    st.global.f32 [%rd], %f0;
    ret;
}
.visible .entry by_value(.param .align 16 .b8 value[32], .param .u64 out)
{
    .reg .f32 %f<6>;
    .reg .b64 %rd;
    ld.param.f32 %f1, [value];
    ld.param.v4.f32 {%f2, %f3, %f4, %f5}, [value+16];
    add.f32 %f1, %f1, %f5;
    ld.param.u64 %rd, [out];
    st.global.f32 [%rd], %f1;
    ret;
}
";

device_param! {
    /// Between the two are 12 bytes of padding, as on the device.
    struct MyStruct {
        f: f32,
        f4: Float4,
    }
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let module = Module::load(&context, PTX.as_bytes())?;
    let gather = module.kernel("gather")?;
    let stream = Stream::new(&context)?;
    let out = DeviceBuffer::<f32>::zeroed(&context, 1)?;
    let (f4, f2) = (Float4::from([1.0, 2.0, 3.0, 4.0]), Float2::from([5.0, 6.0]));

    // A pointer an argument.
    // SAFETY: the kernel writes what `out` has room for.
    unsafe { launch!(gather[1, 1, &stream](100_u32, f4, 10_u8, 0.5_f32, &out, f2)) }?;
    assert_eq!(out.to_vec()?, [131.5]);

    // One buffer, in which each argument stands at a multiple of its alignment.
    let mut params = ParamBuffer::new();
    params.push(200_u32).push(f4).push(10_u8).push(0.5_f32);
    params.push(&out).push(f2);
    // SAFETY: as above.
    unsafe { gather.launch_buffer((1, 1).into(), &stream, &params) }?;
    assert_eq!(out.to_vec()?, [231.5]);

    // A structure by value.
    let by_value = module.kernel("by_value")?;
    // SAFETY: as above.
    unsafe { launch!(by_value[1, 1, &stream](MyStruct { f: 40.0, f4 }, &out)) }?;
    assert_eq!(out.to_vec()?, [44.0]);

    // What does not fit the kernel is told before the launch.
    // SAFETY: the launch is refused.
    let error = unsafe { launch!(gather[1, 1, &stream](100_u32, f2, 10_u8, 0.5_f32, &out, f4)) }
        .unwrap_err();
    println!("{}: {error}", device.name()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
