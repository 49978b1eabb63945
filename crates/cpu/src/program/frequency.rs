//! How often each block runs.

use super::ir::{BlockId, Program};
use analysis::control_flow::Loops;

/// Loops around a block beyond this number do not count.
const MAX_DEPTH: usize = 5;

/// A static estimate of how often each block runs: eight times for each loop around
/// it. No loop is counted where some loop has two entries, which compilers do not make.
pub(crate) fn block_frequencies(program: &Program<'_>) -> Vec<u64> {
    let blocks = program.blocks.len();
    match Loops::new(&program.graph()) {
        Some(loops) => (0..blocks as u32)
            .map(|block| 1 << (3 * loops.depth(BlockId(block)).min(MAX_DEPTH)))
            .collect(),
        None => vec![1; blocks],
    }
}
