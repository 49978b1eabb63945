//! Reads just past an allocation. A GPU checks whole pages and does not notice them. With
//! `PTXKIT_CPU_READ_PAST=report` such a read is reported, and the kernel continues.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::abi::LaunchInfo;

const VARIABLE: &str = "PTXKIT_CPU_READ_PAST";

/// Returns whether reads past an allocation are reports, not faults. Warns of an unknown value.
fn reports() -> bool {
    static CHOICE: OnceLock<bool> = OnceLock::new();
    *CHOICE.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Ok("report") => true,
        Ok("fault" | "") | Err(_) => false,
        Ok(word) => {
            tracing::warn!("{VARIABLE}={word} is unknown: use fault or report");
            false
        }
    })
}

/// Returns whether a kernel continues after a read that failed its bounds check. Reports the first such
/// read of each line.
#[cold]
pub(crate) fn goes_on(launch: &LaunchInfo<'_>, address: u64, size: u64, line: u32) -> bool {
    if !reports() || !launch.memory.is_just_past(launch.device, address, size) {
        return false;
    }
    static TOLD: Mutex<Option<HashSet<(String, u32)>>> = Mutex::new(None);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let place = (launch.kernel.to_owned(), line);
    if told.get_or_insert_default().insert(place) {
        let of = launch.memory.describe(address);
        let line = launch.lines.line(line);
        // A closed standard error is no reason to fail.
        let _ = writeln!(
            std::io::stderr(),
            "warning: kernel {}, PTX line {line}: a read of {size} bytes at {address:#x}, {of}: \
             the kernel continues ({VARIABLE}=report)",
            launch.kernel,
        );
    }
    true
}
