//! The CPU device beside PoCL's, which runs the same algorithms in OpenCL C, and the geometric
//! mean of the ratios.

use ptxkit::driver::{Argument as _, DeviceBuffer, LaunchConfig};

use super::opencl::{Argument, OpenCl};
use super::{Bench, N, Outcome, SIDE, numbers, paired, triton};

/// A kernel that both sides have, with the same parameters.
struct Work {
    name: &'static str,
    ptx: &'static [u8],
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    values: Vec<Value>,
    /// The argument with the result.
    result: usize,
    same: fn(&[u8], &[u8]) -> bool,
}

enum Value {
    Buffer(Vec<u8>),
    Word(u32),
    Float(f32),
}

/// Both sides of each kernel, and the geometric mean.
pub fn all(bench: &Bench<'_>) -> Outcome {
    let mut wanted = KERNELS.to_vec();
    wanted.retain(|(title, _)| !bench.skips(title));
    if wanted.is_empty() {
        return Ok(());
    }
    let Some(opencl) = OpenCl::new(include_str!("../kernels/pocl.cl"))? else {
        println!("PoCL is not installed (pocl-opencl-icd): nothing is measured beside it");
        return Ok(());
    };
    for (title, work) in &wanted {
        let ratio = compare(bench, &opencl, title, &work())?;
        bench.pocl.borrow_mut().push(ratio);
    }
    Ok(())
}

fn compare(
    bench: &Bench<'_>,
    opencl: &OpenCl,
    title: &str,
    work: &Work,
) -> Result<f64, Box<dyn std::error::Error>> {
    let (kernel, stream) = bench.kernel(work.name, work.ptx)?;
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for value in &work.values {
        let Value::Buffer(bytes) = value else {
            continue;
        };
        ours.push(DeviceBuffer::from_slice(bench.context, bytes)?);
        others.push(opencl.buffer(bytes)?);
    }
    let references: Vec<&DeviceBuffer<u8>> = ours.iter().collect();
    let (mut arguments, mut opencl_arguments, mut buffer) = (Vec::new(), Vec::new(), 0);
    let mut result = 0;
    for (number, value) in work.values.iter().enumerate() {
        let (argument, other) = match value {
            Value::Word(word) => (word.arg(), Argument::Word(word.to_ne_bytes())),
            Value::Float(float) => (float.arg(), Argument::Word(float.to_ne_bytes())),
            Value::Buffer(_) => {
                if number == work.result {
                    result = buffer;
                }
                buffer += 1;
                let (ours, other) = (&references[buffer - 1], others[buffer - 1]);
                (ours.arg(), Argument::Buffer(other))
            }
        };
        arguments.push(argument);
        opencl_arguments.push(other);
    }
    let config = LaunchConfig::new(work.grid, work.block).with_shared(work.shared);
    let other = opencl.kernel(work.name, &opencl_arguments)?;
    let run = || {
        // SAFETY: the buffers have what the kernel accesses.
        unsafe { kernel.launch(config, &stream, &arguments) }.expect("the launch");
        stream.synchronize().expect("the kernel");
    };
    let peer = || {
        let ran = opencl.run(other, work.grid, work.block);
        ran.expect("the kernel");
    };
    run();
    peer();
    let computed = ours[result].to_vec()?;
    let mut expected = vec![0; computed.len()];
    opencl.read(others[result], &mut expected)?;
    let same = (work.same)(&computed, &expected);
    assert!(same, "{title}: both sides compute the same");
    let ratio = paired::paired(title, 31, 1.0, run, peer);
    others
        .into_iter()
        .try_for_each(|other| opencl.release(other))?;
    Ok(ratio)
}

fn exact(a: &[u8], b: &[u8]) -> bool {
    a == b
}

fn close_floats(a: &[u8], b: &[u8]) -> bool {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let words = bytes.chunks_exact(4);
        words
            .map(|w| f32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
            .collect()
    };
    let mut pairs = floats(a).into_iter().zip(floats(b));
    pairs.all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1e-3))
}

fn close_halves(a: &[u8], b: &[u8]) -> bool {
    let halves = |bytes: &[u8]| -> Vec<u16> {
        let halves = bytes.chunks_exact(2);
        halves.map(|h| u16::from_ne_bytes([h[0], h[1]])).collect()
    };
    let mut pairs = halves(a).into_iter().zip(halves(b));
    pairs.all(|(a, b)| triton::close_halves(a, b))
}

fn floats(values: &[f32]) -> Value {
    Value::Buffer(values.iter().flat_map(|x| x.to_ne_bytes()).collect())
}

fn words(values: impl Iterator<Item = u32>) -> Value {
    Value::Buffer(values.flat_map(u32::to_ne_bytes).collect())
}

fn zeros(bytes: usize) -> Value {
    Value::Buffer(vec![0; bytes])
}

/// A kernel's title, and what makes its buffers when its turn comes.
type Kernel = (&'static str, fn() -> Work);

const KERNELS: &[Kernel] = &[
    ("matmul_shared n = 512, PoCL", || {
        let n = 512;
        Work {
            name: "matmul_shared",
            ptx: include_bytes!("../../ptx-samples/matmul_shared.ptx"),
            grid: [n as u32 / 16, n as u32 / 16, 1],
            block: [16, 16, 1],
            shared: 0,
            values: vec![
                floats(&numbers(n * n, 7, 1.0)),
                floats(&numbers(n * n, 5, 0.25)),
                zeros(4 * n * n),
                Value::Word(n as u32),
            ],
            result: 2,
            same: exact,
        }
    }),
    ("vecadd of 2^24 floats, PoCL", || Work {
        name: "vecadd",
        ptx: include_bytes!("../../ptx-samples/vecadd.ptx"),
        grid: [N as u32 / 256, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        values: vec![
            floats(&numbers(N, 1 << 20, 1.0)),
            floats(&numbers(N, 1000, 0.5)),
            zeros(4 * N),
            Value::Word(N as u32),
        ],
        result: 2,
        same: exact,
    }),
    ("saxpy of 2^24 floats, PoCL", || Work {
        name: "saxpy",
        ptx: include_bytes!("../../ptx-samples/saxpy.ptx"),
        grid: [N as u32 / 16 / 256, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        values: vec![
            Value::Float(0.5),
            floats(&numbers(N, 1 << 20, 1.0)),
            floats(&numbers(N, 1000, 0.5)),
            Value::Word(N as u32),
        ],
        result: 2,
        same: exact,
    }),
    ("reduction of 2^24 floats, PoCL", || {
        let values: Vec<f32> = (0..N).map(|i| f32::from(i % 16 == 0)).collect();
        Work {
            name: "reduction",
            ptx: include_bytes!("../../ptx-samples/reduction.ptx"),
            grid: [64, 1, 1],
            block: [256, 1, 1],
            shared: 0,
            values: vec![
                floats(&values),
                zeros(4 * 65),
                zeros(4),
                Value::Word(N as u32),
            ],
            result: 2,
            same: exact,
        }
    }),
    ("scan of blocks, 2^24 words, PoCL", || Work {
        name: "scan",
        ptx: include_bytes!("../../ptx-samples/scan.ptx"),
        grid: [N as u32 / 256, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        values: vec![words((0..N as u32).map(|i| i % 1000)), zeros(4 * N)],
        result: 1,
        same: exact,
    }),
    ("histogram of 2^24 bytes, PoCL", || {
        let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
        Work {
            name: "histogram",
            ptx: include_bytes!("../../ptx-samples/histogram.ptx"),
            grid: [64, 1, 1],
            block: [256, 1, 1],
            shared: 0,
            values: vec![
                Value::Buffer((0..N as u32).map(byte).collect()),
                zeros(4 * 256),
                Value::Word(N as u32),
            ],
            result: 1,
            same: exact,
        }
    }),
    ("stencil of 4096 x 4096, PoCL", || {
        image(
            "stencil",
            include_bytes!("../../ptx-samples/stencil.ptx"),
            8,
        )
    }),
    ("transpose of 4096 x 4096, PoCL", || {
        image(
            "transpose",
            include_bytes!("../../ptx-samples/transpose.ptx"),
            32,
        )
    }),
    ("softmax of 4096 x 1000, Triton, PoCL", || {
        let (rows, columns) = (triton::ROWS as u32, triton::COLUMNS as u32);
        let from = triton::values(triton::ROWS * triton::COLUMNS);
        Work {
            name: "softmax",
            ptx: include_bytes!("../kernels/softmax.ptx"),
            grid: [64, 1, 1],
            block: [256, 1, 1],
            shared: triton::SHARED,
            values: vec![
                zeros(4 * from.len()),
                floats(&from),
                Value::Word(columns),
                Value::Word(columns),
                Value::Word(rows),
                Value::Word(columns),
                zeros(4),
                zeros(4),
            ],
            result: 0,
            same: close_floats,
        }
    }),
    ("layer norm of 4096 x 1000, Triton, PoCL", || {
        let (rows, columns) = (triton::ROWS, triton::COLUMNS);
        let halves = |count| {
            let halves = triton::halves(count).into_iter();
            Value::Buffer(halves.flat_map(u16::to_ne_bytes).collect())
        };
        Work {
            name: "layer_norm",
            ptx: include_bytes!("../kernels/layer_norm.ptx"),
            grid: [rows as u32, 1, 1],
            block: [256, 1, 1],
            shared: triton::SHARED,
            values: vec![
                halves(rows * columns),
                zeros(2 * rows * columns),
                halves(columns),
                halves(columns),
                zeros(4 * rows),
                zeros(4 * rows),
                Value::Word(columns as u32),
                Value::Float(1e-5),
                Value::Word(columns as u32),
                zeros(4),
                zeros(4),
            ],
            result: 1,
            same: close_halves,
        }
    }),
];

/// A kernel over `from`, `to`, their columns and rows, with blocks for 32 columns.
fn image(name: &'static str, ptx: &'static [u8], rows_of_block: usize) -> Work {
    let side = SIDE as u32;
    Work {
        name,
        ptx,
        grid: [side / 32, side / rows_of_block as u32, 1],
        block: [32, 8, 1],
        shared: 0,
        values: vec![
            floats(&numbers(SIDE * SIDE, 1009, 4.0)),
            zeros(4 * SIDE * SIDE),
            Value::Word(side),
            Value::Word(side),
        ],
        result: 1,
        same: exact,
    }
}
