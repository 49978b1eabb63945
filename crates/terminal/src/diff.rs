//! Diffs in the unified format of `git apply` and `patch`.

use similar::TextDiff;

use crate::output::Escaped;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// The changes from `old` to `new`; empty if the two are equal.
pub fn unified(old: &str, new: &str, name: &str, colour: bool) -> String {
    let name = Escaped::new(name).to_string();
    let diff = TextDiff::from_lines(old, new);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(&name, &name)
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
