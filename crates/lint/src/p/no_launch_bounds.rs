//! High register pressure without launch bounds

use super::launch_bounds::LaunchBounds;
use crate::flow::Pressure;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::{MAX_THREADS, Multiprocessor, WARP};

pub static RULE: Rule = Rule {
    code: Code::new('P', 301),
    name: "no-launch-bounds",
    summary: "A kernel with many live values and without a maximum block size.",
    why: "A multiprocessor has 65,536 registers, so a block of 1,024 threads only fits with at \
          most 64 registers per thread. Without `.maxntid` or `.reqntid` ptxas does not know the \
          block size and may use up to 255 registers. A launch with too large blocks then fails \
          with `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`.",
    instead: "Declare the largest block of any launch with `.maxntid` (`__launch_bounds__` in \
              C++): ptxas then limits the registers to those available for it.",
    bad: BAD,
    good: "\
.entry k(.param .u64 out) .maxntid 256
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	add.u32 a, a, 1;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// 72 values that are live at the same time.
const BAD: &str = "\
.entry k(.param .u64 out)
{
	.reg .b128 a<18>;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.b128 a0, [p];
	ld.global.b128 a1, [p+64];
	ld.global.b128 a2, [p+128];
	ld.global.b128 a3, [p+192];
	ld.global.b128 a4, [p+256];
	ld.global.b128 a5, [p+320];
	ld.global.b128 a6, [p+384];
	ld.global.b128 a7, [p+448];
	ld.global.b128 a8, [p+512];
	ld.global.b128 a9, [p+576];
	ld.global.b128 a10, [p+640];
	ld.global.b128 a11, [p+704];
	ld.global.b128 a12, [p+768];
	ld.global.b128 a13, [p+832];
	ld.global.b128 a14, [p+896];
	ld.global.b128 a15, [p+960];
	ld.global.b128 a16, [p+1024];
	ld.global.b128 a17, [p+1088];
	st.global.b128 [p+16], a0;
	st.global.b128 [p+80], a1;
	st.global.b128 [p+144], a2;
	st.global.b128 [p+208], a3;
	st.global.b128 [p+272], a4;
	st.global.b128 [p+336], a5;
	st.global.b128 [p+400], a6;
	st.global.b128 [p+464], a7;
	st.global.b128 [p+528], a8;
	st.global.b128 [p+592], a9;
	st.global.b128 [p+656], a10;
	st.global.b128 [p+720], a11;
	st.global.b128 [p+784], a12;
	st.global.b128 [p+848], a13;
	st.global.b128 [p+912], a14;
	st.global.b128 [p+976], a15;
	st.global.b128 [p+1040], a16;
	st.global.b128 [p+1104], a17;
	ret;
}
";

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let context = function.context;
    let Some(bounds) = LaunchBounds::of(function.function, context.source) else {
        return;
    };
    let number = context.target.map(|target| target.number);
    let Some(multiprocessor) = number.and_then(Multiprocessor::of) else {
        return;
    };
    let registers_for = |threads| multiprocessor.registers_for(threads, 1).unwrap_or(0);
    let most = registers_for(MAX_THREADS);
    // A kernel with few instructions cannot have that many live values.
    let few = function.body.statements.len() < most as usize / 4;
    if bounds.threads.is_some() || bounds.registers.is_some() || few {
        return;
    }
    let Some(pressure) = Pressure::of(function) else {
        return;
    };
    let registers = pressure.registers;
    if registers <= most {
        return;
    }
    let fits = (1..=MAX_THREADS / WARP).rev().map(|warps| warps * WARP);
    let mut fits = fits.filter(|threads| registers_for(*threads) >= registers);
    let message = match fits.next() {
        Some(threads) => format!(
            "{registers} registers are live at line {}: blocks of more than {threads} threads \
             cannot be launched",
            function.line(pressure.span),
        ),
        None => format!(
            "{registers} registers are live at line {}, more than a thread can have",
            function.line(pressure.span),
        ),
    };
    findings.add(bounds.span, message).help(
        "declare the maximum block size with `.maxntid`: ptxas then limits the registers \
         accordingly",
    );
}
