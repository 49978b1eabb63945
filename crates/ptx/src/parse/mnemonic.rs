//! The table of mnemonics: each distinct opcode with modifiers is parsed once.
//!
//! A compiler repeats the same few hundred of them, so the whole of `ld.global.nc.v4.f32` is
//! looked up by its text.

use std::borrow::Cow;

use crate::ast::{Mnemonic, MnemonicId, Modifiers};
use crate::bytes::{first_bytes, through_blank, word_at};
use crate::names::{Modifier, Opcode};
use crate::token::bank;

/// The mnemonics of a module so far.
#[derive(Debug, Default)]
pub struct Mnemonics<'a> {
    list: Vec<Mnemonic<'a>>,
    /// An open-addressed table; its length is a power of two, or 0.
    slots: Vec<Slot>,
}

/// A slot that identifies a mnemonic without its text, unless that is long.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The first 16 bytes of the text, the rest zero.
    start: [u64; 2],
    /// 0 if the slot is empty.
    length: u32,
    id: MnemonicId,
    /// `None` if some of its words are unknown.
    opcode: Option<Opcode>,
}

/// A known mnemonic at some offset of the text.
#[derive(Clone, Copy, Debug)]
pub struct KnownMnemonic {
    pub id: MnemonicId,
    pub opcode: Opcode,
    /// The end of its text.
    pub end: usize,
}

/// The error for more modifiers than any instruction has.
#[derive(Debug)]
pub struct TooMany;

impl<'a> Mnemonics<'a> {
    /// All mnemonics, in the order of their first use.
    pub fn into_list(self) -> Vec<Mnemonic<'a>> {
        self.list
    }

    /// Those so far, in the order of their first use.
    pub fn list(&self) -> &[Mnemonic<'a>] {
        &self.list
    }

    pub fn get(&self, id: MnemonicId) -> Option<&Mnemonic<'a>> {
        self.list.get(id.index())
    }

    /// Adds the mnemonic of these words, which [`known`](Self::known) did not find by its text.
    pub fn insert(&mut self, text: &'a str, words: &[&'a str]) -> Result<MnemonicId, TooMany> {
        let length: usize = words.iter().map(|word| word.len()).sum();
        let text = if text.len() + 1 == length + words.len() {
            Cow::Borrowed(text)
        } else {
            // There is white space or a comment between the words.
            let text = words.join(".");
            if let Some(id) = self.known(&text) {
                return Ok(id);
            }
            Cow::Owned(text)
        };
        let (first, rest) = words.split_first().unwrap_or((&"", &[]));
        let mut modifiers = Modifiers::default();
        for word in rest {
            if !modifiers.push(modifier(word).unwrap_or(Modifier::UNKNOWN)) {
                return Err(TooMany);
            }
        }
        Ok(self.add(Mnemonic {
            text,
            opcode: Opcode::from_text(first).unwrap_or(Opcode::Unknown),
            modifiers,
        }))
    }

    /// The id of a mnemonic, which is added unless it is in the table.
    pub fn share(&mut self, mnemonic: Mnemonic<'a>) -> MnemonicId {
        let known = self.known(&mnemonic.text);
        known.unwrap_or_else(|| self.add(mnemonic))
    }

    /// The mnemonic with this text, if it is in the table.
    pub fn known(&self, text: &str) -> Option<MnemonicId> {
        let (hash, start) = hash(text.as_bytes());
        let same = |slot: &Slot| {
            self.list
                .get(slot.id.index())
                .is_some_and(|m| m.text == text)
        };
        self.find(hash, start, text.len(), same).map(|slot| slot.id)
    }

    /// The mnemonic from this byte to the next blank, if it is in the table and all its words are
    /// known.
    #[inline]
    pub fn before_blank(&self, bytes: &[u8], at: usize) -> Option<KnownMnemonic> {
        let (first, second) = (word_at(bytes, at)?, word_at(bytes, at + 8)?);
        let (mut length, mut start) = (through_blank(first), [first, 0]);
        if length < 8 {
            start[0] = first_bytes(first, length);
        } else {
            let rest = through_blank(second);
            start[1] = first_bytes(second, rest);
            length += rest;
        }
        if length == 16 {
            return self.long_before_blank(bytes, at, start);
        }
        let hash = mix(mix(SEED, start[0]), start[1]);
        let slot = self.find(hash, start, length, |_| true)?;
        Some(KnownMnemonic {
            id: slot.id,
            opcode: slot.opcode?,
            end: at + length,
        })
    }

    /// The same of one that begins with these 16 bytes.
    fn long_before_blank(&self, bytes: &[u8], at: usize, start: [u64; 2]) -> Option<KnownMnemonic> {
        let mut hash = mix(mix(SEED, start[0]), start[1]);
        let (mut length, mut last) = (16, 8);
        // Bounds the scan in a text without blanks.
        while last == 8 && length < LONGEST {
            let word = word_at(bytes, at + length)?;
            last = through_blank(word);
            if last > 0 {
                hash = mix(hash, first_bytes(word, last));
            }
            length += last;
        }
        let end = at + length;
        let text = bytes.get(at..end)?;
        let same = |slot: &Slot| {
            let known = self.list.get(slot.id.index());
            known.is_some_and(|m| m.text.as_bytes() == text)
        };
        let slot = self.find(hash, start, length, same)?;
        Some(KnownMnemonic {
            id: slot.id,
            opcode: slot.opcode?,
            end,
        })
    }

    /// The mnemonic from this byte to a blank or a semicolon, which is added unless it is in the
    /// table, if all its words are known, nothing stands between them, and it is no label.
    #[cold]
    pub fn read(&mut self, source: &'a str, at: usize) -> Option<KnownMnemonic> {
        let rest = source.as_bytes().get(at..)?;
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let mut bytes = rest.iter().take(LONGEST);
        let end = at + bytes.position(|byte| is_blank(byte) || *byte == b';')?;
        // A comment may stand before the colon of a label.
        if let Some(b':' | b'/') = bytes.find(|byte| !is_blank(byte)) {
            return None;
        }
        let text = source.get(at..end)?;
        let mut words = text.split('.');
        let opcode = Opcode::from_text(words.next()?).filter(|known| *known != Opcode::Unknown)?;
        let mut modifiers = Modifiers::default();
        for word in words {
            let is_word = |known: &Modifier| ![Modifier::NONE, Modifier::UNKNOWN].contains(known);
            let known = modifier(word).filter(is_word);
            if !modifiers.push(known?) {
                return None;
            }
        }
        let id = self.share(Mnemonic {
            text: Cow::Borrowed(text),
            opcode,
            modifiers,
        });
        Some(KnownMnemonic { id, opcode, end })
    }

    #[inline]
    fn find(
        &self,
        hash: u64,
        start: [u64; 2],
        length: usize,
        same: impl Fn(&Slot) -> bool,
    ) -> Option<&Slot> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize;
        loop {
            let slot = &self.slots[at & mask];
            if slot.length == 0 {
                return None;
            }
            if slot.start == start && slot.length as usize == length && same(slot) {
                return Some(slot);
            }
            at += 1;
        }
    }

    fn add(&mut self, mnemonic: Mnemonic<'a>) -> MnemonicId {
        let id = MnemonicId(self.list.len() as u32);
        self.list.push(mnemonic);
        // At most a quarter full, so that nearly every search ends at its first slot.
        if self.list.len() * 4 > self.slots.len() {
            let length = (self.list.len() * 8).next_power_of_two();
            self.slots = vec![Slot::default(); length];
            for id in 0..self.list.len() {
                self.place(id);
            }
        } else {
            self.place(id.index());
        }
        id
    }

    fn place(&mut self, id: usize) {
        let mnemonic = &self.list[id];
        let (hash, start) = hash(mnemonic.text.as_bytes());
        let known = is_known(mnemonic);
        let slot = Slot {
            start,
            length: mnemonic.text.len() as u32,
            id: MnemonicId(id as u32),
            opcode: known.then_some(mnemonic.opcode),
        };
        let mask = self.slots.len() - 1;
        let mut at = hash as usize;
        while self.slots[at & mask].length != 0 {
            at += 1;
        }
        self.slots[at & mask] = slot;
    }
}

/// The banks of constant memory.
pub const BANKS: std::ops::RangeInclusive<u8> = 0..=10;

/// Parses a modifier. The bank of `const[2]` is not part of it, only of the text.
pub fn modifier(word: &str) -> Option<Modifier> {
    match bank(word) {
        Some(bank) => BANKS.contains(&bank).then_some(Modifier::Const),
        None => Modifier::from_text(word),
    }
}

/// Whether all its words are known.
fn is_known(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.opcode != Opcode::Unknown && !mnemonic.modifiers.has(Modifier::UNKNOWN)
}

/// Longer than any mnemonic, in bytes.
const LONGEST: usize = 256;

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The multiplier is that of splitmix64.
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// The hash of a text, eight bytes at a time, and its first sixteen.
fn hash(text: &[u8]) -> (u64, [u64; 2]) {
    let mut words = text.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    });
    let start = [words.next().unwrap_or(0), words.next().unwrap_or(0)];
    (words.fold(mix(mix(SEED, start[0]), start[1]), mix), start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_once() {
        let mut mnemonics = Mnemonics::default();
        let mut find = |text: &'static str, words: &[&'static str]| {
            let id = mnemonics.known(text);
            id.unwrap_or_else(|| mnemonics.insert(text, words).unwrap())
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
    fn new_ones_end_at_blanks_and_semicolons() {
        let mut mnemonics = Mnemonics::default();
        let mut read = |text: &'static str| {
            let known = mnemonics.read(text, 1)?;
            Some((known.id.index(), known.opcode, known.end))
        };
        let ld = " ld.shared::cta.u32\t%r1, [%r2];";
        assert_eq!(read(ld), Some((0, Opcode::Ld, 19)));
        assert_eq!(read(" ret;"), Some((1, Opcode::Ret, 4)));
        assert_eq!(read(ld), Some((0, Opcode::Ld, 19)));
        // Labels, unknown words, words apart, and what other code parses.
        for other in [
            " ret:",
            " exit : ret;",
            " exit /* of all */ : ret;",
            " L: ret;",
            " ld.blue.u32 %r1, [%r2];",
            " ld.const[02].u32 %r1, [%r2];",
            " ld..u32 %r1, [%r2];",
            " ld. u32 %r1, [%r2];",
            " ld.u32/* one */ %r1, [%r2];",
            " ld.u32\n%r1, [%r2];",
            " ?.u32 %r1;",
            " ret",
            "",
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
        assert_eq!(mnemonics.list().len(), 2);
    }

    #[test]
    fn many_distinct_ones_are_found_again() {
        let texts: Vec<String> = (0..5000).map(|n| format!("op{n}")).collect();
        let mut mnemonics = Mnemonics::default();
        for _ in 0..2 {
            for (n, text) in texts.iter().enumerate() {
                let id = mnemonics.known(text);
                let id = id.unwrap_or_else(|| mnemonics.insert(text, &[text]).unwrap());
                assert_eq!(id.index(), n);
            }
        }
    }
}
