//! The places that name a register, in which its values are looked for.

use super::graph::BlockId;
use super::instructions::{RegisterOperand, Step};

/// A place that names a register.
#[derive(Clone, Copy)]
pub struct Mention {
    pub register: u32,
    /// Among the register operands of the function.
    pub place: usize,
    pub block: BlockId,
    pub written: bool,
    /// Some of the old value is kept where it is written.
    pub partial: bool,
}

impl Mention {
    pub fn new(step: &Step, slot: RegisterOperand, place: usize, block: BlockId) -> Mention {
        Mention {
            register: slot.register.0,
            place,
            block,
            written: step.is_written(place),
            partial: step.partial,
        }
    }
}

/// Sorted by register; those of one stay in the order of the text.
pub fn by_register(mentions: &[Mention], registers: usize) -> Vec<Mention> {
    let mut next = vec![0_u32; registers + 1];
    for mention in mentions {
        next[mention.register as usize + 1] += 1;
    }
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let mut order = vec![0; mentions.len()];
    for (at, mention) in (0_u32..).zip(mentions) {
        let place = &mut next[mention.register as usize];
        order[*place as usize] = at;
        *place += 1;
    }
    let sorted = order.into_iter().map(|at| mentions[at as usize]);
    sorted.collect()
}
