//! PTX to device code, through the driver's own linker or [NVIDIA's library](crate::driver::nvptxcompiler).
//!
//! The same calls serve both drivers: NVIDIA's gives a cubin, the CPU device
//! its own binary. Either can be kept and given to
//! [`Module::load_image`](crate::driver::Module::load_image).

mod compiler;
mod identity;
mod options;

use crate::driver::{Context, Error};
use image::PtxText;

pub use crate::driver::{JitError, LinkInput, LogLine, LogSeverity};
pub use compiler::PtxCompiler;
pub use identity::compiler_identity;
pub use options::{CacheMode, JitOptions};

/// What the compiler made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Compiled {
    /// A cubin, or a binary of the CPU device.
    pub binary: Vec<u8>,
    /// What the compiler said: with [`JitOptions::verbose`] registers, spills
    /// and memory of each kernel. Empty where it said nothing.
    pub info_log: String,
    /// Warnings among it, with the PTX lines they name.
    pub warnings: Vec<LogLine>,
    /// Milliseconds of compiling and linking, as the driver measured them.
    pub wall_time_ms: Option<f32>,
}

/// Compiles PTX for the device of `context` (`cuLinkCreate_v2`,
/// `cuLinkAddData_v2`, `cuLinkComplete`), or with the compiler that [`JitOptions::compiler`] chooses. Calls from several threads run beside
/// one another.
///
/// PTX that does not compile is an [`Error::Jit`] with the log and its lines.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, Error, Module};
/// use ptxkit::jit::{self, JitOptions};
///
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
/// let compiled = jit::compile(&context, ptx, &JitOptions::default())?;
/// // SAFETY: the binary was compiled a moment ago.
/// unsafe { Module::load_image(&context, &compiled.binary) }?.kernel("nothing")?;
///
/// let wrong = ptx.replace("ret", "rot");
/// let Err(Error::Jit(error)) = jit::compile(&context, &wrong, &JitOptions::default()) else {
///     panic!("it compiled");
/// };
/// assert_eq!(error.diagnostics[0].line, Some(4));
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
pub fn compile(context: &Context, ptx: &str, options: &JitOptions) -> Result<Compiled, Error> {
    let text = ptx.trim_end_matches('\0');
    if let Some(at) = text.find('\0') {
        return Err(Error::BadImage(format!("PTX with a NUL at byte {at}")));
    }
    let version = PtxText::read(text).and_then(|ptx| ptx.version);
    match options.compiler_for(context.device().driver(), version)? {
        PtxCompiler::Driver => link(context, &[LinkInput::ptx("ptx", text)], options),
        PtxCompiler::NvPtxCompiler => compiler::compile_with_library(context, text, options),
    }
}

/// Compiles and links several inputs into one binary (`cuLinkAddData_v2` for
/// each): what one declares `.extern` is found in another. The CPU device links
/// PTX and its own binaries.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, Module};
/// use ptxkit::jit::{self, JitOptions, LinkInput};
///
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
/// let kernel = format!("{head}.extern .func f();\n.visible .entry k() {{ call f; ret; }}");
/// let function = format!("{head}.visible .func f() {{ ret; }}");
/// let inputs = [LinkInput::ptx("k.ptx", &kernel), LinkInput::ptx("f.ptx", &function)];
/// let linked = jit::link(&context, &inputs, &JitOptions::default())?;
/// // SAFETY: the binary was linked a moment ago.
/// unsafe { Module::load_image(&context, &linked.binary) }?.kernel("k")?;
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
pub fn link(
    context: &Context,
    inputs: &[LinkInput<'_>],
    options: &JitOptions,
) -> Result<Compiled, Error> {
    let ptx_bytes = inputs.iter().map(LinkInput::ptx_bytes).sum();
    let mut list = options.list(context.device().driver(), ptx_bytes);
    let binary = crate::driver::module::link::link(context, inputs, &mut list)?;

    let info_log = list.info_log();
    let wall_time_ms = list.wall_time_ms();
    tracing::debug!(
        bytes = binary.len(),
        ?wall_time_ms,
        log = info_log,
        "compiled PTX"
    );
    Ok(Compiled {
        binary,
        warnings: warnings_of(&info_log),
        info_log,
        wall_time_ms,
    })
}

/// The warnings in a log.
fn warnings_of(log: &str) -> Vec<LogLine> {
    let mut lines = crate::driver::log::read_log(log);
    lines.retain(|line| line.severity == LogSeverity::Warning);
    lines
}
