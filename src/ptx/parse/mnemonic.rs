//! Opcodes with their modifiers, each distinct one read once.
//!
//! A compiler writes the same few hundred of them again and again, so the
//! whole of `ld.global.nc.v4.f32` is looked up at once, by its text.

use std::borrow::Cow;

use crate::ptx::ast::{Mnemonic, MnemonicId, Modifiers};
use crate::ptx::names::{Modifier, Opcode};

/// The mnemonics of a module as they are read.
#[derive(Debug, Default)]
pub struct Mnemonics<'a> {
    list: Vec<Mnemonic<'a>>,
    /// An open-addressed table of places in `list`, counted from 1; its length
    /// is a power of two, or 0.
    slots: Vec<u32>,
}

/// No instruction has this many modifiers.
#[derive(Debug)]
pub struct TooMany;

impl<'a> Mnemonics<'a> {
    /// All of them, in the order of their first mention.
    pub fn into_list(self) -> Vec<Mnemonic<'a>> {
        self.list
    }

    pub fn get(&self, id: MnemonicId) -> Option<&Mnemonic<'a>> {
        self.list.get(id.index())
    }

    /// Takes up the mnemonic of these words, which [`known`](Self::known) did
    /// not find by the text that they stand in.
    pub fn learn(&mut self, text: &'a str, words: &[&'a str]) -> Result<MnemonicId, TooMany> {
        let length: usize = words.iter().map(|word| word.len()).sum();
        let text = if text.len() + 1 == length + words.len() {
            Cow::Borrowed(text)
        } else {
            // White space or a comment stands between the words.
            let text = words.join(".");
            if let Some(id) = self.known(&text) {
                return Ok(id);
            }
            Cow::Owned(text)
        };
        let (first, rest) = words.split_first().unwrap_or((&"", &[]));
        let mut modifiers = Modifiers::default();
        for word in rest {
            let modifier = Modifier::from_text(word).unwrap_or(Modifier::UNKNOWN);
            if !modifiers.push(modifier) {
                return Err(TooMany);
            }
        }
        Ok(self.add(Mnemonic {
            text,
            opcode: Opcode::from_text(first).unwrap_or(Opcode::Unknown),
            modifiers,
        }))
    }

    /// The mnemonic of this text, if it has been read before.
    pub fn known(&self, text: &str) -> Option<MnemonicId> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash(text.as_bytes());
        loop {
            let id = MnemonicId(self.slots[slot & mask].checked_sub(1)?);
            if self.list.get(id.index()).is_some_and(|m| m.text == text) {
                return Some(id);
            }
            slot += 1;
        }
    }

    fn add(&mut self, mnemonic: Mnemonic<'a>) -> MnemonicId {
        let id = MnemonicId(self.list.len() as u32);
        self.list.push(mnemonic);
        // At most half full, so that a search always meets an empty slot.
        if self.list.len() * 2 > self.slots.len() {
            self.slots = vec![0; (self.list.len() * 4).next_power_of_two()];
            for id in 0..self.list.len() {
                self.place(id);
            }
        } else {
            self.place(id.index());
        }
        id
    }

    fn place(&mut self, id: usize) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(self.list[id].text.as_bytes());
        while self.slots[slot & mask] != 0 {
            slot += 1;
        }
        self.slots[slot & mask] = id as u32 + 1;
    }
}

/// Eight bytes at a time, the last eight as they are; the multiplier is that of
/// splitmix64.
fn hash(text: &[u8]) -> usize {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut hash = text.len() as u64;
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let last = match text.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest
            .iter()
            .fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    mix(hash, last) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_once() {
        let mut mnemonics = Mnemonics::default();
        let mut find = |text: &'static str, words: &[&'static str]| {
            let id = mnemonics.known(text);
            id.unwrap_or_else(|| mnemonics.learn(text, words).unwrap())
                .index()
        };
        assert_eq!(find("ld.global.u32", &["ld", "global", "u32"]), 0);
        assert_eq!(find("ret", &["ret"]), 1);
        assert_eq!(find("ld .global\n.u32", &["ld", "global", "u32"]), 0);
        assert_eq!(find("ld.u32.global", &["ld", "u32", "global"]), 2);
        let list = mnemonics.into_list();
        assert_eq!(
            list[2].modifiers.as_slice(),
            [Modifier::U32, Modifier::Global]
        );
        assert_eq!((list.len(), list[1].opcode), (3, Opcode::Ret));
    }

    #[test]
    fn many_distinct_ones_are_found_again() {
        let texts: Vec<String> = (0..5000).map(|n| format!("op{n}")).collect();
        let mut mnemonics = Mnemonics::default();
        for _ in 0..2 {
            for (n, text) in texts.iter().enumerate() {
                let id = mnemonics.known(text);
                let id = id.unwrap_or_else(|| mnemonics.learn(text, &[text]).unwrap());
                assert_eq!(id.index(), n);
            }
        }
    }
}
