//! What this process ran on the CPU device, and what was refused, for the report of
//! `PTXKIT_EXEC_REPORT` and the trace of `PTXKIT_EXEC_TRACE`.
//!
//! A process appends what is new now and then and when it exits, so that a program that is killed
//! is reported too.

mod device;
mod kernels;
mod lanes;
mod news;
mod sources;

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use api::Api;
use cpu::observe::Event;
use cpu::table;
use news::{News, Reason};
use report::{Process, Record, TRACE, VARIABLE, trace};

/// Not a failure: what was asked for is not done yet.
const NOT_READY: c_int = 600;

/// What is new is written after this, or after a twentieth of the time that the process runs if
/// that is longer: the report of a long run stays short.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);

/// The report of this process.
struct Report {
    path: Option<PathBuf>,
    trace: Option<PathBuf>,
    process: Process,
    started: Instant,
    news: Mutex<News>,
}

/// The report, if one is asked for. The first call begins it.
fn report() -> Option<&'static Report> {
    static REPORT: OnceLock<Option<Report>> = OnceLock::new();
    let report = REPORT.get_or_init(|| {
        let (path, trace) = (report::path(VARIABLE), report::path(TRACE));
        if path.is_none() && trace.is_none() {
            return None;
        }
        let report = Report::new(path, trace);
        cpu::observe::set(observed);
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

fn observed(event: &Event<'_>) {
    if let Some(report) = report() {
        report.add(|news| news.add(event, report.started));
    }
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
        report.failed(
            entry,
            status,
            "the CPU device does not have this entry".into(),
        );
    }
    status
}

/// Notes an entry that was asked for by name and is not there.
#[cold]
pub(crate) fn not_found(entry: &str) {
    if let Some(report) = report() {
        report.add(|news| news.missing(entry));
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
    fn new(path: Option<PathBuf>, trace: Option<PathBuf>) -> Report {
        Report {
            news: Mutex::new(News::new(trace.is_some())),
            path,
            trace,
            process: Process::current(),
            started: Instant::now(),
        }
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, entry: &'static str, status: c_int, cause: String) {
        let reason = Reason {
            entry,
            status,
            cause,
        };
        self.add(|news| news.failed(reason));
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
        let is_first = news.written.replace(now).is_none();
        let record = Record::new(&self.process, now.as_secs_f64());
        let (record, traced) = news.take(record, name_of);
        if let Some(path) = &self.trace {
            let written = trace::append_events(path, &self.process, &record.lanes, &traced);
            tell(TRACE, path, is_first, written);
        }
        if let Some(path) = &self.path {
            tell(VARIABLE, path, is_first, record.append(path));
        }
    }
}

/// Prints that a file cannot be written, once.
fn tell(variable: &str, path: &Path, is_first: bool, written: std::io::Result<()>) {
    if let Err(error) = written
        && is_first
    {
        // Without a standard error there is nobody to tell.
        let path = path.display();
        let _ = writeln!(std::io::stderr(), "{variable}: {path}: {error}");
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
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
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
        let report = Report::new(Some(path.clone()), None);
        // The first is written at once: the process may be killed.
        report.failed("cuModuleLoadData", 801, "line 7: no".into());
        assert_eq!(records(&path).len(), 1);
        report.write(&mut report.news());
        let records = records(&path);
        let failure = &records[0]["failures"][0];
        assert_eq!(failure["kind"], "refused");
        assert_eq!(failure["error"], "CUDA_ERROR_NOT_SUPPORTED");
        assert_eq!(
            (&failure["cause"], &failure["times"]),
            (&"line 7: no".into(), &1.into())
        );
        assert_eq!(records[0]["process"]["id"], std::process::id());
        assert_eq!(records[1]["failures"], serde_json::Value::Null);
    }
}
