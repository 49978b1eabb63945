//! Finds the lowest `.version` and `.target` of a module, and lowers its `.version`.
//!
//! The result comes from [`check_with`] under lower versions and targets. So both always
//! agree, and all floors of the checker count: instructions, modifiers, directives, types
//! and special registers.

use std::borrow::Cow;

use super::ast::{Module, Span, Version};
use super::check::{self, CheckOptions, check_with};
use super::diagnostic::Diagnostic;
pub use super::features::{Floor, function_directives, versions};
use super::isa::target::{Suffix, Target};

/// The lowest `.target` of a module, and the lowest `.version` for that target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The lowest `.version` without errors for [`target`](Self::target).
    pub version: Version,
    /// The lowest target that has all features. Targets without a suffix (`sm_80`) are
    /// preferred over those of a family (`sm_100f`) and of one chip (`sm_90a`).
    pub target: Target,
    /// The error one version below; `None` if there is no lower version.
    pub version_forced_by: Option<Diagnostic>,
    /// The error one target below; `None` if there is no lower target.
    pub target_forced_by: Option<Diagnostic>,
}

/// Finds the lowest `.target` of a module, and the lowest `.version` for that target;
/// `None` for a module with errors, or without `.version` or `.target`.
///
/// Takes about a dozen times as long as [`check`](crate::check()).
///
/// ```
/// use ptxkit_ptx::{read, version::needed};
///
/// let source = ".version 9.0\n.target sm_90\n.entry k() { .reg .b32 r; activemask.b32 r; }";
/// let needed = needed(&read(source).module, source).unwrap();
/// assert_eq!((needed.version.to_string(), needed.target.to_string()), ("6.2".into(), "sm_30".into()));
/// let why = needed.version_forced_by.unwrap();
/// assert!(why.message.contains("activemask"));
/// ```
pub fn needed<'a>(module: &Module<'a>, source: &'a str) -> Option<Needed> {
    let own_version = module.version?.0;
    let own = module
        .target
        .iter()
        .rev()
        .find_map(|word| Target::from_text(word.text))?;
    let wrong = |version, target| first_wrong(module, source, version, target);
    if wrong(own_version, own).is_some() {
        return None;
    }
    // Targets are compared under the module's own version.
    let ladder = |lower: fn(Target, Target) -> bool| {
        let candidates: Vec<Target> = Target::all()
            .filter(|candidate| lower(*candidate, own))
            .collect();
        lowest(&candidates, |target| wrong(own_version, target))
    };
    let without_suffix = |candidate: Target, own: Target| {
        candidate.suffix == Suffix::None && candidate.number <= own.number
    };
    let family = |candidate: Target, own: Target| {
        candidate.suffix == Suffix::Family
            && candidate.family() == own.family()
            && candidate.number <= own.number
    };
    let (target, target_forced_by) = ladder(without_suffix)
        .or_else(|| ladder(family))
        .unwrap_or((own, None));
    let (version, version_forced_by) = lowest_version(module, source, target)?;
    Some(Needed {
        version,
        target,
        version_forced_by,
        target_forced_by,
    })
}

/// Finds the lowest `.version` of a module for a target, and the error one version below;
/// `None` if the module has errors under its own version.
///
/// A driver must support this version. A driver older than the toolkit rejects the module's
/// own `.version`, even if it has all features that the module uses.
pub fn lowest_version<'a>(
    module: &Module<'a>,
    source: &'a str,
    target: Target,
) -> Option<(Version, Option<Diagnostic>)> {
    let own_version = module.version?.0;
    let versions: Vec<Version> = versions().filter(|v| *v <= own_version).collect();
    let wrong = |version| first_wrong(module, source, version, target);
    let options = CheckOptions {
        version: Some(own_version),
        target: Some(target),
        ..CheckOptions::default()
    };
    let floor = check::floor(module, source, &options)?;
    let index = versions.partition_point(|version| *version < floor);
    let version = *versions.get(index)?;
    let below = index.checked_sub(1).map(|index| versions[index]);
    let below = below.map(wrong);
    // A version may change more than the floors of the table: then the checks decide.
    match below {
        None | Some(Some(_)) if version == own_version || wrong(version).is_none() => {
            Some((version, below.flatten()))
        }
        _ => lowest(&versions, wrong),
    }
}

/// The first of the ascending `candidates` without an error, and the error of the one
/// below; `None` if the last has an error.
fn lowest<T: Copy>(
    candidates: &[T],
    wrong: impl Fn(T) -> Option<Diagnostic>,
) -> Option<(T, Option<Diagnostic>)> {
    let (last, lower) = candidates.split_last()?;
    if wrong(*last).is_some() {
        return None;
    }
    let mut below = None;
    let first = lower.partition_point(|candidate| match wrong(*candidate) {
        Some(diagnostic) => {
            below = Some(diagnostic);
            true
        }
        None => false,
    });
    Some((candidates[first], below))
}

fn first_wrong<'a>(
    module: &Module<'a>,
    source: &'a str,
    version: Version,
    target: Target,
) -> Option<Diagnostic> {
    let options = CheckOptions {
        version: Some(version),
        target: Some(target),
        ..CheckOptions::default()
    };
    check_with(module, source, &options).into_iter().next()
}

/// Lowers the `.version` of `source` to one that a driver supports. Returns the source
/// unchanged if its version is not newer.
///
/// # Errors
///
/// The first feature that this version lacks, or another error of the module.
///
/// ```
/// use ptxkit_ptx::{ast::Version, read, version::lower};
///
/// let source = ".version 9.5\n.target sm_80\n.entry k() { ret; }";
/// let text = lower(&read(source).module, source, Version { major: 8, minor: 0 }).unwrap();
/// assert!(text.starts_with(".version 8.0\n"));
///
/// let source = ".version 9.5\n.target sm_100\n.entry k() { ret; }";
/// let why = lower(&read(source).module, source, Version { major: 8, minor: 0 }).unwrap_err();
/// assert_eq!(why.message, "`sm_100` needs `.version 8.6` or later");
/// ```
pub fn lower<'a>(
    module: &Module<'a>,
    source: &'a str,
    version: Version,
) -> Result<Cow<'a, str>, Diagnostic> {
    if module
        .version
        .is_some_and(|(own_version, _)| own_version <= version)
    {
        return Ok(Cow::Borrowed(source));
    }
    let options = CheckOptions {
        version: Some(version),
        ..CheckOptions::default()
    };
    match check_with(module, source, &options).into_iter().next() {
        Some(wrong) => Err(wrong),
        None => Ok(lowered(source, version).map_or(Cow::Borrowed(source), Cow::Owned)),
    }
}

/// Replaces the number in the `.version` line of `source`; `None` if there is no such line.
///
/// This does not check the module under that version; [`lower`] does.
///
/// ```
/// use ptxkit_ptx::{ast::Version, version::lowered};
/// let lower = lowered(".version 9.0\n.target sm_80\n", Version { major: 8, minor: 0 });
/// assert_eq!(lower.as_deref(), Some(".version 8.0\n.target sm_80\n"));
/// ```
pub fn lowered(source: &str, version: Version) -> Option<String> {
    let head = super::parse::read_head(source, &mut Default::default());
    let (_, Span { start, end }) = head.version?;
    let before = source.get(..start as usize)?;
    let after = source.get(end as usize..)?;
    let Version { major, minor } = version;
    Some(format!("{before}.version {major}.{minor}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn needs(source: &str) -> (String, String) {
        let needed = needed(&read(source).module, source).unwrap();
        (needed.version.to_string(), needed.target.to_string())
    }

    #[test]
    fn the_newest_instruction_decides() {
        let source = ".version 9.0\n.target sm_100\n.entry k() { .reg .f32 f; .reg .b16 h;\n\
             add.f32 f, f, f; cvt.rn.bf16.f32 h, f; }";
        assert_eq!(needs(source), ("7.0".into(), "sm_80".into()));
        let needed = needed(&read(source).module, source).unwrap();
        let why = needed.target_forced_by.unwrap();
        assert_eq!(&source[why.span.start as usize..][..3], "cvt");
    }

    #[test]
    fn directives_count() {
        let source = ".version 8.0\n.target sm_90\n.entry k() .maxclusterrank 4 { ret; }";
        assert_eq!(needs(source), ("7.8".into(), "sm_90".into()));
    }

    #[test]
    fn targets_without_a_suffix_are_preferred() {
        let source =
            ".version 9.0\n.target sm_90a\n.entry k() { setmaxnreg.inc.sync.aligned.u32 64; }";
        assert_eq!(needs(source), ("8.0".into(), "sm_90a".into()));
    }

    #[test]
    fn the_lowest_version_is_the_first_without_an_error() {
        for (target, body) in [
            ("sm_90", ""),
            ("sm_120", ""),
            ("sm_90", ".reg .b32 r; activemask.b32 r;"),
            ("sm_60", ".reg .b32 r; shfl.up.b32 r, r, 1, 0;"),
            ("sm_90a", "wgmma.fence.sync.aligned;"),
            ("sm_90", ".reg .b64 t; mov.u64 t, %globaltimer;"),
            ("sm_90", ".reg .b32 r; mov.u32 r, %clusterid.x;"),
            ("sm_90", ".reg .b32 r; mov.u32 r, r; .pragma \"nounroll\";"),
            (
                "sm_80",
                ".reg .f32 f; .reg .b16 h; add.f32 f, f, f; cvt.rn.bf16.f32 h, f;",
            ),
            (
                "sm_20",
                ".reg .b32 r; bar.sync 0; bar.red.popc.u32 r, 0, p; .reg .pred p;",
            ),
            (
                "sm_75",
                ".reg .b64 a; .shared .b32 x; cvta.shared.u64 a, x; ret;",
            ),
        ] {
            let source = format!(".version 9.0\n.target {target}\n.entry k() {{ {body} }}");
            let module = read(&source).module;
            let target: Target = target.parse().unwrap();
            let mut all = versions().filter(|v| *v <= Version { major: 9, minor: 0 });
            let first = all.find(|v| first_wrong(&module, &source, *v, target).is_none());
            let found = lowest_version(&module, &source, target);
            let below = found.as_ref().and_then(|(_, below)| below.clone());
            assert_eq!(found.map(|(version, _)| version), first, "{source}");
            let lowest = versions().next();
            assert_eq!(
                below.is_some(),
                first.is_some() && first != lowest,
                "{source}"
            );
        }
    }

    #[test]
    fn a_module_with_errors_has_no_floor() {
        let source = ".version 8.0\n.target sm_90\n.entry k() { add.u32 a, b; }";
        assert_eq!(needed(&read(source).module, source), None);
    }

    #[test]
    fn lowering_changes_one_line() {
        let source = "// v\n.version 9.0 // here\n.target sm_90\n";
        let lower = lowered(source, Version { major: 8, minor: 0 });
        assert_eq!(
            lower.as_deref(),
            Some("// v\n.version 8.0 // here\n.target sm_90\n")
        );
        assert_eq!(
            lowered(".target sm_90", Version { major: 8, minor: 0 }),
            None
        );
    }
}
