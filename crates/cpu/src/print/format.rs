//! C's `printf` conversions, with the type sizes of a 64-bit Unix.

/// The limit of width and precision.
const MAX_WIDTH: usize = 4096;

/// The source of arguments.
pub(crate) trait Arguments {
    /// The next argument, of 4 or 8 bytes, aligned to its size.
    fn next(&mut self, size: u64) -> Option<u64>;
    /// The first `most` bytes of a string, without the terminating 0.
    fn string(&self, address: u64, most: usize) -> Option<Vec<u8>>;
}

/// The formatted text and the number of arguments used. An invalid conversion, or one
/// without an argument, is copied. There is no text if it is longer than `limit` bytes.
pub(crate) fn format(
    format: &[u8],
    arguments: &mut impl Arguments,
    limit: usize,
) -> (Option<Vec<u8>>, i32) {
    let mut text = Bounded {
        bytes: Some(Vec::new()),
        limit,
    };
    let mut taken = 0;
    let mut rest = format;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        let (plain, from) = rest.split_at(at);
        text.push(plain);
        let mut counted = Counted {
            arguments,
            taken: 0,
            space: text.space(),
        };
        match conversion(from, &mut counted) {
            Some((field, length)) => {
                taken += counted.taken;
                text.push(&field);
                rest = &from[length..];
            }
            None => {
                text.push(b"%");
                rest = &from[1..];
            }
        }
    }
    text.push(rest);
    (text.bytes, taken)
}

/// Text up to a limit.
struct Bounded {
    /// `None` after the limit was exceeded.
    bytes: Option<Vec<u8>>,
    limit: usize,
}

impl Bounded {
    fn push(&mut self, more: &[u8]) {
        match &mut self.bytes {
            Some(bytes) if more.len() <= self.limit - bytes.len() => bytes.extend_from_slice(more),
            _ => self.bytes = None,
        }
    }

    /// The number of bytes that can be added.
    fn space(&self) -> usize {
        let bytes = self.bytes.as_ref();
        bytes.map_or(0, |bytes| self.limit - bytes.len())
    }
}

struct Counted<'a, A> {
    arguments: &'a mut A,
    taken: i32,
    /// The longest field that is of use.
    space: usize,
}

impl<A: Arguments> Counted<'_, A> {
    fn next(&mut self, size: u64) -> Option<u64> {
        let value = self.arguments.next(size)?;
        self.taken += 1;
        Some(value)
    }
}

#[derive(Clone, Copy, Default)]
struct Spec {
    minus: bool,
    plus: bool,
    space: bool,
    hash: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// Formats the conversion at the start of `from`. Returns the field and the length of the
/// conversion.
fn conversion<A: Arguments>(
    from: &[u8],
    arguments: &mut Counted<'_, A>,
) -> Option<(Vec<u8>, usize)> {
    let mut at = 1;
    let mut spec = Spec::default();
    loop {
        match from.get(at)? {
            b'-' => spec.minus = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.hash = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        at += 1;
    }
    if let Some(width) = number(from, &mut at, arguments)? {
        spec.minus |= width < 0;
        spec.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
    }
    if from.get(at) == Some(&b'.') {
        at += 1;
        // A negative precision counts as none; an empty one is 0.
        let precision = number(from, &mut at, arguments)?.unwrap_or(0);
        spec.precision = usize::try_from(precision).ok().map(|p| p.min(MAX_WIDTH));
    }
    let size_from = at;
    while matches!(from.get(at), Some(b'h' | b'l' | b'z' | b'j' | b't')) {
        at += 1;
    }
    let size = match &from[size_from..at] {
        b"" | b"h" | b"hh" => 4,
        _ => 8,
    };
    let narrow = match &from[size_from..at] {
        b"h" => 16,
        b"hh" => 24,
        _ => 0,
    };
    let field = match *from.get(at)? {
        b'%' if at == 1 => vec![b'%'],
        b'd' | b'i' => {
            let value = arguments.next(size)?.cast_signed();
            let value = if size == 4 {
                i64::from((value as i32) << narrow >> narrow)
            } else {
                value
            };
            spec.integer(value < 0, value.unsigned_abs().to_string(), "", true)
        }
        kind @ (b'u' | b'o' | b'x' | b'X') => {
            let value = arguments.next(size)?;
            let value = if size == 4 {
                u64::from((value as u32) << narrow >> narrow)
            } else {
                value
            };
            let (digits, prefix) = match kind {
                b'u' => (value.to_string(), ""),
                b'o' => (format!("{value:o}"), "0"),
                b'x' => (format!("{value:x}"), "0x"),
                _ => (format!("{value:X}"), "0X"),
            };
            let prefix = if spec.hash && value != 0 { prefix } else { "" };
            spec.integer(false, digits, prefix, false)
        }
        b'c' => spec.pad(vec![arguments.next(4)? as u8]),
        b's' => {
            let address = arguments.next(8)?;
            // One byte more than there is space for shows that the text is too long.
            let most = spec
                .precision
                .unwrap_or(usize::MAX)
                .min(arguments.space.saturating_add(1));
            let mut text = match address {
                0 => b"(null)".to_vec(),
                _ => arguments
                    .arguments
                    .string(address, most)
                    .unwrap_or_else(|| b"(bad address)".to_vec()),
            };
            text.truncate(most);
            spec.pad(text)
        }
        b'p' => {
            let text = match arguments.next(8)? {
                0 => "(nil)".into(),
                address => format!("{address:#x}"),
            };
            spec.pad(text.into_bytes())
        }
        kind @ (b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A') => {
            spec.float(f64::from_bits(arguments.next(8)?), kind)
        }
        _ => return None,
    };
    Some((field, at + 1))
}

/// Parses a width or precision: digits, or `*` for an argument. The inner `None` means
/// neither.
fn number<A: Arguments>(
    from: &[u8],
    at: &mut usize,
    arguments: &mut Counted<'_, A>,
) -> Option<Option<i32>> {
    if from.get(*at) == Some(&b'*') {
        *at += 1;
        return arguments.next(4).map(|value| Some(value as i32));
    }
    let mut value = None;
    while let Some(digit) = from.get(*at).filter(|byte| byte.is_ascii_digit()) {
        let digit = i32::from(digit - b'0');
        value = Some(
            value
                .unwrap_or(0_i32)
                .saturating_mul(10)
                .saturating_add(digit),
        );
        *at += 1;
    }
    Some(value)
}

impl Spec {
    /// Pads with blanks on the left or right.
    fn pad(&self, mut text: Vec<u8>) -> Vec<u8> {
        let blanks = vec![b' '; self.width.saturating_sub(text.len())];
        if self.minus {
            text.extend(blanks);
            return text;
        }
        [blanks, text].concat()
    }

    fn sign(&self, negative: bool) -> &'static str {
        match self {
            _ if negative => "-",
            Spec { plus: true, .. } => "+",
            Spec { space: true, .. } => " ",
            _ => "",
        }
    }

    /// Sign or prefix, zeros, digits.
    fn join(&self, head: &str, digits: &str, zeros: bool) -> Vec<u8> {
        let fill = match self {
            Spec {
                zero: true,
                minus: false,
                width,
                ..
            } if zeros => width.saturating_sub(head.len() + digits.len()),
            _ => 0,
        };
        self.pad(format!("{head}{}{digits}", "0".repeat(fill)).into_bytes())
    }

    fn integer(&self, negative: bool, mut digits: String, prefix: &str, signed: bool) -> Vec<u8> {
        if let Some(precision) = self.precision {
            if precision == 0 && digits == "0" {
                digits.clear();
            }
            digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
        }
        let sign = if signed { self.sign(negative) } else { "" };
        // The octal prefix is a digit: it is not doubled.
        let prefix = if prefix == "0" && digits.starts_with('0') {
            ""
        } else {
            prefix
        };
        self.join(
            &format!("{sign}{prefix}"),
            &digits,
            self.precision.is_none(),
        )
    }

    fn float(&self, value: f64, kind: u8) -> Vec<u8> {
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        let mut head = sign.to_owned();
        let mut digits = match kind.to_ascii_lowercase() {
            _ if magnitude.is_nan() => "nan".into(),
            _ if magnitude.is_infinite() => "inf".into(),
            b'f' => self.fixed(magnitude, self.precision.unwrap_or(6)),
            b'e' => self.exponential(magnitude, self.precision.unwrap_or(6)),
            b'g' => self.general(magnitude),
            _ => {
                head.push_str("0x");
                self.hexadecimal(magnitude)
            }
        };
        if kind.is_ascii_uppercase() {
            head.make_ascii_uppercase();
            digits.make_ascii_uppercase();
        }
        self.join(&head, &digits, magnitude.is_finite())
    }

    fn fixed(&self, value: f64, precision: usize) -> String {
        let point = if self.hash && precision == 0 { "." } else { "" };
        format!("{value:.precision$}{point}")
    }

    fn exponential(&self, value: f64, precision: usize) -> String {
        let text = format!("{value:.precision$e}");
        let (mantissa, exponent) = split_exponent(&text);
        let point = if self.hash && precision == 0 { "." } else { "" };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
    }

    /// Fixed or exponential by the exponent, without trailing zeros.
    fn general(&self, value: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let rounded = format!("{value:.*e}", precision - 1);
        let (_, exponent) = split_exponent(&rounded);
        let text = if exponent >= -4 && exponent < precision as i32 {
            // Both are small: the difference is not negative.
            self.fixed(value, (precision as i32 - 1 - exponent) as usize)
        } else {
            self.exponential(value, precision - 1)
        };
        if self.hash {
            return text;
        }
        let (mantissa, exponent) = text
            .find('e')
            .map_or((text.as_str(), ""), |at| text.split_at(at));
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        format!("{mantissa}{exponent}")
    }

    /// Mantissa and binary exponent, without the prefix `0x`.
    fn hexadecimal(&self, value: f64) -> String {
        const BITS: u32 = 52;
        let bits = value.to_bits();
        let stored = bits >> BITS;
        let mut mantissa = bits & ((1 << BITS) - 1);
        let exponent = match (stored, mantissa) {
            (0, 0) => 0,
            (0, _) => -1022,
            _ => stored as i64 - 1023,
        };
        mantissa |= u64::from(stored != 0) << BITS;
        let mut fraction_digits = 13;
        if let Some(precision) = self.precision.filter(|&p| p < 13) {
            // To the nearest, ties to even.
            let drop = BITS - 4 * precision as u32;
            let (retained, lost) = (mantissa >> drop, mantissa & ((1 << drop) - 1));
            let half = 1 << (drop - 1);
            let up = lost > half || lost == half && retained & 1 == 1;
            mantissa = retained + u64::from(up);
            fraction_digits = precision;
        }
        let shift = 4 * fraction_digits as u32;
        let (whole, fraction) = (mantissa >> shift, mantissa & ((1 << shift) - 1));
        let mut digits = if fraction_digits == 0 {
            String::new()
        } else {
            format!("{fraction:0fraction_digits$x}")
        };
        match self.precision {
            Some(precision) => digits.push_str(&"0".repeat(precision.saturating_sub(digits.len()))),
            None => digits.truncate(digits.trim_end_matches('0').len()),
        }
        let point = if digits.is_empty() && !self.hash {
            ""
        } else {
            "."
        };
        format!("{whole}{point}{digits}p{exponent:+}")
    }
}

/// Splits the output of `{:e}` into mantissa and exponent.
fn split_exponent(text: &str) -> (&str, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa, exponent.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments in memory as a compiler lays them out.
    #[derive(Default)]
    struct Packed {
        bytes: Vec<u8>,
        at: usize,
    }

    impl Packed {
        fn int(mut self, value: i32) -> Packed {
            self.bytes.extend(value.to_le_bytes());
            self
        }
        fn long(mut self, value: u64) -> Packed {
            self.bytes
                .resize(self.bytes.len().next_multiple_of(8), 0xee);
            self.bytes.extend(value.to_le_bytes());
            self
        }
        fn float(self, value: f64) -> Packed {
            self.long(value.to_bits())
        }
    }

    impl Arguments for Packed {
        fn next(&mut self, size: u64) -> Option<u64> {
            self.at = self.at.next_multiple_of(size as usize);
            let bytes = self.bytes.get(self.at..self.at + size as usize)?;
            self.at += size as usize;
            Some(
                bytes
                    .iter()
                    .rev()
                    .fold(0, |value, &byte| value << 8 | u64::from(byte)),
            )
        }
        fn string(&self, address: u64, most: usize) -> Option<Vec<u8>> {
            (address == 64).then(|| b"text".iter().copied().take(most).collect())
        }
    }

    fn text(pattern: &str, mut arguments: Packed) -> String {
        let (text, _) = format(pattern.as_bytes(), &mut arguments, 1 << 20);
        String::from_utf8(text.unwrap()).unwrap()
    }

    fn no() -> Packed {
        Packed::default()
    }

    #[test]
    fn integers() {
        let of = |pattern: &str, value: i32| text(pattern, no().int(value));
        assert_eq!(of("[%d]", -5), "[-5]");
        assert_eq!(of("[%5d|", 42), "[   42|");
        assert_eq!(of("[%-5i|", 42), "[42   |");
        assert_eq!(of("%05d", -42), "-0042");
        assert_eq!(of("%+d", 7), "+7");
        assert_eq!(of("% d", 7), " 7");
        assert_eq!(of("%.3d", 7), "007");
        assert_eq!(of("%05.3d", 7), "  007");
        assert_eq!(of("%.0d", 0), "");
        assert_eq!(of("%u", -1), "4294967295");
        assert_eq!(of("%x %%", 255), "ff %");
        assert_eq!(of("%#X", 255), "0XFF");
        assert_eq!(of("%#010x", 255), "0x000000ff");
        assert_eq!(of("%#o", 8), "010");
        assert_eq!(of("%#x", 0), "0");
        assert_eq!(of("%hd", 0x1ffff), "-1");
        assert_eq!(of("%hhu", 0x1ff), "255");
        assert_eq!(of("%c%%", 65), "A%");
        assert_eq!(
            text("%lld", no().long(i64::MIN as u64)),
            "-9223372036854775808"
        );
        assert_eq!(
            text("%llu %ld", no().long(u64::MAX).long(3)),
            "18446744073709551615 3"
        );
        assert_eq!(text("%zx", no().long(1 << 40)), "10000000000");
    }

    #[test]
    fn arguments_are_aligned_and_counted() {
        let mut arguments = no().int(1).float(2.5).int(3).int(4).long(5);
        let (out, taken) = format(b"%d %f %d %d %lld", &mut arguments, 100);
        assert_eq!((out.unwrap(), taken), (b"1 2.500000 3 4 5".to_vec(), 5));
        assert_eq!(
            text(
                "%*d|%-*d|%.*f",
                no().int(4).int(1).int(3).int(2).int(1).float(0.25)
            ),
            "   1|2  |0.2"
        );
        assert_eq!(text("%*d|", no().int(-4).int(1)), "1   |");
    }

    #[test]
    fn floats() {
        let of = |pattern: &str, value: f64| text(pattern, no().float(value));
        assert_eq!(of("%f", 2.7654321), "2.765432");
        assert_eq!(of("%.0f", 2.5), "2");
        assert_eq!(of("%#.0f", 3.0), "3.");
        assert_eq!(of("%10.2f|", -1.005), "     -1.00|");
        assert_eq!(of("%010.2f", -1.5), "-000001.50");
        assert_eq!(of("%e", 12345.678), "1.234568e+04");
        assert_eq!(of("%.2E", 0.00012), "1.20E-04");
        assert_eq!(of("%e", 0.0), "0.000000e+00");
        assert_eq!(of("%e", 1e-300), "1.000000e-300");
        assert_eq!(of("%g", 100000.0), "100000");
        assert_eq!(of("%g", 1000000.0), "1e+06");
        assert_eq!(of("%g", 999999.5), "1e+06");
        assert_eq!(of("%g", 0.0001), "0.0001");
        assert_eq!(of("%g", 0.00001), "1e-05");
        assert_eq!(of("%.3g", 0.00012345), "0.000123");
        assert_eq!(of("%#g", 1.5), "1.50000");
        assert_eq!(of("%.0g", 123.0), "1e+02");
        assert_eq!(of("%g", -0.0), "-0");
        assert_eq!(of("%f", f64::INFINITY), "inf");
        assert_eq!(of("%06F|", f64::NEG_INFINITY), "  -INF|");
        assert_eq!(of("%g", f64::NAN), "nan");
    }

    #[test]
    fn hexadecimal_floats() {
        let of = |pattern: &str, value: f64| text(pattern, no().float(value));
        assert_eq!(of("%a", 1.0), "0x1p+0");
        assert_eq!(of("%a", -0.15625), "-0x1.4p-3");
        assert_eq!(of("%A", 255.5), "0X1.FFP+7");
        assert_eq!(of("%a", 0.0), "0x0p+0");
        assert_eq!(of("%.2a", 1.999), "0x2.00p+0");
        assert_eq!(of("%.0a", 1.5), "0x2p+0");
        assert_eq!(of("%.15a", 1.0), "0x1.000000000000000p+0");
        assert_eq!(of("%a", f64::from_bits(1)), "0x0.0000000000001p-1022");
    }

    #[test]
    fn strings_and_pointers() {
        assert_eq!(text("<%s>", no().long(64)), "<text>");
        assert_eq!(
            text("<%6s|%-6s|%.2s>", no().long(64).long(64).long(64)),
            "<  text|text  |te>"
        );
        assert_eq!(text("%s", no().long(0)), "(null)");
        assert_eq!(text("%s", no().long(1)), "(bad address)");
        assert_eq!(text("%p %p", no().long(0x7f00).long(0)), "0x7f00 (nil)");
    }

    #[test]
    fn what_is_no_conversion_stays() {
        assert_eq!(text("50%", no()), "50%");
        assert_eq!(text("%y%5", no()), "%y%5");
        assert_eq!(text("%d", no()), "%d");
        assert_eq!(text("%99999999999d|", no().int(1)).len(), MAX_WIDTH + 1);
    }

    #[test]
    fn text_beyond_the_limit_is_not_made() {
        let of = |pattern: &[u8], limit| format(pattern, &mut no().long(64).long(64).int(7), limit);
        assert_eq!(of(b"%s %s", 9), (Some(b"text text".to_vec()), 2));
        assert_eq!(of(b"%s %s", 8), (None, 2));
        assert_eq!(of(b"abc", 2), (None, 0));
        assert_eq!(of(b"%s%s%9d", 16), (None, 3));
        assert_eq!(of(b"", 0), (Some(Vec::new()), 0));
    }

    /// A string is not read further than there is space for it.
    #[test]
    fn strings_are_read_up_to_the_limit() {
        struct Endless(std::cell::Cell<usize>);
        impl Arguments for Endless {
            fn next(&mut self, _: u64) -> Option<u64> {
                Some(64)
            }
            fn string(&self, _: u64, most: usize) -> Option<Vec<u8>> {
                self.0.set(self.0.get() + most);
                Some(vec![b'a'; most])
            }
        }
        let mut endless = Endless(std::cell::Cell::default());
        let (text, taken) = format(&b"%s".repeat(300), &mut endless, 1000);
        assert_eq!((text, taken, endless.0.get()), (None, 300, 1001 + 299));
        assert_eq!(format(b"%.3s", &mut endless, 1000).0.unwrap(), b"aaa");
    }
}
