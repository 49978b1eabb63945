//! `red.shared.add.f32`

use crate::flow::memory::Access;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 110),
    name: "software-atomic",
    summary: "An atomic operation without hardware support.",
    why: "The atomic operations of shared memory are 32-bit integer arithmetic, compare and \
          exchange, and 64-bit exchange. ptxas expands everything else into a loop of load, \
          compute and compare-and-swap, which repeats if another thread was faster. Threads of a \
          warp with the same address are serialized. The same applies to scalar `.f16` and \
          `.bf16` in global memory.",
    instead: "Reduce in registers with `shfl.sync` and let few threads add; use integers (fixed \
              point) in shared memory; add `.f16x2` pairs in global memory, which the hardware \
              supports.",
    bad: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .f32 bins[32];
	.reg .b32 i, q;
	.reg .f32 a;
	.reg .b64 p, o;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	add.u64 p, p, o;
	ld.global.f32 a, [p];
	mov.u32 q, bins;
	mad.lo.u32 q, i, 4, q;
	red.shared.add.f32 [q], a;
	bar.sync 0;
	ld.shared.f32 a, [bins];
	st.global.f32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b32 bins[32];
	.reg .b32 i, q, a;
	.reg .b64 p, o;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	add.u64 p, p, o;
	ld.global.u32 a, [p];
	mov.u32 q, bins;
	mad.lo.u32 q, i, 4, q;
	red.shared.add.u32 [q], a;
	bar.sync 0;
	ld.shared.u32 a, [bins];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        if !matches!(instruction.opcode, Opcode::Atom | Opcode::Red) {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        let (Some(access), Some(ty)) =
            (Access::of(function, instruction), modifiers.types().last())
        else {
            continue;
        };
        let exchanges = modifiers.has(Modifier::Exch) || modifiers.has(Modifier::Cas);
        let remote = modifiers.first_of(&[Modifier::SharedCluster]).is_some();
        let float = matches!(
            ty,
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64
        );
        let in_software = match access.space {
            Some(Space::Shared) => !exchanges && !remote && (float || ty.bits() == 64),
            Some(Space::Global) => {
                access.bytes == access.element && matches!(ty, Type::F16 | Type::Bf16)
            }
            _ => false,
        };
        if in_software {
            let space = access.space.map_or("", Space::text);
            let ty = ty.text();
            findings
                .add(
                    instruction.opcode_span,
                    format!("{space} memory does not support this operation on `.{ty}`: it becomes a compare-and-swap loop"),
                )
                .help(match access.space {
                    Some(Space::Global) => "add pairs with `.f16x2` or `.bf16x2`, which is one operation",
                    _ => "reduce in registers first, or use 32-bit integers",
                });
        }
    }
}
