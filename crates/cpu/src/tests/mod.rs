//! Compiled kernels on the engine, without the driver API around it.

mod barriers;
mod first_code;
mod lanes;
mod loops;
mod phases;
mod run;
mod support;
mod text_tests;
mod tier_up;
