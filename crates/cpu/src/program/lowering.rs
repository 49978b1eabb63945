//! From a kernel to the program that is compiled: the frontend and the passes, in their order.

use ptx::ast::{Body, Function};

use super::frontend::build::{Built, build};
use super::frontend::call_params::promote;
use super::frontend::frames;
use super::frontend::module_data::ModuleData;
use super::ir::{LoweringError, Program, reg_class};
use super::passes::{
    block_size, disjoint_or, done, live_ranges, lockstep, simplify_cfg, spin_loops,
};
use crate::dump::{self, Stage};

/// Lowers one kernel, for blocks of a size if it is known. On failure all problems found are
/// returned.
pub(crate) fn lower<'m, 'a>(
    module: &'m ModuleData<'m, 'a>,
    kernel: &'m Function<'a>,
    body: &'m Body<'a>,
    block: Option<[u32; 3]>,
) -> Result<Program<'a>, Vec<LoweringError>> {
    let built = build(module, kernel, body, block)?;
    run_passes(built).map_err(|error| vec![error])
}

fn run_passes<'a>(built: Built<'_, 'a>) -> Result<Program<'a>, LoweringError> {
    let Built {
        mut program,
        stack,
        ended,
        call_params,
    } = built;
    done(&program, "build");
    block_size::fold(&mut program);
    done(&program, "block_size");
    frames::lower(&mut program, stack)?;
    done(&program, "frames");
    simplify_cfg::simplify(&mut program, &ended);
    done(&program, "simplify_cfg");
    promote(&mut program, &call_params)?;
    done(&program, "call_params");
    live_ranges::split(&mut program);
    done(&program, "live_ranges");
    disjoint_or::to_sums(&mut program);
    done(&program, "disjoint_or");
    reg_class::choose(&mut program);
    done(&program, "reg_class");
    lockstep::insert_meetings(&mut program);
    done(&program, "lockstep");
    spin_loops::insert_yields(&mut program);
    done(&program, "spin_loops");
    dump::show(Stage::Ir, program.name, "ir", &program);
    Ok(program)
}
