//! Reads just past an allocation. A GPU does not notice them, as its pages are larger: with
//! `PTXKIT_CPU_READ_PAST=report` such a read is reported, and the kernel goes on.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::abi::LaunchInfo;

const VARIABLE: &str = "PTXKIT_CPU_READ_PAST";

/// Whether the variable asks for reports. An unknown word is warned of.
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

/// Whether a read goes on that ends past an allocation but before the next one. Each line of a
/// kernel is reported once.
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
        // Without a standard error there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "warning: kernel {}, PTX line {line}: a read of {size} bytes at {address:#x}, {of}, went \
             on: a GPU does not notice it ({VARIABLE}=report)",
            launch.kernel,
        );
    }
    true
}
