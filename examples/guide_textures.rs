//! Textures, as in the guide's driver chapter (3.3.12.1): a picture turned by
//! fetching each of its points where it was before, from a texture object and,
//! where the driver still has them, from a texture reference of the module.
//!
//! `cargo run --release --example guide_textures [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{
    self, AddressMode, Array, ArrayShape, Context, Device, DeviceBuffer, FilterMode, LaunchConfig,
    Module, PitchedBuffer, Stream, Texture, TextureDescriptor, select,
};

// Each thread turns one point about the middle of the picture. The two kernels
// differ in what they fetch from.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.global .texref texRef;
.visible .entry transformKernel(.param .u64 output, .param .u32 width, .param .u32 height,
                                .param .f32 cosine, .param .f32 sine, .param .u64 texObj)
{
    .reg .b32 %r<12>; .reg .b64 %rd<5>; .reg .f32 %f<20>; .reg .pred %p;
    ld.param.u64 %rd1, [output];
    ld.param.u32 %r1, [width];
    ld.param.u32 %r2, [height];
    ld.param.f32 %f1, [cosine];
    ld.param.f32 %f2, [sine];
    ld.param.u64 %rd2, [texObj];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ntid.y; mov.u32 %r5, %tid.y;
    mad.lo.u32 %r7, %r3, %r4, %r5;
    setp.ge.u32 %p, %r6, %r1;
    @%p exit;
    setp.ge.u32 %p, %r7, %r2;
    @%p exit;
    // The point's middle, from -0.5 to 0.5 in both directions.
    cvt.rn.f32.u32 %f3, %r6; add.f32 %f3, %f3, 0f3F000000;
    cvt.rn.f32.u32 %f4, %r1; div.rn.f32 %f5, %f3, %f4; sub.f32 %f5, %f5, 0f3F000000;
    cvt.rn.f32.u32 %f3, %r7; add.f32 %f3, %f3, 0f3F000000;
    cvt.rn.f32.u32 %f4, %r2; div.rn.f32 %f6, %f3, %f4; sub.f32 %f6, %f6, 0f3F000000;
    // Turned, from 0 to 1.
    mul.f32 %f7, %f5, %f1; mul.f32 %f8, %f6, %f2; sub.f32 %f7, %f7, %f8;
    mul.f32 %f9, %f6, %f1; mul.f32 %f8, %f5, %f2; add.f32 %f9, %f9, %f8;
    add.f32 %f7, %f7, 0f3F000000;
    add.f32 %f9, %f9, 0f3F000000;
    setp.eq.u64 %p, %rd2, 0;
    @%p bra reference;
    tex.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [%rd2, {%f7, %f9}];
    bra store;
reference:
    tex.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [texRef, {%f7, %f9}];
store:
    mad.lo.u32 %r8, %r7, %r1, %r6;
    mul.wide.u32 %rd3, %r8, 4;
    add.u64 %rd3, %rd1, %rd3;
    st.global.f32 [%rd3], %f10;
    ret;
}
";

const WIDTH: usize = 48;
const HEIGHT: usize = 32;

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let module = Module::load(&context, PTX.as_bytes())?;
    let transform = module.kernel("transformKernel")?;
    let stream = Stream::new(&context)?;

    let shape = ArrayShape::D2 {
        width: WIDTH,
        height: HEIGHT,
    };
    let picture: Vec<f32> = (0..WIDTH * HEIGHT).map(|n| n as f32).collect();
    let array = Array::from_slice(&context, shape, &picture)?;
    let smooth = TextureDescriptor {
        address: [AddressMode::Wrap; 3],
        filter: FilterMode::Linear,
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    let texture = Texture::new(&array, &smooth)?;

    // A half turn.
    let output = DeviceBuffer::<f32>::zeroed(&context, picture.len())?;
    let blocks = [WIDTH.div_ceil(16) as u32, HEIGHT.div_ceil(16) as u32, 1];
    let config = LaunchConfig::new(blocks, [16, 16, 1]);
    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    let (cosine, sine) = (-1.0_f32, 0.0_f32);
    // SAFETY: the kernel writes width x height values, which the output has.
    unsafe {
        transform.launch(
            config,
            &stream,
            (&output, width, height, cosine, sine, &texture),
        )
    }?;
    stream.synchronize()?;
    let check = |turned: Vec<f32>| {
        for (found, expected) in turned.iter().zip(picture.iter().rev()) {
            // The middle of a texel is met up to the rounding of its coordinates.
            assert!((found - expected).abs() < 0.5, "{found} {expected}");
        }
    };
    check(output.to_vec()?);

    // The same through the module's reference, to the array and to rows of memory.
    let again = || -> Result<(), Box<dyn Error>> {
        let again = DeviceBuffer::<f32>::zeroed(&context, picture.len())?;
        // SAFETY: the kernel writes width x height values, which the output has.
        unsafe {
            transform.launch(
                config,
                &stream,
                (&again, width, height, cosine, sine, 0_u64),
            )
        }?;
        stream.synchronize()?;
        check(again.to_vec()?);
        Ok(())
    };
    match module.texture_reference("texRef") {
        Ok(reference) => {
            reference.bind(&array, &smooth)?;
            again()?;
            let mut rows = PitchedBuffer::new(&context, WIDTH, HEIGHT)?;
            rows.write(&picture)?;
            reference.bind(&rows, &smooth)?;
            again()?;
        }
        Err(error @ driver::Error::EntryMissing { .. }) => println!("{error}"),
        Err(error) => return Err(error.into()),
    }
    println!("{}: {WIDTH} x {HEIGHT} points turned", device.name()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
