//! Wrong, or nearly so.

pub mod shift_beyond_width;
