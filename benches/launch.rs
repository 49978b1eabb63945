//! What a safe launch adds to a bare `cuLaunchKernel`: the same empty kernel
//! with eight parameters, launched back to back, checked and bare in turn.
//!
//! `PTXKIT_DEVICE` chooses the device; the goal is meant for a GPU.

mod paired;

use std::ffi::c_void;

use ptxkit::driver::{
    Context, DeviceBuffer, LaunchConfig, Module, ParamBuffer, Selection, Stream, select,
};

const LAUNCHES: usize = 20_000;

const PTX: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry empty(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n,
                      .param .f32 x, .param .f32 y, .param .u32 k, .param .u64 d)
{ ret; }
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    let selected = select(selection)?;
    println!("{} ({})", selected.device.name()?, selected.why);
    let context = Context::primary(&selected.device)?;
    let kernel = Module::load(&context, PTX.as_bytes())?.kernel("empty")?;
    let stream = Stream::new(&context)?;
    let buffer = DeviceBuffer::<f32>::zeroed(&context, 1024)?;
    let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

    let arguments = (
        &buffer, &buffer, &buffer, 7_u32, 1.0_f32, 2.0_f32, 3_u32, &buffer,
    );
    let by_pointers = || {
        for _ in 0..LAUNCHES {
            kernel
                .launch(config, &stream, arguments)
                .expect("the launch");
        }
        stream.synchronize().expect("the kernels");
    };
    // What a launch loop does: the block is built once, each launch copies it.
    let mut params = ParamBuffer::new();
    params.push(&buffer).push(&buffer).push(&buffer).push(7_u32);
    params.push(1.0_f32).push(2.0_f32).push(3_u32).push(&buffer);
    let by_buffer = || {
        for _ in 0..LAUNCHES {
            kernel
                .launch_buffer(config, &stream, &params)
                .expect("the launch");
        }
        stream.synchronize().expect("the kernels");
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
        for _ in 0..LAUNCHES {
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
        }
        stream.synchronize().expect("the kernels");
    };
    let bare_buffer = || {
        for _ in 0..LAUNCHES {
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
        }
        stream.synchronize().expect("the kernels");
    };
    paired::paired(
        "launch, bare pointers",
        51,
        1.03,
        by_pointers,
        bare_pointers,
    );
    paired::paired(
        "launch_buffer, bare buffer",
        51,
        1.03,
        by_buffer,
        bare_buffer,
    );
    #[cfg(feature = "cudarc-interop")]
    beside_cudarc(&context, &buffer, config, by_pointers)?;
    Ok(())
}

/// The same launches by cudarc's builder, in a stream of its own, which keeps
/// events for each slice; here without, as its fastest way.
#[cfg(feature = "cudarc-interop")]
fn beside_cudarc(
    context: &Context,
    buffer: &DeviceBuffer<f32>,
    config: LaunchConfig,
    by_pointers: impl FnMut(),
) -> Result<(), Box<dyn std::error::Error>> {
    use cudarc::driver::PushKernelArg;

    if context.device().driver().kind() != ptxkit::driver::DriverKind::Nvidia {
        return Ok(()); // cudarc knows one driver
    }
    let theirs = ptxkit::interop::to_context(context)?;
    let module = ptxkit::interop::load(&theirs, "empty.ptx", PTX.as_bytes())?;
    let empty = module.load_function("empty")?;
    let queue = theirs.new_stream()?;
    let launch_config = cudarc::driver::LaunchConfig {
        grid_dim: config.grid.into(),
        block_dim: config.block.into(),
        shared_mem_bytes: 0,
    };
    let (address, n, x, y, k) = (buffer.address(), 7_u32, 1.0_f32, 2.0_f32, 3_u32);
    let by_builder = || {
        for _ in 0..LAUNCHES {
            let mut builder = queue.launch_builder(&empty);
            builder.arg(&address).arg(&address).arg(&address).arg(&n);
            builder.arg(&x).arg(&y).arg(&k).arg(&address);
            // SAFETY: the kernel takes these parameters, and touches nothing.
            unsafe { builder.launch(launch_config) }.expect("the launch");
        }
        queue.synchronize().expect("the kernels");
    };
    paired::paired("launch, cudarc's builder", 51, 1.0, by_pointers, by_builder);
    Ok(())
}
