//! NVIDIA's compilers of PTX beside each other: modules of 1, 50 and 500 kernels of about 7 KB, compiled for
//! the first GPU or for `sm_90`.
//!
//! The driver needs a GPU, nvptxcompiler the library of `ptxkit nvptxcompiler build`, nvJitLink and ptxas a CUDA
//! toolkit (`CUDA_HOME`). A compiler that is absent is left out. Each figure is the shortest of several
//! compilations in this process, one of ptxas a process of its own. `CUDA_CACHE_DISABLE=1` is required: the
//! driver and nvJitLink have caches.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use ptxkit::driver::nvjitlink::NvJitLink;
use ptxkit::driver::nvptxcompiler::NvPtxCompiler;
use ptxkit::driver::{Context, Driver};
use ptxkit::jit::{self, JitOptions, PtxCompiler};

#[path = "kernels/service.rs"]
mod service;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// A compiler: PTX and the number of threads, 0 for one on each core.
type Compile<'c> = Box<dyn Fn(&str, u32) -> Fallible<()> + 'c>;

fn main() -> Fallible<()> {
    if std::env::var_os("CUDA_CACHE_DISABLE").is_none_or(|word| word != "1") {
        return Err("set CUDA_CACHE_DISABLE=1".into());
    }
    let compilers = compilers()?;
    for (count, runs) in [(1, 5), (50, 3), (500, 1)] {
        let text = service::module(count);
        println!("{} KB", text.len() / 1000);
        for (name, compile) in &compilers {
            let [one, all] = [1, 0].map(|threads| shortest(runs, || compile(&text, threads)));
            let (one, all) = (one?.as_secs_f64() * 1e3, all?.as_secs_f64() * 1e3);
            println!("  {name:28} 1 thread {one:8.1} ms   all cores {all:8.1} ms");
        }
    }
    Ok(())
}

fn shortest(runs: u32, compile: impl Fn() -> Fallible<()>) -> Fallible<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let started = Instant::now();
        compile()?;
        best = best.min(started.elapsed());
    }
    Ok(best)
}

fn compilers() -> Fallible<Vec<(String, Compile<'static>)>> {
    let mut found: Vec<(String, Compile<'static>)> = Vec::new();
    let mut target = "sm_90".to_owned();
    let device = Driver::nvidia().and_then(|driver| driver.device(0));
    if let Ok(device) = device {
        let context = Context::primary(&device)?;
        target = device.target()?;
        let version = device.driver().version();
        let name = format!("driver {}.{}", version / 1000, version % 1000 / 10);
        let compile = move |text: &str, threads| {
            let options = JitOptions {
                threads: Some(threads),
                compiler: Some(PtxCompiler::Driver),
                ..JitOptions::default()
            };
            jit::compile(&context, text, &options)?;
            Ok(())
        };
        found.push((name, Box::new(compile)));
    }
    let arch = format!("-arch={target}");
    let arguments = |threads: u32| vec![arch.clone(), format!("--split-compile={threads}")];
    if let Ok(library) = NvPtxCompiler::open() {
        let (major, minor) = library.version();
        let options = [1, 0].map(arguments);
        let compile = move |text: &str, threads: u32| {
            library.compile(text, &options[usize::from(threads == 0)])?;
            Ok(())
        };
        found.push((format!("nvptxcompiler {major}.{minor}"), Box::new(compile)));
    }
    let toolkit = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    if let Some(toolkit) = toolkit {
        // SAFETY: the user names the toolkit.
        if let Ok(library) = unsafe { NvJitLink::open_in(&toolkit) } {
            let (major, minor) = library.version();
            let options =
                [1, 0].map(|threads| vec![arch.clone(), format!("-split-compile={threads}")]);
            let compile = move |text: &str, threads: u32| {
                library.compile(text, &options[usize::from(threads == 0)])?;
                Ok(())
            };
            found.push((format!("nvJitLink {major}.{minor}"), Box::new(compile)));
        }
        let ptxas = toolkit.join("bin/ptxas");
        if ptxas.exists() {
            let folder = tempfile::tempdir()?;
            let options = [1, 0].map(arguments);
            let compile = move |text: &str, threads: u32| {
                let (source, code) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
                std::fs::write(&source, text)?;
                let mut command = Command::new(&ptxas);
                command.args(&options[usize::from(threads == 0)]);
                let status = command.arg("-o").args([&code, &source]).status()?;
                if !status.success() {
                    return Err(format!("ptxas: {status}").into());
                }
                std::fs::read(&code)?;
                Ok(())
            };
            found.push(("ptxas, a process".to_owned(), Box::new(compile)));
        }
    }
    Ok(found)
}
