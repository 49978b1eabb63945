//! What instructions and special registers do, in one line each.
//!
//! The table is `summaries.txt`.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::names::SpecialRegister;

/// What an instruction does, by its name with or without modifiers: the line of the
/// longest opcode that the name begins with.
///
/// ```
/// use ptxkit_ptx::isa::summary;
/// assert_eq!(summary("brev.b32"), Some("the bits in reverse order"));
/// assert_ne!(summary("cp.async.wait_all"), summary("cp.async.ca.shared.global"));
/// ```
pub fn summary(mnemonic: &str) -> Option<&'static str> {
    let mut name = mnemonic;
    loop {
        if let Some(text) = table().get(name) {
            return Some(text);
        }
        name = name.rsplit_once('.')?.0;
    }
}

/// What a special register holds: the line of the longest name that its own begins
/// with, as `%tid.x` is a part of `%tid` and `%pm3` one of several.
///
/// ```
/// use ptxkit_ptx::{isa::special_summary, names::SpecialRegister};
/// assert_eq!(special_summary(SpecialRegister::TidX), Some("the index of the thread in its block"));
/// ```
pub fn special_summary(register: SpecialRegister) -> Option<&'static str> {
    let name = register.text();
    let lines = table()
        .iter()
        .filter(|(known, _)| name.starts_with(**known));
    let longest = lines.max_by_key(|(known, _)| known.len());
    longest.map(|(_, text)| *text)
}

fn table() -> &'static HashMap<&'static str, &'static str> {
    static TABLE: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("summaries.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split_once(" : ")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::forms;
    use crate::names::Opcode;

    #[test]
    fn every_form_and_special_register_has_a_line() {
        for form in Opcode::ALL.iter().flat_map(|opcode| forms(*opcode)) {
            assert!(summary(form.name()).is_some(), "{}", form.name());
        }
        for register in SpecialRegister::ALL {
            assert!(special_summary(*register).is_some(), "{}", register.text());
        }
    }

    #[test]
    fn every_line_is_of_something() {
        let forms: Vec<&str> = Opcode::ALL
            .iter()
            .flat_map(|opcode| forms(*opcode))
            .map(|form| form.name())
            .collect();
        let registers = SpecialRegister::ALL.iter().map(|register| register.text());
        let names: Vec<&str> = forms.into_iter().chain(registers).collect();
        for name in table().keys() {
            assert!(names.iter().any(|known| known.starts_with(name)), "{name}");
        }
    }
}
