//! What the compute cache costs and saves, each figure beside its peer in the
//! same run: the driver's own cache, or compiling.
//!
//! `PTXKIT_DEVICE` chooses the device. On a GPU the peer is `cuModuleLoadData`
//! of the same PTX in a process of its own, with a compute cache of its own;
//! the CPU device has no such peer, and is compared with its compiler alone.
//! Loads of a new process are timed in new processes: this program starts
//! itself again. Timed is from before the loader is made, with the PTX in memory
//! and a context, to the loaded module.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ptxkit::cache::{Cache, Digest, Policy};
use ptxkit::driver::{Context, DriverKind, Module, Selection, select};
use ptxkit::jit::{self, JitOptions};
use ptxkit::loader::{CacheUse, Loader, Source, Warm};
use ptxkit::ptx::Ptx;

/// What a child is to do: a word of [`Role`].
const ROLE: &str = "PTXKIT_BENCH_ROLE";
/// The role that compares warming, and prints what it found.
const WARM: &str = "warm";
/// The PTX that it loads.
const PTX: &str = "PTXKIT_BENCH_PTX";
/// What that was compiled to.
const BINARY: &str = "PTXKIT_BENCH_BINARY";
/// The digest of the PTX, in hexadecimal.
const DIGEST: &str = "PTXKIT_BENCH_DIGEST";

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    match std::env::var(ROLE) {
        Ok(role) => child(&role),
        Err(_) => parent(),
    }
}

/// A module of `count` kernels of about 7 KB each, no two alike, nor two
/// modules of different `seed`.
fn module(count: u32, seed: u32) -> String {
    let kernel = include_str!("kernels/service.ptx");
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for number in 0..count {
        let constant = format!("0f4AE9{:04X}", (seed * 1000 + number) & 0xffff);
        text += &kernel
            .replace("NUMBER", &number.to_string())
            .replace("0f4AE99762", &constant);
    }
    text
}

/// What a child measured, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// The first load of the process, with the loader that is made for it.
    first: f64,
    /// The second, while the first module is still loaded.
    second: f64,
    /// A load of a [`Ptx`] that has its digest.
    known: f64,
    /// One after the module was unloaded.
    again: f64,
    /// CPU time of the first, of all threads.
    cpu: f64,
    compile: f64,
    /// Writing the blob.
    store: f64,
    /// 1 where it was compiled.
    missed: f64,
    /// Parts of the first load: finding, reading and verifying the blob, and the
    /// driver's part. The loader and the digest are the rest.
    lookup: f64,
    load: f64,
    /// BLAKE3 of the text alone.
    digest: f64,
}

impl Measured {
    fn fields(&mut self) -> [&mut f64; 11] {
        [
            &mut self.first,
            &mut self.second,
            &mut self.known,
            &mut self.again,
            &mut self.cpu,
            &mut self.compile,
            &mut self.store,
            &mut self.missed,
            &mut self.lookup,
            &mut self.load,
            &mut self.digest,
        ]
    }

    fn print(mut self) {
        let words = self.fields().map(|field| field.to_string());
        println!("{}", words.join(" "));
    }

    fn read(text: &str) -> Option<Measured> {
        let mut measured = Measured::default();
        let mut numbers = text.split_whitespace().map(str::parse);
        for field in measured.fields() {
            *field = numbers.next()?.ok()?;
        }
        Some(measured)
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
    if role == WARM {
        return warm(context);
    }
    let mut bytes = std::fs::read(std::env::var(PTX)?)?;
    // The context is current, as it is in any program that has one.
    context.bind()?;
    let measured = match role {
        "driver" => {
            bytes.push(0);
            by_driver(&context, &bytes)?
        }
        "plain" => by_plain_file(&context, &bytes)?,
        "ours" => by_loader(context, &bytes, &JitOptions::default(), None)?,
        // As `include_ptx!` makes a source: the digest is there, and BLAKE3 has not run.
        "digest known" => {
            let digest = digest_from_hex(&std::env::var(DIGEST)?)?;
            by_loader(context, &bytes, &JitOptions::default(), Some(digest))?
        }
        "one thread" => by_loader(
            context,
            &bytes,
            &JitOptions {
                threads: Some(1),
                ..JitOptions::default()
            },
            None,
        )?,
        _ => return Err(format!("no role {role}").into()),
    };
    measured.print();
    Ok(())
}

fn digest_from_hex(text: &str) -> Fallible<Digest> {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = text
            .get(2 * at..2 * at + 2)
            .ok_or("a digest has 64 digits")?;
        *byte = u8::from_str_radix(digits, 16)?;
    }
    Ok(Digest::from_bytes(bytes))
}

fn by_loader(
    context: Context,
    bytes: &[u8],
    options: &JitOptions,
    digest: Option<Digest>,
) -> Fallible<Measured> {
    let cpu = cpu_time();
    let started = Instant::now();
    let loader = Loader::new(context, Cache::from_environment());
    let source = Source::new("bench.ptx", bytes);
    let source = match digest {
        // SAFETY: the caller computed it of these bytes.
        Some(digest) => unsafe { source.with_digest(digest) },
        None => source,
    };
    let loaded = loader.load(&source, options)?;
    let first = started.elapsed();
    let cpu = cpu_time() - cpu;
    let second = time(|| loader.load(&source, options).map(drop));
    let ptx = Ptx::from_bytes(bytes, "bench.ptx")?;
    ptx.digest();
    let known = time(|| loader.load(&Source::from(&ptx), options).map(drop));
    let report = loaded.report;
    drop(loaded.module);
    let again = time(|| loader.load(&source, options).map(drop));
    Ok(Measured {
        first: first.as_secs_f64(),
        second: second?,
        known: known?,
        again: again?,
        cpu,
        compile: report.compile.as_secs_f64(),
        store: report.store.as_secs_f64(),
        missed: f64::from(u8::from(report.cache == CacheUse::Miss)),
        lookup: report.lookup.as_secs_f64(),
        load: report.load.as_secs_f64(),
        digest: 0.0,
    })
}

/// What no cache with such keys can do without: the digest, a file that is
/// read, and the driver.
fn by_plain_file(context: &Context, text: &[u8]) -> Fallible<Measured> {
    let path = PathBuf::from(std::env::var_os(BINARY).ok_or("no binary")?);
    let started = Instant::now();
    std::hint::black_box(Digest::of(text));
    let digest = started.elapsed().as_secs_f64();
    let binary = std::fs::read(path)?;
    let before = started.elapsed().as_secs_f64();
    let loads = by_driver(context, &binary)?;
    Ok(Measured {
        first: before + loads.first,
        load: loads.first,
        digest,
        ..loads
    })
}

/// `image` is text that ends in NUL, or a whole binary.
fn by_driver(context: &Context, image: &[u8]) -> Fallible<Measured> {
    let api = context.bind()?;
    let mut modules = [std::ptr::null_mut(); 3];
    let cpu = cpu_time();
    let started = Instant::now();
    // SAFETY: the image keeps to its bytes; writes one handle.
    unsafe { api.cuModuleLoadData(&mut modules[0], image.as_ptr().cast()) }?;
    let first = started.elapsed();
    let cpu = cpu_time() - cpu;
    // SAFETY: as above.
    let second = time(|| unsafe { api.cuModuleLoadData(&mut modules[1], image.as_ptr().cast()) })?;
    for module in &modules[..2] {
        // SAFETY: loaded above, unloaded once.
        unsafe { api.cuModuleUnload(*module) }?;
    }
    // SAFETY: as above.
    let again = time(|| unsafe { api.cuModuleLoadData(&mut modules[2], image.as_ptr().cast()) })?;
    Ok(Measured {
        first: first.as_secs_f64(),
        second,
        known: second,
        again,
        cpu,
        ..Measured::default()
    })
}

fn time<E>(run: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let started = Instant::now();
    run()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Seconds of CPU that this process has used, to the hundredth; 0 where the
/// system does not say.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything, time in user mode and in the
    // kernel are the 12th and 13th word, in hundredths.
    let words = stat.rsplit_once(')').map_or("", |(_, words)| words);
    let ticks = words.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|word| word.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// The parent's folders, gone when it ends.
struct Bench {
    folder: tempfile::TempDir,
    made: u32,
}

impl Bench {
    fn new() -> Fallible<Bench> {
        let folder = tempfile::tempdir()?;
        Ok(Bench { folder, made: 0 })
    }

    /// A new folder for a compute cache.
    fn cache(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.path().join(format!("cache-{}", self.made))
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Fallible<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes)?;
        Ok(path)
    }
}

fn command(role: &str, cache: &Path) -> Fallible<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .env(ROLE, role)
        .env("CUDA_CACHE_PATH", cache)
        .env("CUDA_CACHE_MAXSIZE", "4294967296")
        .env_remove("CUDA_CACHE_DISABLE");
    Ok(command)
}

fn start(role: &str, ptx: &Path, cache: &Path) -> Fallible<Child> {
    let mut command = command(role, cache)?;
    command
        .env(PTX, ptx)
        .env(BINARY, ptx.with_file_name("binary"))
        .env(DIGEST, format!("{:?}", Digest::of(&std::fs::read(ptx)?)));
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

fn finish(child: Child) -> Fallible<Measured> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Measured::read(&text).ok_or_else(|| format!("a child failed: {} {text}", output.status).into())
}

fn once(role: &str, ptx: &Path, cache: &Path) -> Fallible<Measured> {
    finish(start(role, ptx, cache)?)
}

fn parent() -> Fallible<()> {
    let context = context()?;
    let device = context.device();
    let loading = Module::loading(&context)?;
    let driver = device.driver().describe();
    println!("{}, {driver}, loading {loading:?}", device.name()?);
    let gpu = device.driver().kind() == DriverKind::Nvidia;
    let mut bench = Bench::new()?;
    // A small hit varies by a third from process to process, the median of 31 still
    // by a tenth, and that of 101 by a twentieth.
    for (kernels, colds, hits, goal) in [(1, 5, 201, 1.5), (50, 3, 15, 0.6), (500, 1, 7, 0.6)] {
        one_size(&mut bench, &context, kernels, colds, hits, goal)?;
    }
    processes(&mut bench, gpu)?;
    // In a process of its own too: the driver keeps what it compiles.
    let folder = bench.cache();
    let warmed = command(WARM, &folder)?.status()?;
    warmed.success().then_some(()).ok_or("warm failed".into())
}

/// Cold, hit and second load of one PTX.
fn one_size(
    bench: &mut Bench,
    context: &Context,
    kernels: u32,
    colds: usize,
    hits: usize,
    goal: f64,
) -> Fallible<()> {
    let gpu = context.device().driver().kind() == DriverKind::Nvidia;
    let text = module(kernels, 0);
    println!("\n{} KB of PTX, kernels: {kernels}", text.len() / 1000);
    let ptx = bench.file("one.ptx", &text)?;
    let (cache, peer_cache) = (bench.cache(), bench.cache());
    let mut cold = vec![once("ours", &ptx, &cache)?];
    for _ in 1..colds {
        cold.push(once("ours", &ptx, &bench.cache())?);
    }
    // For the least that a hit can take.
    let binary = code(context, &text, &cache)?;
    bench.file("binary", &binary)?;
    let compile = median(&cold, |one| one.compile);
    let overhead = median(&cold, |one| one.store / one.compile);
    let store = median(&cold, |one| one.store);
    line("put beside the compile", store, compile, overhead, 0.02);
    let plain = show(plain_file(&bench.cache(), binary.len())?);
    println!("  a plain file, written and renamed: {plain}");
    if gpu {
        let peer = once("driver", &ptx, &peer_cache)?.first;
        let first = median(&cold, |one| one.first);
        let goal = if kernels > 1 { 0.5 } else { 1.1 };
        line("cold load, driver's", first, peer, first / peer, goal);
        if kernels > 1 {
            let one = once("one thread", &ptx, &bench.cache())?.first;
            line("the same on one thread", one, peer, one / peer, 1.1);
        }
    }
    let (mut ours, mut peers, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let mut digest_known = Vec::new();
    for n in 0..hits {
        ours.push(once("ours", &ptx, &cache)?);
        // What has no goal may be less certain.
        if n < 31 {
            digest_known.push(once("digest known", &ptx, &cache)?);
            floors.push(once("plain", &ptx, &cache)?);
        }
        if gpu {
            peers.push(once("driver", &ptx, &peer_cache)?);
        }
    }
    if ours.iter().any(|one| one.missed > 0.0) {
        return Err("a blob that was put was not found".into());
    }
    parts_of_a_hit(&ours);
    let known = median(&digest_known, |one| one.first);
    println!("  with its digest known {}", show(known));
    if gpu {
        let least = median(&floors, |one| one.load);
        let plain = median(&floors, |one| one.first);
        let peer = median(&peers, |one| one.first);
        println!(
            "  no hit can undercut the driver's part {}: ratio {:.4}; with the digest and a plain file {}: ratio {:.4}",
            show(least),
            least / peer,
            show(plain),
            plain / peer
        );
        println!("  with its digest known: ratio {:.4}", known / peer);
    }
    type Figure = (&'static str, f64, fn(&Measured) -> f64);
    let figures: [Figure; 4] = [
        ("loader and hit in a new process", goal, |one| one.first),
        ("second load in a process", 0.3, |one| one.second),
        ("the same, its digest known", 0.3, |one| one.known),
        ("load after an unload", 1.0, |one| one.again),
    ];
    for (title, goal, figure) in figures {
        let time = median(&ours, figure);
        if gpu {
            let peer = median(&peers, figure);
            line(&format!("{title}, driver's"), time, peer, time / peer, goal);
        } else {
            let title = format!("{title}, a compile");
            line(&title, time, compile, time / compile, goal);
        }
    }
    Ok(())
}

/// The parts of a first load that hits.
fn parts_of_a_hit(hits: &[Measured]) {
    let part = |figure: fn(&Measured) -> f64| show(median(hits, figure));
    let rest = |one: &Measured| one.first - one.lookup - one.load;
    println!(
        "  of it: lookup {}, driver {}, rest {}",
        part(|one| one.lookup),
        part(|one| one.load),
        part(rest),
    );
}

/// The code that the cache in `folder` has of `text`.
fn code(context: &Context, text: &str, folder: &Path) -> Fallible<Vec<u8>> {
    let policy = Policy::disabled().with_enabled(true).with_path(folder);
    let loader = Loader::new(context.clone(), Cache::new(policy));
    let source = Source::new("one.ptx", text.as_bytes());
    Ok(loader.code(&source, &JitOptions::default())?)
}

/// Seconds to write a file of `length` bytes and rename it: a put without a cache.
fn plain_file(folder: &Path, length: usize) -> Fallible<f64> {
    std::fs::create_dir(folder)?;
    let bytes = vec![1; length];
    let mut times = Vec::new();
    for n in 0..9 {
        let temporary = folder.join("temporary");
        let started = Instant::now();
        std::fs::write(&temporary, &bytes)?;
        std::fs::rename(&temporary, folder.join(n.to_string()))?;
        times.push(started.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Eight processes that start together with nothing cached.
fn processes(bench: &mut Bench, gpu: bool) -> Fallible<()> {
    println!("\n8 processes that start cold on one PTX of 50 kernels");
    let ptx = bench.file("many.ptx", module(50, 1))?;
    let mut together = |role| -> Fallible<(f64, f64, f64)> {
        let cache = bench.cache();
        let started = Instant::now();
        let children: Vec<Child> = (0..8)
            .map(|_| start(role, &ptx, &cache))
            .collect::<Fallible<_>>()?;
        let (mut cpu, mut missed) = (0.0, 0.0);
        for child in children {
            let one = finish(child)?;
            cpu += one.cpu;
            missed += one.missed;
        }
        Ok((cpu, missed, started.elapsed().as_secs_f64()))
    };
    let (cpu, missed, wall) = together("ours")?;
    println!("compiles: {missed}  goal 1: {}", verdict(missed == 1.0));
    if gpu {
        let (peer_cpu, _, peer_wall) = together("driver")?;
        line("CPU time, driver's", cpu, peer_cpu, cpu / peer_cpu, 0.2);
        line(
            "wall time, driver's",
            wall,
            peer_wall,
            wall / peer_wall,
            1.0,
        );
    } else {
        println!("CPU time {}, wall time {}", show(cpu), show(wall));
    }
    Ok(())
}

/// Sixteen modules at once, and one after another.
fn warm(context: Context) -> Fallible<()> {
    let mut bench = Bench::new()?;
    let cores = std::thread::available_parallelism()?.get();
    println!("\nwarm of 16 modules of 50 kernels, cores: {cores}");
    // Others one by one, as the driver may remember what it compiled.
    let texts = |seeds: std::ops::Range<u32>| seeds.map(|seed| module(50, seed)).collect();
    let (first, second): (Vec<String>, Vec<String>) = (texts(2..18), texts(18..34));
    fn sources(texts: &[String]) -> Vec<Source<'_>> {
        let bytes = texts.iter().map(|text| text.as_bytes());
        bytes.map(|bytes| Source::new("warm.ptx", bytes)).collect()
    }
    let options = JitOptions::default();
    let mut loader = || {
        let policy = Policy::disabled().with_enabled(true);
        Loader::new(context.clone(), Cache::new(policy.with_path(bench.cache())))
    };
    // The first compile of a process loads the compiler.
    jit::compile(&context, &module(1, 99), &options)?;
    let (at_once, one_by_one) = (loader(), loader());
    let started = Instant::now();
    let warmed = at_once.warm(&sources(&first), &options, |_| ());
    let together = started.elapsed().as_secs_f64();
    for one in warmed {
        if !matches!(one.result?, Warm::Compiled(..)) {
            return Err("a module was not compiled, or not kept".into());
        }
    }
    let started = Instant::now();
    let one_thread = JitOptions {
        threads: Some(1),
        ..options
    };
    for source in sources(&second) {
        one_by_one.warm(&[source], &one_thread, |_| ());
    }
    let apart = started.elapsed().as_secs_f64();
    // Half of what the cores could give at best.
    let goal = 2.0 / cores.clamp(2, 16) as f64;
    line(
        "at once, one by one",
        together,
        apart,
        together / apart,
        goal,
    );
    Ok(())
}

/// The goal is printed, not asserted: a bench reports.
fn line(title: &str, ours: f64, peer: f64, ratio: f64, goal: f64) {
    println!(
        "{title:<36} ours {:>10}  peer {:>10}  ratio {ratio:.4}  goal {goal:.3}: {}",
        show(ours),
        show(peer),
        verdict(ratio <= goal)
    );
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn show(seconds: f64) -> String {
    format!("{:.3?}", Duration::from_secs_f64(seconds))
}

fn median(all: &[Measured], figure: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = all.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
