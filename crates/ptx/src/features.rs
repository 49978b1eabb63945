//! Tables of versions, pragmas and function directives, with the `.version` and
//! `.target` that introduced them.

use super::ast::{FunctionKind, Version};

/// What a module must say at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Floor {
    /// The lowest `.version`; 0.0 if every one will do.
    pub version: Version,
    /// The number of `sm_90`; 0 if every target will do.
    pub target: u16,
}

/// The newest `.version` that ptxas 13.5 supports.
pub const NEWEST: Version = Version { major: 9, minor: 5 };

/// The last minor number of each major one, from 1 on.
const LAST_MINOR: [u8; 9] = [5, 3, 2, 3, 1, 5, 8, 8, 5];

/// All versions that ptxas 13.5 supports, in order: 1.0 to 9.5.
pub fn versions() -> impl Iterator<Item = Version> {
    (1..)
        .zip(LAST_MINOR)
        .flat_map(|(major, last)| (0..=last).map(move |minor| Version { major, minor }))
}

/// Whether this version of PTX exists.
pub fn is_version(version: Version) -> bool {
    let index = usize::from(version.major).checked_sub(1);
    index
        .and_then(|index| LAST_MINOR.get(index))
        .is_some_and(|last| version.minor <= *last)
}

/// The floor of a feature: the lowest `.version` and the lowest number of a `.target`.
pub const fn since(major: u8, minor: u8, target: u16) -> Floor {
    Floor {
        version: Version { major, minor },
        target,
    }
}

/// Pragmas that are only allowed in functions, with their floors. ptxas ignores others, or
/// they are as old as `.pragma`.
pub const PRAGMAS: &[(&str, Floor)] = &[
    ("used_bytes_mask", since(8, 3, 50)),
    ("enable_smem_spilling", since(8, 7, 75)),
    ("frequency", since(9, 0, 0)),
];

/// The arguments of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// From one to this many numbers; none if zero.
    Numbers(u8),
    /// `"a", "b";`
    Strings,
}

/// A row of the table of function directives, which precede the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionDirectiveRule {
    /// Without the dot.
    pub name: &'static str,
    /// Allowed on kernels.
    pub entry: bool,
    /// Allowed on device functions.
    pub func: bool,
    /// What follows the name.
    pub arguments: Arguments,
    /// The numbers may be 0.
    pub zero: bool,
    /// It may be repeated.
    pub repeats: bool,
    /// The `.version` and `.target` that introduced it.
    pub since: Floor,
    /// The version that removed it.
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
/// Numbers from 1; the last of repeated directives applies.
const POSITIVE: (bool, bool) = (false, true);
const ANY: (bool, bool) = (true, true);
const ONCE: (bool, bool) = (true, false);

/// All directives between the head of a function and its body.
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
        row("minperctamemory", ENTRY, Numbers(1), ANY, since(9, 4, 80)),
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

/// The directive with this name for a function of this kind.
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
