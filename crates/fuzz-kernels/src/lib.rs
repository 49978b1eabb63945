//! Random PTX kernels, run in every mode of the CPU device and on a GPU.
pub mod child;
pub mod device;
pub mod generate;
pub mod job;
pub mod kernel;
pub mod memory;
pub mod mode;
pub mod print;
pub mod random;
pub mod reduce;
pub mod reference;
pub mod runner;
pub mod template;
