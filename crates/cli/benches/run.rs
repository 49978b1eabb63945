//! What `ptxkit run` of a large module takes beside a program that makes the same calls
//! of the driver, from the start of the process to its end. Both find what they compiled
//! in a compute cache.
//!
//! `PTXKIT_DEVICE` chooses the device, `PTXKIT_BIN` names the program. The peer has no
//! cache on the CPU device, so that only a GPU is timed.

use std::ffi::c_void;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ptxkit::driver::{Context, DriverKind, Selection, select};

/// Set where this program is the peer: the PTX.
const PTX: &str = "PTXKIT_BENCH_PTX";
/// Kernels of 7 KB each.
const KERNELS: u32 = 500;
const RUNS: usize = 21;
/// Milliseconds that the program may take more.
const GOAL: f64 = 20.0;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    if let Some(ptx) = std::env::var_os(PTX) {
        return peer(Path::new(&ptx));
    }
    let selected = select(Selection::Auto)?;
    if selected.device.driver().kind() != DriverKind::Nvidia {
        println!("run: no GPU, nothing is timed");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let ptx = folder.path().join("large.ptx");
    std::fs::write(&ptx, module())?;
    let cache = folder.path().join("cache");
    let program = std::env::var("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into());
    let arguments = "--device nvidia --kernel kernel_0 --grid 1 --block 256 \
                     --arg buf:f32:4096 --arg buf:f32:4096 --arg buf:u32:4096 --arg u32:256 --arg f32:1";
    let mut ours = Command::new(program);
    ours.arg("run").arg(&ptx).args(arguments.split_whitespace());
    let mut bare = Command::new(std::env::current_exe()?);
    bare.env(PTX, &ptx);
    for command in [&mut ours, &mut bare] {
        command
            .env("CUDA_CACHE_PATH", &cache)
            .env("CUDA_CACHE_MAXSIZE", "4294967296")
            .stdout(Stdio::null());
        // Compiles.
        time(command)?;
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        with.push(time(&mut ours)?);
        without.push(time(&mut bare)?);
    }
    let (with, without) = (median(&mut with), median(&mut without));
    let more = with - without;
    let verdict = if more <= GOAL { "met" } else { "MISSED" };
    println!(
        "{}: ptxkit run, {} KB of PTX: {with:.1} ms, bare calls {without:.1} ms, {more:.1} ms more, goal {GOAL}: {verdict}",
        selected.device.name()?,
        std::fs::metadata(&ptx)?.len() / 1000,
    );
    Ok(())
}

fn module() -> String {
    let kernel = include_str!("../../../benches/kernels/service.ptx");
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for number in 0..KERNELS {
        text += &kernel.replace("NUMBER", &number.to_string());
    }
    text
}

/// Milliseconds of a whole process.
fn time(command: &mut Command) -> Fallible<f64> {
    let started = Instant::now();
    let status = command.status()?;
    let time = started.elapsed().as_secs_f64() * 1e3;
    if status.success() {
        Ok(time)
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The same calls as of `ptxkit run`: three buffers that are filled, a launch, copies back.
fn peer(ptx: &Path) -> Fallible<()> {
    let context = Context::primary(&select(Selection::Auto)?.device)?;
    let api = context.bind()?;
    let mut text = std::fs::read(ptx)?;
    text.push(0);
    let mut host = vec![0_u8; 4 * 4096];
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the text ends in NUL, the buffers have the kernel's sizes, and each pointer
    // is to a value of the entry's type that lives until the call ends.
    unsafe {
        api.cuModuleLoadData(&mut module, text.as_ptr().cast())?;
        api.cuModuleGetFunction(&mut function, module, c"kernel_0".as_ptr())?;
        let mut buffers = [0_u64; 3];
        for buffer in &mut buffers {
            api.cuMemAlloc_v2(buffer, host.len())?;
            api.cuMemcpyHtoD_v2(*buffer, host.as_ptr().cast(), host.len())?;
        }
        let (mut count, mut scale) = (256_u32, 1_f32);
        let mut parameters: [*mut c_void; 5] = [
            (&raw mut buffers[0]).cast(),
            (&raw mut buffers[1]).cast(),
            (&raw mut buffers[2]).cast(),
            (&raw mut count).cast(),
            (&raw mut scale).cast(),
        ];
        let stream = std::ptr::null_mut();
        let extra = std::ptr::null_mut();
        api.cuLaunchKernel(
            function,
            1,
            1,
            1,
            256,
            1,
            1,
            0,
            stream,
            parameters.as_mut_ptr(),
            extra,
        )?;
        for buffer in buffers {
            api.cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), buffer, host.len())?;
        }
    }
    Ok(())
}
