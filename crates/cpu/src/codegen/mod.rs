//! A resolved kernel → machine code, with Cranelift.
//!
//! The code addresses nothing by itself: everything comes from the block context
//! that it is given, so it can be stored and mapped anywhere.

mod atomic;
mod bits;
mod compare;
mod convert;
mod emitter;
mod float;
mod function;
mod half;
mod instruction;
mod integer;
mod keeper;
mod lanes;
mod memory;
mod plan;
mod registers;
mod slots;
mod special;
mod sync;
mod system;
mod texture;
mod video;
mod ways;

use std::sync::LazyLock;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use crate::block::SyncPoint;

pub(crate) use function::{Tools, compile_kernel};

/// Machine code of one function.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub bytes: Vec<u8>,
    /// Where the distance to the keeper goes: four bytes that count from their end.
    pub calls: Vec<u32>,
}

/// The machine code of one kernel and what must be known to run it.
#[derive(Clone, Debug)]
pub(crate) struct KernelCode {
    pub scalar: Code,
    /// The function of several threads at once, and how many.
    pub lanes: Option<(Code, u32)>,
    pub slots: u32,
    /// Needs no states.
    pub stateless: bool,
    pub points: Vec<SyncPoint>,
}

/// Code for the processor at hand.
pub(crate) struct Host {
    pub isa: OwnedTargetIsa,
    /// The same with registers allocated in one pass: worse code in half the time.
    pub quick: OwnedTargetIsa,
    /// What every blob begins with.
    pub keeper: Code,
    pub has_fma: bool,
    pub has_rounding: bool,
}

/// The processor at hand; the error says why there is no code for it.
pub(crate) fn host() -> Result<&'static Host, String> {
    static HOST: LazyLock<Result<Host, String>> = LazyLock::new(find_host);
    HOST.as_ref().map_err(Clone::clone)
}

fn find_host() -> Result<Host, String> {
    let x86 = cfg!(target_arch = "x86_64");
    let found = features();
    let isa = self::isa("backtracking")?;
    Ok(Host {
        keeper: keeper::compile(&isa)?,
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
            .map_err(|e| format!("Cranelift does not take {name}={value}: {e}"))
    };
    // Measured: the optimiser costs a third more time and gains nothing here.
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
        .map_err(|e| format!("no code can be made for this processor: {e}"))?;
    for feature in features() {
        builder
            .enable(feature)
            .map_err(|e| format!("Cranelift does not know {feature}: {e}"))?;
    }
    builder
        .finish(flags)
        .map_err(|e| format!("no code can be made for this processor: {e}"))
}

/// What this processor can do beyond its architecture's minimum, by the names
/// of Cranelift's settings.
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
        // Cranelift builds these on each other.
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
