//! Loads of which only some bytes are used: `.pragma "used_bytes_mask 0xfff"`.
//!
//! Compilers load a whole vector where they need a part of it, also behind the end of a
//! buffer, and say so by this pragma. Such a load becomes loads of the used elements.

use super::build::Builder;
use crate::program::ir::byte_offset::ByteOffset;
use crate::program::ir::{Arg, ArgList, Base, Instruction, Modifiers, Step};
use ptx::ast::{Directive, DirectiveKind};
use ptx::names::Modifier;

impl Builder<'_, '_> {
    /// Notes the bytes that the load after a directive uses, if it says so.
    pub(in crate::program) fn note_used_bytes(&mut self, directive: &Directive<'_>) {
        let DirectiveKind::Pragma(strings) = &directive.kind else {
            return;
        };
        let mask = |text: &str| {
            let mask = text.trim_matches('"').strip_prefix("used_bytes_mask")?;
            // The PTX manual writes it in hexadecimal, NVRTC in decimal.
            match mask.trim().strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => mask.trim().parse().ok(),
            }
        };
        let found = strings.iter().find_map(|string| mask(string.text));
        self.used_bytes = found.or(self.used_bytes);
    }

    /// Loads the bytes of a load whose bits are set in `used`, the lowest address first.
    /// Elements without one are 0.
    pub(in crate::program) fn load_used_bytes(&mut self, load: Instruction, used: u64) {
        let start = load.args.start as usize;
        let (Some(&[to, Arg::Address(base, offset)]), Some(ty)) = (
            self.args.get(start..start + load.args.len as usize),
            load.modifiers.types().next(),
        ) else {
            return self.push(Step::Instruction(load));
        };
        let bytes = ty.bytes();
        let parts = match to {
            Arg::List(list) => self.args[list.start as usize..][..list.len as usize].to_vec(),
            single => vec![single],
        };
        // The first part must not take the address from the others.
        let is_base =
            |part: &Arg| matches!((part, base), (Arg::Reg(part), Base::Reg(base)) if *part == base);
        let place = |at: u64| ByteOffset::saturating(offset.bytes() + at as i64);
        let is_large = bytes > 8 || bytes * parts.len() as u64 > 64;
        if is_large || place(64).bytes() - offset.bytes() < 64 || parts.iter().any(is_base) {
            return self.push(Step::Instruction(load));
        }
        for (part, at) in parts.into_iter().zip((0..).step_by(bytes as usize)) {
            let used = used >> at & ((1 << bytes) - 1);
            // The bytes up to the last used one, as a load can have them.
            let length = (u64::BITS - used.leading_zeros()).next_power_of_two();
            let narrow = match length {
                _ if used == 0 => None,
                1 => Some(Modifier::B8),
                2 => Some(Modifier::B16),
                4 => Some(Modifier::B32),
                _ => Some(Modifier::B64),
            };
            let Some(narrow) = narrow else {
                if part != Arg::Sink {
                    let bits = match bytes {
                        8 => Modifier::B64,
                        4 => Modifier::B32,
                        _ => Modifier::B16,
                    };
                    self.push_move(bits, part, Arg::Int(0), load.span);
                }
                continue;
            };
            let mut modifiers = Modifiers::default();
            for &word in load.modifiers.as_slice() {
                match word {
                    Modifier::V2 | Modifier::V4 | Modifier::V8 => {}
                    _ if word.as_type().is_some() && u64::from(length) < bytes => {
                        modifiers.push(narrow);
                    }
                    _ => {
                        modifiers.push(word);
                    }
                }
            }
            let start = self.args.len() as u32;
            let address = Arg::Address(base, place(at as u64));
            self.args.extend([part, address]);
            let args = ArgList { start, len: 2 };
            let mut one = Instruction::new(load.opcode, modifiers, args, load.span, load.line);
            one.guard = load.guard;
            self.push(Step::Instruction(one));
        }
    }
}
