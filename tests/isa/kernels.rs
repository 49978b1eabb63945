//! A few statements of PTX as a kernel that maps numbers to numbers.
//!
//! A body finds a thread's four 64-bit inputs in `%a0` to `%a3`, their lower
//! parts in `%r0` … (32 bits) and `%h0` … (16 bits), and as floating point in
//! `%f0` … and `%g0` …. It writes its one result to `%d`, or as the type says to
//! `%rd`, `%hd`, `%fd`, `%gd` or `%pd`.

use std::fmt::Write;

use ptxkit::cpu::{CompileOptions, Vectorization, compile};
use ptxkit::driver::{
    Context, Device, DeviceBuffer, DriverKind, Kernel, LaunchConfig, Module, Selection, Stream,
    select,
};
use ptxkit::ptx::{self, slice::cut_always};

/// Threads of a block.
const BLOCK: usize = 128;

/// The device that `PTXKIT_DEVICE` names.
pub fn device() -> Device {
    let selection = std::env::var("PTXKIT_DEVICE").map_or(Selection::Cpu, |word| {
        word.parse().expect("PTXKIT_DEVICE names a device")
    });
    select(selection).expect("the device is there").device
}

/// A module of one kernel a body, `k0`, `k1` ….
pub fn text(bodies: &[&str]) -> String {
    text_for("sm_90a", bodies)
}

/// The same for another target.
pub fn text_for(target: &str, bodies: &[&str]) -> String {
    // A GPU's driver reads the first.
    let version = if target == "sm_90a" { "9.0" } else { "9.5" };
    let mut text = format!(".version {version}\n.target {target}\n.address_size 64\n");
    for (number, body) in bodies.iter().enumerate() {
        write!(
            text,
            ".visible .entry k{number}(.param .u64 in, .param .u64 out) {{\n\
             .reg .b64 %a<4>, %d, %in, %out, %x<8>;\n\
             .reg .b32 %t, %n, %r<16>, %rd;\n.reg .b16 %h<16>, %hd;\n\
             .reg .f32 %f<8>, %fd;\n.reg .f64 %g<8>, %gd;\n.reg .pred %p<8>, %pd;\n\
             ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n\
             mov.u32 %t, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %r0, %tid.x;\n\
             mad.lo.u32 %t, %t, %n, %r0;\n\
             mad.wide.u32 %in, %t, 32, %in;\nmad.wide.u32 %out, %t, 8, %out;\n\
             ld.global.v2.b64 {{%a0, %a1}}, [%in];\nld.global.v2.b64 {{%a2, %a3}}, [%in+16];\n\
             mov.b64 %d, 0;\n{}{body}\n{}st.global.b64 [%out], %d;\nret;\n}}\n",
            before(body),
            after(body),
        )
        .expect("a string takes everything");
    }
    text
}

/// The inputs in the registers that the body reads.
fn before(body: &str) -> String {
    (0..4)
        .flat_map(|n| {
            [
                (format!("%r{n}"), format!("cvt.u32.u64 %r{n}, %a{n};\n")),
                (format!("%h{n}"), format!("cvt.u16.u64 %h{n}, %a{n};\n")),
                (
                    format!("%f{n}"),
                    format!("cvt.u32.u64 %t, %a{n};\nmov.b32 %f{n}, %t;\n"),
                ),
                (format!("%g{n}"), format!("mov.b64 %g{n}, %a{n};\n")),
            ]
        })
        .filter(|(register, _)| body.contains(register.as_str()))
        .map(|(_, statement)| statement)
        .collect()
}

/// The result in `%d`.
fn after(body: &str) -> &'static str {
    match Destination::of(body) {
        Destination::B64 => "",
        Destination::B32 => "cvt.u64.u32 %d, %rd;\n",
        Destination::B16 => "cvt.u64.u16 %d, %hd;\n",
        Destination::F32 => "mov.b32 %t, %fd;\ncvt.u64.u32 %d, %t;\n",
        Destination::F64 => "mov.b64 %d, %gd;\n",
        Destination::Predicate => "selp.u64 %d, 1, 0, %pd;\n",
    }
}

/// The register that holds a body's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    B64,
    B32,
    B16,
    F32,
    F64,
    Predicate,
}

impl Destination {
    pub fn of(body: &str) -> Destination {
        [
            ("%rd", Destination::B32),
            ("%hd", Destination::B16),
            ("%fd", Destination::F32),
            ("%gd", Destination::F64),
            ("%pd", Destination::Predicate),
        ]
        .into_iter()
        .find(|(register, _)| body.contains(register))
        .map_or(Destination::B64, |(_, destination)| destination)
    }
}

/// One kernel a body on one device.
pub struct Kernels {
    context: Context,
    stream: Stream,
    /// Or why the device does not take it.
    kernels: Vec<Result<Kernel, String>>,
}

/// Whether each kernel is loaded as a slice of its module.
fn is_sliced() -> bool {
    std::env::var("PTXKIT_SLICED").is_ok_and(|word| word == "always")
}

/// The slices of the kernels `k0`, `k1` … of a module.
fn slices(whole: &str, count: usize) -> impl Iterator<Item = String> {
    let slices = cut_always(whole, &ptx::read(whole).module);
    assert_eq!(slices.slices().len(), count);
    (0..count).map(move |n| {
        let slice = slices.kernel(&format!("k{n}")).expect("the kernel is cut");
        slices.slices()[slice].text(whole).into_owned()
    })
}

impl Kernels {
    /// `lanes` says whether the CPU device runs threads together in vectors.
    pub fn load(device: &Device, bodies: &[&str], lanes: Vectorization) -> Kernels {
        Kernels::load_for("sm_90a", device, bodies, lanes)
    }

    /// The same for another target.
    pub fn load_for(
        target: &str,
        device: &Device,
        bodies: &[&str],
        lanes: Vectorization,
    ) -> Kernels {
        let context = Context::primary(device).expect("a context");
        let stream = Stream::new(&context).expect("a stream");
        let load = |text: &str| -> Result<Module, String> {
            if device.driver().kind() == DriverKind::Nvidia {
                return Module::load(&context, text.as_bytes()).map_err(|e| e.to_string());
            }
            let mut options = CompileOptions::default();
            options.vectorization = lanes;
            let blob = compile(text, &options).map_err(|e| e.to_string())?;
            // SAFETY: it was compiled a moment ago.
            unsafe { Module::load_image(&context, &blob) }.map_err(|e| e.to_string())
        };
        let kernel = |module: &Module, number: usize| {
            module
                .kernel(&format!("k{number}"))
                .map_err(|error| error.to_string())
        };
        let whole = text_for(target, bodies);
        let kernels = match load(&whole) {
            Ok(_) if is_sliced() => slices(&whole, bodies.len())
                .enumerate()
                .map(|(n, slice)| load(&slice).and_then(|module| kernel(&module, n)))
                .collect(),
            Ok(module) => (0..bodies.len()).map(|n| kernel(&module, n)).collect(),
            // Each alone, to see which of them it is.
            Err(_) => bodies
                .iter()
                .map(|&body| load(&text_for(target, &[body])).and_then(|module| kernel(&module, 0)))
                .collect(),
        };
        Kernels {
            context,
            stream,
            kernels,
        }
    }

    /// What the body of this number gives for each of the inputs.
    pub fn run(&self, number: usize, inputs: &[[u64; 4]]) -> Result<Vec<u64>, String> {
        let kernel = self.kernels[number].as_ref().map_err(String::clone)?;
        let block = inputs.len().min(BLOCK);
        // Threads beyond the inputs take zeros.
        let threads = inputs.len().next_multiple_of(block);
        let mut words = inputs.concat();
        words.resize(4 * threads, 0);
        let launch = || {
            let input = DeviceBuffer::from_slice(&self.context, &words)?;
            let mut output = DeviceBuffer::<u64>::zeroed(&self.context, threads)?;
            let config = LaunchConfig::for_elements(threads as u32, block as u32);
            unsafe { kernel.launch(config, &self.stream, (&input, &mut output)) }?;
            self.stream.synchronize()?;
            output.to_vec()
        };
        let mut found = launch().map_err(|error: ptxkit::driver::Error| error.to_string())?;
        found.truncate(inputs.len());
        Ok(found)
    }
}
