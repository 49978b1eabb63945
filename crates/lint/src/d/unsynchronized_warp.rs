//! `shfl.up.b32`, `vote.all.pred`

use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::{Instruction, Span, Version};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('D', 101),
    name: "unsynchronized-warp-operation",
    summary: "A `shfl` or `vote` without `.sync`.",
    why: "From sm_70 the threads of a warp execute independently: without a mask the set of \
          participating threads is undefined. PTX 6.0 deprecated these forms, and 6.4 removed \
          them for sm_70 and later. If a driver compiles such a module for a newer GPU, the \
          results are undefined.",
    instead: "Write `shfl.sync` or `vote.sync` with the mask of the participating threads, \
              `0xffffffff` for a full warp. They need PTX 6.0 and sm_30. The result of \
              `activemask` is not a suitable mask.",
    bad: "\
.version 6.3
.target sm_60
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 lane;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 lane, %laneid;
	shfl.up.b32 lane, lane, 1, 0;
	st.global.b32 [p], lane;
	ret;
}
",
    good: "\
.version 6.3
.target sm_60
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 lane;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 lane, %laneid;
	shfl.sync.up.b32 lane, lane, 1, 0, 0xffffffff;
	st.global.b32 [p], lane;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        if !matches!(instruction.opcode, Opcode::Shfl | Opcode::Vote) {
            continue;
        }
        let mnemonic = function.mnemonic(instruction);
        if !mnemonic.modifiers.has(Modifier::Sync) {
            let opcode = instruction.opcode.text();
            let message = format!("`{opcode}` without `.sync` is deprecated since PTX 6.0");
            let finding = findings.add(instruction.opcode_span, message);
            finding.help(format!(
                "write `{opcode}.sync` with a mask of the participating threads, `0xffffffff` \
                 if all do"
            ));
            if let Some(edits) = fix(function, instruction) {
                finding.unsafe_fix(edits);
            }
        }
    }
}

/// `.sync` and the mask of a whole warp; `None` where the module has no such form.
fn fix(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<[Edit; 2]> {
    let context = function.context;
    let new = |version| version >= Version { major: 6, minor: 0 };
    let all_said = context
        .module
        .version
        .is_some_and(|(version, _)| new(version))
        && context.target.is_some_and(|target| target.number >= 30);
    if !all_said {
        return None;
    }
    let insert = |at: u32, text: &str| Edit {
        span: Span { start: at, end: at },
        replacement: text.to_owned(),
    };
    let Span { start, end } = instruction.span;
    let text = context.source.get(start as usize..end as usize)?;
    let operands = text.strip_suffix(';').unwrap_or(text).trim_end();
    Some([
        insert(
            instruction.opcode_span.start + instruction.opcode.text().len() as u32,
            ".sync",
        ),
        insert(start + operands.len() as u32, ", 0xffffffff"),
    ])
}
