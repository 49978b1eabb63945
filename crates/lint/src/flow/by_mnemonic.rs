//! The instructions of a function by mnemonic: a rule looks at those that it is about, and at
//! none where the function has none.

use super::instructions::InstructionId;
use ptx::ast::{Body, Statement};

/// The instructions of a function, sorted by the number of their mnemonic.
#[derive(Debug)]
pub(super) struct ByMnemonic {
    /// Each mnemonic that it has, and where its instructions end in `all`. They are few,
    /// whatever the length of the function.
    ends: Vec<(u32, u32)>,
    /// With the index of each into the statements; those of one mnemonic in source order.
    all: Vec<(InstructionId, u32)>,
    /// In source order, the number of the mnemonic and the index into the statements.
    in_order: Vec<(u32, u32)>,
}

/// Fewer than one in so many instructions are sorted; of more, all are gone through.
const FEW: usize = 24;

impl ByMnemonic {
    /// Of a body whose instructions have mnemonics of less than this number.
    pub fn new(body: &Body<'_>, mnemonics: usize) -> ByMnemonic {
        let mut counts = vec![0_u32; mnemonics];
        let mut in_order = Vec::with_capacity(body.statements.len());
        for (at, statement) in (0_u32..).zip(&body.statements) {
            if let Statement::Instruction(instruction) = statement
                && let Some(count) = counts.get_mut(instruction.mnemonic.index())
            {
                *count += 1;
                in_order.push((instruction.mnemonic.index() as u32, at));
            }
        }
        let mut ends = Vec::new();
        let mut end = 0;
        for (number, count) in (0_u32..).zip(&mut counts) {
            let start = end;
            if *count > 0 {
                end += *count;
                ends.push((number, end));
            }
            *count = start;
        }
        let mut all = vec![(InstructionId(0), 0); in_order.len()];
        for (id, (mnemonic, at)) in (0_u32..).zip(&in_order) {
            let place = &mut counts[*mnemonic as usize];
            all[*place as usize] = (InstructionId(id), *at);
            *place += 1;
        }
        ByMnemonic {
            ends,
            all,
            in_order,
        }
    }

    /// The numbers of the mnemonics that it has.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends.iter().map(|(number, _)| *number as usize)
    }

    /// The instructions with mnemonics whose number is wanted, in source order, and the index of
    /// each into the statements.
    pub fn chosen(&self, wanted: &dyn Fn(usize) -> bool) -> Vec<(InstructionId, u32)> {
        let mut kinds = Vec::new();
        let (mut start, mut count) = (0, 0);
        for (number, end) in &self.ends {
            let of_kind = start..*end as usize;
            start = of_kind.end;
            if wanted(*number as usize) {
                count += of_kind.len();
                kinds.push((*number, of_kind));
            }
        }
        let mut found = Vec::with_capacity(count);
        if kinds.len() < 2 || count < self.all.len() / FEW {
            for (_, of_kind) in &kinds {
                found.extend_from_slice(&self.all[of_kind.clone()]);
            }
            if kinds.len() > 1 {
                found.sort_unstable();
            }
            return found;
        }
        let last = kinds.last().map_or(0, |(number, _)| *number as usize);
        let mut is_wanted = vec![false; last + 1];
        for (number, _) in kinds {
            is_wanted[number as usize] = true;
        }
        for (id, (mnemonic, at)) in (0..).map(InstructionId).zip(&self.in_order) {
            if is_wanted.get(*mnemonic as usize) == Some(&true) {
                found.push((id, *at));
            }
        }
        found
    }
}
