//! Checks of layouts while a program is compiled, for what the macros write.

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;

/// A part of a message.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Number(usize),
}

/// What [`DeviceRepr`](crate::DeviceRepr) expands to. It is sound for any structure and any list
/// of fields: an attribute may have changed the structure after the derive has read it. So all is
/// checked by the compiler, and nothing is found by a path that the program can give another
/// meaning.
#[doc(hidden)]
#[macro_export]
macro_rules! device_structure {
    ($name:ident { $($field:tt: $ty:ty,)* }) => {
        // SAFETY: below, it has these fields and no others, their types have no padding and take
        // any bits, and there is nothing between them.
        unsafe impl $crate::driver::Pod for $name {}
        // SAFETY: as above, and the fields are in this order and aligned.
        unsafe impl $crate::driver::DeviceField for $name {}
        const _: () = {
            const fn has_no_other_field(structure: &$name) {
                let $name { $($field: _,)* } = structure;
            }
            $crate::driver::layout_check::structure::<$name>(
                $crate::__core::stringify!($name),
                &[$($crate::driver::layout_check::field::<$name, $ty>(
                    |structure| {
                        let $name { $field: field, .. } = structure;
                        // A pointer: a reference could be converted into one to another type.
                        &raw const *field
                    },
                    $crate::__core::stringify!($field),
                    $crate::__core::mem::offset_of!($name, $field),
                ),)*],
                has_no_other_field,
            )
        };
    };
}

/// A field of a structure.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    name: &'a str,
    start: usize,
    size: usize,
    align: usize,
}

/// A field, which begins at byte `start`. The function proves its type.
pub const fn field<S, T: Pod + DeviceField>(
    _: fn(&S) -> *const T,
    name: &str,
    start: usize,
) -> Field<'_> {
    Field {
        name,
        start,
        size: size_of::<T>(),
        align: align_of::<T>(),
    }
}

/// Refuses a structure with padding, of which these are the fields. The function proves that there
/// are no others.
pub const fn structure<S>(name: &str, fields: &[Field<'_>], _: fn(&S)) {
    let mut index = 0;
    let mut end = 0;
    while index < fields.len() {
        let field = fields[index];
        if field.start < end {
            other_order(name, field.name);
        }
        if field.start > end {
            padding(name, fields, index, field.start - end);
        }
        if field.align > align_of::<S>() {
            fail(&[
                Part::Text("`"),
                Part::Text(name),
                Part::Text("` is packed: device code cannot load `"),
                Part::Text(field.name),
                Part::Text("` where it is"),
            ]);
        }
        end += field.size;
        index += 1;
    }
    if end < size_of::<S>() {
        padding(name, fields, index, size_of::<S>() - end);
    }
}

/// Some bytes are before the field of that index.
const fn padding(structure: &str, fields: &[Field<'_>], index: usize, bytes: usize) -> ! {
    if index == 0 {
        if fields.is_empty() {
            fail(&[
                Part::Text("`"),
                Part::Text(structure),
                Part::Text("` has padding alone"),
            ])
        } else {
            other_order(structure, fields[0].name)
        }
    }
    fail(&[
        Part::Text("`"),
        Part::Text(structure),
        Part::Text("` has "),
        Part::Number(bytes),
        Part::Text(" bytes of padding after `"),
        Part::Text(fields[index - 1].name),
        Part::Text("`: write a field of type `[u8; "),
        Part::Number(bytes),
        Part::Text("]` there"),
    ])
}

const fn other_order(structure: &str, field: &str) -> ! {
    fail(&[
        Part::Text("`"),
        Part::Text(structure),
        Part::Text("` has `"),
        Part::Text(field),
        Part::Text("` at another place than it is declared: add #[repr(C)]"),
    ])
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
        structure::<[u32; 2]>("S", &[of::<u32>("n", 0)], |_| {});
    }

    #[test]
    #[should_panic(expected = "`S` has `b` at another place")]
    fn fields_in_another_order_are_refused() {
        let fields = [of::<u16>("a", 2), of::<u16>("b", 0)];
        structure::<[u16; 2]>("S", &[fields[1], fields[0]], |_| {});
        structure::<[u16; 2]>("S", &[of::<u16>("a", 0), of::<u16>("b", 0)], |_| {});
    }

    #[test]
    #[should_panic(expected = "`S` is packed: device code cannot load `n`")]
    fn fields_that_are_not_aligned_are_refused() {
        structure::<[u8; 4]>("S", &[of::<u32>("n", 0)], |_| {});
    }

    fn of<T: Pod + DeviceField>(name: &str, start: usize) -> Field<'_> {
        field::<(), T>(|_| std::ptr::null(), name, start)
    }
}
