//! Control that runs out of a function.

use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::Span;

pub static RULE: Rule = Rule {
    code: Code::new('W', 202),
    name: "missing-return",
    summary: "A way through the function ends at its closing brace, without `ret` or `exit`.",
    why: "ptxas accepts it, and lets the thread end or return there today. The language does not \
          say so, and where a branch was meant to go elsewhere, the mistake stays hidden. (PTX \
          ISA, \"Control Flow Instructions: ret\", \"exit\".)",
    instead: "End every way with `ret`, `exit`, `trap`, or a jump.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.global.b32 [out], 1;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.global.b32 [out], 1;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let brace = Span {
        start: function.body.span.end.saturating_sub(1),
        end: function.body.span.end,
    };
    let mut fixed = false;
    for block in &flow.graph.order {
        let block = &flow.graph.blocks[block.index()];
        if !block.falls_off {
            continue;
        }
        let last = block.steps().next_back();
        let last = last.and_then(|id| flow.instructions.get(id));
        let span = last.map_or(brace, |instruction| instruction.opcode_span);
        let finding = findings.add(span, "behind this the function ends without `ret`");
        finding.help("write `ret;` before the closing brace");
        // Once is enough for all ways.
        if !std::mem::replace(&mut fixed, true) {
            finding.fix([Edit {
                span: Span {
                    start: brace.start,
                    end: brace.start,
                },
                replacement: "\tret;\n".to_owned(),
            }]);
        }
    }
}
