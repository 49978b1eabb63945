//! `--fix` and `--diff`: changes that mend what was found.

use similar::TextDiff;

use super::inputs::Place;
use lint::{Edit, Finding};
use ptx::diagnostic::Severity;
use terminal::failure::Failure;
use terminal::output::say;

/// A change may make way for another; so many times the text is looked at anew.
const ROUNDS: usize = 8;

/// A text with what could be mended mended.
pub struct Mended {
    pub text: String,
    /// What is found in it then.
    pub left: Vec<Finding>,
    /// How many findings were mended.
    pub fixes: usize,
}

/// Makes all changes that do not touch each other, and looks again.
///
/// What has errors afterwards that it had not before is not taken.
pub fn mend(source: &str, found: Vec<Finding>, judge: impl Fn(&str) -> Vec<Finding>) -> Mended {
    let mut mended = Mended {
        text: source.to_owned(),
        left: found,
        fixes: 0,
    };
    for _ in 0..ROUNDS {
        let (text, fixes) = apply(&mended.text, &mended.left);
        if fixes == 0 {
            break;
        }
        let left = judge(&text);
        if errors(&left) > errors(&mended.left) {
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

fn errors(found: &[Finding]) -> usize {
    found
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count()
}

/// The text with the changes, and how many findings had one that could be made.
fn apply(source: &str, found: &[Finding]) -> (String, usize) {
    let mut edits: Vec<&Edit> = Vec::new();
    let mut fixes = 0;
    for fix in found.iter().filter_map(|finding| finding.fix.as_ref()) {
        let touches = |new: &Edit| {
            edits
                .iter()
                .any(|old| new.span.start <= old.span.end && old.span.start <= new.span.end)
        };
        let whole = |edit: &Edit| {
            source
                .get(edit.span.start as usize..edit.span.end as usize)
                .is_some()
        };
        if fix.edits.iter().all(|edit| whole(edit) && !touches(edit)) {
            edits.extend(&fix.edits);
            fixes += 1;
        }
    }
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for edit in edits {
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

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// What changes, as `diff -u` and `git apply` have it; empty if nothing does.
pub fn diff(source: &str, mended: &str, name: &str, colour: bool) -> String {
    let diff = TextDiff::from_lines(source, mended);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(name, name)
        .to_string();
    if !colour {
        return text;
    }
    let line = |line: &str| {
        let style = match line.as_bytes().first() {
            Some(b'-') => RED,
            Some(b'+') => GREEN,
            Some(b'@') => CYAN,
            _ => return format!("{line}\n"),
        };
        format!("{style}{line}{RESET}\n")
    };
    text.lines().map(line).collect()
}
