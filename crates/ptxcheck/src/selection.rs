//! Which codes are enabled, and which of them are errors.

use std::fmt;
use std::str::FromStr;

use lint::{Check, Code, RULES, Rule};
use ptx::diagnostic::{self, Severity, nearest};

/// A prefix of codes: `W`, `W01`, `W0103`; `all` is the empty one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix(String);

/// Why a text is no [`Prefix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePrefixError {
    text: String,
    hint: String,
}

impl fmt::Display for ParsePrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no code begins with `{}`{}", self.text, self.hint)
    }
}

impl std::error::Error for ParsePrefixError {}

/// The letters of codes, with or without codes of their own.
const KINDS: [&str; 4] = ["E", "W", "P", "D"];

/// A comment that suppresses nothing. It is checked here instead of as a rule over the module, because
/// it depends on the findings of all other rules.
pub static UNUSED: Rule = Rule {
    code: Code::new('W', 1),
    name: "unused-suppression",
    summary: "A suppression comment without a finding.",
    why: "The problem was fixed, or the comment is in the wrong position. It would hide the next \
          problem of the same kind.",
    instead: "Remove the comment. After a statement it applies to its line, on a separate line to \
              the next one, before a kernel or function to all of it, and before `.version` to the \
              whole file.",
    bad: "// ptxcheck: disable=W0103\n.entry k()\n{\n\tret;\n}\n",
    good: ".entry k()\n{\n\tret;\n}\n",
    default: true,
    check: Check::Module(|_, _| {}),
};

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
    codes_with_rules().map(|(code, _)| code)
}

/// The same with the rule of each code; `None` for those of the front end.
fn codes_with_rules() -> impl Iterator<Item = (Code, Option<&'static Rule>)> {
    let front_end = diagnostic::Code::ALL.iter();
    let front_end = front_end.map(|code| (Code::from(*code), None));
    front_end.chain(rules().map(|rule| (rule.code, Some(rule))))
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
        match self.0.as_bytes() {
            // The start of the program asks for every code, mostly with one letter.
            [] => true,
            [letter] => code.letter() == char::from(*letter),
            _ => code.begins_with(&self.0),
        }
    }
}

/// The lists of one source: the command line, or a `ptxcheck.toml`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Rule selection")]
pub struct Lists {
    /// Enable these codes instead of the default: `W0103`, prefixes `P` and `W01`, or `all`
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub select: Option<Vec<Prefix>>,
    /// Enable these codes too
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub extend_select: Vec<Prefix>,
    /// Disable these codes; the longest matching prefix wins
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub ignore: Vec<Prefix>,
    /// The same as --ignore
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub extend_ignore: Vec<Prefix>,
    /// Enable these codes too, and report them as errors
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub deny: Vec<Prefix>,
    /// Let rules be enabled that are new and may still change
    #[arg(long)]
    pub preview: bool,
}

/// The enabled codes.
///
/// `select` says which are enabled instead of those that are by default; the command line's takes
/// the place of a file's. A text that cannot be read is always reported. The longest matching
/// prefix of a code wins; of equally long ones, the command line wins over a file, and `ignore`
/// over `select`. Denied codes are enabled.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The enabled codes, in order.
    looked_for: Vec<(Code, Severity)>,
}

/// A rule that is new is asked for by its code, and not by `--preview`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewOnly(Code);

impl fmt::Display for PreviewOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is a preview rule", self.0)
    }
}

impl std::error::Error for PreviewOnly {}

impl Selection {
    /// `lists` in the order of precedence.
    ///
    /// # Errors
    /// A rule is named that needs `preview`.
    pub fn new(lists: &[&Lists]) -> Result<Selection, PreviewOnly> {
        let preview = lists.iter().any(|list| list.preview);
        let hidden = |rule: Option<&Rule>| !preview && rule.is_some_and(Rule::is_preview);
        let wanted = lists.iter().flat_map(|list| {
            let selected = list.select.iter().flatten();
            selected.chain(&list.extend_select).chain(&list.deny)
        });
        for prefix in wanted {
            let mut codes = codes_with_rules();
            let named = |(code, rule): &(Code, _)| hidden(*rule) && code.to_string() == prefix.0;
            if let Some((code, _)) = codes.find(named) {
                return Err(PreviewOnly(code));
            }
        }
        let mut looked_for = Vec::new();
        for (code, rule) in codes_with_rules() {
            if !hidden(rule)
                && let Some(severity) = severity(code, rule, lists)
            {
                looked_for.push((code, severity));
            }
        }
        looked_for.sort_by_key(|(code, _)| *code);
        Ok(Selection { looked_for })
    }

    /// The enabled codes in order, and what they are reported as.
    pub fn enabled(&self) -> &[(Code, Severity)] {
        &self.looked_for
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

/// Codes of a text that cannot be read: nothing else is judged then, so `select` keeps them.
const UNREADABLE: &str = "E00";

fn severity(code: Code, rule: Option<&Rule>, lists: &[&Lists]) -> Option<Severity> {
    let length = |prefixes: &[Prefix]| {
        let taking = prefixes.iter().filter(|prefix| prefix.takes(code));
        taking.map(|prefix| prefix.0.len()).max()
    };
    let chosen = lists.iter().position(|list| list.select.is_some());
    // The longest prefix wins; of equally long ones the later one.
    let mut wanted = match chosen {
        None => rule.is_none_or(|rule| rule.default),
        Some(_) => code.begins_with(UNREADABLE),
    };
    let mut longest = None;
    let mut count = |prefixes: &[Prefix], want| {
        let length = length(prefixes);
        if length.is_some() && length >= longest {
            (wanted, longest) = (want, length);
        }
    };
    for (index, list) in lists.iter().enumerate().rev() {
        if let Some(select) = list.select.as_ref().filter(|_| chosen == Some(index)) {
            count(select, true);
        }
        count(&list.extend_select, true);
        count(&list.deny, true);
        count(&list.ignore, false);
        count(&list.extend_ignore, false);
    }
    if !wanted {
        return None;
    }
    let denied = lists.iter().any(|list| length(&list.deny).is_some());
    Some(if denied || code.letter() == 'E' {
        Severity::Error
    } else {
        Severity::Warning
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `select=W ignore=W01,P`
    fn lists(text: &str) -> Lists {
        let mut lists = Lists::default();
        for (option, list) in text
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
        {
            let list = list.split(',').map(|word| word.parse().unwrap()).collect();
            match option {
                "select" => lists.select = Some(list),
                "extend-select" => lists.extend_select = list,
                "ignore" => lists.ignore = list,
                "extend-ignore" => lists.extend_ignore = list,
                "deny" => lists.deny = list,
                _ => panic!("{option}"),
            }
        }
        lists
    }

    #[test]
    fn the_longest_prefix_counts() {
        let (warning, error) = (Some(Severity::Warning), Some(Severity::Error));
        for (code, line, file, wanted) in [
            ("W0103", "", "", warning),
            ("E0101", "", "", error),
            ("P0201", "", "", None),
            ("W0103", "ignore=W", "", None),
            ("W0103", "extend-select=W0103 ignore=W", "", warning),
            ("W0103", "select=W0103 ignore=W", "", warning),
            ("W0103", "select=W ignore=W", "", None),
            ("W0103", "ignore=all", "", None),
            ("W0103", "select=W ignore=all", "", warning),
            ("W0103", "deny=W01", "", error),
            // `select` replaces: the default, and that of a file.
            ("W0103", "select=P", "", None),
            ("W0103", "extend-select=P", "", warning),
            ("P0201", "extend-select=P", "", warning),
            ("E0101", "select=P", "", None),
            ("E0004", "select=P", "", error),
            ("E0004", "select=P ignore=E", "", None),
            ("W0103", "select=P", "select=W", None),
            ("W0103", "select=P", "extend-select=W01", warning),
            ("P0201", "extend-select=W", "select=P", warning),
            ("W0103", "extend-select=W", "select=P", warning),
            // What is ignored adds up.
            ("W0103", "", "ignore=W0103", None),
            ("W0103", "select=W", "ignore=W0103", None),
            ("W0103", "select=W0103", "ignore=W0103", warning),
            ("W0103", "ignore=P", "extend-ignore=W01", None),
            ("W0103", "extend-ignore=W0103", "deny=W0103", None),
        ] {
            let (line, file) = (lists(line), lists(file));
            let selection = Selection::new(&[&line, &file]).unwrap();
            assert_eq!(
                selection.severity(code.parse().unwrap()),
                wanted,
                "{code} {line:?} {file:?}"
            );
        }
    }

    #[test]
    fn preview_rules_run_with_preview_alone() {
        let code = *lint::PREVIEW.first().unwrap_or(&UNUSED.code);
        let is_preview = rule(code).unwrap().is_preview();
        let named = Lists {
            extend_select: vec![code.to_string().parse().unwrap()],
            ..Lists::default()
        };
        assert_eq!(Selection::new(&[&named]).is_err(), is_preview);
        let all = Lists {
            select: Some(vec!["all".parse().unwrap()]),
            ..Lists::default()
        };
        let enabled = |lists: &Lists| Selection::new(&[lists]).unwrap().severity(code).is_some();
        assert_eq!(enabled(&all), !is_preview);
        for lists in [named, all] {
            assert!(enabled(&Lists {
                preview: true,
                ..lists
            }));
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
