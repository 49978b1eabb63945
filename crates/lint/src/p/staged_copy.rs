//! `ld.global`, and `st.shared` of the loaded value

use crate::flow::memory::{Access, AccessKind};
use crate::flow::{Definition, Reference, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Operand, Space};

pub static RULE: Rule = Rule {
    code: Code::new('P', 107),
    name: "staged-copy",
    summary: "A copy from global to shared memory through registers.",
    why: "The registers are occupied from the request of the load until its data arrives, and \
          the thread stalls at the store. `cp.async` (sm_80 and later) needs no registers and \
          does not block: the next tile arrives while the thread processes the current one.",
    instead: "Use `cp.async.ca.shared.global [to], [from], 4` (4, 8 or 16 bytes; `.cg` for 16), \
              then `cp.async.wait_all` and the barrier. From sm_90, `cp.async.bulk` copies \
              larger blocks with one instruction.",
    bad: "\
.entry k(.param .u64 from)
{
	.shared .align 16 .b8 tile[512];
	.reg .b32 i, a, b, c, d, q;
	.reg .b64 p, o;
	ld.param.u64 p, [from];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 16;
	add.u64 p, p, o;
	ld.global.v4.u32 {a, b, c, d}, [p];
	mov.u32 q, tile;
	mad.lo.u32 q, i, 16, q;
	st.shared.v4.u32 [q], {a, b, c, d};
	bar.sync 0;
	ld.shared.v4.u32 {a, b, c, d}, [tile];
	st.global.v4.u32 [p], {a, b, c, d};
	ret;
}
",
    good: "\
.entry k(.param .u64 from)
{
	.shared .align 16 .b8 tile[512];
	.reg .b32 i, a, b, c, d, q;
	.reg .b64 p, o;
	ld.param.u64 p, [from];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 16;
	add.u64 p, p, o;
	mov.u32 q, tile;
	mad.lo.u32 q, i, 16, q;
	cp.async.cg.shared.global [q], [p], 16;
	cp.async.wait_all;
	bar.sync 0;
	ld.shared.v4.u32 {a, b, c, d}, [tile];
	st.global.v4.u32 [p], {a, b, c, d};
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The first target that has `cp.async`.
const SINCE: u16 = 80;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let target = function.context.target;
    if target.is_none_or(|target| target.number < SINCE) {
        return;
    }
    for instruction in function.instructions() {
        let Some(store) = Access::of(function, instruction) else {
            continue;
        };
        let asynchronous = matches!(store.bytes, 4 | 8 | 16);
        if store.kind != AccessKind::Store || store.space != Some(Space::Shared) || !asynchronous {
            continue;
        }
        let Some(flow) = function.flow() else {
            return;
        };
        let stored = values(function, flow, instruction.operands.start as usize + 1);
        let Some(first) = stored.first() else {
            continue;
        };
        let Some(Definition::Written(id)) = flow.values.definition(*first) else {
            continue;
        };
        let Some(loading) = flow.instructions.get(id) else {
            continue;
        };
        let step = &flow.instructions.steps[id.index()];
        let Some(load) = Access::of(function, loading) else {
            continue;
        };
        if load.kind != AccessKind::Load
            || load.space != Some(Space::Global)
            || load.bytes != store.bytes
            || step.guarded
            || !function.effect(step).pure
        {
            continue;
        }
        let loaded = values(function, flow, loading.operands.start as usize);
        let unused = |value: &ValueId| flow.values.read_count(*value) == 1;
        if loaded == stored && loaded.iter().all(unused) {
            let bytes = load.bytes;
            findings
                .add(
                    loading.opcode_span,
                    format!(
                        "{bytes} bytes are copied to shared memory through {}, without another use",
                        match bytes.div_ceil(4) {
                            1 => "a register".to_owned(),
                            count => format!("{count} registers"),
                        },
                    ),
                )
                .help(format!(
                    "use `cp.async`, which copies {bytes} bytes asynchronously and without registers",
                ));
        }
    }
}

/// The values of the registers of an operand, in order; empty if it has other elements.
fn values(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, place: usize) -> Vec<ValueId> {
    let places = match function.body.operands.get(place) {
        Some(Operand::Vector(list, _)) => {
            list.start as usize..list.start as usize + list.len as usize
        }
        Some(Operand::Name(_)) => place..place + 1,
        _ => return Vec::new(),
    };
    let is_register = |at: usize| matches!(flow.instructions.reference(at), Reference::Register(_));
    if places.clone().all(is_register) {
        places.map(|at| flow.values.of_operand(at)).collect()
    } else {
        Vec::new()
    }
}
