//! Shared memory, as in the guide's driver chapter (3.3.5): a matrix product in
//! tiles, which each block keeps in shared memory.
//!
//! `cargo run --release --example guide_shared [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{Context, Device, DeviceBuffer, KernelAttribute, Module, Stream, select};
use ptxkit::launch;

const PTX: &str = include_str!("../ptx-samples/matmul_shared.ptx");
const BLOCK_SIZE: u32 = 16;
const N: u32 = 96;

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let mat_mul = Module::load(&context, PTX.as_bytes())?.kernel("matmul_shared")?;
    let stream = Stream::new(&context)?;

    let n = N as usize;
    let a: Vec<f32> = (0..n * n).map(|at| (at % 7) as f32).collect();
    let b: Vec<f32> = (0..n * n).map(|at| (at % 5) as f32 - 2.0).collect();
    let d_a = DeviceBuffer::from_slice(&context, &a)?;
    let d_b = DeviceBuffer::from_slice(&context, &b)?;
    let d_c = DeviceBuffer::<f32>::zeroed(&context, n * n)?;

    let grid = (N / BLOCK_SIZE, N / BLOCK_SIZE);
    // SAFETY: the kernel accesses N x N values of each buffer.
    unsafe { launch!(mat_mul[grid, (BLOCK_SIZE, BLOCK_SIZE), &stream](&d_a, &d_b, &d_c, N)) }?;
    stream.synchronize()?;

    // Small whole numbers: the sums are exact in any order.
    let c = d_c.to_vec()?;
    for (row, column) in [(0, 0), (17, 80), (n - 1, n - 1)] {
        let dot: f32 = (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum();
        assert_eq!(c[row * n + column], dot);
    }
    let shared = mat_mul.attribute(KernelAttribute::SHARED_SIZE_BYTES)?;
    println!(
        "{}: {n} x {n}, tiles in {shared} bytes of shared memory",
        device.name()?
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
