//! A buffer and an image of Vulkan, written by kernels, without a window.
//!
//! Vulkan makes both and exports their memory; the driver imports it. First Vulkan fills them,
//! then kernels change what they find, and then Vulkan copies both to where the host reads them.
//! All of it is queued at once, the kernels first: two exported semaphores keep the order, a
//! timeline that the kernels wait for, and a binary one that Vulkan waits for.

mod vulkan;

use std::error::Error;

use ptxkit::driver::external::{Memory, Semaphore, SemaphoreKind};
use ptxkit::driver::{
    ArrayFlags, ArrayShape, Context, LaunchConfig, Module, Selection, Stream, Surface, select,
};
use vulkan::Vulkan;

/// What Vulkan fills the buffer and the image with.
const BUFFER: u32 = 1_000_000;
const IMAGE: u32 = 2_000_000;

const VALUES: u32 = 1 << 20;
const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;

const PTX: &[u8] = b".version 7.0 .target sm_50 .address_size 64
// values[i] += i
.visible .entry add_index(.param .u64 values, .param .u32 count) {
    .reg .b32 %i, %n, %v, %t; .reg .b64 %at; .reg .pred %out;
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %i, %n, %t;
    ld.param.u32 %n, [count];
    setp.ge.u32 %out, %i, %n;
    @%out ret;
    ld.param.u64 %at, [values];
    mad.wide.u32 %at, %i, 4, %at;
    ld.global.u32 %v, [%at];
    add.u32 %v, %v, %i;
    st.global.u32 [%at], %v;
    ret;
}
// image[y][x] += y * width + x; a block is a row
.visible .entry add_place(.param .u64 image, .param .u32 width) {
    .reg .b32 %x, %y, %n, %v, %b; .reg .b64 %s;
    ld.param.u64 %s, [image];
    ld.param.u32 %n, [width];
    mov.u32 %y, %ctaid.x;
    mov.u32 %x, %tid.x;
    shl.b32 %b, %x, 2;
    suld.b.2d.b32.trap {%v}, [%s, {%b, %y}];
    mad.lo.u32 %n, %y, %n, %x;
    add.u32 %v, %v, %n;
    sust.b.2d.b32.trap [%s, {%b, %y}], {%v};
    ret;
}";

fn main() -> Result<(), Box<dyn Error>> {
    let device = select(Selection::Nvidia(None))?.device;
    let context = Context::primary(&device)?;
    let stream = Stream::non_blocking(&context)?;
    let module = Module::load(&context, PTX)?;

    let mut vulkan = Vulkan::new(device.uuid()?)?;
    println!("{} in Vulkan: {}", device.name()?, vulkan.name());
    let (buffer, image) = vulkan.make(VALUES, WIDTH, HEIGHT)?;
    let (filled, written) = vulkan.make_semaphores()?;

    // SAFETY: Vulkan has just exported each of them, with these sizes and of these kinds.
    let (buffer, image, filled, written) = unsafe {
        (
            Memory::import(&context, buffer.descriptor, buffer.bytes)?,
            Memory::import_dedicated(&context, image.descriptor, image.bytes)?,
            Semaphore::import(&context, SemaphoreKind::Timeline, filled)?,
            Semaphore::import(&context, SemaphoreKind::Binary, written)?,
        )
    };
    let values = buffer.buffer::<u32>(0, VALUES as usize)?;
    let shape = ArrayShape::D2 {
        width: WIDTH as usize,
        height: HEIGHT as usize,
    };
    // SAFETY: the image begins with its memory, and has one level of this shape, of R32_UINT.
    let image =
        unsafe { image.mipmapped_array::<u32>(0, shape, 1, ArrayFlags::default().surface()) }?;
    let surface = Surface::new(&image.level(0)?)?;

    filled.wait(1, &stream)?;
    let config = LaunchConfig::for_elements(VALUES, 256);
    // SAFETY: the kernel changes as many values as the buffer has.
    unsafe {
        module
            .kernel("add_index")?
            .launch(config, &stream, (&values, VALUES))
    }?;
    let config = LaunchConfig::new([HEIGHT, 1, 1], [WIDTH, 1, 1]);
    // SAFETY: the kernel changes the texels of the image, of which a block is a row.
    unsafe {
        module
            .kernel("add_place")?
            .launch(config, &stream, (&surface, WIDTH))
    }?;
    written.signal(0, &stream)?;
    assert!(!stream.is_done()?, "the kernels wait for Vulkan");

    let (values, texels) = vulkan.fill_and_read(BUFFER, IMAGE)?;
    stream.synchronize()?;
    let differs = |found: &[u32], first: u32| {
        let mut pairs = found.iter().zip(0..);
        pairs
            .find(|(found, n)| **found != first + n)
            .map(|(found, n)| (n, *found))
    };
    if let Some((place, found)) = differs(&values, BUFFER) {
        return Err(format!("the buffer has {found} at {place}").into());
    }
    if let Some((place, found)) = differs(&texels, IMAGE) {
        return Err(format!("the image has {found} at {place}").into());
    }
    println!(
        "{} values and {} texels are as the kernels wrote them",
        values.len(),
        texels.len()
    );
    Ok(())
}
