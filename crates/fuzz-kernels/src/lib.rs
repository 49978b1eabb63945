//! Random PTX kernels.
pub mod child;
pub mod device;
pub mod generate;
pub mod job;
pub mod kernel;
pub mod memory;
pub mod mode;
pub mod print;
pub mod random;
pub mod template;
