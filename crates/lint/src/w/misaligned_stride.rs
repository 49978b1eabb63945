//! `ld.global.v4.f32` at `base + 4 * %tid.x`

use crate::flow::misaligned;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 508),
    name: "misaligned-stride",
    summary: "Threads access more bytes at once than their addresses are apart: not all of them \
              can be aligned.",
    why: "An access has to be aligned to all of its bytes, a vector to those of the whole \
          vector. Where two threads do it at a distance that is no multiple of that, one of them \
          faults with `CUDA_ERROR_MISALIGNED_ADDRESS`, wherever the base lies.\n\n\
          The addresses of two threads are compared under the conditions that they come there \
          by: `%tid.x % 4 == 0` before such an access makes it right. Nothing is said where one \
          of these depends on what a thread has loaded, or where one thread alone may come. PTX \
          ISA, \"Addresses as Operands\".",
    instead: "Multiply the index by the bytes of the access: 16 for `.v4.f32`, 8 for `.f64`.",
    bad: "\
.entry k(.param .u64 data)
{
	.reg .b32 t;
	.reg .b64 at;
	.reg .f32 a, b, c, d;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	mad.wide.u32 at, t, 4, at;
	ld.global.v4.f32 {a, b, c, d}, [at];
	add.f32 a, a, b;
	add.f32 c, c, d;
	add.f32 a, a, c;
	red.global.add.f32 [at], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 data)
{
	.reg .b32 t;
	.reg .b64 at;
	.reg .f32 a, b, c, d;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	mad.wide.u32 at, t, 16, at;
	ld.global.v4.f32 {a, b, c, d}, [at];
	add.f32 a, a, b;
	add.f32 c, c, d;
	add.f32 a, a, c;
	red.global.add.f32 [at], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for found in misaligned(function) {
        let (one, other) = found.threads;
        let (bytes, apart) = (found.access.bytes, found.apart);
        findings
            .add(
                found.access.span,
                format!(
                    "{bytes} bytes at once, and the addresses of threads {one} and {other} are \
                     {apart} apart: one of them is not aligned"
                ),
            )
            .help(format!("multiply the index of the thread by {bytes}"));
    }
}
