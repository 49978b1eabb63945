//! Checks of layouts while a program is compiled, for what the macros write.

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;

/// A part of a message.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Number(usize),
}

/// A field of `#[derive(DeviceRepr)]`, which begins at byte `start` and after which there is
/// something at byte `next`.
pub const fn field<T: Pod + DeviceField>(structure: &str, name: &str, start: usize, next: usize) {
    let padding = next - start - size_of::<T>();
    if padding > 0 {
        fail(&[
            Part::Text("`"),
            Part::Text(structure),
            Part::Text("` has "),
            Part::Number(padding),
            Part::Text(" bytes of padding after `"),
            Part::Text(name),
            Part::Text("`: write a field of type `[u8; "),
            Part::Number(padding),
            Part::Text("]` there"),
        ]);
    }
}

/// Panics with a message, which the compiler shows: it formats none by itself.
pub(crate) const fn fail(parts: &[Part<'_>]) -> ! {
    let mut message = [0; 1024];
    let mut len = 0;
    let mut index = 0;
    while index < parts.len() {
        match parts[index] {
            Part::Text(text) => len = append(&mut message, len, text.as_bytes()),
            Part::Number(number) => {
                let (digits, first) = digits(number);
                len = append(&mut message, len, digits.split_at(first).1);
            }
        }
        index += 1;
    }
    match str::from_utf8(message.split_at(len).0) {
        Ok(message) => panic!("{}", message),
        // A name of a kilobyte was cut.
        Err(_) => panic!("the layout is not that of the device"),
    }
}

/// Writes as much of `text` as there is room for, and returns where it ends.
const fn append(message: &mut [u8], mut len: usize, text: &[u8]) -> usize {
    let mut index = 0;
    while index < text.len() && len < message.len() {
        message[len] = text[index];
        len += 1;
        index += 1;
    }
    len
}

/// Decimal digits, and at which of them the number begins.
const fn digits(mut number: usize) -> ([u8; 20], usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len() - 1;
    loop {
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return (digits, first);
        }
        first -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_their_digits() {
        let text = |number| {
            let (digits, first) = digits(number);
            String::from_utf8(digits[first..].to_vec()).unwrap()
        };
        assert_eq!([0, 7, 1024].map(text), ["0", "7", "1024"]);
        assert_eq!(text(usize::MAX), usize::MAX.to_string());
    }

    #[test]
    #[should_panic(expected = "`S` has 4 bytes of padding after `n`")]
    fn padding_is_named() {
        field::<u32>("S", "n", 0, 8);
    }
}
