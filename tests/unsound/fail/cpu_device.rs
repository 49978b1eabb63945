//! The inside of the CPU device: code, and memory that kernels may access.
use ptxkit::cpu::blob::Image;
use ptxkit::cpu::code::LoadedModule;
use ptxkit::cpu::memory::DeviceMemory;
use ptxkit::cpu::run::Engine;

fn main() {}
