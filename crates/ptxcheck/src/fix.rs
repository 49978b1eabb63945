//! `--fix` and `--diff`: applies the fixes of findings.

use std::collections::BTreeMap;

use super::inputs::Place;
use super::linter::TextFindings;
use input::ShowName as _;
use lint::{Edit, Fix};
use terminal::failure::Failure;
use terminal::output::print;

/// The maximum number of rounds. A fix may enable another one.
const ROUNDS: usize = 8;

/// A text after its fixes.
pub struct Fixed {
    pub text: String,
    /// The findings in it.
    pub remaining: TextFindings,
    /// The number of findings that were fixed.
    pub fixes: usize,
}

/// Applies all fixes that do not overlap, checks again, and repeats; `unsafe_fixes` says whether
/// those count that are not safe.
///
/// A round that adds errors is discarded.
pub fn apply_fixes(
    source: &str,
    found: TextFindings,
    unsafe_fixes: bool,
    lint: impl Fn(&str) -> TextFindings,
) -> Fixed {
    let mut fixed = Fixed {
        text: source.to_owned(),
        remaining: found,
        fixes: 0,
    };
    for _ in 0..ROUNDS {
        let found = fixed.remaining.findings.iter();
        let fixes = found.filter_map(|finding| finding.fix.as_ref());
        let (text, fixes) = apply(&fixed.text, fixes.filter(|fix| fix.safe || unsafe_fixes));
        if fixes == 0 {
            break;
        }
        let remaining = lint(&text);
        if remaining.errors() > fixed.remaining.errors() {
            break;
        }
        fixed = Fixed {
            text,
            remaining,
            fixes: fixed.fixes + fixes,
        };
    }
    fixed
}

/// The text after the fixes, and the number of fixes that could be applied.
fn apply<'f>(source: &str, found: impl Iterator<Item = &'f Fix>) -> (String, usize) {
    // The edits do not overlap, so the last to begin is the last to end.
    let mut edits: BTreeMap<(u32, u32, usize), &Edit> = BTreeMap::new();
    let mut fixes = 0;
    for fix in found {
        let touches = |new: &Edit| {
            let mut before = edits.range(..=(new.span.end, u32::MAX, usize::MAX));
            before
                .next_back()
                .is_some_and(|(_, old)| new.span.start <= old.span.end)
        };
        let whole = |edit: &Edit| {
            source
                .get(edit.span.start as usize..edit.span.end as usize)
                .is_some()
        };
        if fix.edits.iter().all(|edit| whole(edit) && !touches(edit)) {
            for edit in &fix.edits {
                edits.insert((edit.span.start, edit.span.end, edits.len()), edit);
            }
            fixes += 1;
        }
    }
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for edit in edits.into_values() {
        let Some(before) = source.get(at..edit.span.start as usize) else {
            continue;
        };
        text += before;
        text += &edit.replacement;
        at = edit.span.end as usize;
    }
    text += source.get(at..).unwrap_or_default();
    (text, fixes)
}

/// Writes a fixed text back to its file. Text from standard input goes to standard output, even
/// if unchanged.
///
/// # Errors
/// The file cannot be written.
pub fn write_back(place: &Place, source: &str, fixed: &str) -> Result<(), Failure> {
    match place {
        Place::StandardInput(_) => print(fixed),
        Place::File(path) if source != fixed => std::fs::write(path, fixed)
            .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?,
        Place::File(_) => {}
    }
    Ok(())
}
