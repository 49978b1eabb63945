//! `ld.shared.v4.f32` of an array that is aligned to 4 bytes, beside one of 4 bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::flow::Placement;
use crate::flow::memory::{Access, Place};
use crate::flow::{Reference, VariableId};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{Function, Space, Variable};
use ptx::signature::layout;

pub static RULE: Rule = Rule {
    code: Code::new('W', 501),
    name: "weak-alignment",
    summary: "An access is wider than the alignment of the variable or parameter that it goes to.",
    why: "An access has to be aligned to all of its bytes, a `.v4.f32` to 16. The compiler keeps \
          no more than `.align` says: behind another variable of 4 bytes, the access faults.\n\n\
          A variable that nothing displaces is no finding: the memory of a state space begins at \
          a multiple of 16 at least, and so does `.extern .shared`, which the launch sizes; so \
          does a variable behind others whose sizes are multiples of the access. ptxas lays \
          `.shared` variables out in the order of the text, a function's own before those of the \
          module, and `.local` ones the other way round. Where the parameters of a kernel lie, \
          the language says. Of the variables of other modules nothing is known. (PTX ISA, \
          \"Variables: Alignment\".)",
    instead: "Declare the variable with the `.align` of its widest access.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .f32 a<4>;
	.shared .f32 sum;
	.shared .f32 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.shared.f32 [sum], 0f00000000;
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
	.shared .f32 sum;
	.shared .align 16 .f32 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.shared.f32 [sum], 0f00000000;
	ld.shared.v4.f32 {a0, a1, a2, a3}, [tile];
	st.global.v4.f32 [out], {a0, a1, a2, a3};
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// The widest access of a function to a variable that is aligned to less.
struct Weak<'m, 'a> {
    variable: &'m Variable<'a>,
    align: u64,
    access: Access,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let mut weak: BTreeMap<VariableId, Weak<'_, '_>> = BTreeMap::new();
    for place in function.places() {
        let Place {
            id,
            variable,
            align,
            access,
            ..
        } = *place;
        if align < access.bytes && !place.is_misaligned() {
            let known = weak.get(&id).map_or(0, |weak| weak.access.bytes);
            if known < access.bytes {
                let new = Weak {
                    variable,
                    align,
                    access,
                };
                weak.insert(id, new);
            }
        }
    }
    if weak.is_empty() {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let offsets = parameter_offsets(function.function);
    let source = function.context.source;
    // What a function declares and does not name is not laid out.
    let named: BTreeSet<VariableId> = (0..function.body.operands.len())
        .filter_map(|place| match flow.instructions.reference(place) {
            Reference::Variable(id) => Some(id),
            _ => None,
        })
        .collect();
    let variables = named.iter().map(|id| flow.instructions.variable(*id));
    let own = Placement::new(variables, source, Some(function.function.span));
    for (id, weak) in weak {
        let (variable, bytes) = (weak.variable, weak.access.bytes);
        let cause = match variable.space {
            // Where parameters lie, the language says.
            Space::Param if !flow.instructions.is_kernel() => None,
            Space::Param => offsets
                .get(id.0 as usize)
                .filter(|offset| *offset % bytes != 0)
                .map(|offset| format!("it is the parameter at byte {offset}")),
            // What the launch sizes begins at a multiple of 16.
            Space::Shared if variable.dims.contains(&None) => None,
            Space::Shared | Space::Local => before(&own, variable, bytes),
            _ => before(function.context.placement(), variable, bytes),
        };
        let Some(cause) = cause else {
            continue;
        };
        let (name, align) = (variable.name.text, weak.align);
        let line = function.line(weak.access.span);
        findings
            .add_once(
                variable.name.span(source),
                format!(
                    "`{name}` is aligned to {align}, line {line} accesses {bytes} bytes of it at once, and {cause}"
                ),
            )
            .help(format!("declare `{name}` with `.align {bytes}`"));
    }
}

fn before(placement: &Placement<'_>, variable: &Variable<'_>, bytes: u64) -> Option<String> {
    let (other, size) = placement.displacing(variable, bytes)?;
    Some(format!("`{other}`, of {size} bytes, lies before it"))
}

/// Where the parameters of a kernel begin.
fn parameter_offsets(function: &Function<'_>) -> Vec<u64> {
    let mut end = 0_u64;
    let offsets = function.params.iter().map(|param| {
        let (size, align) = layout(param);
        let offset = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        end = offset.saturating_add(size);
        offset
    });
    offsets.collect()
}
