//! Four adjacent `ld.global.f32`

use crate::flow::memory::{Access, AccessKind};
use crate::flow::{Linear, Term};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{Modifiers, Space};
use ptx::names::Modifier;

pub static RULE: Rule = Rule {
    code: Code::new('P', 105),
    name: "scalar-accesses",
    summary: "Several narrow accesses to adjacent global memory.",
    why: "A thread can read or write up to 16 bytes with one instruction. Four accesses of 4 \
          bytes take four instructions and four requests for the same sectors. ptxas only \
          combines them if it knows the alignment, which it does not for a pointer parameter of \
          a kernel.",
    instead: "Use `.v2` or `.v4` if the address is a multiple of the vector size. Addresses from \
              `cuMemAlloc` are aligned to 256 bytes.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	ld.global.u32 b, [p+4];
	add.u32 a, a, b;
	st.global.u32 [p+8], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.u32 {a, b}, [p];
	add.u32 a, a, b;
	st.global.u32 [p+8], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The maximum number of accesses that are compared with one another. Adjacent accesses are close
/// together in the text.
const MAX_RUN: usize = 256;

/// Accesses of one kind that can be reordered with one another.
struct Run {
    kind: AccessKind,
    /// The mnemonic of all accesses.
    mnemonic: u32,
    all: Vec<(Access, Linear)>,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let mut runs: Vec<Run> = Vec::new();
    for block in &flow.graph.order {
        for id in flow.graph.blocks[block.index()].steps() {
            let step = &flow.instructions.steps[id.index()];
            let effect = function.effect(step);
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let access = Access::of(function, instruction);
            let Some(access) = access.filter(|_| !step.guarded) else {
                if !effect.pure {
                    tell(&mut runs, findings);
                }
                continue;
            };
            let modifiers = &function.mnemonic(instruction).modifiers;
            let weak = match access.kind {
                AccessKind::Load => effect.pure,
                AccessKind::Store => !is_strong(modifiers),
                AccessKind::Atomic => false,
            };
            if !weak {
                tell(&mut runs, findings);
                continue;
            }
            // A store ends a run of loads, which may alias it, and vice versa.
            let long = |run: &Run| run.all.len() >= MAX_RUN;
            if runs.iter().any(|run| run.kind != access.kind || long(run)) {
                tell(&mut runs, findings);
            }
            if access.space != Some(Space::Global) || access.bytes != access.element {
                continue;
            }
            let Some(linear) = function.linear(access.address) else {
                continue;
            };
            let (kind, mnemonic) = (access.kind, step.mnemonic);
            let known = runs.iter_mut().find(|run| run.mnemonic == mnemonic);
            match known {
                Some(run) => run.all.push((access, linear)),
                None => runs.push(Run {
                    kind,
                    mnemonic,
                    all: vec![(access, linear)],
                }),
            }
        }
        tell(&mut runs, findings);
    }
}

fn is_strong(modifiers: &Modifiers) -> bool {
    let strong = [
        Modifier::Volatile,
        Modifier::Relaxed,
        Modifier::Release,
        Modifier::Mmio,
    ];
    modifiers.first_of(&strong).is_some()
}

fn tell(runs: &mut Vec<Run>, findings: &mut Findings) {
    for run in runs.drain(..) {
        let mut rest = run.all;
        while !rest.is_empty() {
            let base = rest[0].1;
            let same = |linear: &Linear| {
                let less = base.times(-1).and_then(|base| linear.plus(&base));
                less.and_then(|less| less.as_number())
            };
            let mut group: Vec<(i64, Access)> = Vec::new();
            rest.retain(|(access, linear)| match same(linear) {
                Some(distance) => {
                    group.push((distance, *access));
                    false
                }
                None => true,
            });
            if group.is_empty() {
                break;
            }
            group.sort_by_key(|(distance, access)| (*distance, access.span.start));
            group.dedup_by_key(|(distance, _)| *distance);
            of_group(run.kind, &base, &group, findings);
        }
    }
}

/// Splits a run into the widest possible vectors.
fn of_group(kind: AccessKind, base: &Linear, group: &[(i64, Access)], findings: &mut Findings) {
    let Some((_, first)) = group.first() else {
        return;
    };
    let element = first.element;
    if element == 0 || element > 8 {
        return;
    }
    // Base pointers are assumed to be aligned; the other terms must be.
    let pointer = |term: &Term| matches!(term, Term::Parameter(..) | Term::Address(_));
    let steps = base.terms().iter().filter(|(term, _)| !pointer(term));
    let steps = steps.fold(0, |bits, (_, times)| bits | times);
    let mut at = 0;
    while at < group.len() {
        let mut taken = 1;
        for count in [4, 2] {
            let bytes = element as i64 * count as i64;
            let (distance, access) = &group[at];
            let Some(all) = group.get(at..at + count) else {
                continue;
            };
            let beside = all
                .iter()
                .enumerate()
                .all(|(number, (other, _))| *other == distance + number as i64 * element as i64);
            let start = base.constant + distance;
            if bytes > 16 || !beside || (start | steps) % bytes != 0 {
                continue;
            }
            let (does, moves) = match kind {
                AccessKind::Store => ("stores", "writes"),
                _ => ("loads", "reads"),
            };
            let span = all
                .iter()
                .map(|(_, access)| access.span)
                .min_by_key(|span| span.start);
            findings
                .add(
                    span.unwrap_or(access.span),
                    format!(
                        "{count} adjacent {does} of {element} bytes: one with `.v{count}` {moves} all \
                         {bytes} bytes",
                    ),
                )
                .help(format!(
                    "the address must be a multiple of {bytes}; addresses of allocations are",
                ));
            taken = count;
            break;
        }
        at += taken;
    }
}
