//! `--watch`: checks again whenever a file changes.
//!
//! Files are looked at again and again: that works on every file system, and takes milliseconds for
//! thousands of them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::args::CheckArgs;
use super::{check, config};
use terminal::failure::Failure;
use terminal::output::{check_stdout, eprint, print};
use terminal::walk;

/// The time between two looks at the files.
const PAUSE: Duration = Duration::from_millis(300);

/// Clears the screen and what can be scrolled back to.
const CLEAR: &str = "\x1b[2J\x1b[3J\x1b[H";

/// Checks, waits for a change, and begins anew, until the process ends.
///
/// # Errors
/// Standard input is to be checked, or standard output cannot be written.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    if args.paths().iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::new("standard input cannot be watched").help("name files or folders"));
    }
    loop {
        // Before the check, so that a change during it is seen.
        let before = stamps(args);
        if std::io::stdout().is_terminal() {
            print(CLEAR);
        }
        if let Err(failure) = check::run(args) {
            failure.print();
        }
        check_stdout()?;
        if !args.quiet {
            eprint("\nwatching for changes; Ctrl-C ends\n");
        }
        while stamps(args) == before {
            std::thread::sleep(PAUSE);
        }
    }
}

/// When a file was changed, and its size; `None` if it is not there.
type Stamp = Option<(SystemTime, u64)>;

/// Every file that a check may read.
fn stamps(args: &CheckArgs) -> BTreeMap<PathBuf, Stamp> {
    let mut stamps = BTreeMap::new();
    let mut add = |path: PathBuf| {
        let data = std::fs::metadata(&path).ok();
        let stamp = data.and_then(|data| Some((data.modified().ok()?, data.len())));
        stamps.insert(path, stamp);
    };
    for path in args.paths() {
        if path.is_dir() {
            walk::files(path).filter_map(Result::ok).for_each(&mut add)
        } else {
            add(path.clone())
        }
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        for folder in whole.ancestors() {
            add(folder.join(config::NAME));
        }
    }
    args.config.iter().cloned().for_each(add);
    stamps
}
