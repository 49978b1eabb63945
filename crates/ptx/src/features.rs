//! What a module may use by its `.version` and `.target` besides instructions:
//! targets, directives, types of variables.
//!
//! Tables: a rule that is new is a row that is new.

use super::ast::{FunctionKind, Version};
use super::version::Floor;

/// The newest `.version` that ptxas 13.5 knows.
pub const NEWEST: Version = Version { major: 9, minor: 5 };

/// The last minor number of each major one, from 1 on.
const LAST_MINOR: [u8; 9] = [5, 3, 2, 3, 1, 5, 8, 8, 5];

/// Every `.version` that ptxas 13.5 knows, in order: 1.0 to 9.5.
pub fn versions() -> impl Iterator<Item = Version> {
    (1..)
        .zip(LAST_MINOR)
        .flat_map(|(major, last)| (0..=last).map(move |minor| Version { major, minor }))
}

/// Whether there is a PTX of this version.
pub fn is_version(version: Version) -> bool {
    let index = usize::from(version.major).checked_sub(1);
    index
        .and_then(|index| LAST_MINOR.get(index))
        .is_some_and(|last| version.minor <= *last)
}

/// The lowest `.version`, and the lowest number of a `.target`, that have
/// something.
pub const fn since(major: u8, minor: u8, target: u16) -> Floor {
    Floor {
        version: Version { major, minor },
        target,
    }
}

/// Pragmas that only functions have, and since when. Others mean nothing to
/// ptxas, or are as old as `.pragma`.
pub const PRAGMAS: &[(&str, Floor)] = &[
    ("used_bytes_mask", since(8, 3, 50)),
    ("enable_smem_spilling", since(8, 7, 75)),
    ("frequency", since(9, 0, 0)),
];

/// What follows the name of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// So many numbers at most; one at least, if any.
    Numbers(u8),
    /// `"a", "b";`
    Strings,
}

/// One row of the table of directives between the head of a function and its
/// body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionDirectiveRule {
    /// Without the dot.
    pub name: &'static str,
    /// Kernels have it.
    pub entry: bool,
    /// Functions of the device have it.
    pub func: bool,
    /// What follows the name.
    pub arguments: Arguments,
    /// 0 is a number like any other.
    pub zero: bool,
    /// It may stand several times.
    pub repeats: bool,
    /// Since when.
    pub since: Floor,
    /// The version that dropped it.
    pub until: Option<Version>,
}

const fn row(
    name: &'static str,
    (entry, func): (bool, bool),
    arguments: Arguments,
    (zero, repeats): (bool, bool),
    since: Floor,
) -> FunctionDirectiveRule {
    FunctionDirectiveRule {
        name,
        entry,
        func,
        arguments,
        zero,
        repeats,
        since,
        until: None,
    }
}

const ENTRY: (bool, bool) = (true, false);
const FUNC: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);
/// Numbers from 1; the last directive of the name counts.
const POSITIVE: (bool, bool) = (false, true);
const ANY: (bool, bool) = (true, true);
const ONCE: (bool, bool) = (true, false);

/// Every directive between the head of a function and its body.
pub const FUNCTION_DIRECTIVES: &[FunctionDirectiveRule] = {
    use Arguments::{Numbers, Strings};
    &[
        row("maxntid", ENTRY, Numbers(3), POSITIVE, since(1, 3, 0)),
        row("reqntid", ENTRY, Numbers(3), POSITIVE, since(2, 1, 0)),
        row("minnctapersm", ENTRY, Numbers(1), POSITIVE, since(2, 0, 0)),
        FunctionDirectiveRule {
            until: Some(Version { major: 2, minor: 1 }),
            ..row("maxnctapersm", ENTRY, Numbers(1), POSITIVE, since(1, 3, 0))
        },
        row("maxnreg", ENTRY, Numbers(1), POSITIVE, since(1, 3, 0)),
        row("local_maxnreg", BOTH, Numbers(1), POSITIVE, since(8, 8, 0)),
        row("reqnctapercluster", ENTRY, Numbers(3), ANY, since(7, 8, 90)),
        row("explicitcluster", ENTRY, Numbers(0), ANY, since(7, 8, 90)),
        row("maxclusterrank", ENTRY, Numbers(1), ANY, since(7, 8, 90)),
        row("blocksareclusters", ENTRY, Numbers(0), ANY, since(9, 0, 90)),
        row("pragma", ENTRY, Strings, ANY, since(2, 0, 0)),
        row("noreturn", FUNC, Numbers(0), ONCE, since(6, 4, 30)),
        row("abi_preserve", FUNC, Numbers(1), ONCE, since(9, 0, 80)),
        row(
            "abi_preserve_control",
            FUNC,
            Numbers(1),
            ONCE,
            since(9, 0, 80),
        ),
    ]
};

/// The directives that may stand after the head of such a function, without their
/// dots, and since when.
///
/// ```
/// use ptxkit_ptx::{ast::FunctionKind, version::function_directives};
/// let of_kernels = function_directives(FunctionKind::Entry);
/// assert!(of_kernels.into_iter().any(|(name, _)| name == "maxntid"));
/// ```
pub fn function_directives(kind: FunctionKind) -> impl Iterator<Item = (&'static str, Floor)> {
    let rules = FUNCTION_DIRECTIVES.iter();
    let rules = rules.filter(move |rule| function_directive(rule.name, kind).is_some());
    rules.map(|rule| (rule.name, rule.since))
}

/// The directive that a word names after the head of such a function.
pub fn function_directive(
    word: &str,
    kind: FunctionKind,
) -> Option<&'static FunctionDirectiveRule> {
    FUNCTION_DIRECTIVES.iter().find(|rule| {
        rule.name == word
            && match kind {
                FunctionKind::Entry => rule.entry,
                FunctionKind::Func => rule.func,
            }
    })
}
