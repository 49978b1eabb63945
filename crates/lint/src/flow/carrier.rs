//! Why a value differs between threads: the definitions that lead to what holds the
//! thread's index.

use std::collections::VecDeque;

use super::context::{Flow, FunctionContext};
use super::instructions::InstructionId;
use super::values::{Definition, ValueId};
use ptx::ast::{Operand, Span};
use ptx::names::{Opcode, SpecialRegister};

/// What makes a value differ between threads, and how it comes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The special register, `%tid.x`, or the instruction that chooses a thread.
    pub name: &'static str,
    /// The instructions from the one that computes the value to the one that reads
    /// [`name`](Carrier::name); phis are left out. Never empty.
    pub path: Vec<InstructionId>,
}

/// What is looked at for it.
const FOLLOWED: usize = 200;

impl Carrier {
    /// The nearest carrier of a value, through the values of which `follows` is true.
    pub(crate) fn find(
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        value: ValueId,
        follows: impl Fn(ValueId) -> bool,
    ) -> Option<Carrier> {
        // Each with the place of the one that reads it.
        let mut visited = vec![(value, 0)];
        let mut open = VecDeque::from([0]);
        while let Some(at) = open.pop_front() {
            let (value, _) = visited[at];
            let mut parts: Vec<ValueId> = Vec::new();
            match flow.values.definition(value)? {
                Definition::Written(id) => {
                    if let Some(name) = read_by(function, flow, id) {
                        let path = path(flow, &visited, at);
                        return Some(Carrier { name, path });
                    }
                    let step = &flow.instructions.steps[id.index()];
                    parts.extend(flow.values.reads(&flow.instructions, step).map(|(_, v)| v));
                }
                Definition::Phi(_) => parts.extend(flow.values.phi_operands(&flow.graph, value)),
                Definition::Start => {}
            }
            for part in parts {
                let known = flow.values.definition(part).is_some();
                let seen = || visited.iter().any(|(value, _)| *value == part);
                if known && visited.len() < FOLLOWED && !seen() && follows(part) {
                    open.push_back(visited.len());
                    visited.push((part, at));
                }
            }
        }
        None
    }

    /// Where the carrier is read.
    pub fn span(&self, flow: &Flow<'_, '_>) -> Span {
        let last = self.path.last().and_then(|id| flow.instructions.get(*id));
        last.map_or(Span::default(), |instruction| instruction.span)
    }
}

/// The instructions from the first of those visited to this one.
fn path(flow: &Flow<'_, '_>, visited: &[(ValueId, usize)], mut at: usize) -> Vec<InstructionId> {
    let mut path = Vec::new();
    loop {
        let (value, before) = visited[at];
        if let Some(Definition::Written(id)) = flow.values.definition(value) {
            path.push(id);
        }
        if at == 0 {
            path.reverse();
            return path;
        }
        at = before;
    }
}

/// What an instruction reads that differs between threads by itself.
fn read_by(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    id: InstructionId,
) -> Option<&'static str> {
    use SpecialRegister as S;
    let instruction = flow.instructions.get(id)?;
    for operand in function.operands(instruction) {
        if let Operand::Special(register, _) = operand
            && matches!(
                register,
                S::TidX | S::TidY | S::TidZ | S::Tid | S::Laneid | S::Warpid
            )
        {
            return Some(register.text());
        }
    }
    (instruction.opcode == Opcode::Elect).then_some("elect.sync")
}
