//! What a machine with an empty folder pays for a module of 500 kernels that the store of its
//! fleet has, beside a machine whose own folder has it; and what one pays that compiles beside
//! a store that does not answer. Redis on loopback:
//!
//! ```sh
//! scripts/remote-servers cargo bench --features remote-redis --bench remote_load
//! ```
//!
//! With the features `remote-memcached` and `remote-s3` those stores fail to answer too.
//!
//! `PTXKIT_DEVICE` chooses the device. Each load is one of a new process: this program starts
//! itself again. Timed is from before the loader is made, with the PTX in memory and a
//! context, until the code of all kernels is on the device, connecting to the store included.
//! The folder is written behind that, so the time of whole processes stands beside it.

use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ptxkit::cache::Cache;
use ptxkit::cache::remote::SigningKey;
use ptxkit::driver::{Context, Selection, select};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Prepare, Source};

/// What a child is to do: [`WHOLE`] or [`SLICED`], with [`PUSH`] before it or not.
const ROLE: &str = "PTXKIT_BENCH_ROLE";
/// The PTX that it loads.
const PTX: &str = "PTXKIT_BENCH_PTX";
const WHOLE: &str = "whole";
const SLICED: &str = "sliced";
/// Four small modules.
const SMALL: &str = "small";
/// Writes what it compiled to the store.
const PUSH: &str = "push ";
const KERNELS: usize = 500;
/// Loads of each kind, in turn.
const RUNS: usize = 15;
/// What the store may cost.
const GOAL: Duration = Duration::from_millis(50);

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    match std::env::var(ROLE) {
        Ok(role) => child(&role),
        Err(_) => parent(),
    }
}

/// A module of kernels of about 7 KB each, no two alike.
fn module(numbers: Range<usize>) -> String {
    let kernel = include_str!("kernels/service.ptx");
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for number in numbers {
        text += &kernel
            .replace("NUMBER", &number.to_string())
            .replace("0f4AE99762", &format!("0f4AE9{number:04X}"));
    }
    text
}

fn context() -> Fallible<Context> {
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    Ok(Context::primary(&select(selection)?.device)?)
}

/// Prints seconds, compiles, and hits of the store.
fn child(role: &str) -> Fallible<()> {
    let context = context()?;
    context.bind()?;
    let bytes = std::fs::read(std::env::var(PTX)?)?;
    let (push, role) = match role.strip_prefix(PUSH) {
        Some(role) => (true, role),
        None => (false, role),
    };
    let started = Instant::now();
    let cache = Cache::from_environment();
    let loader = Loader::new(context.clone(), cache.clone());
    let source = Source::new("bench.ptx", &bytes);
    let options = JitOptions::default();
    match role {
        WHOLE => {
            let loaded = loader.load(&source, &options)?;
            for number in 0..KERNELS {
                // Drivers before CUDA 12.4 put the code there with the first launch.
                let _ = loaded.module.kernel(&format!("kernel_{number}"))?.load();
            }
            std::mem::forget(loaded);
        }
        SLICED => {
            let module = loader.load_sliced(&source, &options)?;
            module.prepare(Prepare::All, |_| ())?;
            for name in module.kernel_names() {
                let _ = module.kernel(&name)?.load();
            }
            std::mem::forget(module);
        }
        SMALL => {
            for first in (0..KERNELS).step_by(KERNELS / 4) {
                let text = module(first..first + 6);
                let source = Source::new("small.ptx", text.as_bytes());
                std::mem::forget(loader.load(&source, &options)?);
            }
        }
        _ => return Err(format!("no role {role}").into()),
    }
    let time = started.elapsed().as_secs_f64();
    if push {
        cache.flush();
        cache.push(|_| true, false, |_| ())?;
    }
    let counters = cache.counters();
    println!(
        "{time} {} {}",
        loader.counters().compiles,
        counters.remote.hits
    );
    Ok(())
}

/// What machines of the fleet have in their environment.
struct Fleet {
    folder: tempfile::TempDir,
    ptx: PathBuf,
    store: String,
    trust: String,
    signer: PathBuf,
}

/// One load.
struct Loaded {
    seconds: f64,
    /// From the start of the process to its end.
    process: f64,
    compiles: u64,
    /// What the store gave.
    hits: u64,
}

impl Fleet {
    /// Loads in a new process of a machine with this folder.
    fn load(&self, role: &str, folder: &Path, store: &str) -> Fallible<Loaded> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env(ROLE, role)
            .env(PTX, &self.ptx)
            .env("CUDA_CACHE_PATH", folder)
            .env("CUDA_CACHE_MAXSIZE", "4294967296")
            .env_remove("CUDA_CACHE_DISABLE")
            .env("PTXKIT_REMOTE", store)
            .env("PTXKIT_REMOTE_TRUST", &self.trust);
        if role.starts_with(PUSH) {
            command.env("PTXKIT_REMOTE_SIGN", &self.signer);
        }
        let started = Instant::now();
        let output = command.stdout(Stdio::piped()).spawn()?.wait_with_output()?;
        let process = started.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [seconds, compiles, hits] => Ok(Loaded {
                seconds: seconds.parse()?,
                process,
                compiles: compiles.parse()?,
                hits: hits.parse()?,
            }),
            _ => Err(format!("{role}: {} {text}", output.status).into()),
        }
    }
}

fn parent() -> Fallible<()> {
    let address = std::env::var("PTXKIT_TEST_REDIS")
        .map_err(|_| "no server: scripts/remote-servers starts one")?;
    let context = context()?;
    let device = context.device();
    let cores = std::thread::available_parallelism()?;
    println!(
        "{}, {}, cores: {cores}",
        device.name()?,
        device.driver().describe()
    );
    let folder = tempfile::tempdir()?;
    let signer = folder.path().join("key");
    let fleet = Fleet {
        ptx: folder.path().join("module.ptx"),
        store: format!("redis://{address}/0?prefix=load"),
        trust: SigningKey::create(&signer)?.public().to_string(),
        signer,
        folder,
    };
    std::fs::write(&fleet.ptx, module(0..KERNELS))?;
    for role in [WHOLE, SLICED] {
        hits(&fleet, role)?;
    }
    no_answer(&fleet)
}

fn hits(fleet: &Fleet, role: &str) -> Fallible<()> {
    let full = fleet.folder.path().join(role);
    fleet.load(&format!("{PUSH}{role}"), &full, &fleet.store)?;
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        local.push(fleet.load(role, &full, "none")?);
        let empty = fleet.folder.path().join(format!("{role}-{run}"));
        remote.push(fleet.load(role, &empty, &fleet.store)?);
        std::fs::remove_dir_all(&empty)?;
    }
    let from = |loads: &[Loaded], hits: bool| {
        let mut loads = loads.iter();
        loads.all(|load| load.compiles == 0 && (load.hits > 0) == hits)
    };
    if !from(&local, false) || !from(&remote, true) {
        return Err(format!("{role}: not every load was a hit").into());
    }
    let [of_folder, of_store] = [&local, &remote].map(|loads| median(loads, |load| load.seconds));
    let more = of_store.saturating_sub(of_folder);
    let verdict = if more <= GOAL { "met" } else { "MISSED" };
    println!(
        "{role:<8} folder {of_folder:>10.3?}  store {of_store:>10.3?}  more {more:>10.3?}  goal {GOAL:?}: {verdict}"
    );
    let [local, remote] = [local, remote].map(|loads| median(&loads, |load| load.process));
    let more = remote.saturating_sub(local);
    println!("  process {local:>10.3?}  store {remote:>10.3?}  more {more:>10.3?}");
    Ok(())
}

/// Each process waits for three answers, and compiles: beside each kind of store that this is
/// built for.
fn no_answer(fleet: &Fleet) -> Fallible<()> {
    // The system takes connections, and nobody reads what they bring.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let host = listener.local_addr()?;
    let stores = [
        format!("redis://{host}/0"),
        #[cfg(feature = "remote-memcached")]
        format!("memcached://{host}"),
        #[cfg(feature = "remote-s3")]
        format!("s3://kernels?region=us-east-1&endpoint=http://{host}"),
    ];
    println!("4 compiles beside a store that does not answer, and without one");
    for silent in &stores {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            for (loads, store) in [(&mut with, &silent[..]), (&mut without, "none")] {
                let empty = fleet.folder.path().join(format!("{SMALL}-{run}"));
                loads.push(fleet.load(SMALL, &empty, store)?);
                std::fs::remove_dir_all(&empty)?;
            }
        }
        let mut loads = with.iter().chain(&without);
        if loads.any(|load| load.compiles != 4) {
            return Err("not every load was a compilation".into());
        }
        let [with, without] = [with, without].map(|loads| median(&loads, |load| load.seconds));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        let kind = silent.split(':').next().unwrap_or_default();
        println!("{kind:<10} {with:>10.3?} {without:>10.3?}  ratio {ratio:.2}");
    }
    Ok(())
}

fn median(loads: &[Loaded], seconds: impl Fn(&Loaded) -> f64) -> Duration {
    let mut seconds: Vec<f64> = loads.iter().map(seconds).collect();
    seconds.sort_by(f64::total_cmp);
    Duration::from_secs_f64(seconds[seconds.len() / 2])
}
