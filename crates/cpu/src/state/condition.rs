//! Conditional nodes: which of their graphs run, and how often, is a value that kernels set.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::context::Context;
use super::memory;
use super::node::Work;
use super::status::{Result, Status};
use crate::memory::Purpose;

/// `CU_GRAPH_COND_TYPE_…`
const IF: c_uint = 0;
const WHILE: c_uint = 1;
const SWITCH: c_uint = 2;

/// A value of four bytes in device memory, whose address is its handle: so a kernel sets it by
/// a store.
pub(crate) struct Condition {
    address: u64,
    /// What it is at the start of each launch of its graph; `None` for what it was.
    default: Option<u32>,
}

impl Condition {
    pub(crate) fn new(context: &Context, default: Option<u32>) -> Result<Arc<Condition>> {
        let address = memory::allocate_for_graph(context, size_of::<u32>(), Purpose::Device)?;
        let condition = Condition { address, default };
        condition
            .value()
            .store(default.unwrap_or(0), Ordering::Release);
        Ok(Arc::new(condition))
    }

    pub(crate) fn handle(&self) -> u64 {
        self.address
    }

    fn value(&self) -> &AtomicU32 {
        let place = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: the memory was allocated, aligned, for this value, and lives as long.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// A launch of the graph begins.
    pub(crate) fn reset(&self) {
        if let Some(value) = self.default {
            self.value().store(value, Ordering::Release);
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        memory::free_of_graph(self.address);
    }
}

/// What a conditional node is made of.
pub(crate) struct Conditional {
    pub(crate) condition: Arc<Condition>,
    kind: c_uint,
    /// Handles of its graphs, which are the node's own.
    pub(crate) graphs: Vec<usize>,
}

impl Conditional {
    /// A node of `CU_GRAPH_COND_TYPE_…` number `kind` with as many graphs as `make` makes.
    pub(crate) fn new(
        condition: Arc<Condition>,
        kind: c_uint,
        size: c_uint,
        make: impl Fn() -> usize,
    ) -> Result<Arc<Conditional>> {
        let fits = match kind {
            IF => matches!(size, 1 | 2),
            WHILE => size == 1,
            SWITCH => size >= 1,
            _ => false,
        };
        if !fits {
            return Err(Status::INVALID_VALUE.because(format!(
                "a conditional node of kind {kind} does not have {size} graphs"
            )));
        }
        let graphs = (0..size).map(|_| make()).collect();
        Ok(Arc::new(Conditional {
            condition,
            kind,
            graphs,
        }))
    }

    /// The same condition with other graphs.
    pub(crate) fn with(&self, graphs: Vec<usize>) -> Arc<Conditional> {
        Arc::new(Conditional {
            condition: self.condition.clone(),
            kind: self.kind,
            graphs,
        })
    }

    /// The work of the node, whose graphs do `bodies`.
    pub(crate) fn work(&self, bodies: Vec<Work>) -> Work {
        let (condition, kind) = (self.condition.clone(), self.kind);
        Arc::new(move |context: &Arc<Context>| {
            let value = || condition.value().load(Ordering::Acquire) as usize;
            let run = |index: usize| bodies.get(index).into_iter().for_each(|body| body(context));
            match kind {
                IF => run(usize::from(value() == 0)),
                SWITCH => run(value()),
                _ => {
                    while value() != 0 && context.check().is_ok() {
                        run(0);
                    }
                }
            }
        })
    }
}
