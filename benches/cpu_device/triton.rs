//! Kernels that Triton compiled, beside the same in C: a row of 1000 values a block, or one
//! block after the other. A product of halves by `mma.sync` has no peer.

use std::time::Instant;

use ptxkit::driver::{DeviceBuffer, LaunchConfig};

use super::{Bench, Outcome, paired};

pub const ROWS: usize = 1 << 12;
pub const COLUMNS: usize = 1000;
/// The bytes of shared memory that Triton asks for, rounded up.
pub const SHARED: u32 = 8 << 10;

/// The values lie close to each other: their exponentials are no denormal numbers.
pub fn values(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 37 % 113) as f32 / 16.0 - 3.0)
        .collect()
}

pub fn softmax(bench: &Bench<'_>) -> Outcome {
    let title = "softmax of 4096 x 1000, Triton, C";
    if bench.skips(title) {
        return Ok(());
    }
    type Peer = unsafe extern "C" fn(*const f32, *mut f32, usize, usize);
    // SAFETY: peers.c declares it so.
    let peer = unsafe { bench.peers.get::<Peer>("softmax")? };
    let (kernel, stream) = bench.kernel("softmax", include_bytes!("../kernels/softmax.ptx"))?;
    let from = values(ROWS * COLUMNS);
    let on_device = DeviceBuffer::from_slice(bench.context, &from)?;
    let to = DeviceBuffer::<f32>::zeroed(bench.context, from.len())?;
    let unused = DeviceBuffer::<f32>::zeroed(bench.context, 1)?;
    let mut expected = vec![0.0_f32; from.len()];
    let (columns, rows) = (COLUMNS as u32, ROWS as u32);
    let ratio = paired::paired(
        title,
        31,
        2.0,
        || {
            let config = LaunchConfig::new([64, 1, 1], [256, 1, 1]).with_shared(SHARED);
            let (strides, size) = ((columns, columns), (rows, columns));
            let args = (
                &to, &on_device, strides.0, strides.1, size.0, size.1, &unused, &unused,
            );
            // SAFETY: the buffers have this many rows and columns.
            unsafe { kernel.launch(config, &stream, args) }.expect("the launch");
            stream.synchronize().expect("the kernel");
        },
        // SAFETY: the arrays have this many rows and columns.
        || unsafe { peer(from.as_ptr(), expected.as_mut_ptr(), COLUMNS, ROWS) },
    );
    bench.c.borrow_mut().push(ratio);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * b.abs().max(1e-3);
    assert!(to.to_vec()?.iter().zip(&expected).all(close), "the same");
    Ok(())
}

pub fn layer_norm(bench: &Bench<'_>) -> Outcome {
    let title = "layer norm of 4096 x 1000, Triton, C";
    if bench.skips(title) {
        return Ok(());
    }
    type Peer = unsafe extern "C" fn(*const u16, *mut u16, *const u16, *const u16, usize, usize);
    // SAFETY: peers.c declares it so, with halves.
    let peer = unsafe { bench.peers.get::<Peer>("layer_norm")? };
    let ptx = include_bytes!("../kernels/layer_norm.ptx");
    let (kernel, stream) = bench.kernel("layer_norm", ptx)?;
    let (from, weight, bias) = (halves(ROWS * COLUMNS), halves(COLUMNS), halves(COLUMNS));
    let context = bench.context;
    let on_device = DeviceBuffer::from_slice(context, &from)?;
    let (w, b) = (
        DeviceBuffer::from_slice(context, &weight)?,
        DeviceBuffer::from_slice(context, &bias)?,
    );
    let to = DeviceBuffer::<u16>::zeroed(context, from.len())?;
    let [mean, scale, unused] = [ROWS, ROWS, 1].map(|n| DeviceBuffer::<f32>::zeroed(context, n));
    let (mean, scale, unused) = (mean?, scale?, unused?);
    let mut expected = vec![0_u16; from.len()];
    let columns = COLUMNS as u32;
    let ratio = paired::paired(
        title,
        31,
        2.0,
        || {
            let config = LaunchConfig::new([ROWS as u32, 1, 1], [256, 1, 1]).with_shared(SHARED);
            let args = (
                &on_device, &to, &w, &b, &mean, &scale, columns, 1e-5_f32, columns, &unused,
                &unused,
            );
            // SAFETY: the buffers have this many rows and columns.
            unsafe { kernel.launch(config, &stream, args) }.expect("the launch");
            stream.synchronize().expect("the kernel");
        },
        // SAFETY: the arrays have this many rows and columns.
        || unsafe {
            peer(
                from.as_ptr(),
                expected.as_mut_ptr(),
                weight.as_ptr(),
                bias.as_ptr(),
                COLUMNS,
                ROWS,
            );
        },
    );
    bench.c.borrow_mut().push(ratio);
    let close = |(a, b): (&u16, &u16)| close_halves(*a, *b);
    assert!(to.to_vec()?.iter().zip(&expected).all(close), "the same");
    Ok(())
}

/// Halves of one sign that are neighbours have neighbouring bits.
pub fn close_halves(a: u16, b: u16) -> bool {
    a.abs_diff(b) <= 8 || (a | b) & 0x7FFF < 0x2000
}

pub fn halves(count: usize) -> Vec<u16> {
    values(count).into_iter().map(half).collect()
}

pub fn matmul(bench: &Bench<'_>) -> Outcome {
    let title = "product of 512 x 512 halves, Triton";
    if bench.skips(title) {
        return Ok(());
    }
    const SIDE: usize = 512;
    const TILE: usize = 64;
    let (kernel, stream) = bench.kernel("matmul", include_bytes!("../kernels/matmul.ptx"))?;
    // Multiples of 1/16, of which all sums are exact.
    let numbers = |period: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 % period) as f32 - 6.0) / 16.0;
        (0..SIDE * SIDE).map(value).collect()
    };
    let (a, b) = (numbers(13), numbers(11));
    let halves = |values: &[f32]| -> Vec<u16> { values.iter().copied().map(half).collect() };
    let on_device = DeviceBuffer::from_slice(bench.context, &halves(&a))?;
    let other = DeviceBuffer::from_slice(bench.context, &halves(&b))?;
    let c = DeviceBuffer::<u16>::zeroed(bench.context, SIDE * SIDE)?;
    let unused = DeviceBuffer::<f32>::zeroed(bench.context, 1)?;
    let blocks = (SIDE / TILE) * (SIDE / TILE);
    let config = LaunchConfig::new([blocks as u32, 1, 1], [128, 1, 1]).with_shared(16 << 10);
    let n = SIDE as u32;
    let mut seconds = Vec::new();
    for _ in 0..31 {
        let start = Instant::now();
        let args = (&on_device, &other, &c, n, n, n, n, n, n, &unused, &unused);
        // SAFETY: the buffers have this many rows and columns.
        unsafe { kernel.launch(config, &stream, args) }?;
        stream.synchronize()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let speed = 2.0 * (SIDE as f64).powi(3) / seconds[seconds.len() / 2] / 1e9;
    println!("{title}: {speed:.1} GFLOP/s, goal 10");
    let results = c.to_vec()?;
    for (row, column) in [(0, 0), (3, 511), (255, 130), (511, 77)] {
        let terms = (0..SIDE).map(|k| a[row * SIDE + k] * b[k * SIDE + column]);
        let expected = half_of_sum(terms.sum());
        assert_eq!(results[row * SIDE + column], expected, "the same");
    }
    Ok(())
}

/// A sum that is no subnormal half, rounded to the nearest half, of two to the even one.
fn half_of_sum(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = bits >> 13 & 1;
    half(f32::from_bits(bits + 0xFFF + odd))
}

/// The bits of a multiple of 1/16 below 32 as a half.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xFF) - 112;
    (bits >> 16 & 0x8000 | exponent << 10 | bits >> 13 & 0x3FF) as u16
}
