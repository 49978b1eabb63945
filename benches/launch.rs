//! What a checked launch adds to a bare `cuLaunchKernel`: the same empty kernel
//! with eight parameters in the same stream, checked and bare in turn. A launch by raw
//! arguments, of a typed kernel, and by the method that `kernels!` makes.
//!
//! What is measured is the caller's time, a burst of launches without the wait
//! for them. The driver's queue takes about a thousand; when it is full, a
//! launch waits for the GPU, whoever makes it, and both sides look alike. So a
//! burst is shorter than the queue, and begins when the stream is idle.
//!
//! The first line sets bare launches beside themselves: what the measurement
//! cannot tell apart. The last says what a launch pays to be sure of its
//! context, which the bare one takes for granted.
//!
//! `PTXKIT_DEVICE` chooses the device; the goal is meant for a GPU.

mod paired;

use std::ffi::c_void;
use std::time::Instant;

use ptxkit::cache::{Cache, Policy};
use ptxkit::driver::{
    Context, Count, DeviceBuffer, DeviceSlice, Kernel, LaunchConfig, Module, ParamBuffer,
    Selection, Stream, select,
};
use ptxkit::loader::Loader;

/// Half of what the driver's queue takes.
const BURST: usize = 500;
const RUNS: usize = 801;

ptxkit::kernels! {
    mod declared in "kernels/empty.ptx";
    unsafe extern {
        // SAFETY: the kernel does nothing.
        safe fn empty(
            a: &DeviceSlice<f32>, b: &DeviceSlice<f32>, c: &DeviceSlice<f32>, n: Count<u32>,
            x: f32, y: f32, k: u32, d: &DeviceSlice<f32>,
        );
    }
}

const PTX: &str = include_str!("kernels/empty.ptx");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    let selected = select(selection)?;
    println!("{} ({}), a launch", selected.device.name()?, selected.why);
    let context = Context::primary(&selected.device)?;
    let kernel = Module::load(&context, PTX.as_bytes())?.kernel("empty")?;
    let stream = Stream::new(&context)?;
    let buffer = DeviceBuffer::<f32>::zeroed(&context, 1024)?;
    let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

    // What a launch loop does: the block is built once, each launch copies it.
    let mut params = ParamBuffer::new();
    params.push(&buffer).push(&buffer).push(&buffer).push(7_u32);
    params.push(1.0_f32).push(2.0_f32).push(3_u32).push(&buffer);
    let by_buffer = || {
        burst(&stream, || {
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch_buffer(config, &stream, &params) }.expect("the launch");
        })
    };

    let entry = context
        .bind()?
        .cuLaunchKernel
        .ok_or("the driver has no cuLaunchKernel")?;
    let launch = |pointers: *mut *mut c_void, extra: *mut *mut c_void| {
        let (function, queue) = (kernel.raw(), stream.raw());
        // SAFETY: live handles of one context; the callers below give the kernel's parameters.
        let code = unsafe { entry(function, 1, 1, 1, 32, 1, 1, 0, queue, pointers, extra) };
        assert_eq!(code, 0);
    };
    let bare_pointers = || {
        burst(&stream, || {
            let address = buffer.address();
            let (n, x, y, k) = (7_u32, 1.0_f32, 2.0_f32, 3_u32);
            let mut pointers: [*mut c_void; 8] = [
                (&raw const address) as _,
                (&raw const address) as _,
                (&raw const address) as _,
                (&raw const n) as _,
                (&raw const x) as _,
                (&raw const y) as _,
                (&raw const k) as _,
                (&raw const address) as _,
            ];
            launch(pointers.as_mut_ptr(), std::ptr::null_mut());
        })
    };
    let bare_buffer = || {
        burst(&stream, || {
            let mut size = params.bytes().len();
            // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
            let mut extra: [*mut c_void; 5] = [
                std::ptr::without_provenance_mut(1),
                params.bytes().as_ptr().cast_mut().cast(),
                std::ptr::without_provenance_mut(2),
                (&raw mut size).cast(),
                std::ptr::null_mut(),
            ];
            launch(std::ptr::null_mut(), extra.as_mut_ptr());
        })
    };

    paired::paired_by(
        "bare pointers, twice",
        RUNS,
        1.03,
        bare_pointers,
        bare_pointers,
    );
    paired::paired_by(
        "launch, bare pointers",
        RUNS,
        1.03,
        by_pointers(&kernel, &stream, config, &buffer),
        bare_pointers,
    );
    let ordered = DeviceBuffer::<f32>::new_async(&stream, 1024)?;
    paired::paired_by(
        "launch, memory of the stream",
        RUNS,
        1.03,
        by_pointers(&kernel, &stream, config, &ordered),
        bare_pointers,
    );
    type Address = *const f32;
    type Parameters = (
        Address,
        Address,
        Address,
        Count<u32>,
        f32,
        f32,
        u32,
        Address,
    );
    // SAFETY: the kernel does nothing.
    let typed = unsafe { kernel.clone().typed::<Parameters>() }?;
    let by_typed = || {
        burst(&stream, || {
            let arguments = (
                &buffer, &buffer, &buffer, 7_u32, 1.0_f32, 2.0_f32, 3_u32, &buffer,
            );
            typed
                .launch(config, &stream, arguments)
                .expect("the launch");
        })
    };
    paired::paired_by("typed, bare pointers", RUNS, 1.03, by_typed, bare_pointers);
    let kernels = declared::load(&Loader::new(
        context.clone(),
        Cache::new(Policy::disabled()),
    ))?;
    let by_declared = || {
        burst(&stream, || {
            let launched = kernels.empty(
                config, &stream, &buffer, &buffer, &buffer, 7, 1.0, 2.0, 3, &buffer,
            );
            launched.expect("the launch");
        })
    };
    paired::paired_by(
        "declared, bare pointers",
        RUNS,
        1.03,
        by_declared,
        bare_pointers,
    );
    paired::paired_by(
        "launch_buffer, bare buffer",
        RUNS,
        1.03,
        by_buffer,
        bare_buffer,
    );
    #[cfg(feature = "cudarc-interop")]
    beside_cudarc(&context, &stream, &buffer, config)?;

    let binds = || {
        burst(&stream, || {
            context.bind().expect("the context");
        })
    };
    println!("the context alone: {:.1} ns", 1e9 * shortest(binds));
    Ok(())
}

/// Seconds a launch takes its caller, in a stream that is idle before and after.
fn burst(stream: &Stream, launch: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..BURST {
        launch();
    }
    let seconds = start.elapsed().as_secs_f64();
    stream.synchronize().expect("the kernels");
    seconds / BURST as f64
}

fn shortest(measure: impl Fn() -> f64) -> f64 {
    (0..RUNS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn by_pointers(
    kernel: &Kernel,
    stream: &Stream,
    config: LaunchConfig,
    buffer: &DeviceBuffer<f32>,
) -> impl Fn() -> f64 {
    move || {
        burst(stream, || {
            let arguments = (
                buffer, buffer, buffer, 7_u32, 1.0_f32, 2.0_f32, 3_u32, buffer,
            );
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch(config, stream, arguments) }.expect("the launch");
        })
    }
}

/// The same launches by cudarc's builder, of one function in one stream. cudarc
/// keeps events for each of its slices; an address, as here, is its fastest way.
#[cfg(feature = "cudarc-interop")]
fn beside_cudarc(
    context: &Context,
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    config: LaunchConfig,
) -> Result<(), Box<dyn std::error::Error>> {
    use cudarc::driver::PushKernelArg;

    if context.device().driver().kind() != ptxkit::driver::DriverKind::Nvidia {
        return Ok(()); // cudarc knows one driver
    }
    let theirs = ptxkit::interop::to_context(context)?;
    let module = theirs.load_module(cudarc::nvrtc::Ptx::from_src(PTX))?;
    let empty = module.load_function("empty")?;
    let kernel = ptxkit::interop::kernel(context, &empty)?;
    // SAFETY: the stream outlives what is made of it here.
    let queue = unsafe { ptxkit::interop::to_stream(&theirs, stream) };
    let launch_config = cudarc::driver::LaunchConfig {
        grid_dim: config.grid.into(),
        block_dim: config.block.into(),
        shared_mem_bytes: 0,
    };
    let by_builder = || {
        burst(stream, || {
            let address = buffer.address();
            let (n, x, y, k) = (7_u32, 1.0_f32, 2.0_f32, 3_u32);
            let mut builder = queue.launch_builder(&empty);
            builder.arg(&address).arg(&address).arg(&address).arg(&n);
            builder.arg(&x).arg(&y).arg(&k).arg(&address);
            // SAFETY: the kernel takes these parameters, and touches nothing.
            unsafe { builder.launch(launch_config) }.expect("the launch");
        })
    };
    paired::paired_by(
        "launch, cudarc's builder",
        RUNS,
        1.0,
        by_pointers(&kernel, stream, config, buffer),
        by_builder,
    );
    Ok(())
}
