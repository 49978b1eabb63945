//! Which compiler a driver compiles PTX with: part of every key of the cache.

use api::{DriverKind, identity};

/// The compiler of a driver and its build, in words.
///
/// `cuDriverGetVersion` tells the CUDA version alone; builds of one version
/// differ in the code that they make.
pub fn compiler_identity(kind: DriverKind) -> String {
    match kind {
        #[cfg(feature = "cpu")]
        DriverKind::Cpu => format!(
            "ptxkit {} {} {} {:?}{}{} {}",
            env!("CARGO_PKG_VERSION"),
            cpu::COMPILER_SOURCES.join(" "),
            ptx::SOURCES,
            cpu::CompileOptions::from_environment().vectorization,
            match cpu::Checks::of_process().any() {
                true => " checked",
                false => "",
            },
            match cpu::NanBits::of_process() {
                cpu::NanBits::Gpu => " gpu-nans",
                _ => "",
            },
            processor_features().join(",")
        ),
        _ => format!("nvidia {}", identity::driver_build()),
    }
}

/// What code for this processor may use: a cache may be shared by machines
/// with different ones.
#[cfg(feature = "cpu")]
fn processor_features() -> Vec<&'static str> {
    macro_rules! present {
        ($detect:ident: $($feature:tt)*) => {
            [$(($feature, std::arch::$detect!($feature))),*]
                .into_iter()
                .filter_map(|(name, there)| there.then_some(name))
                .collect()
        };
    }
    #[cfg(target_arch = "x86_64")]
    return present!(is_x86_feature_detected: "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "lzcnt"
        "bmi1" "bmi2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512vl" "avx512dq" "avx512bitalg"
        "avx512vbmi");
    #[cfg(target_arch = "aarch64")]
    return present!(is_aarch64_feature_detected: "lse" "fp16" "paca" "dotprod");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Vec::new();
}
