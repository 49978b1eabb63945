//! A number of elements that is loaded, and compared with nothing.

use crate::flow::{Term, Variance};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Instruction, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

pub static RULE: Rule = Rule {
    code: Code::new('W', 512),
    name: "unused-bound",
    summary: "A kernel loads a number that the host passes and uses it nowhere, while all threads \
              of the grid access memory at their index.",
    why: "Mostly the number is how many elements there are. The threads of the last block that \
          lie beyond them access memory that is not theirs, if the number is no multiple of the \
          size of a block.\n\n\
          The rule is off by default: the number may be something else, or the host may pad the \
          data. Looked at are integers of 32 bits, where an access to global memory at `%tid.x` \
          within the grid has no condition before it that depends on the thread. (CUDA C++ \
          Programming Guide, \"Kernels\".)",
    instead: "Compare the index with it, and leave the work out beyond.",
    bad: "\
.entry k(.param .u64 data, .param .u32 count)
{
	.reg .b32 i, %r<3>;
	.reg .b64 at;
	ld.param.u64 at, [data];
	ld.param.u32 %r0, [count];
	cvta.to.global.u64 at, at;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 i, %tid.x;
	mad.lo.u32 i, %r1, %r2, i;
	mad.wide.u32 at, i, 4, at;
	st.global.b32 [at], i;
	ret;
}
",
    good: "\
.entry k(.param .u64 data, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 i, %r<3>;
	.reg .b64 at;
	ld.param.u64 at, [data];
	ld.param.u32 %r0, [count];
	cvta.to.global.u64 at, at;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 i, %tid.x;
	mad.lo.u32 i, %r1, %r2, i;
	setp.ge.u32 p, i, %r0;
	@p bra END;
	mad.wide.u32 at, i, 4, at;
	st.global.b32 [at], i;
END:
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if function.function.kind != FunctionKind::Entry {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let mut unchecked = None;
    for (id, step, instruction) in function.steps() {
        let modifiers = &function.mnemonic(instruction).modifiers;
        let number = matches!(
            modifiers.types().last(),
            Some(Type::U32 | Type::S32 | Type::B32)
        );
        if instruction.opcode != Opcode::Ld || !modifiers.has(Modifier::Param) || !number {
            continue;
        }
        let mut written = flow.values.writes(&flow.instructions, step);
        let unread = written.all(|(_, value)| flow.values.read_count(value) == 0);
        if !unread || !flow.graph.is_reached(flow.graph.block_of(id)) || step.guarded {
            continue;
        }
        let Some(access) = *unchecked.get_or_insert_with(|| access_of_all(function)) else {
            return;
        };
        let line = function.line(access.span);
        findings
            .add(
                instruction.opcode_span,
                format!(
                    "nothing uses this number, and all threads come to the access in line {line}"
                ),
            )
            .help("compare the index of the thread with it before the access");
    }
}

/// An access to global memory that all threads of the grid come to, each at its index.
fn access_of_all<'m>(function: &FunctionContext<'m, '_>) -> Option<&'m Instruction> {
    let (flow, divergence) = (function.flow()?, function.divergence()?);
    let mut found = function.accesses().iter().filter(|one| {
        let (step, access) = (&flow.instructions.steps[one.id.index()], &one.access);
        let block = flow.graph.block_of(one.id);
        let global = matches!(access.space, None | Some(Space::Global));
        if step.guarded || !global || divergence.control(block) != Variance::Block {
            return false;
        }
        let Some(linear) = function.linear(access.address) else {
            return false;
        };
        let of_grid = |term: &Term| {
            matches!(
                term,
                Term::Product(_) | Term::Special(SpecialRegister::CtaidX)
            )
        };
        linear.coefficient(Term::Special(SpecialRegister::TidX)) != 0
            && linear.terms().iter().any(|(term, _)| of_grid(term))
    });
    found.next().map(|one| one.instruction)
}
