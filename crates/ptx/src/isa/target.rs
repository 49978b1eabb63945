//! Targets, and the versions and targets that have a part of the language.

use std::fmt;
use std::str::FromStr;

use crate::ast::Version;

/// The suffix of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suffix {
    /// `sm_90`: features that all later targets have too.
    #[default]
    None,
    /// `sm_100f`: features of the family.
    Family,
    /// `sm_90a`: features of this target only.
    Specific,
}

/// `sm_90a` or `compute_90a`, which are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// 90
    pub number: u16,
    /// `a`
    pub suffix: Suffix,
}

/// All targets that ptxas 13.5 supports, with the first `.version` that has each.
const TARGETS: &[(&str, u8, u8)] = &[
    ("10", 1, 0),
    ("11", 1, 0),
    ("12", 1, 2),
    ("13", 1, 2),
    ("20", 2, 0),
    ("21", 2, 0),
    ("30", 3, 0),
    ("32", 4, 0),
    ("35", 3, 1),
    ("37", 4, 1),
    ("50", 4, 0),
    ("52", 4, 1),
    ("53", 4, 2),
    ("60", 5, 0),
    ("61", 5, 0),
    ("62", 5, 0),
    ("70", 5, 1),
    ("72", 6, 1),
    ("75", 6, 3),
    ("80", 7, 0),
    ("82", 6, 2),
    ("86", 7, 1),
    ("87", 7, 4),
    ("88", 9, 0),
    ("89", 7, 8),
    ("90", 7, 8),
    ("90a", 8, 0),
    ("100", 8, 6),
    ("100a", 8, 6),
    ("100f", 8, 8),
    ("101", 8, 6),
    ("101a", 8, 6),
    ("101f", 8, 8),
    ("103", 8, 8),
    ("103a", 8, 8),
    ("103f", 8, 8),
    ("107", 9, 4),
    ("107a", 9, 4),
    ("107f", 9, 4),
    ("110", 9, 0),
    ("110a", 9, 0),
    ("110f", 9, 0),
    ("120", 8, 7),
    ("120a", 8, 7),
    ("120f", 8, 8),
    ("121", 8, 8),
    ("121a", 8, 8),
    ("121f", 8, 8),
];

impl Target {
    /// Parses `sm_90a` or `compute_90a`, the notation of PTX; `None` for other words.
    #[inline]
    pub fn from_text(text: &str) -> Option<Target> {
        let number = text
            .strip_prefix("sm_")
            .or_else(|| text.strip_prefix("compute_"))?;
        Target::from_number(number)
    }

    /// `90a`
    #[inline]
    fn from_number(text: &str) -> Option<Target> {
        let (digits, suffix) = match text.as_bytes().last() {
            Some(b'a') => (&text[..text.len() - 1], Suffix::Specific),
            Some(b'f') => (&text[..text.len() - 1], Suffix::Family),
            _ => (text, Suffix::None),
        };
        // `parse` accepts a sign.
        let digits = digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then_some(digits)?;
        let number = digits.parse().ok()?;
        Some(Target { number, suffix })
    }

    /// All targets that ptxas 13.5 supports, by number; `sm_90` before `sm_90a`.
    pub fn all() -> impl Iterator<Item = Target> {
        TARGETS
            .iter()
            .filter_map(|(name, ..)| Target::from_number(name))
    }

    /// The first `.version` that has the target; `None` if ptxas does not support it.
    pub fn since(self) -> Option<Version> {
        TARGETS
            .iter()
            .find(|(name, ..)| Target::from_number(name) == Some(self))
            .map(|&(_, major, minor)| Version { major, minor })
    }

    /// The number of the architecture since PTX 9.0: 110 for sm_101, which was renamed.
    pub fn architecture(self) -> u16 {
        match self.number {
            101 => 110,
            number => number,
        }
    }

    /// The first number of the family: 100 for sm_103.
    pub fn family(self) -> u16 {
        match self.architecture() {
            100..=107 => 100,
            120..=121 => 120,
            number => number,
        }
    }

    /// Whether ptxas compiles PTX for this target for `device`.
    ///
    /// ```
    /// use ptxkit_ptx::isa::target::Target;
    /// let target = |text: &str| text.parse::<Target>().unwrap();
    /// assert!(target("sm_100f").compiles_for(target("sm_103")));
    /// assert!(target("sm_101a").compiles_for(target("sm_110")));
    /// assert!(!target("sm_101f").compiles_for(target("sm_103")));
    /// ```
    pub fn compiles_for(self, device: Target) -> bool {
        let is_older = self.architecture() <= device.architecture();
        match self.suffix {
            // Compared by the number that it is written with.
            Suffix::None => self.number <= device.number,
            Suffix::Family => self.family() == device.family() && is_older,
            Suffix::Specific => self.architecture() == device.architecture(),
        }
    }
}

/// The error for a text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotATarget(pub String);

impl fmt::Display for NotATarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a target: write sm_90, compute_90 or 90, with the suffix `a` or `f` where \
             it has one",
            self.0
        )
    }
}

impl std::error::Error for NotATarget {}

impl FromStr for Target {
    type Err = NotATarget;

    /// Parses `sm_90a`, `compute_90a` or `90a`, the notations of command lines.
    fn from_str(text: &str) -> Result<Target, NotATarget> {
        Target::from_text(text)
            .or_else(|| Target::from_number(text))
            .ok_or_else(|| NotATarget(text.to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::Family => "f",
            Suffix::Specific => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

/// A target of a floor, which may include other targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRule {
    /// `90`: sm_90 and higher; `90a`: only this one; `100f`: this and later ones of the family.
    pub target: Target,
    /// The `.version` that this target needs, if higher than that of the floor.
    pub version: Version,
}

impl TargetRule {
    /// Whether the rule includes `target`.
    pub fn takes(self, target: Target) -> bool {
        let wanted = self.target;
        match wanted.suffix {
            Suffix::None => target.number >= wanted.number,
            Suffix::Specific => target == wanted,
            Suffix::Family => {
                target.suffix != Suffix::None
                    && target.family() == wanted.family()
                    && target.number >= wanted.number
            }
        }
    }
}

/// The versions and targets that have a feature: the part of a row after the `;`, or after
/// the `@` of a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// The lowest `.version`; 0.0 for any.
    pub version: Version,
    /// One of these targets; any target if empty.
    pub targets: Vec<TargetRule>,
    /// `<70@6.4`: removed on targets from 70 in version 6.4.
    pub removed: Option<(u16, Version)>,
}

impl Availability {
    /// The `.version` that introduced it on a target, and the one that removed it; `None` if
    /// the target never has it.
    pub fn versions(&self, target: Target) -> Option<(Version, Option<Version>)> {
        let mut first = self.version;
        if !self.targets.is_empty() {
            let rules = self.targets.iter().filter(|rule| rule.takes(target));
            first = first.max(rules.map(|rule| rule.version).min()?);
        }
        // ptxas accepts features of 6.0 from 5.1, the preceding version.
        if first == (Version { major: 6, minor: 0 }) {
            first = Version { major: 5, minor: 1 };
        }
        let removed = self.removed.filter(|(number, _)| target.number >= *number);
        Some((first, removed.map(|(_, version)| version)))
    }

    /// Whether it is available with this `.version` and `.target`.
    pub fn permits(&self, version: Version, target: Target) -> bool {
        self.versions(target).is_some_and(|(first, removed)| {
            version >= first && removed.is_none_or(|removed| version < removed)
        })
    }
}
