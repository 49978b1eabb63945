//! The instructions of a function by mnemonic: a rule looks at those that it is about, and at
//! none where the function has none.

use super::instructions::InstructionId;
use ptx::ast::{Body, Instruction, Statement};

/// The instructions of a function by the number of their mnemonic.
#[derive(Debug)]
pub(super) struct ByMnemonic {
    /// The mnemonics that it has. They are few, whatever the length of the function.
    kinds: Vec<Kind>,
    /// In source order.
    all: Vec<Place>,
}

/// The instructions with one mnemonic.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// The number of the mnemonic.
    number: u32,
    count: u32,
    first: u32,
    last: u32,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of its mnemonic.
    mnemonic: u32,
    /// Its index into the statements.
    statement: u32,
    /// The next one with its mnemonic, if there is one.
    next: u32,
}

/// Fewer than one in so many instructions are sorted; of more, all are gone through.
const FEW: u32 = 24;

impl ByMnemonic {
    /// Of a body whose instructions have mnemonics of less than this number.
    pub fn new(body: &Body<'_>, mnemonics: usize) -> ByMnemonic {
        let mut kinds = vec![Kind::default(); mnemonics];
        let mut all: Vec<Place> = Vec::with_capacity(body.statements.len());
        for (statement, found) in (0_u32..).zip(&body.statements) {
            if let Statement::Instruction(instruction) = found
                && let Some(kind) = kinds.get_mut(instruction.mnemonic.index())
            {
                let id = all.len() as u32;
                match all.get_mut(kind.last as usize) {
                    Some(last) if kind.count > 0 => last.next = id,
                    _ => kind.first = id,
                }
                kind.count += 1;
                kind.last = id;
                all.push(Place {
                    mnemonic: instruction.mnemonic.index() as u32,
                    statement,
                    next: 0,
                });
            }
        }
        for (number, kind) in (0..).zip(&mut kinds) {
            kind.number = number;
        }
        kinds.retain(|kind| kind.count > 0);
        ByMnemonic { kinds, all }
    }

    /// The numbers of the mnemonics that it has.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.kinds.iter().map(|kind| kind.number as usize)
    }

    /// The instructions of the body with mnemonics whose number is wanted, in source order.
    pub fn chosen<'m>(
        &self,
        body: &'m Body<'_>,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Vec<(InstructionId, &'m Instruction)> {
        let is_wanted = |kind: &&Kind| wanted(kind.number as usize);
        let mut first_wanted = self.kinds.iter().filter(is_wanted);
        // Most rules are about what most functions do not have.
        let Some(one) = first_wanted.next() else {
            return Vec::new();
        };
        let others: Vec<&Kind> = first_wanted.collect();
        let count = one.count + others.iter().map(|kind| kind.count).sum::<u32>();
        let mut found = Vec::with_capacity(count as usize);
        let mut add = |id: u32, place: &Place| {
            let statement = body.statements.get(place.statement as usize);
            if let Some(Statement::Instruction(instruction)) = statement {
                found.push((InstructionId(id), instruction));
            }
        };
        if others.is_empty() || count < self.all.len() as u32 / FEW {
            let is_one = others.is_empty();
            for kind in others.into_iter().chain([one]) {
                let mut id = kind.first;
                for _ in 0..kind.count {
                    let Some(place) = self.all.get(id as usize) else {
                        break;
                    };
                    add(id, place);
                    id = place.next;
                }
            }
            if !is_one {
                found.sort_unstable_by_key(|(id, _)| *id);
            }
            return found;
        }
        let last = others.last().map_or(0, |kind| kind.number as usize);
        let mut is_wanted = vec![false; last + 1];
        for kind in others.into_iter().chain([one]) {
            is_wanted[kind.number as usize] = true;
        }
        for (id, place) in (0..).zip(&self.all) {
            if is_wanted.get(place.mnemonic as usize) == Some(&true) {
                add(id, place);
            }
        }
        found
    }
}
