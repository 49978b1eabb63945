//! The verdicts of the cases that are written by hand.

use std::fmt::Write as _;
use std::io;

use crate::archive::Verdict;
use crate::hand::{cases, files};
use crate::toolkit::Toolkit;

/// Writes the files anew with the lines that ptxas names. Whether a case is
/// accepted is what its writer says: it is said where ptxas sees it otherwise.
pub fn record(toolkit: &Toolkit) -> io::Result<()> {
    for path in files() {
        let mut text = String::new();
        for case in cases(&std::fs::read_to_string(&path)?) {
            let (module, before) = case.module();
            let verdict = if case.makes_code() {
                toolkit.make_code(module.as_bytes())
            } else {
                toolkit.judge(module.as_bytes())
            };
            let verdict = match verdict? {
                Verdict::Rejected(Some(line)) => {
                    Verdict::Rejected(Some(line.saturating_sub(before)))
                }
                verdict => verdict,
            };
            let accepted = |verdict| verdict == Verdict::Accepted;
            if accepted(verdict) != accepted(case.verdict) {
                eprintln!("{}: {}: ptxas says {verdict}", path.display(), case.name);
            }
            let code = case.code.map_or(String::new(), |code| format!(" {code}"));
            // Writing to a String cannot fail.
            let _ = write!(text, "== {}: {verdict}{code}\n{}", case.name, case.text);
        }
        std::fs::write(&path, text)?;
    }
    Ok(())
}
