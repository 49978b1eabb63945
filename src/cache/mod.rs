//! The on-disk compute cache.
