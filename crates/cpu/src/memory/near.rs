//! Where an address lies, among the allocations of today and of before.

use std::fmt;

/// The allocation that an address lies in, or next to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Near {
    /// Its first address.
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) freed: bool,
    /// What it is called.
    pub(super) noun: &'static str,
    pub(super) side: Side,
}

/// How many bytes an address lies from an allocation, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Within it, from its start.
    Into(u64),
    /// Behind it, from its end.
    Past(u64),
    /// Before it, from its start.
    Before(u64),
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: u64| match n {
            1 => "1 byte".to_owned(),
            _ => format!("{n} bytes"),
        };
        match self.side {
            Side::Into(offset) if self.freed => write!(f, "{} into a freed ", bytes(offset))?,
            Side::Into(0) => f.write_str("the start of the ")?,
            Side::Into(offset) => write!(f, "{} into the ", bytes(offset))?,
            Side::Past(0) => f.write_str("just past the end of the ")?,
            Side::Past(distance) => write!(f, "{} past the end of the ", bytes(distance))?,
            Side::Before(distance) => write!(f, "{} before the ", bytes(distance))?,
        }
        write!(f, "{}-byte {} at {:#x}", self.size, self.noun, self.start)
    }
}
