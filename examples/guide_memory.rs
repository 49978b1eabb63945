//! Memory, as in the guide's chapter on device memory and the driver chapter:
//! pitched rows (3.2.2) and arrays (3.3.4), page-locked, mapped and portable host memory (3.2.4),
//! unified addressing (3.2.7, 3.3.9); and what came later: managed memory, pools
//! in stream order, and buffers that grow by mapping memory to their addresses.
//!
//! `cargo run --release --example guide_memory [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{
    Advice, Array, ArrayShape, Attach, Context, Device, DeviceAttribute, DeviceBuffer,
    GrowableBuffer, HostFlags, Kernel, LaunchConfig, Location, ManagedBuffer, MemoryPool, Module,
    PinnedBuffer, PitchedBuffer, RegisterFlags, Rows, Stream, copy, select,
};

/// Doubles `width` numbers in each of the rows, which lie `pitch` bytes apart.
const PTX: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry double_rows(.param .u64 rows, .param .u64 pitch, .param .u32 width)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .f32 %f;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [rows];
    ld.param.u64 %rd2, [pitch];
    ld.param.u32 %r1, [width];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p ret;
    mov.u32 %r6, %ctaid.y;
    cvt.u64.u32 %rd3, %r6;
    mad.lo.u64 %rd4, %rd3, %rd2, %rd1;
    mul.wide.u32 %rd5, %r5, 4;
    add.u64 %rd6, %rd4, %rd5;
    ld.global.f32 %f, [%rd6];
    add.f32 %f, %f, %f;
    st.global.f32 [%rd6], %f;
    ret;
}
";

const WIDTH: usize = 100;
const HEIGHT: usize = 8;

fn grid(rows: u32) -> LaunchConfig {
    LaunchConfig::new([(WIDTH as u32).div_ceil(64), rows, 1], [64, 1, 1])
}

/// Rows that the driver aligns, a rectangle of them in another place, and all of
/// them in an array.
fn pitched(context: &Context, stream: &Stream, double: &Kernel) -> Result<(), Box<dyn Error>> {
    let mut rows = PitchedBuffer::<f32>::new(context, WIDTH, HEIGHT)?;
    let numbers: Vec<f32> = (0..WIDTH * HEIGHT).map(|n| n as f32).collect();
    rows.write(&numbers)?;
    let pitch = rows.pitch() as u64;
    // SAFETY: the kernel accesses the rows that it is told of, and the buffer has them.
    unsafe { double.launch(grid(HEIGHT as u32), stream, (&rows, pitch, WIDTH as u32)) }?;
    stream.synchronize()?;
    assert_eq!(rows.to_vec()?[WIDTH + 1], 2.0 * numbers[WIDTH + 1]);

    let mut corner = DeviceBuffer::<f32>::zeroed(context, 4)?;
    let from = rows.rows().at([WIDTH - 2, HEIGHT - 2, 0]);
    corner.rows_mut(2)?.copy_from(from, [2, 2, 1])?;
    assert_eq!(corner.to_vec()?[3], 2.0 * numbers[WIDTH * HEIGHT - 1]);
    rows.rows_mut()
        .copy_from(Rows::of_slice(&[0.5; 6], 3)?, [3, 2, 1])?;
    assert_eq!(rows.to_vec()?[WIDTH..WIDTH + 4], [0.5, 0.5, 0.5, 206.0]);

    let shape = ArrayShape::D2 {
        width: WIDTH,
        height: HEIGHT,
    };
    let mut array = Array::<f32>::new(context, shape)?;
    array.copy_from_rows(&rows)?;
    assert_eq!(array.to_vec()?, rows.to_vec()?);
    Ok(())
}

/// Host memory that copies and kernels reach by themselves.
fn page_locked(context: &Context, stream: &Stream, double: &Kernel) -> Result<(), Box<dyn Error>> {
    let numbers = PinnedBuffer::from_slice(context, &[21.0_f32; WIDTH])?;
    // SAFETY: the kernel accesses the rows that it is told of, and the buffer has them.
    unsafe { double.launch(grid(1), stream, (&numbers, 0_u64, WIDTH as u32)) }?;
    assert_eq!(numbers.to_vec()?, [42.0; WIDTH]); // waits for the kernel

    let flags = HostFlags::default().write_combined();
    let mut upload = PinnedBuffer::<f32>::with_flags(context, WIDTH, flags)?;
    upload.write(&[1.5; WIDTH])?;
    let mut there = DeviceBuffer::new(context, WIDTH)?;
    there.write_async(&upload, stream)?;
    let mut own = vec![0.0; WIDTH];
    PinnedBuffer::borrowed(context, &mut own, RegisterFlags::default(), |own| {
        there.read_async(own, stream)
    })??;
    assert_eq!(own, [1.5; WIDTH]);
    Ok(())
}

/// One address space: what an address is, and copies that need not be told.
fn unified(context: &Context, stream: &Stream, double: &Kernel) -> Result<(), Box<dyn Error>> {
    let here = Location::from(context.device());
    let managed = ManagedBuffer::from_slice(context, &[8.0_f32; WIDTH], Attach::Global)?;
    if context
        .device()
        .attribute(DeviceAttribute::CONCURRENT_MANAGED_ACCESS)?
    {
        managed.advise(Advice::PreferredLocation, here)?;
        managed.prefetch(here, stream)?;
    }
    // SAFETY: the kernel accesses the rows that it is told of, and the buffer has them.
    unsafe { double.launch(grid(1), stream, (&managed, 0_u64, WIDTH as u32)) }?;
    managed.wait()?;
    let mut pinned = PinnedBuffer::zeroed(context, WIDTH)?;
    copy(&mut pinned, &managed)?;
    assert_eq!(pinned.to_vec()?, [16.0; WIDTH]);
    let found = context.pointer_attributes(managed.address())?;
    assert!(found.managed && found.range.contains(&managed.address()));
    Ok(())
}

/// Scratch memory that comes and goes in the order of the stream.
fn stream_ordered(device: &Device, stream: &Stream, double: &Kernel) -> Result<(), Box<dyn Error>> {
    let pool = MemoryPool::new(device)?;
    pool.set_release_threshold(u64::MAX)?;
    let mut result = PinnedBuffer::<f32>::zeroed(stream.context(), WIDTH)?;
    for round in 1..=3 {
        let mut scratch = pool.buffer::<f32>(stream, WIDTH)?;
        scratch.fill_async(round as f32, stream)?;
        // SAFETY: the kernel accesses the rows that it is told of, and the buffer has them.
        unsafe { double.launch(grid(1), stream, (&scratch, 0_u64, WIDTH as u32)) }?;
        scratch.read_async(&mut result, stream)?;
    }
    assert_eq!(result.to_vec()?, [6.0; WIDTH]);
    println!("the pool has {} bytes", pool.reserved()?.now);
    pool.trim_to(0)?;
    Ok(())
}

/// An array that grows without moving.
fn growing(context: &Context) -> Result<(), Box<dyn Error>> {
    let mut numbers = GrowableBuffer::<f32>::with_capacity(context, 16 << 20)?;
    for round in 0..4 {
        numbers.extend(&vec![round as f32; 200_000])?;
    }
    let mut last = [0.0];
    numbers.read_at(799_999, &mut last)?;
    assert_eq!(last, [3.0]);
    println!("{} bytes are mapped", numbers.mapped_bytes());
    Ok(())
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let stream = Stream::new(&context)?;
    let double = Module::load(&context, PTX.as_bytes())?.kernel("double_rows")?;
    pitched(&context, &stream, &double)?;
    page_locked(&context, &stream, &double)?;
    unified(&context, &stream, &double)?;
    if device.attribute(DeviceAttribute::MEMORY_POOLS_SUPPORTED)? {
        stream_ordered(&device, &stream, &double)?;
    }
    if device.attribute(DeviceAttribute::VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? {
        growing(&context)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
