//! Which compiler a driver compiles PTX with: part of every key of the cache.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

use crate::driver::DriverKind;

/// The compiler of a driver and its build, in words.
///
/// `cuDriverGetVersion` tells the CUDA version alone; builds of one version
/// differ in the code that they make.
pub fn compiler_identity(kind: DriverKind) -> String {
    match kind {
        #[cfg(feature = "cpu")]
        DriverKind::Cpu => format!(
            "ptxkit {} {} {:?} {}",
            env!("CARGO_PKG_VERSION"),
            env!("PTXKIT_COMPILER_SOURCES"),
            crate::cpu::CompileOptions::from_environment().lanes,
            processor_features().join(",")
        ),
        _ => {
            // A process has one driver, and the list of its mappings is long.
            static LIBRARY: OnceLock<String> = OnceLock::new();
            format!("nvidia {}", LIBRARY.get_or_init(nvidia_library))
        }
    }
}

/// The file that NVIDIA's driver was loaded from: its name ends in the build's
/// number, as `libcuda.so.580.159.04`, and the compiler library beside it is
/// always of the same build. Containers may bring another than the kernel
/// module's, so the file loaded is asked and not the kernel.
fn nvidia_library() -> String {
    let Some(path) = mapped_driver() else {
        return "of unknown build".to_owned();
    };
    let name = path.rsplit('/').next().unwrap_or(&path);
    if name.matches('.').count() > 2 {
        return name.to_owned();
    }
    // Without a number in its name, a file is known by its size and its time.
    let metadata = std::fs::metadata(&path).ok();
    let size = metadata.as_ref().map_or(0, std::fs::Metadata::len);
    let time = metadata
        .and_then(|metadata| metadata.modified().ok())
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos());
    format!("{name} {size} {time}")
}

/// The path of the driver among the process's mappings. Nothing after it is
/// read: the kernel takes its time to print them.
fn mapped_driver() -> Option<String> {
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    maps.lines().map_while(Result::ok).find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with("libcuda.so").then(|| path.to_owned())
    })
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
