//! What the library did. `PTXKIT_REPORT` names `stderr` or a file: a page if its name ends in `.html`, records of JSON if
//! it ends in `.json` or `.jsonl`, otherwise a line of text for each load. See the crate `report`.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use ::report::{Device, Event, EventKind, Failure, Kind, Lane, Load, Outcome, Process, Record};

const VARIABLE: &str = "PTXKIT_REPORT";

/// The process and the time of its first record.
static PROCESS: OnceLock<(Process, Instant)> = OnceLock::new();

fn line(text: impl Display) {
    let Some(to) = super::variable(VARIABLE) else {
        return;
    };
    if file_of_records().is_some() {
        return;
    }
    let text = format!("ptxkit: {text}\n");
    // A report that cannot be written is no reason to fail.
    if to == "stderr" {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(to) {
        let _ = file.write_all(text.as_bytes());
    }
}

/// The file, if it has records.
fn file_of_records() -> Option<PathBuf> {
    let path = PathBuf::from(super::variable(VARIABLE)?);
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    ["html", "json", "jsonl"]
        .contains(&extension.as_str())
        .then_some(path)
}

/// Appends a record, if the file has records.
fn append(fill: impl FnOnce(&mut Record<'_>)) {
    let Some(path) = file_of_records() else {
        return;
    };
    let mut is_first = false;
    let (process, zero) = PROCESS.get_or_init(|| {
        is_first = true;
        (Process::current(), Instant::now())
    });
    let mut record = Record::new(process, zero.elapsed().as_secs_f64());
    if is_first {
        let driver = "NVIDIA's driver through ptxkit's interposer";
        record.device = Some(Device::new(driver, driver));
        record.lanes.push(Lane {
            id: 0,
            name: "loads".into(),
        });
    }
    fill(&mut record);
    // A report that cannot be written is no reason to fail.
    let _ = record.append(&path);
}

/// Appends a load that took `time` until now.
fn load(entry: &str, (image, reason): (&str, &str), outcome: Outcome, time: Duration) {
    append(|record| {
        let seconds = time.as_secs_f64();
        let start = (record.seconds - seconds).max(0.0);
        record.events.push(Event {
            kind: match outcome {
                Outcome::Compiled => EventKind::Compile,
                _ => EventKind::Load,
            },
            lane: 0,
            start,
            seconds,
            name: image.to_owned(),
            bytes: None,
            grid: None,
            block: None,
            fault: None,
        });
        record.loads.push(Load {
            entry: entry.to_owned(),
            image: image.to_owned(),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            module: None,
            kernels: None,
            outcome,
            start,
            seconds,
        });
    });
}

fn failure(kind: Kind, entry: &str, error: &str, cause: &dyn Display) {
    append(|record| {
        let failure = Failure::new(kind, entry, error, cause.to_string(), 1);
        record.failures.push(failure);
    });
}

/// A file under the driver's name that does not open.
pub fn not_opened(file: &Path, error: &libloading::Error) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.unwrap_or_else(|| error.to_string());
    let text = format!("{} does not open: {cause}", file.display());
    failure(Kind::Error, "libcuda.so.1", "not opened", &text);
    line(text);
}

/// Another copy of this library under the driver's name.
pub fn is_a_copy(file: &Path) {
    let text = format!("{} is another copy of the interposer", file.display());
    failure(Kind::Error, "libcuda.so.1", "not opened", &text);
    line(text);
}

/// A load whose PTX was compiled or found in the cache. `warns` if PTX should not be compiled.
pub fn served(entry: &str, reason: &str, (is_compiled, warns): (bool, bool), time: Duration) {
    let (how, outcome) = if is_compiled {
        ("compiled", Outcome::Compiled)
    } else {
        ("from the cache", Outcome::Cached)
    };
    load(entry, (reason, ""), outcome, time);
    let text = format!(
        "{entry}: {reason}, {how} in {:.1} ms",
        time.as_secs_f64() * 1e3
    );
    if is_compiled && warns {
        always(&format!("{text} while the program runs"));
    } else {
        line(text);
    }
}

/// A load of a module or library that is cut.
pub fn cut(entry: &str, reason: &str, slices: usize, time: Duration) {
    let cut = format!("{reason}, {slices} slices");
    load(entry, (&cut, ""), Outcome::Lazy, time);
    line(format_args!(
        "{entry}: {reason}, {slices} slices to be compiled when they are used, {:.1} ms",
        time.as_secs_f64() * 1e3
    ));
}

/// A slice that was loaded because its kernel or variable is used.
pub fn slice(entry: &str, name: &str, how: (bool, bool), time: Duration) {
    served(entry, &format!("`{name}`"), how, time);
}

/// A slice that cannot be loaded.
pub fn failed(entry: &str, name: &str, why: &dyn Display) {
    let text = format!("`{name}`: {why}");
    failure(Kind::Error, entry, "slice not loaded", &text);
    line(format_args!("{entry}: {text}"));
}

/// The result of an addition to the list of what the program compiles. An error is printed once.
pub fn saved<T>(result: Option<std::io::Result<T>>) -> Option<T> {
    static ONCE: Once = Once::new();
    result?
        .inspect_err(|error| {
            ONCE.call_once(|| always(&format!("PTXKIT_SAVE_COMPILES cannot be written: {error}")));
        })
        .ok()
}

/// A load that the driver was given as it was.
pub fn forwarded(entry: &str, why: &str) {
    load(
        entry,
        ("as it was", why),
        Outcome::Forwarded,
        Duration::ZERO,
    );
    line(format_args!("{entry}: forwarded: {why}"));
}

/// A load that failed because PTX must not be compiled.
pub fn refused(entry: &str, why: &str) {
    failure(
        Kind::Refused,
        entry,
        "CUDA_ERROR_JIT_COMPILATION_DISABLED",
        &why,
    );
    always(&format!("{entry}: refused: {why}"));
}

/// A line that is printed without a report too.
pub fn always(text: &str) {
    if super::variable(VARIABLE).is_none_or(|to| to != "stderr") {
        let _ = writeln!(std::io::stderr(), "ptxkit: {text}");
    }
    line(text);
}
