//! Device memory that nobody has written since it was allocated, for the check `init`.
//!
//! The allocations of a device alone are known: what the host may write directly, such as pinned
//! and managed memory, counts as written. Without the check nothing is known, and every function
//! returns at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checks::Checks;
use super::shadow::Written;

/// By first address: which bytes were written.
static ALLOCATIONS: Mutex<BTreeMap<u64, Written>> = Mutex::new(BTreeMap::new());

/// Whether there has ever been one.
static ANY: AtomicBool = AtomicBool::new(false);

fn allocations() -> Option<MutexGuard<'static, BTreeMap<u64, Written>>> {
    ANY.load(Ordering::Acquire)
        .then(|| ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The allocation that contains the address.
fn find(allocations: &mut BTreeMap<u64, Written>, address: u64) -> Option<&mut Written> {
    let (_, written) = allocations.range_mut(..=address).next_back()?;
    written.contains(address).then_some(written)
}

/// A device has allocated these bytes.
pub(crate) fn allocated(start: u64, bytes: u64) {
    if Checks::wanted().init {
        ANY.store(true, Ordering::Release);
        if let Some(mut all) = allocations() {
            all.insert(start, Written::none(start, bytes));
        }
    }
}

/// These bytes are no longer what they were: they are freed, or somebody else's.
pub(crate) fn forget(start: u64, bytes: u64) {
    if let Some(mut all) = allocations() {
        let end = start.saturating_add(bytes);
        let gone: Vec<u64> = all.range(start..end).map(|(start, _)| *start).collect();
        for start in gone {
            all.remove(&start);
        }
    }
}

/// The host or a kernel writes there.
pub(crate) fn wrote(address: u64, bytes: u64) {
    if let Some(mut all) = allocations()
        && let Some(written) = find(&mut all, address)
    {
        written.write(address, bytes);
    }
}

/// Bytes are copied, and with them whether they were written.
pub(crate) fn copied(to: u64, from: u64, bytes: u64) {
    let Some(mut all) = allocations() else { return };
    let states = find(&mut all, from).and_then(|written| written.states(from, bytes));
    let Some(written) = find(&mut all, to) else {
        return;
    };
    match states {
        Some(states) => written.set(to, &states),
        None => written.write(to, bytes),
    }
}

/// Whether all of these bytes were written, or are none of ours.
pub(super) fn is_written(address: u64, bytes: u64) -> bool {
    let Some(mut all) = allocations() else {
        return true;
    };
    find(&mut all, address).is_none_or(|written| written.is_written(address, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far from every arena.
    const START: u64 = 0x10_0000;

    fn allocate(start: u64, bytes: u64) {
        ANY.store(true, Ordering::Release);
        allocations()
            .unwrap()
            .insert(start, Written::none(start, bytes));
    }

    #[test]
    fn what_is_written_is_known_by_byte() {
        allocate(START, 64);
        assert!(!is_written(START, 4));
        assert!(is_written(START - 4, 4), "no allocation");
        assert!(is_written(START + 64, 4), "behind it");
        wrote(START + 4, 8);
        assert!(is_written(START + 4, 8));
        assert!(!is_written(START + 8, 8));
        // More than there is.
        wrote(START + 60, 100);
        assert!(is_written(START + 60, 4));

        allocate(START + 1024, 32);
        copied(START + 1024, START, 12);
        assert!(!is_written(START + 1024, 4));
        assert!(is_written(START + 1028, 8));
        copied(START + 1024, 8, 4);
        assert!(is_written(START + 1024, 4), "from memory of the host");
        copied(START + 2, START, 4);
        assert!(!is_written(START + 4, 1), "of overlapping bytes too");

        forget(START, 64);
        assert!(is_written(START, 4));
        assert!(!is_written(START + 1024 + 12, 1));
        forget(START + 1024, 32);
    }
}
