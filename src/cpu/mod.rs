//! The CPU device: a driver of its own behind the same table of entry points.

pub mod block;
pub mod math;
pub mod run;
