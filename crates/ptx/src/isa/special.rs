//! Special registers: their types and floors.
//!
//! The table is `special.txt`.

use std::sync::OnceLock;

use super::row::since_of;
use super::target::Availability;
use crate::names::{SpecialRegister, Type};

/// A special register.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Special {
    /// The types that it may be read as: `%tid.x` was 16 bits wide in early versions.
    pub types: Vec<Type>,
    /// The number of elements: 4 for `%tid`, 1 for `%tid.x`.
    pub elements: u32,
    /// The versions and targets that have it.
    pub since: Availability,
}

impl Special {
    /// `.u16 or .u32`, `a vector of 4`
    pub fn describe(&self) -> String {
        if self.elements > 1 {
            return format!("a vector of {}", self.elements);
        }
        let types: Vec<_> = self.types.iter().map(|ty| ty.text()).collect();
        format!("`.{}`", types.join("` or `."))
    }
}

/// The properties of a special register.
///
/// ```
/// use ptxkit_ptx::{isa::special, names::SpecialRegister};
/// let clock = special::of(SpecialRegister::Clock64);
/// assert_eq!(clock.since.version.to_string(), "2.0");
/// ```
pub fn of(register: SpecialRegister) -> &'static Special {
    static TABLE: OnceLock<Vec<Special>> = OnceLock::new();
    static UNKNOWN: Special = Special {
        types: Vec::new(),
        elements: 1,
        since: Availability {
            version: crate::ast::Version { major: 0, minor: 0 },
            targets: Vec::new(),
            removed: None,
        },
    };
    let table = TABLE.get_or_init(|| {
        let mut table = vec![UNKNOWN.clone(); SpecialRegister::ALL.len()];
        for line in include_str!("special.txt").lines() {
            for (register, special) in row(line).into_iter().flatten() {
                if let Some(place) = table.get_mut(register as usize) {
                    *place = special;
                }
            }
        }
        table
    });
    table.get(register as usize).unwrap_or(&UNKNOWN)
}

/// The registers of a line; `None` for a comment or an invalid line.
fn row(line: &str) -> Option<Vec<(SpecialRegister, Special)>> {
    let (names, rest) = line.split_once(" : ")?;
    let (types, since) = rest.split_once(" ; ").unwrap_or((rest, ""));
    let (types, elements) = types.split_once(' ')?;
    let special = Special {
        types: types
            .split('|')
            .map(Type::from_text)
            .collect::<Option<_>>()?,
        elements: elements.parse().ok()?,
        since: since_of(since.split_whitespace(), &[])?,
    };
    let mut found = Vec::new();
    for name in names.split_whitespace() {
        for name in numbered(name) {
            found.push((SpecialRegister::from_text(&name)?, special.clone()));
            for part in ["x", "y", "z", "w"].iter().filter(|_| special.elements > 1) {
                let part = SpecialRegister::from_text(&format!("{name}.{part}"))?;
                let mut special = special.clone();
                special.elements = 1;
                found.push((part, special));
            }
        }
    }
    Some(found)
}

/// `%pm1..3` is `%pm1`, `%pm2` and `%pm3`.
fn numbered(name: &str) -> Vec<String> {
    let range = || {
        let (first, last) = name.split_once("..")?;
        let prefix = first.trim_end_matches(|c: char| c.is_ascii_digit());
        let from: u32 = first.strip_prefix(prefix)?.parse().ok()?;
        let to: u32 = last.parse().ok()?;
        Some((from..=to).map(|n| format!("{prefix}{n}")).collect())
    };
    range().unwrap_or_else(|| vec![name.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_register_stands_in_the_table() {
        for register in SpecialRegister::ALL {
            assert!(!of(*register).types.is_empty(), "{}", register.text());
        }
        for line in include_str!("special.txt").lines() {
            let comment = line.is_empty() || line.starts_with('#');
            assert!(comment || row(line).is_some(), "{line}");
        }
    }

    #[test]
    fn parts_and_floors() {
        assert_eq!(of(SpecialRegister::Tid).describe(), "a vector of 4");
        assert_eq!(of(SpecialRegister::TidW).describe(), "`.u16` or `.u32`");
        assert_eq!(of(SpecialRegister::Pm7).since.version.major, 3);
        assert_eq!(of(SpecialRegister::Pm3).since.version.minor, 3);
    }
}
