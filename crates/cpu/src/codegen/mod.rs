//! Code generation: a lowered kernel becomes machine code, with Cranelift.
//!
//! The code contains no absolute address. It reaches everything through the block
//! context, its first argument, so that it can be stored and mapped anywhere.

mod atomic;
mod bits;
mod compare;
mod convert;
mod dispatch;
mod emitter;
mod float;
mod function;
mod half;
mod integer;
mod lane_group;
mod memory;
mod registers;
mod resume;
mod slots;
mod slow_path;
mod special;
mod sync;
mod system;
mod texture;
mod vectorize;
mod video;

use std::sync::LazyLock;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use crate::abi::SyncPoint;

pub(crate) use function::{CompilerContexts, compile_kernel};

/// Machine code of one function.
#[derive(Clone, Debug)]
pub(crate) struct MachineCode {
    pub bytes: Vec<u8>,
    /// Offsets of the calls' 4-byte displacements to the slow-path thunk, which are
    /// relative to the end of the displacement.
    pub thunk_calls: Vec<u32>,
}

/// The machine code of one kernel and what the scheduler needs to run it.
#[derive(Clone, Debug)]
pub(crate) struct KernelCode {
    pub scalar: MachineCode,
    /// The function that runs a lane group at a time, and the group's width.
    pub vector: Option<(MachineCode, u32)>,
    pub slots: u32,
    /// It has no resume points, so that its threads need no state.
    pub stateless: bool,
    pub sync_points: Vec<SyncPoint>,
}

/// Cranelift's target for the host processor.
pub(crate) struct HostIsa {
    pub isa: OwnedTargetIsa,
    /// The same with the single-pass register allocator: worse code in half the time.
    pub quick: OwnedTargetIsa,
    /// The first function of every blob.
    pub slow_path_thunk: MachineCode,
    pub has_fma: bool,
    pub has_rounding: bool,
}

/// The host's target, or the reason why Cranelift cannot compile for it.
pub(crate) fn host() -> Result<&'static HostIsa, String> {
    static HOST: LazyLock<Result<HostIsa, String>> = LazyLock::new(detect_host);
    HOST.as_ref().map_err(Clone::clone)
}

fn detect_host() -> Result<HostIsa, String> {
    let x86 = cfg!(target_arch = "x86_64");
    let found = features();
    let isa = self::isa("backtracking")?;
    Ok(HostIsa {
        slow_path_thunk: slow_path::compile(&isa)?,
        isa,
        quick: self::isa("single_pass")?,
        has_fma: !x86 || found.contains(&"has_fma"),
        has_rounding: !x86 || found.contains(&"has_sse41"),
    })
}

fn isa(register_allocation: &str) -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    let mut set = |name: &str, value: &str| {
        flags
            .set(name, value)
            .map_err(|e| format!("Cranelift rejects the setting {name}={value}: {e}"))
    };
    // Measured: the optimiser takes a third more time and gains nothing here.
    set("opt_level", "none")?;
    set("regalloc_algorithm", register_allocation)?;
    set("enable_probestack", "false")?;
    set("unwind_info", "false")?;
    set("enable_alias_analysis", "false")?;
    let verify = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    set("enable_verifier", verify)?;
    let flags = settings::Flags::new(flags);

    let mut builder = isa::lookup(target_lexicon::Triple::host())
        .map_err(|e| format!("Cranelift cannot compile for this processor: {e}"))?;
    for feature in features() {
        builder
            .enable(feature)
            .map_err(|e| format!("Cranelift does not know {feature}: {e}"))?;
    }
    builder
        .finish(flags)
        .map_err(|e| format!("Cranelift cannot compile for this processor: {e}"))
}

/// The optional features of this processor, by the names of Cranelift's settings.
pub(crate) fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detect {
            ($($feature:tt => $setting:literal,)*) => {
                $(if std::arch::is_x86_feature_detected!($feature) { found.push($setting); })*
            };
        }
        detect! {
            "cmpxchg16b" => "has_cmpxchg16b",
            "sse3" => "has_sse3",
            "ssse3" => "has_ssse3",
            "sse4.1" => "has_sse41",
            "sse4.2" => "has_sse42",
            "avx" => "has_avx",
            "avx2" => "has_avx2",
            "fma" => "has_fma",
            "bmi1" => "has_bmi1",
            "bmi2" => "has_bmi2",
            "lzcnt" => "has_lzcnt",
            "popcnt" => "has_popcnt",
        }
        // Cranelift's instruction selection assumes AVX for these.
        if !found.contains(&"has_avx") {
            found.retain(|f| !matches!(*f, "has_avx2" | "has_fma"));
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("lse") {
        found.push("has_lse");
    }
    found
}
