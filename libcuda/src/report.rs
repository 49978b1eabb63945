//! The report of what a program ran on the CPU device, and of what was refused:
//! `PTXKIT_EXEC_REPORT=NAME.html`, or `NAME.json` for one line of JSON each time.
//!
//! A process appends what is new now and then and when it exits, so that a program that is killed
//! has a report too, and many processes have one.

mod file;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::Api;
use cpu::table;
use serde_json::json;

/// The variable with the file.
const VARIABLE: &str = "PTXKIT_EXEC_REPORT";

/// Not a failure: what was asked for is not done yet.
const NOT_READY: c_int = 600;

/// Different failures that are kept until the next writing. Those of a fuzzer have no end.
const MAX_FAILURES: usize = 1000;

/// What is new is written after this, or after a twentieth of the time that the process runs if
/// that is longer: the report of a long run stays short.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);

/// The report of this process.
struct Report {
    path: PathBuf,
    process: Process,
    started: Instant,
    news: Mutex<News>,
}

/// Which process a record is of.
struct Process {
    id: u32,
    /// Milliseconds since 1970.
    started: u64,
    command: Vec<String>,
}

/// What is not written yet.
#[derive(Default)]
struct News {
    kernels: BTreeMap<String, Launches>,
    failures: BTreeMap<Failure, u64>,
    missing: BTreeMap<String, u64>,
    /// When what was new was written, since the start.
    written: Option<Duration>,
}

#[derive(Default)]
struct Launches {
    count: u64,
    time: Duration,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    entry: &'static str,
    status: c_int,
    cause: String,
}

/// The report, if one is asked for. The first call begins it.
fn report() -> Option<&'static Report> {
    static REPORT: OnceLock<Option<Report>> = OnceLock::new();
    let report = REPORT.get_or_init(|| {
        let report = Report::new(std::env::var_os(VARIABLE)?.into())?;
        cpu::observe_launches(launched);
        // SAFETY: the function is there as long as the library is: the C library runs what a
        // shared library registers before it is unloaded.
        unsafe { libc::atexit(at_exit) };
        Some(report)
    });
    // A child of a fork is not the process that the report is of.
    report
        .as_ref()
        .filter(|report| report.process.id == std::process::id())
}

extern "C" fn at_exit() {
    if let Some(report) = report() {
        report.write(&mut report.news());
    }
}

fn launched(kernel: &str, time: Duration) {
    let Some(report) = report() else { return };
    report.add(|news| {
        let launches = news.kernels.entry(kernel.to_owned()).or_default();
        launches.count += 1;
        launches.time += time;
    });
}

/// Notes what an entry returned, and returns it. A process is reported from `cuInit` on.
#[inline]
pub(crate) fn returned(entry: &'static str, status: c_int) -> c_int {
    if status != 0 || entry == "cuInit" {
        note(entry, status);
    }
    status
}

#[cold]
fn note(entry: &'static str, status: c_int) {
    if let Some(report) = report()
        && !matches!(status, 0 | NOT_READY)
    {
        report.failed(entry, status, cause(table()));
    }
}

/// Notes a call of an entry that the CPU device does not have.
#[cold]
pub(crate) fn not_there(entry: &'static str, status: c_int) -> c_int {
    if let Some(report) = report() {
        report.failed(entry, status, "the CPU device does not have this entry".into());
    }
    status
}

/// Notes an entry that was asked for by name and is not there.
#[cold]
pub(crate) fn not_found(entry: &str) {
    if let Some(report) = report() {
        report.add(|news| *news.missing.entry(entry.to_owned()).or_default() += 1);
    }
}

/// What the last failure on this thread was.
fn cause(api: &Api) -> String {
    let mut text = vec![0_u8; 2000];
    if let Some(entry) = api.ptxkitGetLastFault {
        // SAFETY: the buffer has this many bytes.
        unsafe { entry(text.as_mut_ptr().cast(), text.len()) };
    }
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(text.len()));
    String::from_utf8_lossy(&text).into_owned()
}

impl Report {
    fn new(path: PathBuf) -> Option<Report> {
        if path.as_os_str().is_empty() {
            return None;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Some(Report {
            // A program may change its folder.
            path: std::path::absolute(&path).unwrap_or(path),
            process: Process {
                id: std::process::id(),
                started: since.map_or(0, |since| since.as_millis() as u64),
                command: std::env::args_os()
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect(),
            },
            started: Instant::now(),
            news: Mutex::default(),
        })
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, entry: &'static str, status: c_int, cause: String) {
        let mut failure = Failure {
            entry,
            status,
            cause,
        };
        self.add(|news| {
            if news.failures.len() >= MAX_FAILURES && !news.failures.contains_key(&failure) {
                failure.cause = "and others".into();
            }
            *news.failures.entry(failure).or_default() += 1;
        });
    }

    fn add(&self, note: impl FnOnce(&mut News)) {
        let mut news = self.news();
        note(&mut news);
        let now = self.started.elapsed();
        let due = news
            .written
            .is_none_or(|last| now >= last + FIRST_INTERVAL.max(now / 20));
        if due {
            self.write(&mut news);
        }
    }

    /// Appends what is new. Where that fails, the process is told once, and goes on.
    fn write(&self, news: &mut News) {
        let now = self.started.elapsed();
        let record = json!({
            "process": {
                "id": self.process.id,
                "started": self.process.started,
                "command": self.process.command,
            },
            "seconds": now.as_secs_f64(),
            "kernels": news.kernels.iter().map(|(name, launches)| json!({
                "name": name,
                "launches": launches.count,
                "seconds": launches.time.as_secs_f64(),
            })).collect::<Vec<_>>(),
            "failures": news.failures.iter().map(|(failure, times)| json!({
                "kind": kind(failure.status),
                "entry": failure.entry,
                "error": name_of(failure.status),
                "cause": failure.cause,
                "times": times,
            })).collect::<Vec<_>>(),
            "missing": news.missing.iter().map(|(entry, times)| json!({
                "entry": entry,
                "times": times,
            })).collect::<Vec<_>>(),
        });
        let is_first = news.written.is_none();
        *news = News {
            written: Some(now),
            ..News::default()
        };
        if let Err(error) = file::append(&self.path, &record)
            && is_first
        {
            // Without a standard error there is nobody to tell.
            let path = self.path.display();
            let _ = writeln!(std::io::stderr(), "{VARIABLE}: {path}: {error}");
        }
    }
}

/// What a failure means for the user of a report: the CPU device cannot do it, a kernel was
/// wrong, or the call was.
fn kind(status: c_int) -> &'static str {
    match status {
        // INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED
        200 | 209 | 218 | 222 | 801 => "refused",
        // From ILLEGAL_ADDRESS to LAUNCH_FAILED, but not LAUNCH_OUT_OF_RESOURCES, and what has to
        // do with peers and host memory; UNKNOWN
        700 | 702 | 710 | 714..=719 | 999 => "fault",
        _ => "error",
    }
}

fn name_of(status: c_int) -> String {
    let mut name: *const c_char = std::ptr::null();
    if let Some(entry) = table().cuGetErrorName {
        // SAFETY: the place is a pointer.
        unsafe { entry(status.cast_unsigned() as c_uint, &mut name) };
    }
    if name.is_null() {
        return status.to_string();
    }
    // SAFETY: not null, so a text that lasts as long as the library.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(path: &std::path::Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn what_is_new_is_appended_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let report = Report::new(path.clone()).unwrap();
        // The first is written at once: the process may be killed.
        report.failed("cuModuleLoadData", 801, "line 7: no".into());
        assert_eq!(records(&path).len(), 1);
        report.write(&mut report.news());
        let records = records(&path);
        let failure = &records[0]["failures"][0];
        assert_eq!(failure["kind"], "refused");
        assert_eq!(failure["error"], "CUDA_ERROR_NOT_SUPPORTED");
        assert_eq!((&failure["cause"], &failure["times"]), (&"line 7: no".into(), &1.into()));
        assert_eq!(records[0]["process"]["id"], std::process::id());
        assert_eq!(records[1]["failures"], json!([]));
    }

    #[test]
    fn failures_without_end_do_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::new(folder.path().join("report.json")).unwrap();
        report.news().written = Some(Duration::MAX / 2);
        for number in 0..2 * MAX_FAILURES {
            report.failed("cuMemFree_v2", 1, format!("address {number}"));
        }
        let news = report.news();
        assert_eq!(news.failures.len(), MAX_FAILURES + 1);
        assert_eq!(news.failures.values().sum::<u64>(), 2 * MAX_FAILURES as u64);
    }

    #[test]
    fn no_report_has_no_name() {
        assert!(Report::new(PathBuf::new()).is_none());
    }
}
