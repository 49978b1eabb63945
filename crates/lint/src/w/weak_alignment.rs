//! `ld.shared.v4.f32` of an array that is aligned to 4 bytes.

use super::misaligned_offset::{Place, places};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 501),
    name: "weak-alignment",
    summary: "An access is wider than the alignment of the variable or parameter that it goes to.",
    why: "An access has to be aligned to all of its bytes, a `.v4.f32` to 16. Where a variable lies \
          is up to the compiler, which keeps no more than `.align` says: the access faults, or \
          does so once another variable is declared before.",
    instead: "Declare the variable with the `.align` of its widest access.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .f32 a<4>;
	.shared .f32 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.v4.f32 {a0, a1, a2, a3}, [tile];
	st.global.v4.f32 [out], {a0, a1, a2, a3};
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .f32 a<4>;
	.shared .align 16 .f32 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.shared.v4.f32 {a0, a1, a2, a3}, [tile];
	st.global.v4.f32 [out], {a0, a1, a2, a3};
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    places(function, |place: Place<'_, '_>| {
        let Place {
            variable,
            align,
            access,
            ..
        } = place;
        if align < access.bytes && !place.is_misaligned() {
            let name = variable.name.text;
            let bytes = access.bytes;
            findings
                .add(
                    access.span,
                    format!("{bytes} bytes at once, but `{name}` is aligned to {align}"),
                )
                .help(format!("declare `{name}` with `.align {bytes}`"));
        }
    });
}
