//! The CPU device beside C: the samples' kernels against the same algorithms
//! in `peers.c`, built by `cc -O3 -march=native`, both on two threads.
//!
//! Then whole processes that load a kernel and launch it: where the cache has its optimized
//! code, beside where it has nothing, and where it has the first code alone.
//!
//! `PTXKIT_PEERS` names a built library of `peers.c`, for a machine without `cc`.

mod paired;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use libloading::Library;
use ptxkit::cache::{Cache, Environment, Policy};
use ptxkit::driver::{Context, DeviceBuffer, Driver, LaunchConfig, Module, Stream};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Source};

type Peer = unsafe extern "C" fn(*const f32, *const f32, *mut f32, usize);

/// How often a process launches its kernel.
const LAUNCHES: &str = "PTXKIT_BENCH_LAUNCHES";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Ok(launches) = std::env::var(LAUNCHES) {
        return process(launches.parse()?);
    }
    // The peers run two threads; more of ours would compare machines.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("PTXKIT_CPU_THREADS", "2") };
    let scratch = tempfile::tempdir()?;
    // SAFETY: the library is built from peers.c and has no initialisers.
    let peers = unsafe { Library::new(build_peers(scratch.path())?)? };
    let context = Context::primary(&Driver::cpu()?.device(0)?)?;

    // Small integers and quarters: both sides sum exactly, in any order.
    let numbers = |count: usize, period: usize, step: f32| -> Vec<f32> {
        (0..count).map(|i| (i % period) as f32 * step).collect()
    };
    let n = 512;
    let tiles = (n / 16) as u32;
    compare(
        &context,
        &peers,
        &Work {
            title: "matmul_shared n = 512, C",
            goal: 8.0,
            name: "matmul_shared",
            ptx: include_bytes!("../ptx-samples/matmul_shared.ptx"),
            config: LaunchConfig::new([tiles, tiles, 1], [16, 16, 1]),
            n,
            a: numbers(n * n, 7, 1.0),
            b: numbers(n * n, 5, 0.25),
        },
    )?;
    let n = 1 << 24;
    compare(
        &context,
        &peers,
        &Work {
            title: "vecadd of 2^24 floats, C",
            goal: 2.0,
            name: "vecadd",
            ptx: include_bytes!("../ptx-samples/vecadd.ptx"),
            config: LaunchConfig::for_elements(n as u32, 256),
            n,
            a: numbers(n, 1 << 20, 1.0),
            b: numbers(n, 1000, 0.5),
        },
    )?;
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

fn compare(
    context: &Context,
    peers: &Library,
    work: &Work,
) -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: peers.c declares every function so.
    let peer = unsafe { peers.get::<Peer>(work.name)? };
    let kernel = Module::load(context, work.ptx)?.kernel(work.name)?;
    let a = DeviceBuffer::from_slice(context, &work.a)?;
    let b = DeviceBuffer::from_slice(context, &work.b)?;
    let c = DeviceBuffer::<f32>::zeroed(context, work.a.len())?;
    let stream = Stream::new(context)?;
    let n = u32::try_from(work.n)?;
    let mut expected = vec![0.0_f32; work.a.len()];
    paired::paired(
        work.title,
        31,
        work.goal,
        || {
            // SAFETY: the kernels access n values of each buffer.
            unsafe { kernel.launch(work.config, &stream, (&a, &b, &c, n)) }.expect("the launch");
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

fn build_peers(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(library) = std::env::var_os("PTXKIT_PEERS") {
        return Ok(library.into());
    }
    let (source, library) = (folder.join("peers.c"), folder.join("libpeers.so"));
    std::fs::write(&source, include_str!("peers.c"))?;
    let status = Command::new("cc")
        .args(["-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&library, &source])
        .status()?;
    if !status.success() {
        return Err("cc could not build peers.c".into());
    }
    Ok(library)
}
