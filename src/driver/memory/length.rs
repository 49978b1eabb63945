//! Checks the number of values against the capacity.

use std::ops::{Bound, RangeBounds};

use crate::driver::error::Error;

/// Fails unless both are equal.
pub(crate) fn check_equal(what: &'static str, given: usize, capacity: usize) -> Result<(), Error> {
    if given == capacity {
        Ok(())
    } else {
        Err(Error::Length {
            what,
            given,
            capacity,
        })
    }
}

/// Start and length of a range of values; fails unless it is within the capacity.
pub(crate) fn range(
    what: &'static str,
    range: impl RangeBounds<usize>,
    capacity: usize,
) -> Result<(usize, usize), Error> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => capacity,
    };
    let len = end.saturating_sub(start);
    check_range(what, start, len, capacity)?;
    Ok((start, len))
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
