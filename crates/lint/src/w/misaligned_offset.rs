//! `ld.shared.f32 a, [tile+2]`

use crate::flow::{Linear, Origin, Reference, Term, VariableId};
use crate::memory::Access;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{Operand, Variable};
use ptx::names::SpecialRegister;
use ptx::signature::layout;

pub static RULE: Rule = Rule {
    code: Code::new('W', 502),
    name: "misaligned-offset",
    summary: "An access lies at an offset in a variable that is no multiple of its size.",
    why: "An access has to be aligned to all of its bytes. At another address the kernel faults \
          with `CUDA_ERROR_MISALIGNED_ADDRESS`.",
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

/// An access to a variable that is known.
pub(super) struct Place<'m, 'a> {
    pub id: VariableId,
    pub variable: &'m Variable<'a>,
    /// Bytes of the variable; `None` where the launch or another module says.
    pub size: Option<u64>,
    /// Bytes that it is aligned to at least.
    pub align: u64,
    pub access: Access,
    /// Bytes from the start of the variable.
    pub offset: Linear,
}

impl Place<'_, '_> {
    /// Whether the offset is no multiple of the size, in some thread at least.
    pub fn is_misaligned(&self) -> bool {
        let bytes = self.access.bytes as i64;
        // Of terms that nothing is known of, the best is hoped for.
        let (mut known, mut odd) = (true, self.offset.constant % bytes != 0);
        for (term, times) in self.offset.terms() {
            if times % bytes == 0 {
                continue;
            }
            match term {
                // Thread 1 is not aligned if thread 0 is.
                Term::Special(SpecialRegister::TidX) => odd = true,
                _ => known = false,
            }
        }
        known && odd
    }
}

/// Calls `found` with every access to a variable that is known.
pub(super) fn places<'m, 'a>(
    function: &FunctionContext<'m, 'a>,
    mut found: impl FnMut(Place<'m, 'a>),
) {
    for instruction in function.instructions() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        let Some((id, offset)) = offset_in_variable(function, access.address) else {
            continue;
        };
        let Some(flow) = function.flow().filter(|_| access.bytes > 0) else {
            continue;
        };
        let variable = flow.instructions.variable(id);
        let (size, align) = layout(variable);
        let open = variable.dims.contains(&None) && variable.init.is_none();
        found(Place {
            id,
            variable,
            size: (!open).then_some(size),
            align,
            access,
            offset,
        });
    }
}

/// The variable that an address lies in, and the bytes from its start.
fn offset_in_variable(
    function: &FunctionContext<'_, '_>,
    address: usize,
) -> Option<(VariableId, Linear)> {
    let flow = function.flow()?;
    match (
        flow.instructions.reference(address),
        function.body.operands.get(address)?,
    ) {
        // Nearly all parameters are named so.
        (Reference::Variable(id), Operand::Address { offset, .. }) => {
            Some((id, Linear::number(*offset)))
        }
        // Sums are found for addresses alone that come from a variable.
        (Reference::Register(_), _) => {
            let origin = function
                .origins()?
                .of_operand(&flow.instructions, &flow.values, address);
            let (Origin::Variable(_) | Origin::Generic(_, Some(_))) = origin else {
                return None;
            };
            let linear = function.linear(address)?;
            let id = linear.variable()?;
            Some((id, linear.without(Term::Address(id))))
        }
        _ => None,
    }
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    places(function, |place| {
        if !place.is_misaligned() {
            return;
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
    });
}
