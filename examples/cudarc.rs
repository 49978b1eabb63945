//! A cudarc application with cached loading: one line is ptxkit's.
//!
//! `cargo run --release --features cudarc-interop --example cudarc`

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};

const PTX: &str = include_str!("../ptx-samples/vecadd.ptx");
const N: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cudarc panics where there is no driver; ptxkit says so.
    ptxkit::driver::Driver::nvidia()?;

    let context = CudaContext::new(0)?;
    let stream = context.default_stream();

    // Instead of `context.load_module(Ptx::from_src(PTX))?`, which compiles in every process:
    let module = ptxkit::interop::load(&context, "vecadd.ptx", PTX.as_bytes())?;

    let vecadd = module.load_function("vecadd")?;
    let numbers: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let a = stream.clone_htod(&numbers)?;
    let b = stream.clone_htod(&numbers)?;
    let mut sum = stream.alloc_zeros::<f32>(N)?;
    let n = N as u32;
    let mut launch = stream.launch_builder(&vecadd);
    launch.arg(&a).arg(&b).arg(&mut sum).arg(&n);
    // SAFETY: the kernel takes these parameters, and stays within the buffers.
    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
    assert_eq!(stream.clone_dtoh(&sum)?[N - 1], 2.0 * (N - 1) as f32);

    // The same kernel by ptxkit, with its arguments checked, in cudarc's stream.
    let ours = ptxkit::interop::context(&context)?;
    let vecadd = ptxkit::interop::kernel(&ours, &vecadd)?;
    // SAFETY: nothing captures the stream.
    let queue = unsafe { ptxkit::interop::stream(&stream) }?;
    // SAFETY: the launch is refused.
    let error = unsafe { vecadd.launch(ptxkit::driver::LaunchConfig::default(), &queue, (1_u32,)) }
        .unwrap_err();
    println!("{N} sums are right, and a wrong launch is told: {error}");
    Ok(())
}
