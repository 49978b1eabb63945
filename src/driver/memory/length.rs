//! Whether as many values are given as there is room for.

use crate::driver::error::Error;

/// Exactly as many.
pub(crate) fn same(what: &'static str, given: usize, room: usize) -> Result<(), Error> {
    match given == room {
        true => Ok(()),
        false => Err(Error::Length { what, given, room }),
    }
}

/// `len` values from value `at` on.
pub(crate) fn within(what: &'static str, at: usize, len: usize, room: usize) -> Result<(), Error> {
    match at.checked_add(len) {
        Some(end) if end <= room => Ok(()),
        _ => Err(Error::Length {
            what,
            given: at.saturating_add(len),
            room,
        }),
    }
}
