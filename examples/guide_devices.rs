//! Several devices, as in the guide's driver chapter (3.3.8): their enumeration,
//! kernels that reach a peer's memory, and copies between peers.
//!
//! `cargo run --release --example guide_devices [auto|nvidia|nvidia:N|cpu]`; with
//! `PTXKIT_CPU_DEVICES=2` there are two CPU devices.

use std::error::Error;

use ptxkit::driver::{Context, Device, DeviceBuffer, Kernel, LaunchConfig, Module, Stream, select};

const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry MyKernel(.param .u64 p)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 128, %r2;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f1, %f1, 0f3F800000;
    st.global.f32 [%rd3], %f1;
    ret;
}
";

const N: usize = 1024;
const CONFIG: LaunchConfig = LaunchConfig::for_elements(N as u32, 128);

/// A device with the sample's kernel, which adds 1 to each number.
fn with_kernel(device: &Device) -> Result<(Context, Stream, Kernel), ptxkit::driver::Error> {
    let context = Context::primary(device)?;
    let kernel = Module::load(&context, PTX.as_bytes())?.kernel("MyKernel")?;
    let stream = Stream::new(&context)?;
    Ok((context, stream, kernel))
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let devices = device.driver().devices()?;
    for device in &devices {
        let (major, minor) = device.compute_capability()?;
        println!(
            "{}: {}, capability {major}.{minor}",
            device.ordinal(),
            device.name()?
        );
    }
    let [first, second, ..] = &devices[..] else {
        println!("the rest is left out: it takes two devices");
        return Ok(());
    };
    let (context0, stream0, kernel0) = with_kernel(first)?;
    let (context1, stream1, kernel1) = with_kernel(second)?;

    // No context has to be made current: memory and kernels know theirs.
    let p0 = DeviceBuffer::<f32>::zeroed(&context0, N)?;
    // SAFETY: the kernel accesses as many values as the buffer has.
    unsafe { kernel0.launch(CONFIG, &stream0, (&p0,)) }?;
    stream0.synchronize()?;
    let mut sums = 1.0;

    // Without access the launch is refused: the buffer is another device's.
    if second.can_access(first)? {
        // SAFETY: the launch is refused.
        unsafe { kernel1.launch(CONFIG, &stream1, (&p0,)) }.unwrap_err();
        let access = context1.enable_peer(&context0)?;
        // SAFETY: as above.
        unsafe { kernel1.launch(CONFIG, &stream1, (&p0,)) }?;
        stream1.synchronize()?;
        sums += 1.0;
        drop(access);
    }
    assert_eq!(p0.to_vec()?, [sums; N]);

    // A copy needs no access.
    let mut p1 = DeviceBuffer::<f32>::zeroed(&context1, N)?;
    p1.copy_from_peer(&p0)?;
    // SAFETY: as above.
    unsafe { kernel1.launch(CONFIG, &stream1, (&p1,)) }?;
    stream1.synchronize()?;
    assert_eq!(p1.to_vec()?, [sums + 1.0; N]);
    println!("{sums} launches on the memory of device 0, and one on the copy");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
