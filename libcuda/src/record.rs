//! What this process ran on the CPU device, and what was refused, for the report of
//! `PTXKIT_EXEC_REPORT`.
//!
//! A process appends what is new now and then and when it exits, so that a program that is killed
//! is reported too.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use api::Api;
use cpu::table;
use report::{Failure, Kind, Launches, Missing, Process, Record, VARIABLE};

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

/// What is not written yet.
#[derive(Default)]
struct News {
    /// Number and time of the launches of each kernel.
    kernels: BTreeMap<String, (u64, Duration)>,
    failures: BTreeMap<Reason, u64>,
    missing: BTreeMap<String, u64>,
    /// When what was new was written, since the start.
    written: Option<Duration>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Reason {
    entry: &'static str,
    status: c_int,
    cause: String,
}

/// The report, if one is asked for. The first call begins it.
fn report() -> Option<&'static Report> {
    static REPORT: OnceLock<Option<Report>> = OnceLock::new();
    let report = REPORT.get_or_init(|| {
        let report = Report::new(report::path()?);
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
        let (launches, sum) = news.kernels.entry(kernel.to_owned()).or_default();
        *launches += 1;
        *sum += time;
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
    fn new(path: PathBuf) -> Report {
        Report {
            path,
            process: Process::current(),
            started: Instant::now(),
            news: Mutex::default(),
        }
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, entry: &'static str, status: c_int, cause: String) {
        let mut reason = Reason {
            entry,
            status,
            cause,
        };
        self.add(|news| {
            if news.failures.len() >= MAX_FAILURES && !news.failures.contains_key(&reason) {
                reason.cause = "and others".into();
            }
            *news.failures.entry(reason).or_default() += 1;
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
        let News {
            kernels,
            failures,
            missing,
            written,
        } = std::mem::replace(
            news,
            News {
                written: Some(now),
                ..News::default()
            },
        );
        let kernels = kernels
            .into_iter()
            .map(|(name, (launches, time))| Launches {
                name,
                launches,
                seconds: time.as_secs_f64(),
            });
        let failures = failures.into_iter().map(|(reason, times)| Failure {
            kind: kind(reason.status),
            entry: reason.entry.to_owned(),
            error: name_of(reason.status),
            cause: reason.cause,
            times,
        });
        let missing = missing.into_iter();
        let record = Record {
            process: &self.process,
            seconds: now.as_secs_f64(),
            kernels: kernels.collect(),
            failures: failures.collect(),
            missing: missing
                .map(|(entry, times)| Missing { entry, times })
                .collect(),
        };
        if let Err(error) = record.append(&self.path)
            && written.is_none()
        {
            // Without a standard error there is nobody to tell.
            let path = self.path.display();
            let _ = writeln!(std::io::stderr(), "{VARIABLE}: {path}: {error}");
        }
    }
}

fn kind(status: c_int) -> Kind {
    match status {
        // INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED
        200 | 209 | 218 | 222 | 801 => Kind::Refused,
        // From ILLEGAL_ADDRESS to LAUNCH_FAILED, but not LAUNCH_OUT_OF_RESOURCES, and what has to
        // do with peers and host memory; UNKNOWN
        700 | 702 | 710 | 714..=719 | 999 => Kind::Fault,
        _ => Kind::Error,
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
        let report = Report::new(path.clone());
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
        assert_eq!(records[1]["failures"], serde_json::json!([]));
    }

    #[test]
    fn failures_without_end_do_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::new(folder.path().join("report.json"));
        report.news().written = Some(Duration::MAX / 2);
        for number in 0..2 * MAX_FAILURES {
            report.failed("cuMemFree_v2", 1, format!("address {number}"));
        }
        let news = report.news();
        assert_eq!(news.failures.len(), MAX_FAILURES + 1);
        assert_eq!(news.failures.values().sum::<u64>(), 2 * MAX_FAILURES as u64);
    }
}
