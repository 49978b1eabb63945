//! Surfaces, layered textures and cubemaps, as in the guide (3.3.12.2 and
//! 3.2.10): a picture copied from one surface to another, as objects and as
//! references of the module, and layers and faces written as surfaces and read as
//! textures.
//!
//! `cargo run --release --example guide_surfaces [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{
    self, Array, ArrayFlags, ArrayShape, Context, Device, DeviceBuffer, LaunchConfig, Module,
    Stream, Surface, Texture, TextureDescriptor, select,
};

// A surface's first coordinate counts bytes: texels of four bytes here.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry copyKernel(.param .u64 input, .param .u64 output)
{
    .reg .b32 %x, %y, %v; .reg .b64 %in, %out;
    ld.param.u64 %in, [input];
    ld.param.u64 %out, [output];
    mov.u32 %x, %tid.x;
    shl.b32 %x, %x, 2;
    mov.u32 %y, %tid.y;
    suld.b.2d.b32.trap %v, [%in, {%x, %y}];
    sust.b.2d.b32.trap [%out, {%x, %y}], %v;
    ret;
}
// Writes 10 times its layer and its column to each texel.
.visible .entry number(.param .u64 surface)
{
    .reg .b32 %x, %y, %z, %n; .reg .f32 %f; .reg .b64 %s;
    ld.param.u64 %s, [surface];
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    mad.lo.u32 %n, %z, 10, %x;
    cvt.rn.f32.u32 %f, %n;
    shl.b32 %x, %x, 2;
    sust.b.a2d.b32.trap [%s, {%z, %x, %y, %y}], %f;
    ret;
}
.visible .entry fetchLayer(.param .u64 texture, .param .u32 layer, .param .f32 x, .param .u64 out)
{
    .reg .b32 %l; .reg .f32 %x, %r, %g, %b, %a; .reg .b64 %t, %to;
    ld.param.u64 %t, [texture];
    ld.param.u32 %l, [layer];
    ld.param.f32 %x, [x];
    ld.param.u64 %to, [out];
    tex.a2d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%l, %x, %x, %x}];
    st.global.f32 [%to], %r;
    ret;
}
.visible .entry fetchDirection(.param .u64 texture, .param .f32 x, .param .f32 y, .param .f32 z,
                               .param .u64 out)
{
    .reg .f32 %x, %y, %z, %r, %g, %b, %a; .reg .b64 %t, %to;
    ld.param.u64 %t, [texture];
    ld.param.f32 %x, [x];
    ld.param.f32 %y, [y];
    ld.param.f32 %z, [z];
    ld.param.u64 %to, [out];
    tex.cube.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%x, %y, %z, %z}];
    st.global.f32 [%to], %r;
    ret;
}
";

// The same with surface references, which are variables of the module.
const REFERENCES: &str = "
.version 7.0
.target sm_50
.address_size 64
.global .surfref inputSurfRef;
.global .surfref outputSurfRef;
.visible .entry copyKernel()
{
    .reg .b32 %x, %y, %v;
    mov.u32 %x, %tid.x;
    shl.b32 %x, %x, 2;
    mov.u32 %y, %tid.y;
    suld.b.2d.b32.trap %v, [inputSurfRef, {%x, %y}];
    sust.b.2d.b32.trap [outputSurfRef, {%x, %y}], %v;
    ret;
}
";

/// From one reference to the other, where the driver still has them.
fn by_reference(
    stream: &Stream,
    input: &Array<u32>,
    output: &Array<u32>,
    config: LaunchConfig,
) -> Result<bool, Box<dyn Error>> {
    let bound = || -> Result<Module, driver::Error> {
        let module = Module::load(stream.context(), REFERENCES.as_bytes())?;
        module.surface_reference("inputSurfRef")?.bind(input)?;
        module.surface_reference("outputSurfRef")?.bind(output)?;
        Ok(module)
    };
    match bound() {
        Ok(module) => {
            // SAFETY: the kernel accesses the surfaces that were bound.
            unsafe { module.kernel("copyKernel")?.launch(config, stream, ()) }?;
            stream.synchronize()?;
            Ok(true)
        }
        Err(error @ (driver::Error::EntryMissing { .. } | driver::Error::Jit(_))) => {
            println!("no surface references: {error}");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let module = Module::load(&context, PTX.as_bytes())?;
    let stream = Stream::new(&context)?;
    let flags = ArrayFlags::default().surface();

    // From one surface to another.
    let shape = ArrayShape::D2 {
        width: 16,
        height: 8,
    };
    let picture: Vec<u32> = (0..128).map(|n| n * 3).collect();
    let mut input = Array::with_flags(&context, shape, flags)?;
    input.write(&picture)?;
    let output = Array::<u32>::with_flags(&context, shape, flags)?;
    let config = LaunchConfig::new([1; 3], [16, 8, 1]);
    let surfaces = (&Surface::new(&input)?, &Surface::new(&output)?);
    // SAFETY: the kernel accesses the surfaces alone.
    unsafe {
        module
            .kernel("copyKernel")?
            .launch(config, &stream, surfaces)
    }?;
    stream.synchronize()?;
    assert_eq!(output.to_vec()?, picture);
    let again = Array::<u32>::with_flags(&context, shape, flags)?;
    if by_reference(&stream, &output, &again, config)? {
        assert_eq!(again.to_vec()?, picture);
    }

    // Layers, of which each is a picture of its own.
    let number = module.kernel("number")?;
    let shape = ArrayShape::D2Layered {
        width: 4,
        height: 4,
        layers: 3,
    };
    let layers = Array::<f32>::with_flags(&context, shape, flags)?;
    let config = LaunchConfig::new([1; 3], [4, 4, 3]);
    // SAFETY: the kernel accesses the surface alone.
    unsafe { number.launch(config, &stream, (&Surface::new(&layers)?,)) }?;
    let texture = Texture::new(&layers, &TextureDescriptor::default())?;
    let result = DeviceBuffer::<f32>::zeroed(&context, 1)?;
    let fetch = module.kernel("fetchLayer")?;
    let one = LaunchConfig::default();
    // SAFETY: the kernel reads the texture and writes one value.
    unsafe { fetch.launch(one, &stream, (&texture, 2_u32, 3.5_f32, &result)) }?;
    stream.synchronize()?;
    assert_eq!(result.to_vec()?, [23.0]);

    // The faces of a cube, met by a direction: -z is the sixth.
    let shape = ArrayShape::Cubemap { side: 4 };
    let faces = Array::<f32>::with_flags(&context, shape, flags)?;
    let config = LaunchConfig::new([1; 3], [4, 4, 6]);
    // SAFETY: the kernel accesses the surface alone.
    unsafe { number.launch(config, &stream, (&Surface::new(&faces)?,)) }?;
    let by_direction = TextureDescriptor {
        normalized_coordinates: true,
        ..TextureDescriptor::default()
    };
    let texture = Texture::new(&faces, &by_direction)?;
    let fetch = module.kernel("fetchDirection")?;
    let (x, y, z) = (-0.75_f32, 0.25_f32, -1.0_f32);
    // SAFETY: the kernel reads the texture and writes one value.
    unsafe { fetch.launch(one, &stream, (&texture, x, y, z, &result)) }?;
    stream.synchronize()?;
    assert_eq!(result.to_vec()?, [53.0]);
    println!("{}: surfaces, layers and faces", device.name()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
