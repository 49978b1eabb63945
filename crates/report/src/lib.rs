//! The report of what programs ran on the CPU device, and of what was refused.
//!
//! The file, `PTXKIT_EXEC_REPORT`, is a page if its name ends in `.html`, and has a line of JSON
//! for each record otherwise. Many processes append to it.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The variable with the file.
pub const VARIABLE: &str = "PTXKIT_EXEC_REPORT";

/// The variable that is 1 if reports have the arguments of programs, which may be passwords.
pub const ARGUMENTS: &str = "PTXKIT_EXEC_REPORT_ARGUMENTS";

/// The start of a page. Its script reads the records that stand behind it.
const PAGE: &str = include_str!("page.html");

/// What a process did since its last record.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    pub process: &'a Process,
    /// How long the process has used the device.
    pub seconds: f64,
    pub kernels: Vec<Launches>,
    pub failures: Vec<Failure>,
    /// Entries that were asked for by name and are not there.
    pub missing: Vec<Missing>,
}

/// A process.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    pub id: u32,
    /// Milliseconds since 1970. Numbers of processes are used again.
    pub started: u64,
    /// The program, and its arguments if [`ARGUMENTS`] asks for them.
    pub command: Vec<String>,
}

/// The launches of a kernel.
#[derive(Debug, Serialize)]
pub struct Launches {
    pub name: String,
    pub launches: u64,
    pub seconds: f64,
}

/// What a failure means for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The CPU device does not do it.
    Refused,
    /// A kernel did what no kernel may do.
    Fault,
    /// The call was wrong.
    Error,
}

/// Calls that failed for the same reason.
#[derive(Debug, Serialize)]
pub struct Failure {
    pub kind: Kind,
    /// The driver entry, or the program.
    pub entry: String,
    /// The name of the error.
    pub error: String,
    pub cause: String,
    pub times: u64,
}

/// An entry that is not there.
#[derive(Debug, Serialize)]
pub struct Missing {
    pub entry: String,
    pub times: u64,
}

impl Process {
    /// This one.
    pub fn current() -> Process {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let words = if std::env::var_os(ARGUMENTS).is_some_and(|value| value == "1") {
            usize::MAX
        } else {
            1
        };
        Process {
            id: std::process::id(),
            started: since.map_or(0, |since| since.as_millis() as u64),
            command: std::env::args_os()
                .take(words)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

/// The file that the environment asks for.
pub fn path() -> Option<PathBuf> {
    let path: PathBuf = std::env::var_os(VARIABLE)?.into();
    // A program may change its folder.
    (!path.as_os_str().is_empty()).then(|| std::path::absolute(&path).unwrap_or(path))
}

impl Record<'_> {
    /// Appends the record to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// ```
    /// use ptxkit_report::{Process, Record};
    ///
    /// let path = std::env::temp_dir().join(format!("report-{}.json", std::process::id()));
    /// let process = Process::current();
    /// let (kernels, failures, missing) = (vec![], vec![], vec![]);
    /// let record = Record { process: &process, seconds: 0.5, kernels, failures, missing };
    /// record.append(&path)?;
    /// assert!(std::fs::read_to_string(&path)?.contains("\"seconds\":0.5"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn append(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string(self)?;
        let is_page = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
        let mut file = File::options().append(true).create(true).open(path)?;
        // One process writes the start of the page; the lock ends with the file. On a file system
        // without locks records may be mixed up, which is better than none.
        let _ = file.lock();
        let mut text = String::new();
        if is_page {
            if file.metadata()?.len() == 0 {
                text += PAGE;
            }
            // A name must not end the element.
            let json = json.replace('<', "\\u003c");
            text += &format!("<script type=\"application/json\">{json}</script>\n");
        } else {
            text += &format!("{json}\n");
        }
        file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_start_and_no_name_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.HTML");
        let process = Process::current();
        let append = || {
            let record = Record {
                process: &process,
                seconds: 1.0,
                kernels: Vec::new(),
                failures: Vec::new(),
                missing: vec![Missing {
                    entry: "</script><b>".into(),
                    times: 1,
                }],
            };
            record.append(&path).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(append);
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let rest = text.strip_prefix(PAGE).unwrap();
        assert_eq!(rest.lines().count(), 8);
        for line in rest.lines() {
            let json = line
                .strip_prefix("<script type=\"application/json\">")
                .and_then(|line| line.strip_suffix("</script>"))
                .unwrap();
            let record: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(record["missing"][0]["entry"], "</script><b>");
        }
    }
}
