//! Names of C++ as the source has them.

#![forbid(unsafe_code)]

use std::fmt;

use cpp_demangle::{DemangleOptions, Symbol};

/// A longer name is shown as it is. Substitutions make of a short one a text that is exponentially
/// longer.
const LONGEST: usize = 4096;

/// Returns `void scale<float>(float*)` for `_Z5scaleIfEvPT_`, and `None` for a name that is not mangled.
///
/// ```
/// use ptxkit_demangle::demangled;
///
/// assert_eq!(demangled("_Z5scaleIfEvPT_").as_deref(), Some("void scale<float>(float*)"));
/// assert_eq!(demangled("scale"), None);
/// ```
pub fn demangled(name: &str) -> Option<String> {
    let symbol = Symbol::new(name.get(..LONGEST.min(name.len()))?).ok()?;
    let mut text = Limited(String::new());
    let options = DemangleOptions::new();
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(without_tags(&text.0))
}

struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() <= LONGEST {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// Without `[abi:…]`: by such tags numba tells one compilation from another.
fn without_tags(text: &str) -> String {
    let mut parts = text.split("[abi:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.split_once(']').map_or("", |(_, rest)| rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (name, wanted) in [
            ("_Z5scaleIfEvPT_i", Some("void scale<float>(float*, int)")),
            ("_ZN1a1bE", Some("a::b")),
            ("_Z1kB5cxx11v", Some("k()")),
            ("scale", None),
            ("_Zed", None),
            ("", None),
        ] {
            assert_eq!(demangled(name).as_deref(), wanted, "{name}");
        }
    }

    /// Each argument is a template of two of the one before.
    #[test]
    fn a_name_that_grows_without_bound_is_left() {
        let mut name = "_Z1f1aI1bS0_E".to_owned();
        let number = |index: usize| match index {
            0..10 => index.to_string(),
            _ => char::from(b'A' + (index - 10) as u8).to_string(),
        };
        for index in 1..30 {
            let last = number(index);
            name += &format!("S_IS{last}_S{last}_E");
        }
        assert_eq!(demangled(&name), None);
        assert_eq!(demangled(&format!("_Z1k{}", "i".repeat(LONGEST))), None);
    }
}
