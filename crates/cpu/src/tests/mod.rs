//! Compiled kernels on the engine, without the driver API around it.

mod lanes;
mod loops;
mod phases;
mod run;
mod support;
mod tier_up;
