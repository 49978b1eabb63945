//! `.local .align 4 .b8 array[256];`

use crate::flow::memory::space;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::WARP;
use ptx::ast::{Space, Statement};
use ptx::names::Opcode;
use ptx::signature::layout;

pub static RULE: Rule = Rule {
    code: Code::new('P', 101),
    name: "local-memory",
    summary: "A variable in local memory.",
    why: "Local memory is per-thread device memory: an access that misses the caches takes as \
          long as one of global memory, and every resident thread needs its own copy. Compilers \
          use it for arrays that are indexed by a register, and for large structures.",
    instead: "Index with constants, for example by unrolling the loop, so that the elements can \
              be registers. For a computed index, a part of shared memory for each thread is \
              faster.",
    bad: "\
.entry k(.param .u64 out)
{
	.local .align 4 .b8 kept[64];
	.reg .b32 i, a;
	.reg .b64 p, q, o;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 i, [p];
	and.b32 i, i, 15;
	mul.wide.u32 o, i, 4;
	mov.u64 q, kept;
	add.u64 q, q, o;
	st.local.u32 [q], i;
	ld.local.u32 a, [kept];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 i, a;
	.reg .b64 p;
	.reg .pred q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 i, [p];
	and.b32 i, i, 15;
	setp.eq.u32 q, i, 0;
	selp.u32 a, i, 1, q;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let variables = function.body.statements.iter().filter_map(|statement| {
        let Statement::Variable(variable) = statement else {
            return None;
        };
        (variable.space == Space::Local).then_some(variable)
    });
    let mut variables = variables.peekable();
    if variables.peek().is_none() {
        return;
    }
    let (mut loads, mut stores) = (0, 0);
    for instruction in function.instructions() {
        let modifiers = &function.mnemonic(instruction).modifiers;
        if space(modifiers) == Some(Space::Local) {
            match instruction.opcode {
                Opcode::Ld => loads += 1,
                Opcode::St => stores += 1,
                _ => {}
            }
        }
    }
    for variable in variables {
        let (bytes, _) = layout(variable);
        let name = variable.name.text;
        findings
            .add(
                variable.name.span(function.context.source),
                format!(
                    "`{name}` takes {bytes} bytes of local memory per thread, {} per warp",
                    bytes.saturating_mul(u64::from(WARP)),
                ),
            )
            .help(format!(
                "this function has {} accesses to local memory: with constant indices the elements \
                 can be registers",
                loads + stores,
            ));
    }
}
