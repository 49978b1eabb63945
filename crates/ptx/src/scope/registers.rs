//! A fast lookup of registers such as `%r12` of `.reg .b32 %r<99>` by the bytes of
//! their names: most operands of a module are such registers.

use crate::ast::Name;

const SLOTS: usize = 64;

/// A cache of the registers of a function. A slot holds one range, by its prefix, or
/// one single register such as `%temp`.
#[derive(Clone, Debug)]
pub struct Registers<R>([Slot<R>; SLOTS]);

impl<R: Copy> Default for Registers<R> {
    fn default() -> Self {
        Registers([Slot::FREE; SLOTS])
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot<R> {
    /// The bytes of the prefix `%r` as a number, or 0 if the slot is free. For a single
    /// register see [`single`].
    prefix: u64,
    /// The bytes of the last name, `%r98`. Names with the same prefix compare like their
    /// numbers. For a single register, the bytes of its name.
    last: u64,
    register: Option<R>,
}

impl<R> Slot<R> {
    const FREE: Slot<R> = Slot {
        prefix: 0,
        last: 0,
        register: None,
    };
}

/// The bytes of a name of at most eight bytes as a number. The lowest byte is the last
/// character.
#[inline]
pub fn word(name: Name<'_>, source: &str) -> Option<u64> {
    let start = (name.text.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
    let bytes = source.as_bytes().get(start..)?.first_chunk::<8>()?;
    match name.text.len() {
        length @ 1..=8 => Some(u64::from_be_bytes(*bytes) >> (64 - 8 * length)),
        _ => None,
    }
}

/// The number of trailing digits.
#[inline]
fn digits(word: u64) -> u32 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // A digit is 0x30 to 0x39: its upper half is 3, and adding 6 leaves it so.
    let upper = (word ^ (0x30 * EACH)) | (((word & (0x0F * EACH)) + 6 * EACH) & (0x10 * EACH));
    (upper & (0xF0 * EACH)).trailing_zeros() / 8
}

/// The number at the end of a name, of its bytes; 0 without one.
#[inline]
pub fn number(word: u64) -> u32 {
    // Eight digits with 0 before, then pairs of them, then fours.
    let digits = word & ((1 << (8 * digits(word).min(7))) - 1) & 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (digits >> 8 & 0x00FF_00FF_00FF_00FF) * 10 + (digits & 0x00FF_00FF_00FF_00FF);
    let fours = (pairs >> 16 & 0xFFFF_0000_FFFF) * 100 + (pairs & 0xFFFF_0000_FFFF);
    ((fours >> 32) * 10_000 + (fours & 0xFFFF_FFFF)) as u32
}

/// Whether `name` is one of the registers `prefix<count>`.
pub fn numbered(name: &str, prefix: &str, count: u32) -> bool {
    // Most names begin otherwise.
    if name.bytes().next() != prefix.bytes().next() {
        return false;
    }
    let Some(digits) = name.strip_prefix(prefix) else {
        return false;
    };
    // `%r07` is not a name of the range.
    let canonical = digits == "0" || !digits.starts_with('0');
    canonical
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|number| number < count)
}

#[inline]
fn slot(prefix: u64) -> usize {
    (prefix.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % SLOTS
}

/// The prefix for a register without a number that is declared by itself. No name has
/// this prefix, so that `%r` is not mistaken for one of `%r<9>`.
#[inline]
fn single(word: u64) -> u64 {
    !word
}

impl<R: Copy> Registers<R> {
    /// The register with these name bytes; of a range, the first.
    #[inline]
    pub fn get(&self, word: u64) -> Option<R> {
        self.get_numbered(word, digits(word))
    }

    /// The same of a name with so many digits at its end.
    #[inline]
    pub fn get_numbered(&self, word: u64, digits: u32) -> Option<R> {
        let prefix = match digits {
            0 => single(word),
            1..=6 => word >> (8 * digits),
            _ => return None,
        };
        let slot = &self.0[slot(prefix)];
        if slot.prefix == prefix && word <= slot.last {
            slot.register
        } else {
            None
        }
    }

    /// Adds `%r<9>`, the only range of this prefix.
    pub fn set(&mut self, prefix: u64, name: &str, count: u32, register: R) {
        self.forget(prefix);
        let slot = &mut self.0[slot(prefix)];
        if slot.prefix != 0 || prefix == 0 || !name.starts_with('%') {
            return;
        }
        let Some(last) = count.checked_sub(1) else {
            return;
        };
        let digits = last.checked_ilog10().unwrap_or(0) + 1;
        let digit = |place| u64::from(b'0') + u64::from(last / 10_u32.pow(place) % 10);
        // All names of eight bytes precede a longer one.
        let last = match name.len() + digits as usize {
            0..=8 => (0..digits)
                .rev()
                .fold(prefix, |word, place| word << 8 | digit(place)),
            _ => u64::MAX,
        };
        *slot = Slot {
            prefix,
            last,
            register: Some(register),
        };
    }

    /// Adds `%temp`, declared by itself.
    pub fn set_single(&mut self, word: u64, register: R) {
        let prefix = single(word);
        let slot = &mut self.0[slot(prefix)];
        if word != 0 && (slot.prefix == 0 || slot.prefix == prefix) {
            *slot = Slot {
                prefix,
                last: word,
                register: Some(register),
            };
        }
    }

    /// Removes `%temp`.
    pub fn forget_single(&mut self, word: u64) {
        self.forget(single(word));
    }

    /// Removes the range of this prefix.
    pub fn forget(&mut self, prefix: u64) {
        let slot = &mut self.0[slot(prefix)];
        if slot.prefix == prefix {
            *slot = Slot::FREE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Type;

    fn bytes(text: &str) -> u64 {
        text.bytes()
            .fold(0, |word, byte| word << 8 | u64::from(byte))
    }

    #[test]
    fn digits_are_counted_from_the_end() {
        for byte in 0..=255_u8 {
            for place in 0..8 {
                let mut word = *b"01234567";
                word[7 - place] = byte;
                let count = if byte.is_ascii_digit() { 8 } else { place };
                assert_eq!(digits(u64::from_be_bytes(word)), count as u32, "{byte}");
            }
        }
    }

    #[test]
    fn a_name_belongs_to_the_range_with_its_number() {
        let mut registers = Registers::default();
        registers.set(bytes("%r"), "%r", 12, Type::B32);
        registers.set(bytes("%rd"), "%rd", 3_000_000, Type::B64);
        let get = |registers: &Registers<Type>, text: &str| {
            let word = bytes(text);
            Some((registers.get(word)?, number(word)))
        };
        for (name, found) in [
            ("%r0", Some((Type::B32, 0))),
            ("%r9", Some((Type::B32, 9))),
            ("%r11", Some((Type::B32, 11))),
            ("%r08", Some((Type::B32, 8))),
            ("%r12", None),
            ("%r99", None),
            ("%r008", None),
            ("%r", None),
            ("%rd99999", Some((Type::B64, 99_999))),
            ("%p1", None),
            ("%rx1", None),
            ("%r1x", None),
            ("%12", None),
            ("12345678", None),
        ] {
            assert_eq!(get(&registers, name), found, "{name}");
        }
        registers.forget(bytes("%r"));
        assert_eq!(get(&registers, "%r1"), None);
        registers.set(bytes("r"), "r", 9, Type::B32);
        assert_eq!(get(&registers, "r1"), None);
        registers.set_single(bytes("%temp"), Type::B16);
        assert_eq!(get(&registers, "%temp"), Some((Type::B16, 0)));
        assert_eq!(get(&registers, "%temp0"), None);
        assert_eq!(get(&registers, "%tem"), None);
        registers.forget_single(bytes("%temp"));
        assert_eq!(get(&registers, "%temp"), None);
    }

    /// Registers that do not fit are looked up by name, which is much slower.
    #[test]
    fn the_table_holds_the_registers_that_compilers_declare() {
        let prefixes = [
            "%p", "%r", "%rd", "%rs", "%f", "%fd", "%h", "%hh", "%rq", "%b",
        ];
        let mut registers = Registers::default();
        for prefix in prefixes {
            registers.set(bytes(prefix), prefix, 9, Type::B32);
        }
        registers.set_single(bytes("%temp"), Type::B32);
        for prefix in prefixes {
            let name = format!("{prefix}8");
            assert_eq!(registers.get(bytes(&name)), Some(Type::B32), "{name}");
        }
        assert_eq!(registers.get(bytes("%temp")), Some(Type::B32));
    }

    #[test]
    fn names_are_read_from_the_source() {
        let source = "%r12, %r123456789;";
        let name = |text| word(Name { text }, source);
        assert_eq!(name(&source[..4]), Some(bytes("%r12")));
        assert_eq!(name(&source[6..17]), None);
        assert_eq!(name(&source[14..17]), None);
        assert_eq!(name("%r12"), None);
    }
}
