//! `ld.shared.f32 a, [tile+2]`

use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 502),
    name: "misaligned-offset",
    summary: "An access lies at an offset in a variable that is no multiple of its size.",
    why: "An access has to be aligned to all of its bytes. At another address the kernel faults \
          with `CUDA_ERROR_MISALIGNED_ADDRESS`.\n\n\
          Looked at are offsets in variables; of pointers that are passed, nothing is known but \
          what `W0508` and `W0509` say. (PTX ISA, \"Addresses as Operands\".)",
    instead: "Access at a multiple of the size, or in smaller pieces.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b32 a;
	.shared .align 16 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.b32 a, [tile+6];
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b32 a;
	.shared .align 16 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.b32 a, [tile+8];
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for place in function.places() {
        if !place.is_misaligned() {
            continue;
        }
        let (name, bytes) = (place.variable.name.text, place.access.bytes);
        let message = match place.offset.as_number() {
            Some(offset) => {
                format!(
                    "{bytes} bytes at once at offset {offset} of `{name}`, no multiple of {bytes}"
                )
            }
            None => {
                format!("{bytes} bytes at once in `{name}`, not aligned to {bytes} in every thread")
            }
        };
        findings.add(place.access.span, message).help(format!(
            "access it at multiples of {bytes}, or in smaller pieces"
        ));
    }
}
