//! What loading in slices costs and saves, beside the driver, which compiles and loads
//! modules whole.
//!
//! `PTXKIT_DEVICE` chooses the device. On a GPU the peer is `cuModuleLoadData` of the same
//! PTX in a process of its own, with a compute cache of its own; on the CPU device it is
//! this crate's load of the whole module. Every figure is of a new process: this program
//! starts itself again. Timed is from before the loader is made, with the PTX in memory and
//! a context, until the code of the kernels is on the device.
//!
//! Below the figures of 500 kernels are those of their parts: reading, checking, cutting and
//! writing the slices, by one thread and by all, and the steps of a load of all kernels from
//! the cache, beside the same calls of the driver one after another.
//!
//! The second input is real code, of CUB: the first part of `large` in
//! `crates/ptx/tests/conformance/recorded`. `PTXKIT_BENCH_SLICED` names more PTX files.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lzma_rust2::XzReader;
use ptxkit::cache::{Cache, Digest};
use ptxkit::driver::{Context, DriverKind, Module, Selection, select};
use ptxkit::image::PtxText;
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Prepare, Source};
use ptxkit::ptx;
use ptxkit::ptx::signature::signatures;

#[path = "kernels/service.rs"]
mod service;

/// What a child is to do.
const ROLE: &str = "PTXKIT_BENCH_ROLE";
/// The PTX that it loads.
const PTX: &str = "PTXKIT_BENCH_PTX";
/// The kernel that it asks for.
const KERNEL: &str = "PTXKIT_BENCH_KERNEL";

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    match std::env::var(ROLE) {
        Ok(role) => child(&role),
        Err(_) => parent(),
    }
}

/// The start of a long module that nvcc made of CUB, under a `.version` that the driver reads.
fn real_code(driver_version: u32) -> Fallible<String> {
    let recorded = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crates/ptx/tests/conformance/recorded"
    );
    let folder = std::env::var_os("PTXKIT_RECORDED").unwrap_or_else(|| recorded.into());
    let packed = std::fs::File::open(Path::new(&folder).join("large.xz"))?;
    let mut text = String::new();
    XzReader::new(packed, false).read_to_string(&mut text)?;
    // About as long as the module of 500 kernels.
    let end = text
        .get(3_500_000..)
        .and_then(|rest| rest.find("\n\t// .globl"));
    text.truncate(3_500_000 + end.ok_or("the text is shorter")?);
    let lowered = PtxText::read(&text)
        .ok_or("it is no PTX")?
        .for_driver(driver_version)?;
    Ok(lowered.unwrap_or(text))
}

/// What a child measured: seconds, and bytes of device memory.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    time: f64,
    /// Of it reading, checking and cutting.
    cut: f64,
    memory: f64,
    compiles: f64,
    /// The steps of all of it.
    steps: [f64; 4],
}

impl Measured {
    /// Four steps, by the times before, between and after them.
    fn between(times: &[Instant]) -> Measured {
        let mut steps = [0.0; 4];
        for (step, times) in steps.iter_mut().zip(times.windows(2)) {
            *step = (times[1] - times[0]).as_secs_f64();
        }
        Measured {
            time: steps.iter().sum(),
            steps,
            ..Measured::default()
        }
    }
}

fn context() -> Fallible<Context> {
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    Ok(Context::primary(&select(selection)?.device)?)
}

fn child(role: &str) -> Fallible<()> {
    let context = context()?;
    let mut bytes = std::fs::read(std::env::var(PTX)?)?;
    let kernel = std::env::var(KERNEL)?;
    context.bind()?;
    let before = free(&context);
    let measured = match role {
        "first" => ours(&context, &bytes, Some(&kernel))?,
        "all" => ours(&context, &bytes, None)?,
        "whole" => whole(&context, &bytes, &kernel)?,
        "one thread" => front_end(&bytes, 1)?,
        "all threads" => front_end(&bytes, std::thread::available_parallelism()?.get())?,
        "one by one" => one_by_one(&context, &bytes)?,
        "driver" => {
            bytes.push(0);
            by_driver(&context, &bytes, &kernel)?
        }
        _ => return Err(format!("no role {role}").into()),
    };
    let memory = before - free(&context);
    let Measured {
        time,
        cut,
        compiles,
        steps: [a, b, c, d],
        ..
    } = measured;
    println!("{time} {cut} {memory} {compiles} {a} {b} {c} {d}");
    Ok(())
}

/// Bytes of device memory that are free; 0 where the device does not say.
fn free(context: &Context) -> f64 {
    context.memory_info().map_or(0.0, |(free, _)| free as f64)
}

/// One kernel, or all of them.
fn ours(context: &Context, bytes: &[u8], kernel: Option<&str>) -> Fallible<Measured> {
    let started = Instant::now();
    let loader = Loader::new(context.clone(), Cache::from_environment());
    let source = Source::new("bench.ptx", bytes);
    let module = loader.load_sliced(&source, &JitOptions::default())?;
    let loaded = started.elapsed().as_secs_f64();
    let mut prepared = loaded;
    let kernels = match kernel {
        Some(kernel) => vec![module.kernel(kernel)?],
        None => {
            module.prepare(Prepare::All, |_| ())?;
            prepared = started.elapsed().as_secs_f64();
            let names = module.kernel_names();
            let kernels = names.iter().map(|name| module.kernel(name));
            kernels.collect::<Result<_, _>>()?
        }
    };
    let found = started.elapsed().as_secs_f64();
    for kernel in &kernels {
        // Drivers before CUDA 12.4 put the code there with the first launch.
        let _ = kernel.load();
    }
    let time = started.elapsed().as_secs_f64();
    // The memory is asked for while they are loaded.
    let measured = Measured {
        time,
        cut: module.report().cut.as_secs_f64(),
        compiles: loader.counters().compiles as f64,
        memory: 0.0,
        steps: [loaded, prepared - loaded, found - prepared, time - found],
    };
    std::mem::forget((module, kernels));
    Ok(measured)
}

/// The front end by so many threads: reading, checking, cutting, and the slices' texts with
/// their digests.
fn front_end(bytes: &[u8], threads: usize) -> Fallible<Measured> {
    let text = std::str::from_utf8(bytes)?;
    let mut times = vec![Instant::now()];
    let module = ptx::read_parallel(text, threads).module;
    times.push(Instant::now());
    ptx::check_parallel(&module, text, &ptx::CheckOptions::default(), threads);
    times.push(Instant::now());
    let slices = ptx::slice::cut(text, &module);
    times.push(Instant::now());
    let slices = slices.slices();
    std::thread::scope(|scope| {
        for share in slices.chunks(slices.len().div_ceil(threads).max(1)) {
            scope.spawn(move || {
                for slice in share {
                    std::hint::black_box(Digest::of(slice.text(text).as_bytes()));
                }
            });
        }
    });
    times.push(Instant::now());
    Ok(Measured::between(&times))
}

/// The code of all slices from the cache, loaded by one thread: looking it up, loading it,
/// finding the kernels, putting their code on the device.
fn one_by_one(context: &Context, bytes: &[u8]) -> Fallible<Measured> {
    let loader = Loader::new(context.clone(), Cache::from_environment());
    let source = Source::new("bench.ptx", bytes);
    let code = loader.code_sliced(&source, &JitOptions::default())?;
    let module = ptx::read(std::str::from_utf8(bytes)?).module;
    let names = signatures(&module, std::str::from_utf8(bytes)?);
    let mut times = vec![Instant::now()];
    let codes = names
        .iter()
        .map(|kernel| Ok((&kernel.name, code.code(code.slice_of(&kernel.name)?)?)))
        .collect::<Fallible<Vec<_>>>()?;
    times.push(Instant::now());
    let modules = codes
        .iter()
        // SAFETY: the compiler of this device made it.
        .map(|(name, code)| Ok((name, unsafe { Module::load_image(context, code) }?)))
        .collect::<Fallible<Vec<_>>>()?;
    times.push(Instant::now());
    let kernels = modules
        .iter()
        .map(|(name, module)| Ok(module.kernel(name)?))
        .collect::<Fallible<Vec<_>>>()?;
    times.push(Instant::now());
    for kernel in &kernels {
        let _ = kernel.load();
    }
    times.push(Instant::now());
    std::mem::forget((modules, kernels));
    Ok(Measured::between(&times))
}

/// This crate's load of the whole module.
fn whole(context: &Context, bytes: &[u8], kernel: &str) -> Fallible<Measured> {
    let started = Instant::now();
    let loader = Loader::new(context.clone(), Cache::from_environment());
    let source = Source::new("bench.ptx", bytes);
    let loaded = loader.load(&source, &JitOptions::default())?;
    let kernel = loaded.module.kernel(kernel)?;
    let _ = kernel.load();
    let time = started.elapsed().as_secs_f64();
    std::mem::forget(kernel);
    Ok(Measured {
        time,
        ..Measured::default()
    })
}

/// `image` is text that ends in NUL.
fn by_driver(context: &Context, image: &[u8], kernel: &str) -> Fallible<Measured> {
    let api = context.bind()?;
    let name = std::ffi::CString::new(kernel)?;
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    let started = Instant::now();
    // SAFETY: the image and the name end in NUL; each call writes one handle.
    unsafe {
        api.cuModuleLoadData(&mut module, image.as_ptr().cast())?;
        api.cuModuleGetFunction(&mut function, module, name.as_ptr())?;
        let _ = api.cuFuncLoad(function);
    }
    Ok(Measured {
        time: started.elapsed().as_secs_f64(),
        ..Measured::default()
    })
}

/// The parent's folders, gone when it ends.
struct Bench {
    folder: tempfile::TempDir,
    made: u32,
}

impl Bench {
    /// A new folder for a compute cache.
    fn cache(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.path().join(format!("cache-{}", self.made))
    }

    fn file(&self, name: &str, text: &str) -> Fallible<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

fn once(role: &str, ptx: &Path, kernel: &str, cache: &Path) -> Fallible<Measured> {
    let output = Command::new(std::env::current_exe()?)
        .env(ROLE, role)
        .env(PTX, ptx)
        .env(KERNEL, kernel)
        .env("CUDA_CACHE_PATH", cache)
        .env("CUDA_CACHE_MAXSIZE", "4294967296")
        .env_remove("CUDA_CACHE_DISABLE")
        .stdout(Stdio::piped())
        .spawn()?
        .wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [time, cut, memory, compiles, a, b, c, d] => Ok(Measured {
            time,
            cut,
            memory,
            compiles,
            steps: [a, b, c, d],
        }),
        _ => Err(format!("{role} failed: {} {text}", output.status).into()),
    }
}

/// The median by time of `count` runs.
fn median(count: usize, mut run: impl FnMut() -> Fallible<Measured>) -> Fallible<Measured> {
    let mut all = (0..count).map(|_| run()).collect::<Fallible<Vec<_>>>()?;
    all.sort_by(|a, b| a.time.total_cmp(&b.time));
    Ok(all[all.len() / 2])
}

fn parent() -> Fallible<()> {
    let context = context()?;
    let device = context.device();
    let driver = device.driver().describe();
    let cores = std::thread::available_parallelism()?;
    println!("{}, {driver}, cores: {cores}", device.name()?);
    let peer = match device.driver().kind() {
        DriverKind::Nvidia => "driver",
        _ => "whole",
    };
    let mut bench = Bench {
        folder: tempfile::tempdir()?,
        made: 0,
    };
    for count in [1, 50, 500] {
        let text = service::module(count);
        let name = format!("{count} kernels");
        one_input(&mut bench, peer, &name, &text, count == 500)?;
    }
    let driver_version = device.driver().version().unsigned_abs();
    one_input(&mut bench, peer, "CUB", &real_code(driver_version)?, false)?;
    let files = std::env::var_os("PTXKIT_BENCH_SLICED").unwrap_or_default();
    let named = |path: &PathBuf| !path.as_os_str().is_empty();
    for path in std::env::split_paths(&files).filter(named) {
        let text = std::fs::read_to_string(&path)?;
        one_input(&mut bench, peer, &path.display().to_string(), &text, false)?;
    }
    Ok(())
}

/// The goals are those of 500 kernels on a GPU.
fn one_input(
    bench: &mut Bench,
    peer: &str,
    name: &str,
    text: &str,
    has_goals: bool,
) -> Fallible<()> {
    let kernels = signatures(&ptx::read(text).module, text);
    let middle = kernels.get(kernels.len() / 2).ok_or("no kernel")?;
    let kernel = middle.name.as_str();
    println!("\n{name}, {} KB of PTX, peer: {peer}", text.len() / 1000);
    let ptx = bench.file("module.ptx", text)?;
    let edited = bench.file("edited.ptx", &edit(text, kernel))?;
    let goal = |seconds: f64| has_goals.then_some(seconds);

    let peer_cache = bench.cache();
    let cold = once(peer, &ptx, kernel, &peer_cache)?;
    let peer_edited = once(peer, &edited, kernel, &bench.cache())?;
    let first = median(3, || once("first", &ptx, kernel, &bench.cache()))?;
    line(
        "first kernel, nothing cached",
        first.time,
        cold.time,
        goal(0.1),
    );
    line(
        "  of it reading, checking, cutting",
        first.cut,
        cold.time,
        goal(0.035),
    );
    let cache = bench.cache();
    let all = once("all", &ptx, kernel, &cache)?;
    line(
        "all kernels, nothing cached",
        all.time,
        cold.time,
        goal(1.3),
    );
    println!("  compiles: {}", all.compiles);
    let other = once("first", &edited, kernel, &cache)?;
    line(
        "one kernel edited, its first use",
        other.time,
        peer_edited.time,
        goal(0.1),
    );
    println!("  compiles: {}", other.compiles);
    let hits = 15;
    let peer_hit = median(hits, || once(peer, &ptx, kernel, &peer_cache))?;
    let hit = median(hits, || once("first", &ptx, kernel, &cache))?;
    line(
        "first kernel, cached, new process",
        hit.time,
        peer_hit.time,
        goal(0.0025),
    );
    let all_hit = median(hits, || once("all", &ptx, kernel, &cache))?;
    line(
        "all kernels, cached, new process",
        all_hit.time,
        peer_hit.time,
        goal(0.04),
    );
    if hit.compiles + all_hit.compiles > 0.0 {
        return Err("a slice that was put was not found".into());
    }
    let megabytes = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    let verdict = if has_goals {
        verdict(hit.memory <= 2.1e6)
    } else {
        ""
    };
    println!(
        "device memory for one kernel           ours {:>10}  peer {:>10}  all slices {}  {verdict}",
        megabytes(hit.memory),
        megabytes(peer_hit.memory),
        megabytes(all_hit.memory),
    );
    for threads in ["one thread", "all threads"] {
        let parts = median(3, || once(threads, &ptx, kernel, &cache))?;
        steps(threads, parts, ["read", "check", "cut", "texts"]);
    }
    let names = ["load_sliced", "prepare", "kernels", "cuFuncLoad"];
    steps("all kernels, cached", all_hit, names);
    let one_by_one = median(3, || once("one by one", &ptx, kernel, &cache))?;
    let names = ["look up", "load", "kernels", "cuFuncLoad"];
    steps("the same, one by one", one_by_one, names);
    Ok(())
}

fn steps(title: &str, measured: Measured, names: [&str; 4]) {
    print!("{title:<38} {:>15}", show(measured.time));
    for (name, time) in names.iter().zip(measured.steps) {
        print!("  {name} {}", show(time));
    }
    println!();
}

/// The text with one more instruction in a kernel.
fn edit(text: &str, kernel: &str) -> String {
    let entry = format!(".entry {kernel}(");
    let Some(start) = text.find(&entry) else {
        return text.to_owned();
    };
    match text[start..].find("{\n") {
        Some(body) => {
            let at = start + body + 2;
            format!(
                "{}\t.reg .b32 %edited;\n\tmov.u32 %edited, %tid.x;\n{}",
                &text[..at],
                &text[at..]
            )
        }
        None => text.to_owned(),
    }
}

/// The goal is printed, not asserted: a bench reports.
fn line(title: &str, ours: f64, peer: f64, goal: Option<f64>) {
    let goal = goal.map(|goal| format!("  goal {}: {}", show(goal), verdict(ours <= goal)));
    println!(
        "{title:<38} ours {:>10}  peer {:>10}  ratio {:.4}{}",
        show(ours),
        show(peer),
        ours / peer,
        goal.unwrap_or_default()
    );
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn show(seconds: f64) -> String {
    format!("{:.3?}", Duration::from_secs_f64(seconds))
}
