//! Passes over a program: each is verified in debug builds, and can be dumped.

pub(super) mod block_size;
pub(super) mod disjoint_or;
mod exchanges;
mod lane_sets;
pub(super) mod live_ranges;
pub(super) mod lockstep;
pub(super) mod memory_access;
pub(super) mod pointers;
pub(super) mod rematerialize;
pub(super) mod simplify_cfg;
pub(super) mod spin_loops;
mod thread_sums;

use crate::dump::{self, Stage};
use crate::program::ir::Program;
use crate::program::ir::verify::verify;

/// Dumps a program after a pass. Debug builds verify it too: a wrong program is a bug of the pass,
/// whatever the input.
pub(crate) fn done(program: &Program<'_>, name: &str) {
    if cfg!(debug_assertions)
        && let Err(problem) = verify(program)
    {
        panic!("{name} left a wrong program: {problem}\n{program}");
    }
    dump::show(Stage::Passes, program.name, name, program);
}
