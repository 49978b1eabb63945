//! The size of device memory.

/// The environment variable with the size of device memory in bytes.
pub(super) const SIZE_VARIABLE: &str = "PTXKIT_CPU_MEMORY";

/// Bytes of memory in this machine, or 8 GiB where the system does not say. Where the process has
/// a limit of addresses (`ulimit -v`), no more than half of it: code, stacks and the host's own
/// memory need the rest.
pub(super) fn host_memory() -> u64 {
    let total = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let total = total().unwrap_or(8 << 30);
    match address_limit() {
        Some(limit) => total.min(limit / 2),
        None => total,
    }
}

#[cfg(unix)]
fn address_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

#[cfg(not(unix))]
fn address_limit() -> Option<u64> {
    None
}

/// The host's page size in bytes.
pub fn page_size() -> u64 {
    #[cfg(unix)]
    return rustix::param::page_size() as u64;
    #[cfg(not(unix))]
    return 4096;
}
