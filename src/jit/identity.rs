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
            if cpu::Checks::of_process().any() {
                " checked"
            } else {
                ""
            },
            match cpu::NanBits::of_process() {
                cpu::NanBits::Gpu => " gpu-nans",
                _ => "",
            },
            // A cache may be shared by machines with different processors.
            cpu::processor_features().join(",")
        ),
        _ => format!("nvidia {}", identity::driver_build()),
    }
}
