//! `ld.const.f32 a, [table + 4 * %tid.x]`

use super::warp_addresses::{WarpAddresses, differs};
use crate::flow::memory::Access;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;

pub static RULE: Rule = Rule {
    code: Code::new('P', 106),
    name: "divergent-constant",
    summary: "The threads of a warp read constant memory at different addresses.",
    why: "The constant cache broadcasts one address at a time to the threads of a warp that \
          request it: a request for several addresses is split into as many, which are \
          serialized.",
    instead: "Keep data that is indexed by the thread in global memory, where accesses to \
              adjacent elements are coalesced, or copy it to shared memory. Constant memory is \
              for data that all threads read at the same address.",
    bad: "\
.const .align 4 .b32 table[64];

.entry k(.param .u64 out)
{
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	mov.u64 q, table;
	add.u64 q, q, o;
	ld.const.u32 a, [q];
	add.u64 p, p, o;
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.global .align 4 .b32 table[64];

.entry k(.param .u64 out)
{
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	mov.u64 q, table;
	add.u64 q, q, o;
	ld.global.u32 a, [q];
	add.u64 p, p, o;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        if access.space != Some(Space::Const) {
            continue;
        }
        let accesses = match WarpAddresses::of(function, access.address) {
            Some(lanes) => match lanes.addresses() {
                1 => continue,
                addresses => format!("{addresses} accesses"),
            },
            None if differs(function, access.address) => "up to 32 accesses".to_owned(),
            None => continue,
        };
        findings
            .add(
                access.span,
                format!(
                    "the threads of a warp read constants at different addresses: the request \
                     takes {accesses}",
                ),
            )
            .help("keep data that is indexed by the thread in global or shared memory");
    }
}
