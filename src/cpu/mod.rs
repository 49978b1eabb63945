//! The CPU device: a driver of its own behind the same table of entry points.
