//! Modules, as in the guide's driver chapter: loading PTX and reading the
//! compiler's errors (3.3.2), and global variables (3.3.4).
//!
//! `cargo run --release --example guide_module [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{Context, Device, DeviceBuffer, LaunchConfig, Module, Stream, select};

const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .const .align 4 .f32 constData[256];
.visible .global .align 4 .f32 devData;
.visible .global .align 8 .u64 devPointer;
.visible .entry MyKernel()
{
    .reg .b32 %r<2>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    mov.u64 %rd2, constData;
    add.s64 %rd3, %rd2, %rd1;
    ld.const.f32 %f1, [%rd3];
    ld.global.f32 %f2, [devData];
    mul.f32 %f3, %f1, %f2;
    ld.global.u64 %rd4, [devPointer];
    add.s64 %rd5, %rd4, %rd1;
    st.global.f32 [%rd5], %f3;
    ret;
}
";

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;

    // PTX that does not compile: the log, and the lines that it names.
    let wrong = PTX.replace("mul.f32 %f3", "mul.f32 %f9");
    let Err(ptxkit::driver::Error::Jit(error)) = Module::load(&context, wrong.as_bytes()) else {
        return Err("it compiled".into());
    };
    for line in &error.diagnostics {
        println!("{line}");
    }

    // From a file, as from memory.
    let file = std::env::temp_dir().join(format!("guide_module_{}.ptx", std::process::id()));
    std::fs::write(&file, PTX)?;
    let module = Module::load_file(&context, &file);
    std::fs::remove_file(&file)?;
    let module = module?;
    let kernel = module.kernel("MyKernel")?;

    // `__constant__ float constData[256]`: written and read back.
    let data: Vec<f32> = (0..256).map(|n| n as f32).collect();
    let constants = module.global("constData")?;
    constants.write(&data)?;
    assert_eq!(constants.read::<f32>(256)?, data);
    // `__device__ float devData`
    module.global("devData")?.set(2.5_f32)?;
    // `__device__ float* devPointer`
    let memory = DeviceBuffer::<f32>::zeroed(&context, 256)?;
    module.global("devPointer")?.set(memory.address())?;

    let stream = Stream::new(&context)?;
    // SAFETY: the kernel accesses a variable of its module.
    unsafe { kernel.launch(LaunchConfig::new([1; 3], [256, 1, 1]), &stream, ()) }?;
    stream.synchronize()?;
    assert_eq!(memory.to_vec()?[100], 100.0 * 2.5_f32);
    println!("{}: 256 products are right", device.name()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
