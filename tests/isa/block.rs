//! Kernels of whole blocks: a kernel around statements, run on the device that
//! `PTXKIT_DEVICE` names.

use ptxkit::cpu::{CompileOptions, Vectorization, compile};
use ptxkit::driver::{Context, DeviceBuffer, DriverKind, LaunchConfig, Module, Stream};

use crate::kernels::device;

/// Threads of a block: two warps, so that the second one's registers are not those of the
/// first.
pub const THREADS: usize = 64;

/// The bytes of dynamic shared memory of kernels that have it.
const DYNAMIC_BYTES: u32 = 48 << 10;

/// Runs a kernel `k(in, out)` in so many blocks of [`THREADS`] threads.
pub fn launch(text: &str, blocks: u32, input: &[u32], outputs: usize) -> Vec<u32> {
    launch_blocks(text, blocks, THREADS, input, outputs)
}

/// Runs a kernel `k(in, out)` in so many blocks of so many threads. On the CPU device, thread
/// by thread and with vectors, which must agree.
pub fn launch_blocks(
    text: &str,
    blocks: u32,
    threads: usize,
    input: &[u32],
    outputs: usize,
) -> Vec<u32> {
    let device = device();
    let context = Context::primary(&device).unwrap();
    let stream = Stream::new(&context).unwrap();
    let run = |module: Module| {
        let input = DeviceBuffer::from_slice(&context, input).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&context, outputs).unwrap();
        let kernel = module.kernel("k").unwrap();
        let threads = threads as u32;
        let shared = if text.contains(".extern .shared") {
            DYNAMIC_BYTES
        } else {
            0
        };
        let config = LaunchConfig::for_elements(blocks * threads, threads).with_shared(shared);
        unsafe { kernel.launch(config, &stream, (&input, &mut output)) }.unwrap();
        stream
            .synchronize()
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        output.to_vec().unwrap()
    };
    if device.driver().kind() == DriverKind::Nvidia {
        return run(Module::load(&context, text.as_bytes()).unwrap());
    }
    let [alone, together] = [Vectorization::Never, Vectorization::Always].map(|lanes| {
        let mut options = CompileOptions::default();
        options.vectorization = lanes;
        let blob = compile(text, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        // SAFETY: it was compiled a moment ago.
        run(unsafe { Module::load_image(&context, &blob) }.unwrap())
    });
    assert_eq!(alone, together, "{text}");
    alone
}

/// A kernel around statements. Each thread finds its index in `%t`, the address of its
/// `inputs` words in `%in` and that of its `outputs` words in `%out`.
pub fn kernel(inputs: usize, outputs: usize, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .shared .align 128 .b8 memory[16384];\n\
         .reg .b64 %in, %out, %x<40>;\n.reg .b32 %t, %r<80>;\n.reg .pred %p<4>;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
         mad.wide.u32 %in, %t, {}, %in;\nmad.wide.u32 %out, %t, {}, %out;\n\
         {body}\nret;\n}}\n",
        4 * inputs,
        4 * outputs,
    )
}
