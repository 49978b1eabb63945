//! Processes eight bytes at a time, as a number whose lowest byte is the first character.
//!
//! Finds the end of a token without a branch for each byte. Tokens are short, and a
//! mispredicted branch costs more than everything else.

const EACH: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const TOP: u64 = 0x80 * EACH;

/// The eight bytes from `at`; `None` if the text is too short.
#[inline]
pub fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let chunk = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*chunk))
}

/// Sets the top bit of each byte in `first..=last`. All bytes must be below 128.
#[inline]
const fn within(word: u64, first: u8, last: u8) -> u64 {
    let low = word & !TOP;
    let from = low + (0x80 - first as u64) * EACH;
    let beyond = low + (0x7F - last as u64) * EACH;
    from & !beyond & !word & TOP
}

/// The number of leading bytes whose bit is set.
#[inline]
const fn run(bits: u64) -> usize {
    ((bits ^ TOP).trailing_zeros() / 8) as usize
}

/// The number of leading letters and digits.
#[inline]
pub const fn through_alphanumeric(word: u64) -> usize {
    let letters = within(word | (0x20 * EACH), b'a', b'z');
    run(letters | within(word, b'0', b'9'))
}

/// The number of leading digits.
#[inline]
pub const fn through_digits(word: u64) -> usize {
    run(within(word, b'0', b'9'))
}

/// The number of leading bytes that are no digits, and of the digits behind them: `%rd12` is 3
/// and 2.
#[inline]
pub const fn before_and_through_digits(word: u64) -> (usize, usize) {
    let digits = within(word, b'0', b'9');
    if digits == 0 {
        return (8, 0);
    }
    let before = digits.trailing_zeros() / 8;
    (before as usize, run(digits >> (8 * before)))
}

/// The number of leading digits, if they are a decimal number of up to seven digits: a leading
/// zero makes it octal.
#[inline]
pub const fn decimal_length(word: u64) -> Option<usize> {
    let length = through_digits(word);
    let octal = length > 1 && word as u8 == b'0';
    if length == 0 || length == 8 || octal {
        return None;
    }
    Some(length)
}

/// A list of decimal numbers, `1, 23,456`, eight bytes after the other. Of each byte so far, what
/// the next one depends on.
#[derive(Clone, Copy)]
pub struct DecimalList {
    digits: u64,
    commas: u64,
    /// Zeros that begin a number.
    zeros: u64,
}

impl DecimalList {
    /// Behind a comma, or what a list begins with.
    pub const START: DecimalList = DecimalList {
        digits: 0,
        commas: TOP,
        zeros: 0,
    };

    /// The commas in the next eight bytes; `None` where they are not all of such a list, or of one
    /// number: it may be too large.
    #[inline]
    pub fn commas_in(&mut self, word: u64) -> Option<u64> {
        // Nothing is carried from one byte to the next: all are below 128.
        let is = |byte: u8| !((word ^ (byte as u64 * EACH)) + 0x7F * EACH) & TOP;
        if word & TOP != 0 {
            return None;
        }
        let (digits, commas, blanks) = (within(word, b'0', b'9'), is(b','), is(b' '));
        let before = |bits: u64, last: u64| bits << 8 | last >> 56;
        let (digit_before, comma_before) =
            (before(digits, self.digits), before(commas, self.commas));
        let zeros = is(b'0') & !digit_before;
        // A leading zero makes it octal.
        let wrong =
            commas & !digit_before | blanks & !comma_before | digits & before(zeros, self.zeros);
        if digits | commas | blanks != TOP || digits == TOP || wrong != 0 {
            return None;
        }
        *self = DecimalList {
            digits,
            commas,
            zeros,
        };
        Some((commas >> 7).wrapping_mul(EACH) >> 56)
    }
}

/// The number of leading bytes before a space or control character.
#[inline]
pub const fn through_blank(word: u64) -> usize {
    // Of the bytes below, the lowest one is found for certain.
    let below = word.wrapping_sub(b'!' as u64 * EACH) & !word & TOP;
    (below.trailing_zeros() / 8) as usize
}

/// The number of leading bytes before a line feed.
#[inline]
pub const fn through_line(word: u64) -> usize {
    let line = word ^ (b'\n' as u64 * EACH);
    // The lowest set bit is that of the first zero byte.
    ((line.wrapping_sub(EACH) & !line & TOP).trailing_zeros() / 8) as usize
}

/// The first `count` bytes, the rest zero.
#[inline]
pub const fn first_bytes(word: u64, count: usize) -> u64 {
    if count >= 8 {
        word
    } else {
        word & !(u64::MAX << (8 * count))
    }
}

/// The value of the first `count` bytes, which are decimal digits.
#[inline]
pub const fn decimal(word: u64, count: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    // Pads with leading zeros, then combines two, four and eight digits at a time.
    let digits = (word << (64 - 8 * count)) & (0x0F * EACH);
    let pairs = (digits.wrapping_mul((10 << 8) + 1) >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul((100 << 16) + 1) >> 16) & 0x0000_FFFF_0000_FFFF;
    fours.wrapping_mul((10_000 << 32) + 1) >> 32
}

/// The value of eight hexadecimal digits.
#[inline]
pub const fn hexadecimal(word: u64) -> Option<u32> {
    let letters = within(word | (0x20 * EACH), b'a', b'f');
    if letters | within(word, b'0', b'9') != TOP {
        return None;
    }
    // `a` is 0x61. The first digit is the most significant; combines two, four and eight at a time.
    let digits = (word & (0x0F * EACH)) + 9 * (letters >> 7);
    let pairs = (digits << 4 | digits >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    Some((fours << 16 | fours >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> u64 {
        word_at(format!("{text}\0\0\0\0\0\0\0\0").as_bytes(), 0).unwrap()
    }

    #[test]
    fn runs_end_where_the_bytes_do() {
        for byte in 0..=255_u8 {
            for place in 0..8 {
                let mut bytes = *b"aZ09mN5x";
                bytes[place] = byte;
                let word = u64::from_le_bytes(bytes);
                let end = if byte.is_ascii_alphanumeric() {
                    8
                } else {
                    place
                };
                assert_eq!(through_alphanumeric(word), end, "{byte} at {place}");
                let end = if byte > b' ' { 8 } else { place };
                assert_eq!(through_blank(word), end, "{byte} at {place}");
                let end = if byte == b'\n' { place } else { 8 };
                assert_eq!(through_line(word), end, "{byte} at {place}");
                let mut bytes = *b"01234567";
                bytes[place] = byte;
                let end = if byte.is_ascii_digit() { 8 } else { place };
                assert_eq!(through_digits(u64::from_le_bytes(bytes)), end);
            }
        }
    }

    #[test]
    fn numbers_of_names_are_found() {
        for (text, found) in [
            ("%rd12,  ", (3, 2)),
            ("%r1, %r2", (2, 1)),
            ("%SP, %r1", (7, 1)),
            ("%SPL+abc", (8, 0)),
            ("12345678", (0, 8)),
            ("%r999999", (2, 6)),
            ("%r\u{e9}1,  ", (4, 1)),
        ] {
            assert_eq!(before_and_through_digits(word(text)), found, "{text}");
        }
    }

    #[test]
    fn lists_are_read_eight_bytes_at_a_time() {
        let commas = |text: &str| -> Option<u64> {
            let mut list = DecimalList::START;
            let (words, rest) = text.as_bytes().as_chunks::<8>();
            assert!(rest.is_empty(), "{text}");
            let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
            words.try_fold(0, |sum, word| Some(sum + list.commas_in(word)?))
        };
        for (text, count) in [
            ("1, 23,45", 2),
            (" 0, 0, 0", 2),
            ("0,1,2,3,", 4),
            ("202, 29, 180, 50", 3),
            ("1,2345678901,23,", 3),
            ("1, 2, 3, 4567, 8", 4),
        ] {
            assert_eq!(commas(text), Some(count), "{text}");
        }
        for text in [
            ",1, 2, 3",
            "1,, 2, 3",
            "1,  2, 3",
            "1 , 2, 3",
            "1, 02, 3",
            "1, 2, 00",
            "12, 345,01, 2, 3",
            "1, 2, 3, , 4, 5,",
            "1, 2, 3,  4, 56,",
            "1, 2, 300, 0000,",
            "12345678",
            "1, 2, -3",
            "1, 2, 3}",
            "1,\n2, 34",
            "1, 2, x1",
            "1, 2, é",
        ] {
            assert_eq!(commas(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_at_once() {
        for number in [
            "", "0", "7", "10", "987", "4095", "65536", "1234567", "99999999",
        ] {
            let value = number.parse().unwrap_or(0);
            assert_eq!(decimal(word(number), number.len()), value, "{number}");
            let word = word(&format!("{number};x"));
            assert_eq!(decimal(word, number.len()), value, "{number};x");
        }
        for number in [
            "00000000", "3F800000", "deadBEEF", "0123fFaA", "FFFFFFFF", "90000001",
        ] {
            let value = u32::from_str_radix(number, 16).ok();
            assert_eq!(hexadecimal(word(number)), value, "{number}");
            for wrong in ["+", "g", "/", ":", "@", "G", "`", "\u{7f}", "\0"] {
                for place in 0..8 {
                    let mut text = number.to_owned();
                    text.replace_range(place..place + 1, wrong);
                    assert_eq!(hexadecimal(word(&text)), None, "{text}");
                }
            }
        }
        assert_eq!(first_bytes(word("abc"), 2), word("ab"));
    }
}
