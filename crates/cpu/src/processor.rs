//! The host's processor.

use std::sync::LazyLock;

/// Vectors of 512 bits, which are not among [`features`]: Cranelift makes no code for them, and few
/// kernels have some.
pub(crate) const AVX_512: &str = "has_avx512f";

/// Conversions of halves, for which Cranelift has no setting: it makes no code for them.
pub(crate) const F16C: &str = "has_f16c";

/// The instructions on vectors of 512 bits that Ice Lake and Zen 4 have, which the code of
/// [lanes](crate::simd) needs.
pub(crate) const AVX_512_LANES: &str = "has_avx512_lanes";

/// The instructions on vectors of 256 bits that Haswell and Zen have, for code of lanes on processors
/// without AVX-512.
pub(crate) const AVX2_LANES: &str = "has_avx2_lanes";

/// The variable with the newest vector instructions that code uses: `avx2` or `avx512`.
const MAX_ISA: &str = "PTXKIT_CPU_MAX_ISA";

/// Whether code may use AVX-512.
static ALLOWS_AVX_512: LazyLock<bool> = LazyLock::new(|| match std::env::var(MAX_ISA).as_deref() {
    Ok("avx2") => false,
    Ok("avx512" | "") | Err(_) => true,
    Ok(word) => {
        tracing::warn!("{MAX_ISA}={word} is unknown: use avx2 or avx512");
        true
    }
});

/// Whether this processor has a feature, and the environment does not forbid it.
pub(crate) fn has(feature: &str) -> bool {
    let found = features();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! all {
            ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
        }
        match feature {
            AVX_512 | AVX_512_LANES if !*ALLOWS_AVX_512 => return false,
            AVX2_LANES => return all!("avx2" "fma" "f16c" "bmi1" "bmi2"),
            AVX_512 => return all!("avx512f") && found.contains(&"has_avx"),
            AVX_512_LANES => {
                return all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vbmi2"
                    "avx512vpopcntdq" "avx512bitalg" "bmi1" "bmi2");
            }
            _ => {}
        }
    }
    found.contains(&feature)
}

/// All that code for this processor may use, and that the environment does not forbid.
pub fn processor_features() -> Vec<&'static str> {
    let mut found = features();
    let vectors = [AVX_512, AVX_512_LANES, AVX2_LANES];
    found.extend(vectors.into_iter().filter(|feature| has(feature)));
    found
}

/// The optional features of this processor, by the names of Cranelift's settings or alike.
pub(crate) fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detect {
            ($($feature:tt => $setting:expr,)*) => {
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
            "f16c" => F16C,
            "bmi1" => "has_bmi1",
            "bmi2" => "has_bmi2",
            "lzcnt" => "has_lzcnt",
            "popcnt" => "has_popcnt",
        }
        // Cranelift's instruction selection assumes AVX for these.
        if !found.contains(&"has_avx") {
            found.retain(|f| !matches!(*f, "has_avx2" | "has_fma" | F16C));
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("lse") {
        found.push("has_lse");
    }
    found
}
