//! Which codes are enabled, and which of them are errors.

use std::fmt;
use std::str::FromStr;

use super::suppression::UNUSED;
use lint::{Code, RULES, Rule};
use ptx::diagnostic::{self, Severity, nearest};

/// A prefix of codes: `W`, `W01`, `W0103`; `all` is the empty one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix(String);

/// Why a text is no [`Prefix`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no code begins with `{text}`{hint}")]
pub struct ParsePrefixError {
    text: String,
    hint: String,
}

/// The letters of codes, with or without codes of their own.
const KINDS: [&str; 4] = ["E", "W", "P", "D"];

/// Every rule, the program's own first.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    std::iter::once(&UNUSED).chain(RULES.iter().copied())
}

/// The rule of a code; `None` for those of the front end.
pub fn rule(code: Code) -> Option<&'static Rule> {
    rules().find(|rule| rule.code == code)
}

/// Every code, those of the front end first.
pub fn codes() -> impl Iterator<Item = Code> {
    let front_end = diagnostic::Code::ALL.iter().map(|code| Code::from(*code));
    front_end.chain(rules().map(|rule| rule.code))
}

/// The prefix that a word means: the word itself, or the code of the rule that it
/// names. `None` if no code has it.
pub fn meaning(word: &str) -> Option<String> {
    if let Some(rule) = rules().find(|rule| rule.name == word) {
        return Some(rule.code.to_string());
    }
    let upper = word.to_ascii_uppercase();
    let known = KINDS.contains(&upper.as_str()) || codes().any(|code| code.begins_with(&upper));
    (!upper.is_empty() && known).then_some(upper)
}

impl FromStr for Prefix {
    type Err = ParsePrefixError;

    /// Reads a code, a prefix, the name of a rule, or `all`.
    fn from_str(text: &str) -> Result<Prefix, ParsePrefixError> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Prefix(String::new()));
        }
        if let Some(prefix) = meaning(text) {
            return Ok(Prefix(prefix));
        }
        let upper = text.to_ascii_uppercase();
        let known: Vec<String> = codes().map(|code| code.to_string()).collect();
        let names = rules().map(|rule| rule.name);
        let near = nearest(text, names).or_else(|| {
            let of_kind = |code: &&str| code.chars().next() == upper.chars().next();
            nearest(&upper, known.iter().map(String::as_str).filter(of_kind))
        });
        Err(ParsePrefixError {
            text: text.to_owned(),
            hint: match near {
                Some(near) => format!(": did you mean `{near}`?"),
                None => ": `ptxcheck rules` lists them".to_owned(),
            },
        })
    }
}

impl TryFrom<String> for Prefix {
    type Error = ParsePrefixError;

    fn try_from(text: String) -> Result<Prefix, ParsePrefixError> {
        text.parse()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("all"),
            text => f.write_str(text),
        }
    }
}

impl Prefix {
    /// Whether `code` has this prefix.
    pub fn takes(&self, code: Code) -> bool {
        code.begins_with(&self.0)
    }
}

/// The lists of one source: the command line, or a `ptxcheck.toml`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists<'l> {
    pub select: &'l [Prefix],
    pub ignore: &'l [Prefix],
    pub deny: &'l [Prefix],
}

/// The enabled codes.
///
/// The longest matching prefix of a code wins; of equally long ones, the command line
/// wins over a file, and `ignore` over `select`. Denied codes are enabled.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The enabled codes, in order.
    looked_for: Vec<(Code, Severity)>,
}

impl Selection {
    /// `lists` in the order of precedence.
    pub fn new(lists: &[Lists<'_>]) -> Selection {
        let looked_for = codes().filter_map(|code| Some((code, severity(code, lists)?)));
        let mut looked_for: Vec<_> = looked_for.collect();
        looked_for.sort_by_key(|(code, _)| *code);
        Selection { looked_for }
    }

    /// The severity of a code; `None` if it is disabled.
    pub fn severity(&self, code: Code) -> Option<Severity> {
        let found = self
            .looked_for
            .binary_search_by_key(&code, |(code, _)| *code);
        found.ok().map(|index| self.looked_for[index].1)
    }

    /// The rules that run over a module.
    pub fn rules(&self) -> Vec<&'static Rule> {
        let wanted = |rule: &&&Rule| self.severity(rule.code).is_some();
        RULES.iter().filter(wanted).copied().collect()
    }
}

fn severity(code: Code, lists: &[Lists<'_>]) -> Option<Severity> {
    let length = |prefixes: &[Prefix]| {
        let taking = prefixes.iter().filter(|prefix| prefix.takes(code));
        taking.map(|prefix| prefix.0.len()).max()
    };
    // The longest prefix wins; of equally long ones the later one.
    let mut wanted = rule(code).is_none_or(|rule| rule.default);
    let mut longest = None;
    for list in lists.iter().rev() {
        for (prefixes, want) in [(list.select, true), (list.deny, true), (list.ignore, false)] {
            let length = length(prefixes);
            if length.is_some() && length >= longest {
                (wanted, longest) = (want, length);
            }
        }
    }
    if !wanted {
        return None;
    }
    let denied = lists.iter().any(|list| length(list.deny).is_some());
    Some(match denied || code.letter() == 'E' {
        true => Severity::Error,
        false => Severity::Warning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(text: &str) -> Vec<Prefix> {
        text.split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    }

    /// The severity of `code` under the lists of the command line and of a file.
    fn outcome(code: &str, line: [&str; 3], file: [&str; 3]) -> Option<Severity> {
        let lists: Vec<[Vec<Prefix>; 3]> = [line, file].map(|list| list.map(prefixes)).into();
        let lists: Vec<Lists<'_>> = lists
            .iter()
            .map(|[select, ignore, deny]| Lists {
                select,
                ignore,
                deny,
            })
            .collect();
        Selection::new(&lists).severity(code.parse().unwrap())
    }

    #[test]
    fn the_longest_prefix_counts() {
        const NONE: [&str; 3] = [""; 3];
        let (warning, error) = (Some(Severity::Warning), Some(Severity::Error));
        for (code, line, file, wanted) in [
            ("W0103", NONE, NONE, warning),
            ("E0101", NONE, NONE, error),
            ("W0103", ["", "W", ""], NONE, None),
            ("W0103", ["W0103", "W", ""], NONE, warning),
            ("W0103", ["W", "W", ""], NONE, None),
            ("W0103", ["", "all", ""], NONE, None),
            ("W0103", ["W", "all", ""], NONE, warning),
            ("W0103", ["", "", "W01"], NONE, error),
            ("W0103", NONE, ["", "W0103", ""], None),
            ("W0103", ["W", "", ""], ["", "W0103", ""], None),
            ("W0103", ["W0103", "", ""], ["", "W0103", ""], warning),
            ("W0103", ["", "W0103", ""], ["", "", "W0103"], None),
        ] {
            assert_eq!(
                outcome(code, line, file),
                wanted,
                "{code} {line:?} {file:?}"
            );
        }
    }

    #[test]
    fn what_is_no_code_is_refused_with_the_nearest() {
        let refusal = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        assert_eq!(
            refusal("W01033"),
            "no code begins with `W01033`: did you mean `W0103`?"
        );
        assert_eq!(
            refusal("shift-beyond-widht"),
            "no code begins with `shift-beyond-widht`: did you mean `shift-beyond-width`?"
        );
        assert!(refusal("X").ends_with("`ptxcheck rules` lists them"));
        assert!("".parse::<Prefix>().is_err());
        assert_eq!("w01".parse::<Prefix>().unwrap().to_string(), "W01");
    }
}
