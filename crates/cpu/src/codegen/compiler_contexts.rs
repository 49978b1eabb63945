//! Cranelift's contexts, from function to function and from module to module.

use std::sync::Mutex;

use cranelift_codegen::Context;
use cranelift_frontend::FunctionBuilderContext;

/// Cranelift's contexts, which keep their allocations from function to function.
pub(crate) struct CompilerContexts {
    pub context: Context,
    pub builder: FunctionBuilderContext,
    /// The instructions of the largest function so far.
    largest: usize,
}

/// The contexts that the process keeps for its next module.
static IDLE: Mutex<Vec<CompilerContexts>> = Mutex::new(Vec::new());

/// Their number, and the largest function that they may have compiled: some hundred kilobytes each.
const MAX_IDLE: usize = 4;
const MAX_IDLE_INSTRUCTIONS: usize = 2048;

impl CompilerContexts {
    /// Those of an earlier module, if there are some.
    pub fn take() -> CompilerContexts {
        let idle = IDLE.lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(|| CompilerContexts {
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
            largest: 0,
        })
    }

    /// Takes note of the size of the function, which is built.
    pub fn note_size(&mut self) {
        self.largest = self.largest.max(self.context.func.dfg.num_insts());
    }

    /// Keeps them for the next module.
    pub fn give_back(mut self) {
        if self.largest <= MAX_IDLE_INSTRUCTIONS
            && let Ok(mut idle) = IDLE.lock()
            && idle.len() < MAX_IDLE
        {
            self.context.clear();
            idle.push(self);
        }
    }
}
