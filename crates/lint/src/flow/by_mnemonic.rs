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
}

impl ByMnemonic {
    /// Of a body whose instructions have mnemonics of less than this number.
    pub fn new(body: &Body<'_>, mnemonics: usize) -> ByMnemonic {
        let mut counts = vec![0_u32; mnemonics];
        let mut order = Vec::with_capacity(body.statements.len());
        for (at, statement) in (0_u32..).zip(&body.statements) {
            if let Statement::Instruction(instruction) = statement
                && let Some(count) = counts.get_mut(instruction.mnemonic.index())
            {
                *count += 1;
                order.push((instruction.mnemonic.index(), at));
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
        let mut all = vec![(InstructionId(0), 0); order.len()];
        for (id, (mnemonic, at)) in (0_u32..).zip(order) {
            let place = &mut counts[mnemonic];
            all[*place as usize] = (InstructionId(id), at);
            *place += 1;
        }
        ByMnemonic { ends, all }
    }

    /// The numbers of the mnemonics that it has.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends.iter().map(|(number, _)| *number as usize)
    }

    /// The instructions with mnemonics whose number is wanted, in source order, and the index of
    /// each into the statements.
    pub fn chosen(&self, wanted: &dyn Fn(usize) -> bool) -> Vec<(InstructionId, u32)> {
        let mut found = Vec::new();
        let (mut start, mut kinds) = (0, 0);
        for (number, end) in &self.ends {
            let end = *end as usize;
            if wanted(*number as usize) {
                found.extend_from_slice(&self.all[start..end]);
                kinds += 1;
            }
            start = end;
        }
        if kinds > 1 {
            found.sort_unstable();
        }
        found
    }
}
