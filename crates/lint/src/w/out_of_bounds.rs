//! `ld.shared.f32 a, [tile+64]` of 64 bytes.

use crate::flow::outside;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 503),
    name: "out-of-bounds",
    summary: "An access lies outside of its variable or parameter: at a constant offset, or in a \
              thread of the block.",
    why: "What lies there is another variable, or nothing: the kernel reads what it should not, \
          overwrites it, or faults.\n\n\
          An offset of `%tid` and constants is worked out for each thread of a block of which \
          `.reqntid` says the shape, or else for thread 0, which every block has, under the \
          branches before the access; a finding names the thread. Nothing is said of an offset that a loop counts, or that depends on `%ctaid`, \
          a parameter or data, and of variables whose size the launch or another module says. \
          (PTX ISA, \"Addresses as Operands\".)",
    instead: "Mend the offset, or declare the variable as large as it is used.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b32 a;
	.shared .align 4 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.b32 a, [tile+64];
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b32 a;
	.shared .align 4 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.b32 a, [tile+60];
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for place in function.places() {
        let (Some(offset), Some(size)) = (place.offset.as_number(), place.size) else {
            continue;
        };
        let end = offset.saturating_add_unsigned(place.access.bytes);
        if offset >= 0 && end as u64 <= size {
            continue;
        }
        let (name, bytes) = (place.variable.name.text, place.access.bytes);
        findings
            .add(
                place.access.span,
                format!("{bytes} bytes at offset {offset} of `{name}`, which has {size}"),
            )
            .help("mend the offset, or declare the variable larger");
    }
    for (place, thread, offset) in outside(function) {
        let (name, bytes) = (place.variable.name.text, place.access.bytes);
        let size = place.size.unwrap_or_default();
        findings
            .add(
                place.access.span,
                format!(
                    "thread {thread} accesses {bytes} bytes at offset {offset} of `{name}`, which \
                     has {size}"
                ),
            )
            .help("mend the offset, declare the variable larger, or leave these threads out");
    }
}
