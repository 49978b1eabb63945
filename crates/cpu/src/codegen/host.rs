//! Cranelift's target: the host's processor.

use std::sync::LazyLock;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use super::emitter::thunks::Thunks;
use crate::nan::NanBits;
use crate::processor;
use crate::sanitizer::Checks;
use crate::simd::Isa;

/// Cranelift's target for the host processor.
pub(crate) struct HostIsa {
    pub isa: OwnedTargetIsa,
    /// The same without the optimizer, for large kernels: it moves all that does not depend on the
    /// thread out of the loop over threads, so that the register allocator takes quadratic time.
    pub large: OwnedTargetIsa,
    /// That without the optimizer and with the single-pass register allocator: worse code in
    /// half the time.
    pub quick: OwnedTargetIsa,
    /// The first functions of every blob.
    pub thunks: Thunks,
    pub has_fma: bool,
    /// The vectors that [`simd`](crate::simd) uses, in a process without checks of accesses and NaNs.
    pub lanes: Option<Isa>,
    pub has_rounding: bool,
    /// Atomics of 128 bits.
    pub has_wide_atomics: bool,
    /// Code tells the sanitizer of its accesses.
    pub is_sanitized: bool,
    /// Code gives NaNs the bits that a GPU gives them.
    pub has_gpu_nans: bool,
}

/// The host's target, or the reason why Cranelift cannot compile for it.
pub(crate) fn host() -> Result<&'static HostIsa, String> {
    static HOST: LazyLock<Result<HostIsa, String>> = LazyLock::new(HostIsa::detect);
    HOST.as_ref().map_err(Clone::clone)
}

impl HostIsa {
    /// That of this processor.
    pub(crate) fn detect() -> Result<HostIsa, String> {
        let x86 = cfg!(target_arch = "x86_64");
        let found = processor::features();
        let quick = isa("none", "single_pass")?;
        let has_gpu_nans = NanBits::of_process() == NanBits::Gpu;
        Ok(HostIsa {
            // A first launch does not enter the optimizer.
            thunks: Thunks::compile(&quick)?,
            quick,
            large: isa("none", "backtracking")?,
            isa: isa("speed", "backtracking")?,
            has_fma: !x86 || found.contains(&"has_fma"),
            lanes: Isa::of_processor().filter(|_| !has_gpu_nans && !Checks::of_process().any()),
            has_rounding: !x86 || found.contains(&"has_sse41"),
            has_wide_atomics: found.contains(&"has_cmpxchg16b"),
            is_sanitized: Checks::of_process().any(),
            has_gpu_nans,
        })
    }
}

fn isa(optimization: &str, register_allocation: &str) -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    let mut set = |name: &str, value: &str| {
        flags
            .set(name, value)
            .map_err(|e| format!("Cranelift rejects the setting {name}={value}: {e}"))
    };
    set("opt_level", optimization)?;
    set("regalloc_algorithm", register_allocation)?;
    set("enable_probestack", "false")?;
    set("unwind_info", "false")?;
    let verify = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    set("enable_verifier", verify)?;
    let flags = settings::Flags::new(flags);

    let mut builder = isa::lookup(target_lexicon::Triple::host())
        .map_err(|e| format!("Cranelift cannot compile for this processor: {e}"))?;
    let known = processor::features().into_iter();
    for feature in known.filter(|feature| *feature != processor::F16C) {
        builder
            .enable(feature)
            .map_err(|e| format!("Cranelift does not know {feature}: {e}"))?;
    }
    builder
        .finish(flags)
        .map_err(|e| format!("Cranelift cannot compile for this processor: {e}"))
}
