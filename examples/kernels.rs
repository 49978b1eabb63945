//! Adds two vectors by a kernel that is declared: its PTX is read and checked while this
//! program is compiled.
//!
//! `cargo run --example kernels [auto|nvidia|nvidia:N|cpu]`

use ptxkit::cache::Cache;
use ptxkit::driver::{Context, Count, DeviceBuffer, DeviceSlice, LaunchConfig, Stream, select};
use ptxkit::loader::Loader;

ptxkit::kernels! {
    pub mod vector in "../ptx-samples/vecadd.ptx";
    unsafe extern {
        // SAFETY: it reads n values of a and b, and writes n of sum.
        pub safe fn vecadd(
            a: &DeviceSlice<f32>,
            b: &DeviceSlice<f32>,
            sum: &mut DeviceSlice<f32>,
            n: Count<u32>,
        );
    }
}

const N: u32 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    let chosen = select(word.parse()?)?;
    println!("{} ({})", chosen.device.name()?, chosen.why);

    let context = Context::primary(&chosen.device)?;
    let loader = Loader::new(context.clone(), Cache::from_environment());
    let kernels = vector::load(&loader)?;
    let stream = Stream::new(&context)?;

    let numbers: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let a = DeviceBuffer::from_slice(&context, &numbers)?;
    let b = DeviceBuffer::from_slice(&context, &numbers)?;
    let mut sum = DeviceBuffer::<f32>::new(&context, numbers.len())?;
    kernels.vecadd(
        LaunchConfig::for_elements(N, 256),
        &stream,
        &a,
        &b,
        &mut sum,
        N,
    )?;

    let sum = sum.to_vec()?;
    let pairs = sum.iter().zip(&numbers);
    let wrong = pairs.filter(|(sum, n)| **sum != **n + **n).count();
    println!("{N} sums, {wrong} wrong");
    Ok(())
}
