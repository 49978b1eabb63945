//! What a kernel does with its mbarriers.

use crate::FunctionContext;
use crate::flow::callee;
use crate::flow::{InstructionId, Term, ThreadSet, VariableId, coming};
use ptx::ast::{FunctionKind, Instruction, Linkage, Mnemonic, Operand};
use ptx::names::{Modifier, Opcode};

/// What an instruction does with an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MbarrierOperation {
    Init,
    /// Arrives, and says perhaps how many bytes it expects.
    Arrive,
    /// Says how many bytes it expects, and nothing else.
    ExpectTx,
    /// Asks whether a phase is complete.
    Wait,
    /// Counts the bytes that a copy has brought.
    CompleteTx,
    Other,
}

/// An instruction that is given the address of an mbarrier.
pub(super) struct MbarrierUse<'m> {
    pub id: InstructionId,
    pub instruction: &'m Instruction,
    pub operation: MbarrierOperation,
    /// Whether it says how many bytes are expected.
    pub expects: bool,
    pub place: Place,
}

/// Which mbarrier it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` where the address is not known.
    pub variable: Option<VariableId>,
    /// In the variable.
    pub offset: Option<i64>,
}

impl Place {
    /// Whether both may be one mbarrier. Two variables without a size may be one.
    pub fn may_be(&self, other: &Place, is_open: impl Fn(VariableId) -> bool) -> bool {
        match (self.variable, other.variable) {
            (Some(a), Some(b)) if a != b => is_open(a) && is_open(b),
            (Some(_), Some(_)) => match (self.offset, other.offset) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            },
            _ => true,
        }
    }

    /// Whether both are known, and one.
    pub fn is(&self, other: &Place) -> bool {
        self.variable.is_some() && self.offset.is_some() && self == other
    }
}

/// What an instruction does with an mbarrier, if it is given one.
pub(super) fn operation(mnemonic: &Mnemonic<'_>) -> Option<MbarrierOperation> {
    let has = |word| mnemonic.modifiers.has(word);
    Some(match mnemonic.opcode {
        Opcode::Mbarrier if has(Modifier::PendingCount) => return None,
        Opcode::Mbarrier if has(Modifier::Init) => MbarrierOperation::Init,
        Opcode::Mbarrier if has(Modifier::TryWait) || has(Modifier::TestWait) => {
            MbarrierOperation::Wait
        }
        Opcode::Mbarrier if has(Modifier::Arrive) || has(Modifier::ArriveDrop) => {
            MbarrierOperation::Arrive
        }
        Opcode::Mbarrier if has(Modifier::ExpectTx) => MbarrierOperation::ExpectTx,
        Opcode::Mbarrier => MbarrierOperation::Other,
        Opcode::Cp if has(Modifier::Mbarrier) => MbarrierOperation::Arrive,
        _ if has(Modifier::MbarrierArriveOne) => MbarrierOperation::Arrive,
        _ if has(Modifier::MbarrierCompleteTxBytes) || has(Modifier::MbarrierCompleteTx16B) => {
            MbarrierOperation::CompleteTx
        }
        _ => return None,
    })
}

/// Whether an instruction says how many bytes an mbarrier has to expect.
pub(super) fn expects(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.opcode == Opcode::Mbarrier && mnemonic.modifiers.has(Modifier::ExpectTx)
}

/// Whether the function has an instruction that does this.
pub(super) fn has_operation(function: &FunctionContext<'_, '_>, wanted: MbarrierOperation) -> bool {
    function.has_effect(|effect| effect.at_mbarriers)
        && function.has_mnemonic(|mnemonic| operation(mnemonic) == Some(wanted))
}

/// The uses of mbarriers in a kernel; none in one that calls what may use others.
pub(super) fn uses<'m>(function: &FunctionContext<'m, '_>) -> Vec<MbarrierUse<'m>> {
    let mut found = Vec::new();
    if function.function.kind != FunctionKind::Entry {
        return found;
    }
    let Some(flow) = function.flow() else {
        return found;
    };
    let concern = function.instructions_with(|mnemonic, effect| {
        mnemonic.opcode == Opcode::Call || effect.at_mbarriers
    });
    for (id, instruction) in concern {
        if instruction.opcode == Opcode::Call {
            let name = callee(function.operands(instruction));
            let touches = |m: &Mnemonic<'_>| operation(m).is_some();
            if name.is_none_or(|name| function.context.may_execute(name, touches)) {
                return Vec::new();
            }
            continue;
        }
        let mnemonic = function.mnemonic(instruction);
        let Some(operation) = operation(mnemonic) else {
            continue;
        };
        // Of a copy, it is the last of the addresses.
        let operands = function.operands(instruction);
        let is_address = |operand: &Operand<'_>| matches!(operand, Operand::Address { .. });
        let Some(number) = operands.iter().rposition(is_address) else {
            continue;
        };
        if flow.graph.is_reached(flow.graph.block_of(id)) {
            found.push(MbarrierUse {
                id,
                instruction,
                operation,
                expects: expects(mnemonic),
                place: place(function, instruction.operands.start as usize + number),
            });
        }
    }
    found
}

fn place(function: &FunctionContext<'_, '_>, operand: usize) -> Place {
    let linear = function.linear(operand);
    let variable = linear.and_then(|linear| linear.variable());
    let rest = linear.zip(variable);
    let rest = rest.map(|(linear, variable)| linear.without(Term::Address(variable)));
    Place {
        variable,
        offset: rest.and_then(|rest| rest.as_number()),
    }
}

/// Where a wait has the parity that it is for, in the operand pool.
pub(super) fn parity_operand(
    function: &FunctionContext<'_, '_>,
    wait: &Instruction,
) -> Option<usize> {
    let is_parity = function.mnemonic(wait).modifiers.has(Modifier::Parity);
    // Behind the predicate and the address.
    (is_parity && wait.operands.len >= 3).then_some(wait.operands.start as usize + 2)
}

/// The parity that a wait is for, if it is a number.
pub(super) fn parity(function: &FunctionContext<'_, '_>, wait: &Instruction) -> Option<i64> {
    let place = parity_operand(function, wait)?;
    function.linear(place)?.as_number()
}

/// How many arrivals complete a phase, if `mbarrier.init` says a number.
pub(super) fn count(function: &FunctionContext<'_, '_>, init: &MbarrierUse<'_>) -> Option<u32> {
    let place = init.instruction.operands.start as usize + 1;
    u32::try_from(function.linear(place)?.as_number()?).ok()
}

/// How often threads of the block arrive at one place of the text, each time that the block
/// comes there.
pub(super) struct Arrivals {
    /// No more often.
    pub most: u32,
    /// And no less, if any thread does.
    pub exact: bool,
}

/// `None` where that is not known, or where other blocks of a cluster arrive too.
pub(super) fn arrivals(
    function: &FunctionContext<'_, '_>,
    arrive: &MbarrierUse<'_>,
) -> Option<Arrivals> {
    let mnemonic = function.mnemonic(arrive.instruction);
    let has = |word| mnemonic.modifiers.has(word);
    let of_cluster = [
        Modifier::MulticastCluster,
        Modifier::MulticastCluster16b,
        Modifier::MulticastCluster32b,
        Modifier::MulticastClusterAll,
    ];
    if of_cluster.into_iter().any(has) {
        return None;
    }
    let pass = function.first_pass()?;
    let known = coming(function, arrive.id);
    let threads = known.unwrap_or(ThreadSet::all(&pass.block));
    // `mbarrier.arrive` may say for how many it arrives, behind the address.
    let list = arrive.instruction.operands;
    let address = |operand: &Operand<'_>| matches!(operand, Operand::Address { .. });
    let at = function
        .operands(arrive.instruction)
        .iter()
        .position(address)?;
    let counted = mnemonic.opcode == Opcode::Mbarrier && !has(Modifier::ExpectTx);
    let times = if counted && at + 1 < list.len as usize {
        let place = list.start as usize + at + 1;
        u32::try_from(function.linear(place)?.as_number()?).ok()?
    } else {
        1
    };
    Some(Arrivals {
        most: threads.count().saturating_mul(times),
        // A block may be smaller, but has a first thread.
        exact: known.is_some()
            && (pass.block.required || threads.count() == 1 && threads.contains(0)),
    })
}

/// The name of the variable, with the offset in it.
pub(super) fn name(function: &FunctionContext<'_, '_>, place: &Place) -> String {
    let variable = place.variable.zip(function.flow());
    let name = variable.map(|(id, flow)| flow.instructions.variable(id).name.text);
    match (name, place.offset) {
        (Some(name), Some(0)) => format!("the mbarrier `{name}`"),
        (Some(name), Some(offset)) => format!("the mbarrier `{name}+{offset}`"),
        (Some(name), None) => format!("the mbarrier in `{name}`"),
        (None, _) => "this mbarrier".to_owned(),
    }
}

/// Whether the size of a variable is not known: it may lie where others do.
pub(super) fn is_open(function: &FunctionContext<'_, '_>) -> impl Fn(VariableId) -> bool {
    move |id| {
        let Some(flow) = function.flow() else {
            return true;
        };
        let variable = flow.instructions.variable(id);
        variable.dims.contains(&None) || variable.linkage == Linkage::Extern
    }
}
