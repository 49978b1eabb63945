//! The inside of the CPU device: code, and memory that kernels may access.
use ptxkit::cpu::blob::Image; //~ E0603
use ptxkit::cpu::memory::DeviceMemory; //~ E0603
use ptxkit::cpu::module::LoadedModule; //~ E0603
use ptxkit::cpu::run::Pool; //~ E0603

fn main() {}
