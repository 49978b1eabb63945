//! The driver's compiler, started ahead of the first compile.

use std::thread::JoinHandle;

use tracing::debug;

use super::Loader;
use crate::driver::DriverKind;
use crate::jit::{self, JitOptions};

/// The start of the compiler, in another thread. Compiles need not wait for it: the driver
/// loads its compiler once. Who drops it does, so that a process does not end meanwhile.
#[derive(Debug, Default)]
pub(super) struct CompilerStart(Option<JoinHandle<()>>);

impl Drop for CompilerStart {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked has started nothing.
            let _ = thread.join();
        }
    }
}

impl Loader {
    /// Starts the compiler: the first compile of a process loads it, which takes longer than
    /// to compile a kernel.
    pub(super) fn start_compiler(&self) -> CompilerStart {
        const NOTHING: &str =
            ".version 6.0\n.target sm_50\n.address_size 64\n.entry f() { ret; }\n";
        let is_nvidia = self.context().device().driver().kind() == DriverKind::Nvidia;
        if !is_nvidia || self.shared.started.is_completed() {
            return CompilerStart::default();
        }
        let loader = self.clone();
        let start = move || {
            loader.shared.started.call_once(|| {
                let compiled = jit::compile(loader.context(), NOTHING, &JitOptions::default());
                debug!(
                    "compiler started: {:?}",
                    compiled.map(|made| made.wall_time_ms)
                );
            });
        };
        // Where there is no thread, the first kernel waits for the compiler.
        CompilerStart(std::thread::Builder::new().spawn(start).ok())
    }
}
