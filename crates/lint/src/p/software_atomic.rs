//! `red.shared.add.f32`

use crate::memory::Access;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 110),
    name: "software-atomic",
    summary: "An atomic operation that the hardware does not have.",
    why: "Shared memory adds, compares and exchanges 32-bit integers, and exchanges 64 bits. \
          Everything else ptxas makes a loop of: load, compute, compare and swap, and again if \
          another thread was faster. Threads of a warp that meet at one address go through it one \
          after the other. The same holds of single `.f16` and `.bf16` in global memory.",
    instead: "Sum up in registers with `shfl.sync` and let few threads add; use integers (fixed \
              point) in shared memory; add `.f16x2` pairs in global memory, which the hardware \
              does.",
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
                    format!("{space} memory has no such operation on `.{ty}`: this is a loop of compare and swap"),
                )
                .help(match access.space {
                    Some(Space::Global) => "add a pair with `.f16x2` or `.bf16x2`, which is one operation",
                    _ => "sum up in registers first, or use 32-bit integers",
                });
        }
    }
}
