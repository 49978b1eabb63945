//! Checks the number of values against the capacity.

use crate::driver::error::Error;

/// Fails unless both are equal.
pub(crate) fn check_equal(what: &'static str, given: usize, capacity: usize) -> Result<(), Error> {
    match given == capacity {
        true => Ok(()),
        false => Err(Error::Length {
            what,
            given,
            capacity,
        }),
    }
}

/// Fails unless `len` values from value `at` on are within the capacity.
pub(crate) fn check_range(
    what: &'static str,
    at: usize,
    len: usize,
    capacity: usize,
) -> Result<(), Error> {
    match at.checked_add(len) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(Error::Length {
            what,
            given: at.saturating_add(len),
            capacity,
        }),
    }
}
