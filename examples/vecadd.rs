//! Adds two vectors on whatever device there is, through the library.
//!
//! `cargo run --example vecadd [auto|nvidia|nvidia:N|cpu]`

use ptxkit::driver::{Context, Count, DeviceBuffer, LaunchConfig, Module, Stream, select};

const PTX: &str = include_str!("../ptx-samples/vecadd.ptx");
const N: u32 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    let chosen = select(word.parse()?)?;
    println!("{} ({})", chosen.device.name()?, chosen.why);

    let context = Context::primary(&chosen.device)?;
    let vecadd = Module::load(&context, PTX.as_bytes())?.kernel("vecadd")?;
    // SAFETY: `vecadd(a, b, sum, n)` reads n values of a and b, and writes n of sum.
    let vecadd = unsafe { vecadd.typed::<(*const f32, *const f32, *mut f32, Count<u32>)>() }?;
    let stream = Stream::new(&context)?;

    let numbers: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let a = DeviceBuffer::from_slice(&context, &numbers)?;
    let b = DeviceBuffer::from_slice(&context, &numbers)?;
    let mut sum = DeviceBuffer::<f32>::new(&context, numbers.len())?;

    let config = LaunchConfig::for_elements(N, 256);
    vecadd.launch(config, &stream, (&a, &b, &mut sum, N))?;
    stream.synchronize()?;

    let sum = sum.to_vec()?;
    let wrong = sum
        .iter()
        .zip(&numbers)
        .filter(|(sum, n)| **sum != **n + **n)
        .count();
    println!("{N} sums, {wrong} wrong");
    Ok(())
}
