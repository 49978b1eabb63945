//! `--fix` and `--diff`: changes that mend what was found.

use std::collections::BTreeMap;

use super::inputs::Place;
use super::judge::Found;
use lint::{Edit, Finding};
use terminal::failure::Failure;
use terminal::output::say;

/// A change may make way for another; so many times the text is looked at anew.
const ROUNDS: usize = 8;

/// A text with what could be mended mended.
pub struct Mended {
    pub text: String,
    /// What is found in it then.
    pub left: Found,
    /// How many findings were mended.
    pub fixes: usize,
}

/// Makes all changes that do not touch each other, and looks again.
///
/// What has errors afterwards that it had not before is not taken.
pub fn mend(source: &str, found: Found, judge: impl Fn(&str) -> Found) -> Mended {
    let mut mended = Mended {
        text: source.to_owned(),
        left: found,
        fixes: 0,
    };
    for _ in 0..ROUNDS {
        let (text, fixes) = apply(&mended.text, &mended.left.findings);
        if fixes == 0 {
            break;
        }
        let left = judge(&text);
        if left.errors() > mended.left.errors() {
            break;
        }
        mended = Mended {
            text,
            left,
            fixes: mended.fixes + fixes,
        };
    }
    mended
}

/// The text with the changes, and how many findings had one that could be made.
fn apply(source: &str, found: &[Finding]) -> (String, usize) {
    // No two touch each other, so those that end last also begin last.
    let mut edits: BTreeMap<(u32, u32, usize), &Edit> = BTreeMap::new();
    let mut fixes = 0;
    for fix in found.iter().filter_map(|finding| finding.fix.as_ref()) {
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

/// Writes a text that was mended back to where it came from; that of standard
/// input to standard output, changed or not.
///
/// # Errors
/// The file cannot be written.
pub fn put(place: &Place, source: &str, mended: &str) -> Result<(), Failure> {
    match place {
        Place::StandardInput(_) => say(mended),
        Place::File(path) if source != mended => std::fs::write(path, mended)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
        Place::File(_) => {}
    }
    Ok(())
}
