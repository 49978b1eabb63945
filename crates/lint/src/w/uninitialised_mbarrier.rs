//! An mbarrier that is used and never initialised.

use crate::flow::Origin;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{Instruction, Mnemonic, Operand, Variable};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 404),
    name: "uninitialised-mbarrier",
    summary: "An mbarrier in shared memory is used, and nothing in the module initialises it.",
    why: "Shared memory holds anything at first. An mbarrier that was not initialised counts from \
          there: whoever waits may wait for ever, or not at all.\n\n\
          One `mbarrier.init` of the variable anywhere in the module is enough, and so is one at \
          an address that is not known; the order is `W0407`. (PTX ISA, \"mbarrier.init\".)",
    instead: "Let one thread execute `mbarrier.init` with the number of arrivals, and a barrier \
              of the block behind it before others use it.",
    bad: "\
.entry k()
{
	.shared .align 8 .b64 bar;
	mbarrier.arrive.shared.b64 _, [bar];
	ret;
}
",
    good: "\
.entry k()
{
	.shared .align 8 .b64 bar;
	mbarrier.init.shared.b64 [bar], 32;
	bar.sync 0;
	mbarrier.arrive.shared.b64 _, [bar];
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn is_init(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.opcode == Opcode::Mbarrier && mnemonic.modifiers.has(Modifier::Init)
}

fn uses(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    match mnemonic.opcode {
        Opcode::Mbarrier => !has(Modifier::Init) && !has(Modifier::PendingCount),
        Opcode::Cp => has(Modifier::Mbarrier) && has(Modifier::Arrive),
        _ => false,
    }
}

/// Refutes all: what is initialised may be any.
const ANY: u32 = u32::MAX;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    // Where it is declared stands for the variable.
    let source = function.context.source;
    let place = |variable: &Variable<'_>| variable.name.span(source).start;
    let concern = |mnemonic: &Mnemonic<'_>| is_init(mnemonic) || uses(mnemonic);
    for (_, instruction) in function.instructions_with(|mnemonic, _| concern(mnemonic)) {
        let mnemonic = function.mnemonic(instruction);
        if is_init(mnemonic) {
            findings.refute(variable(function, instruction).map_or(ANY, place));
        } else if uses(mnemonic)
            && let Some(variable) = variable(function, instruction)
        {
            findings
                .add_unless(
                    &[ANY, place(variable)],
                    instruction.opcode_span,
                    format!("nothing initialises the mbarrier `{}`", variable.name.text),
                )
                .help("execute `mbarrier.init` in one thread before, then a barrier of the block");
        }
    }
}

/// The variable whose address the instruction is given.
fn variable<'m, 'a>(
    function: &FunctionContext<'m, 'a>,
    instruction: &Instruction,
) -> Option<&'m Variable<'a>> {
    let operands = function.operands(instruction);
    let number = operands
        .iter()
        .position(|operand| matches!(operand, Operand::Address { .. }))?;
    let place = instruction.operands.start as usize + number;
    match function.origin(place)? {
        Origin::Variable(id) | Origin::Generic(_, Some(id)) => {
            Some(function.flow()?.instructions.variable(id))
        }
        _ => None,
    }
}
