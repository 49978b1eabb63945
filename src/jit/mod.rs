//! PTX to device code, through the driver's own linker.
//!
//! The same calls serve both drivers: NVIDIA's gives a cubin, the CPU device
//! its own binary. Either can be kept and given to
//! [`Module::load`](crate::driver::Module::load).

mod identity;
mod options;

use std::ffi::{CStr, CString, c_void};

use crate::driver::api::{Api, CUlinkState};
use crate::driver::log::JitOptionList;
use crate::driver::module::jit_error;
use crate::driver::{Context, Error};

pub use crate::driver::{JitError, LogLine, LogSeverity};
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
/// `cuLinkAddData_v2`, `cuLinkComplete`). Calls from several threads run beside
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
/// Module::load(&context, &compiled.binary)?.kernel("nothing")?;
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
    let text = CString::new(ptx.trim_end_matches('\0'))
        .map_err(|nul| Error::BadImage(format!("PTX with a NUL at byte {}", nul.nul_position())))?;
    let mut list = options.list();
    let api = context.bind()?;
    let binary = link(api, &text, &mut list).map_err(|error| jit_error(error, &list))?;

    let info_log = list.info_log();
    let mut warnings = crate::driver::log::read_log(&info_log);
    warnings.retain(|line| line.severity == LogSeverity::Warning);
    let wall_time_ms = list.wall_time_ms();
    tracing::debug!(
        bytes = binary.len(),
        ?wall_time_ms,
        log = info_log,
        "compiled PTX"
    );
    Ok(Compiled {
        binary,
        info_log,
        warnings,
        wall_time_ms,
    })
}

/// A linking session, ended when dropped.
struct Session {
    api: &'static Api,
    state: CUlinkState,
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure leaves nothing to do.
        let _ = unsafe { self.api.cuLinkDestroy(self.state) };
    }
}

fn link(api: &'static Api, text: &CStr, list: &mut JitOptionList) -> Result<Vec<u8>, Error> {
    const PTX: u32 = 1;
    let mut state = std::ptr::null_mut();
    // SAFETY: options and values have the count given; `list` outlives the session, which
    // writes to it until its end.
    unsafe { api.cuLinkCreate_v2(list.count(), list.options(), list.values(), &mut state) }?;
    let session = Session { api, state };
    let bytes = text.to_bytes_with_nul();
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the text has the length given, NUL included; the linker copies what it keeps.
    unsafe {
        api.cuLinkAddData_v2(
            session.state,
            PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"ptx".as_ptr(),
            0,
            none.cast(),
            none.cast(),
        )
    }?;
    let (mut binary, mut len) = (none, 0);
    // SAFETY: the session is live; writes an address and a length.
    unsafe { api.cuLinkComplete(session.state, &mut binary, &mut len) }?;
    if binary.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the driver gave `len` bytes that live as long as the session.
    Ok(unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), len) }.to_vec())
}
