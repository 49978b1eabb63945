//! Which build of NVIDIA's driver this is: no entry tells.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// The file that NVIDIA's driver was loaded from: its name ends in the build's
/// number, as `libcuda.so.580.159.04`, and the compiler library beside it is
/// always of the same build. Containers may bring another than the kernel
/// module's, so the file loaded is asked and not the kernel.
pub fn driver_build() -> &'static str {
    // A process has one driver.
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(mapped_build)
}

fn mapped_build() -> String {
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
