//! Passes over a program: each is verified in debug builds, and can be dumped.

#[cfg(test)]
use std::cell::RefCell;

use super::call_params::{self, CallParam};
use super::frames::{self, Stack};
use super::ir::{BlockId, LoweringError, Program};
use super::verify::verify;
use super::{block_size, disjoint_or, live_ranges, lockstep, reg_class, simplify_cfg, spin_loops};
use crate::dump::{self, Stage};

/// The passes between the lowering of a kernel and its code generation, in their order. `ended` are
/// the blocks in the order of the text.
pub(super) fn after_build<'a>(
    program: &mut Program<'a>,
    stack: Stack<'_, 'a>,
    ended: &[BlockId],
    params: &[CallParam],
) -> Result<(), LoweringError> {
    done(program, "build");
    block_size::fold(program);
    done(program, "block_size");
    frames::lower(program, stack)?;
    done(program, "frames");
    simplify_cfg::simplify(program, ended);
    done(program, "simplify_cfg");
    call_params::promote(program, params)?;
    done(program, "call_params");
    live_ranges::split(program);
    done(program, "live_ranges");
    disjoint_or::to_sums(program);
    done(program, "disjoint_or");
    reg_class::choose(program);
    done(program, "reg_class");
    lockstep::insert_meetings(program);
    done(program, "lockstep");
    spin_loops::insert_yields(program);
    done(program, "spin_loops");
    if dump::wants(Stage::Ir, program.name) {
        dump::print("ir", &*program);
    }
    Ok(())
}

#[cfg(test)]
thread_local! {
    /// The programs of this thread after each pass, for [`text_tests`](super::text_tests).
    pub(super) static AFTER: RefCell<Vec<(String, String)>> = RefCell::default();
}

/// Dumps a program after a pass. Debug builds verify it too: a wrong program is a bug of the pass,
/// whatever the input.
pub(crate) fn done(program: &Program<'_>, name: &str) {
    if cfg!(debug_assertions)
        && let Err(problem) = verify(program)
    {
        panic!("{name} left a wrong program: {problem}\n{program}");
    }
    #[cfg(test)]
    AFTER.with_borrow_mut(|after| after.push((name.to_owned(), program.to_string())));
    if dump::wants(Stage::Passes, program.name) {
        dump::print(name, program);
    }
}
