//! The CPU device beside C: the samples' kernels against the same algorithms
//! in `peers.c`, built by `cc -O3 -march=native -fopenmp`, both on two threads.
//!
//! Then the same kernels beside PoCL's CPU device, where it is installed, which runs those of
//! `kernels/pocl.cl`, on two threads too.
//!
//! Then what has no peer: a launch of one block, and the first compilation of kernels. Then whole
//! processes that load a kernel and launch it: where the cache has its optimized code, beside
//! where it has nothing, and where it has the first code alone.
//!
//! `PTXKIT_PEERS` names a built library of `peers.c`, for a machine without `cc`. An argument
//! selects the kernels with it in their title, and leaves out the processes.

#[path = "cpu_device/opencl.rs"]
mod opencl;
#[path = "cpu_device/pocl.rs"]
mod pocl;
#[path = "cpu_device/single.rs"]
mod single;
#[path = "cpu_device/triton.rs"]
mod triton;

mod paired;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use libloading::Library;
use ptxkit::cache::{Cache, Environment, Policy};
use ptxkit::driver::{Context, DeviceBuffer, Driver, Kernel, LaunchConfig, Module, Stream};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Source};

type Peer = unsafe extern "C" fn(*const f32, *const f32, *mut f32, usize);

/// How often a process launches its kernel.
const LAUNCHES: &str = "PTXKIT_BENCH_LAUNCHES";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Ok(launches) = std::env::var(LAUNCHES) {
        return process(launches.parse()?);
    }
    // The peers run two threads; more of ours would compare machines. A thread of OpenMP that waits
    // for its next loop must not take one of the two cores from us.
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("OMP_WAIT_POLICY", "passive");
        std::env::set_var("PTXKIT_CPU_THREADS", "2");
        std::env::set_var("POCL_MAX_PTHREAD_COUNT", "2");
    }
    let scratch = tempfile::tempdir()?;
    // SAFETY: the library is built from peers.c and has no initialisers.
    let peers = unsafe { Library::new(build_peers(scratch.path())?)? };
    // The threads of OpenMP wait in code that would go with it.
    let peers = ManuallyDrop::new(peers);
    let context = Context::primary(&Driver::cpu()?.device(0)?)?;

    // With this in their titles.
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = wanted.unwrap_or_default();
    let bench = Bench {
        context: &context,
        peers: &peers,
        wanted: &wanted,
        c: RefCell::default(),
        pocl: RefCell::default(),
    };
    // Small integers and quarters: both sides sum exactly, in any order.
    let n = 512;
    let tiles = (n / 16) as u32;
    bench.compare(&Work {
        title: "matmul_shared n = 512, C",
        goal: 1.5,
        name: "matmul_shared",
        ptx: include_bytes!("../ptx-samples/matmul_shared.ptx"),
        config: LaunchConfig::new([tiles, tiles, 1], [16, 16, 1]),
        n,
        a: numbers(n * n, 7, 1.0),
        b: numbers(n * n, 5, 0.25),
    })?;
    let n = 1 << 24;
    bench.compare(&Work {
        title: "vecadd of 2^24 floats, C",
        goal: 1.1,
        name: "vecadd",
        ptx: include_bytes!("../ptx-samples/vecadd.ptx"),
        config: LaunchConfig::for_elements(n as u32, 256),
        n,
        a: numbers(n, 1 << 20, 1.0),
        b: numbers(n, 1000, 0.5),
    })?;
    bench.saxpy()?;
    bench.reduction()?;
    bench.scan()?;
    bench.histogram()?;
    bench.stencil()?;
    bench.transpose()?;
    triton::softmax(&bench)?;
    triton::layer_norm(&bench)?;
    triton::matmul(&bench)?;
    pocl::all(&bench)?;
    print_mean(
        "geometric mean of those of memory, C",
        &bench.c.borrow(),
        1.5,
    );
    print_mean("geometric mean of all, PoCL", &bench.pocl.borrow(), 1.0);
    single::launches(&bench)?;
    single::compilation(&bench)?;
    if !wanted.is_empty() {
        return Ok(());
    }
    for launches in [1, 10, 100] {
        processes(scratch.path(), launches)?;
    }
    Ok(())
}

/// A process that launches a kernel so many times, with the cache of its environment.
fn process(launches: u32) -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    let loader = Loader::new(context.clone(), Cache::from_environment());
    let ptx = include_bytes!("../ptx-samples/matmul_shared.ptx");
    let loaded = loader.load(
        &Source::new("matmul_shared.ptx", ptx),
        &JitOptions::default(),
    )?;
    let kernel = loaded.module.kernel("matmul_shared")?;
    let n = 128_u32;
    let [a, b, c] = [1.0_f32, 0.25, 0.0].map(|x| vec![x; (n * n) as usize]);
    let [a, b, c] = [a, b, c].map(|all| DeviceBuffer::from_slice(&context, &all));
    let (a, b, c) = (a?, b?, c?);
    let stream = Stream::new(&context)?;
    for _ in 0..launches {
        let config = LaunchConfig::new([n / 16, n / 16, 1], [16, 16, 1]);
        // SAFETY: the kernel accesses n * n values of each buffer.
        unsafe { kernel.launch(config, &stream, (&a, &b, &c, n)) }?;
        stream.synchronize()?;
    }
    assert_eq!(c.to_vec()?, vec![0.25 * n as f32; (n * n) as usize]);
    Ok(())
}

/// Processes with a cache, from start to end.
fn processes(scratch: &Path, launches: u32) -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?;
    let run = |folder: &Path, launches: u32| {
        let start = Instant::now();
        let status = Command::new(&program)
            .env(LAUNCHES, launches.to_string())
            .env("CUDA_CACHE_PATH", folder)
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        start.elapsed().as_secs_f64()
    };
    let cache = |folder: &Path| {
        Cache::new(Policy::from_environment(&Environment::of([(
            "CUDA_CACHE_PATH",
            folder,
        )])))
    };
    let hot = |folder: &Path| {
        let mut entries = cache(folder).entries().expect("the folder is there");
        entries.retain(|entry| entry.provenance.module.is_some());
        entries
    };
    let folder = |name: &str| scratch.join(format!("{name} {launches}"));
    let (full, first, empty) = (folder("full"), folder("first"), folder("empty"));
    while hot(&full).is_empty() {
        run(&full, 1000);
    }
    run(&first, 1);
    let without_hot = || {
        for entry in hot(&first) {
            std::fs::remove_file(entry.path).expect("the blob is there");
        }
        run(&first, launches)
    };
    let nothing = || {
        cache(&empty).clear().expect("no other process uses it");
        run(&empty, launches)
    };
    let title = |peer: &str| format!("process, {launches} launches; {peer}");
    paired::paired_by(
        &title("no cache"),
        31,
        1.0,
        || run(&full, launches),
        nothing,
    );
    let peer = title("first code");
    paired::paired_by(&peer, 31, 1.0, || run(&full, launches), without_hot);
    Ok(())
}

/// A kernel over `a`, `b`, a result of as many floats, and `n`.
struct Work {
    title: &'static str,
    goal: f64,
    /// Of the kernel and of the peer's function.
    name: &'static str,
    ptx: &'static [u8],
    config: LaunchConfig,
    n: usize,
    a: Vec<f32>,
    b: Vec<f32>,
}

fn numbers(count: usize, period: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| (i % period) as f32 * step).collect()
}

/// Elements of the kernels below.
const N: usize = 1 << 24;
/// Columns and rows of the two-dimensional ones.
const SIDE: usize = 1 << 12;

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Bench<'a> {
    context: &'a Context,
    peers: &'a Library,
    /// Part of the titles of what is measured.
    wanted: &'a str,
    /// The ratios beside C of the kernels after the first two, and those beside PoCL.
    c: RefCell<Vec<f64>>,
    pocl: RefCell<Vec<f64>>,
}

fn print_mean(title: &str, ratios: &[f64], goal: f64) {
    if ratios.len() > 1 {
        let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (sum / ratios.len() as f64).exp();
        println!("{title}: {mean:.3}, goal {goal}");
    }
}

impl Bench<'_> {
    fn skips(&self, title: &str) -> bool {
        !title.contains(self.wanted)
    }

    fn kernel(&self, name: &str, ptx: &[u8]) -> Result<(Kernel, Stream), ptxkit::driver::Error> {
        let kernel = Module::load(self.context, ptx)?.kernel(name)?;
        Ok((kernel, Stream::new(self.context)?))
    }

    fn compare(&self, work: &Work) -> Outcome {
        if self.skips(work.title) {
            return Ok(());
        }
        // SAFETY: peers.c declares every function so.
        let peer = unsafe { self.peers.get::<Peer>(work.name)? };
        let (kernel, stream) = self.kernel(work.name, work.ptx)?;
        let a = DeviceBuffer::from_slice(self.context, &work.a)?;
        let b = DeviceBuffer::from_slice(self.context, &work.b)?;
        let c = DeviceBuffer::<f32>::zeroed(self.context, work.a.len())?;
        let n = u32::try_from(work.n)?;
        let mut expected = vec![0.0_f32; work.a.len()];
        paired::paired(
            work.title,
            31,
            work.goal,
            || {
                // SAFETY: the kernels access n values of each buffer.
                unsafe { kernel.launch(work.config, &stream, (&a, &b, &c, n)) }
                    .expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: three arrays of as many floats as the function takes for `n`.
            || unsafe {
                peer(
                    work.a.as_ptr(),
                    work.b.as_ptr(),
                    expected.as_mut_ptr(),
                    work.n,
                );
            },
        );
        assert_eq!(c.to_vec()?, expected, "both sides compute the same");
        Ok(())
    }

    fn saxpy(&self) -> Outcome {
        let title = "saxpy of 2^24 floats, C";
        if self.skips(title) {
            return Ok(());
        }
        type Peer = unsafe extern "C" fn(f32, *const f32, *mut f32, usize);
        // SAFETY: peers.c declares it so.
        let peer = unsafe { self.peers.get::<Peer>("saxpy")? };
        let (kernel, stream) = self.kernel("saxpy", include_bytes!("../ptx-samples/saxpy.ptx"))?;
        let (x, mut expected) = (numbers(N, 1 << 20, 1.0), numbers(N, 1000, 0.5));
        let on_device = DeviceBuffer::from_slice(self.context, &x)?;
        let y = DeviceBuffer::from_slice(self.context, &expected)?;
        let config = LaunchConfig::for_elements(N as u32 / 16, 256);
        let (mut launches, mut calls) = (0, 0);
        let ratio = paired::paired(
            title,
            31,
            2.0,
            || {
                launches += 1;
                // SAFETY: N floats in both buffers.
                unsafe { kernel.launch(config, &stream, (0.5_f32, &on_device, &y, N as u32)) }
                    .expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: N floats in both arrays.
            || unsafe {
                calls += 1;
                peer(0.5, x.as_ptr(), expected.as_mut_ptr(), N)
            },
        );
        self.c.borrow_mut().push(ratio);
        assert_eq!(launches, calls);
        assert_eq!(y.to_vec()?, expected, "both sides compute the same");
        Ok(())
    }

    fn reduction(&self) -> Outcome {
        let title = "reduction of 2^24 floats, C";
        if self.skips(title) {
            return Ok(());
        }
        type Peer = unsafe extern "C" fn(*const f32, *mut f32, usize);
        // SAFETY: peers.c declares it so.
        let peer = unsafe { self.peers.get::<Peer>("reduction")? };
        let (kernel, stream) =
            self.kernel("reduction", include_bytes!("../ptx-samples/reduction.ptx"))?;
        let values: Vec<f32> = (0..N).map(|i| f32::from(i % 16 == 0)).collect();
        let on_device = DeviceBuffer::from_slice(self.context, &values)?;
        let blocks = 64;
        let partial = DeviceBuffer::<f32>::zeroed(self.context, blocks)?;
        let total = DeviceBuffer::<f32>::zeroed(self.context, 1)?;
        let mut expected = 0.0_f32;
        let ratio = paired::paired(
            title,
            31,
            2.0,
            || {
                let config = LaunchConfig::new([blocks as u32, 1, 1], [256, 1, 1]);
                let args = (&on_device, &partial, &total, N as u32);
                // SAFETY: N values, one partial sum for each block.
                unsafe { kernel.launch(config, &stream, args) }.expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: N values.
            || unsafe { peer(values.as_ptr(), &raw mut expected, N) },
        );
        self.c.borrow_mut().push(ratio);
        assert_eq!(total.to_vec()?, [expected], "both sides compute the same");
        Ok(())
    }

    fn scan(&self) -> Outcome {
        let title = "scan of blocks, 2^24 words, C";
        if self.skips(title) {
            return Ok(());
        }
        type Peer = unsafe extern "C" fn(*const u32, *mut u32, usize);
        // SAFETY: peers.c declares it so.
        let peer = unsafe { self.peers.get::<Peer>("scan")? };
        let (kernel, stream) = self.kernel("scan", include_bytes!("../ptx-samples/scan.ptx"))?;
        let values: Vec<u32> = (0..N as u32).map(|i| i % 1000).collect();
        let on_device = DeviceBuffer::from_slice(self.context, &values)?;
        let out = DeviceBuffer::<u32>::zeroed(self.context, N)?;
        let mut expected = vec![0; N];
        let ratio = paired::paired(
            title,
            31,
            2.0,
            || {
                let config = LaunchConfig::new([(N / 256) as u32, 1, 1], [256, 1, 1]);
                // SAFETY: one value of each buffer for each thread.
                unsafe { kernel.launch(config, &stream, (&on_device, &out)) }.expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: N values in both arrays.
            || unsafe { peer(values.as_ptr(), expected.as_mut_ptr(), N) },
        );
        self.c.borrow_mut().push(ratio);
        assert!(out.to_vec()? == expected, "both sides compute the same");
        Ok(())
    }

    fn histogram(&self) -> Outcome {
        let title = "histogram of 2^24 bytes, C";
        if self.skips(title) {
            return Ok(());
        }
        type Peer = unsafe extern "C" fn(*const u8, *mut u32, usize);
        // SAFETY: peers.c declares it so.
        let peer = unsafe { self.peers.get::<Peer>("histogram")? };
        let (kernel, stream) =
            self.kernel("histogram", include_bytes!("../ptx-samples/histogram.ptx"))?;
        let data: Vec<u8> = (0..N as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let on_device = DeviceBuffer::from_slice(self.context, &data)?;
        let counts = DeviceBuffer::<u32>::zeroed(self.context, 256)?;
        let mut expected = vec![0; 256];
        let ratio = paired::paired(
            title,
            31,
            2.0,
            || {
                let config = LaunchConfig::new([64, 1, 1], [256, 1, 1]);
                // SAFETY: N bytes, 256 counts.
                unsafe { kernel.launch(config, &stream, (&on_device, &counts, N as u32)) }
                    .expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: N bytes, 256 counts.
            || unsafe { peer(data.as_ptr(), expected.as_mut_ptr(), N) },
        );
        self.c.borrow_mut().push(ratio);
        assert_eq!(counts.to_vec()?, expected, "both sides compute the same");
        Ok(())
    }

    fn stencil(&self) -> Outcome {
        self.image(
            "stencil of 4096 x 4096, C",
            "stencil",
            include_bytes!("../ptx-samples/stencil.ptx"),
        )
    }

    fn transpose(&self) -> Outcome {
        self.image(
            "transpose of 4096 x 4096, C",
            "transpose",
            include_bytes!("../ptx-samples/transpose.ptx"),
        )
    }

    /// A kernel over `from`, `to`, their columns and rows, with blocks for 32 columns.
    fn image(&self, title: &str, name: &str, ptx: &[u8]) -> Outcome {
        if self.skips(title) {
            return Ok(());
        }
        type Peer = unsafe extern "C" fn(*const f32, *mut f32, usize, usize);
        // SAFETY: peers.c declares both so.
        let peer = unsafe { self.peers.get::<Peer>(name)? };
        let (kernel, stream) = self.kernel(name, ptx)?;
        let from = numbers(SIDE * SIDE, 1009, 4.0);
        let on_device = DeviceBuffer::from_slice(self.context, &from)?;
        let to = DeviceBuffer::<f32>::zeroed(self.context, from.len())?;
        let mut expected = vec![0.0_f32; from.len()];
        let side = SIDE as u32;
        let rows = match name {
            "transpose" => side / 32,
            _ => side / 8,
        };
        let ratio = paired::paired(
            title,
            31,
            2.0,
            || {
                let config = LaunchConfig::new([side / 32, rows, 1], [32, 8, 1]);
                // SAFETY: the buffers have this many columns and rows.
                unsafe { kernel.launch(config, &stream, (&on_device, &to, side, side)) }
                    .expect("the launch");
                stream.synchronize().expect("the kernel");
            },
            // SAFETY: the arrays have this many columns and rows.
            || unsafe { peer(from.as_ptr(), expected.as_mut_ptr(), SIDE, SIDE) },
        );
        self.c.borrow_mut().push(ratio);
        assert!(to.to_vec()? == expected, "both sides compute the same");
        Ok(())
    }
}

fn build_peers(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(library) = std::env::var_os("PTXKIT_PEERS") {
        return Ok(library.into());
    }
    let (source, library) = (folder.join("peers.c"), folder.join("libpeers.so"));
    std::fs::write(&source, include_str!("peers.c"))?;
    let status = Command::new("cc")
        .args([
            "-O3",
            "-march=native",
            "-fopenmp",
            "-shared",
            "-fPIC",
            "-pthread",
            "-o",
        ])
        .args([&library, &source])
        .arg("-lm")
        .status()?;
    if !status.success() {
        return Err("cc could not build peers.c".into());
    }
    Ok(library)
}
