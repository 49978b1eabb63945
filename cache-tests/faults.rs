//! Every system call of a load, made to fail in turn.
//!
//! A small library in C is preloaded into a process of its own and fails the
//! call whose number it is told; the numbers go up until there is no such call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{blob_bytes, blob_path, cache, key, load, start, warnings_of};

/// The numbers of Linux, which are the same on x86-64 and aarch64.
const ERRORS: [(&str, i32); 6] = [
    ("EIO", 5),
    ("EACCES", 13),
    ("EMFILE", 24),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("ENOLCK", 37),
];

/// The process that the calls fail in: loads, and says what came of it. The
/// load itself asserts that the code is right.
pub fn load_and_report(folder: &Path, n: u64) {
    let cache = cache(folder, 1 << 30);
    let (outcome, warnings) = warnings_of(|| match cache.lookup(&key(n)) {
        ptxkit::cache::Lookup::Off => "off",
        ptxkit::cache::Lookup::Hit(blob) => {
            assert!(*blob == *crate::program::code(n));
            "hit"
        }
        ptxkit::cache::Lookup::Miss(lock) => {
            let blob =
                // SAFETY: data of this test, which nothing runs.
                unsafe { lock.put(&crate::program::provenance(n), &crate::program::code(n)) };
            assert!(*blob == *crate::program::code(n));
            "miss"
        }
        ptxkit::cache::Lookup::Failed(failure) => panic!("{failure}"),
    });
    println!("outcome {outcome}");
    for warning in warnings {
        println!("warning {warning}");
    }
}

/// The same on a folder that is too small for what is put.
pub fn put_and_report(folder: &Path, keys: u64, limit: u64) {
    let cache = cache(folder, limit);
    let (_, warnings) = warnings_of(|| {
        for n in 0..keys {
            assert!(load(&cache, n, || {}));
            assert!(!load(&cache, n, || {}), "{n} is not cached");
            assert!(blob_bytes(folder) <= limit);
        }
        let entries = cache.entries().unwrap().len() as u64;
        assert_eq!(cache.rebuild().unwrap().blobs, entries);
    });
    assert!(cache.counters().evictions > 0);
    println!("outcome put");
    for warning in warnings {
        println!("warning {warning}");
    }
}

struct Report {
    outcome: String,
    warnings: Vec<String>,
    failed: Vec<String>,
}

/// Loads `n` with the call of number `call` failing by `error`.
fn run(library: &Path, folder: &Path, n: u64, call: u32, error: i32, for_ever: bool) -> Report {
    let mut command = start("fault", folder, &[n]);
    command
        .env("LD_PRELOAD", library)
        .env("FAULT_CALL", call.to_string())
        .env("FAULT_ERRNO", error.to_string())
        .env("FAULT_TELL", "1");
    if for_ever {
        command.env("FAULT_FOR_EVER", "1");
    }
    report(&mut command)
}

fn report(command: &mut Command) -> Report {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{command:?}: {out}{err}");
    let lines = |text: &str, word: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.split_once(word))
            .map(|(_, rest)| rest.to_owned())
            .collect()
    };
    Report {
        outcome: lines(&out, "outcome ").concat(),
        warnings: lines(&out, "warning "),
        failed: lines(&err, "fault: "),
    }
}

/// Builds the library; `None` on a machine without a C compiler.
fn library(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("fault.so");
    let source = folder.join("fault.c");
    std::fs::write(&source, include_str!("fault.c")).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    match built {
        Ok(status) => {
            assert!(status.success());
            Some(library)
        }
        Err(error) => {
            eprintln!("left out: cc cannot be started: {error}");
            None
        }
    }
}

fn each_call_fails(prepare: impl Fn(&Path)) {
    let tools = tempfile::tempdir().unwrap();
    let Some(library) = library(tools.path()) else {
        return;
    };
    let mut seen = BTreeSet::new();
    for (name, error) in ERRORS {
        for for_ever in [false, true] {
            // To a full disk, and to one that is read-only, nothing succeeds later either.
            if for_ever && !["ENOSPC", "EROFS"].contains(&name) {
                continue;
            }
            for call in 1.. {
                let folder = tempfile::tempdir().unwrap();
                prepare(folder.path());
                let report = run(&library, folder.path(), 1, call, error, for_ever);
                let Some(failed) = report.failed.first() else {
                    // There are fewer calls than that, so nothing went wrong.
                    assert!(call > 10, "{name}: only {call} calls");
                    assert_eq!(report.warnings, [] as [&str; 0]);
                    break;
                };
                let what = format!("call {call}, {failed}: {name}, for ever: {for_ever}");
                seen.insert(failed.clone());
                assert!(report.warnings.len() <= 1, "{what}: {:?}", report.warnings);
                // What is not cached is told of.
                let is_there = blob_path(folder.path(), &key(1)).exists();
                assert!(
                    is_there || report.warnings.len() == 1,
                    "{what}: {}, and no warning",
                    report.outcome
                );
                // And the folder is none the worse for it.
                let after = cache(folder.path(), 1 << 30);
                let (miss, warnings) = warnings_of(|| load(&after, 1, || {}));
                assert!(!(miss && is_there), "{what}: the blob is not found");
                assert_eq!(warnings, [] as [&str; 0], "{what}");
                assert!(!load(&after, 1, || {}), "{what}: not cached after it");
            }
        }
    }
    for call in ["mkdir", "open64", "statx", "write", "flock", "rename"] {
        assert!(
            seen.contains(call),
            "{call} was never made to fail: {seen:?}"
        );
    }
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn each_call_of_the_first_put_fails_in_turn() {
    each_call_fails(|_| {});
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn each_call_of_a_hit_fails_in_turn() {
    let tools = tempfile::tempdir().unwrap();
    let Some(library) = library(tools.path()) else {
        return;
    };
    for (name, error) in ERRORS {
        for call in 1.. {
            let folder = tempfile::tempdir().unwrap();
            load(&cache(folder.path(), 1 << 30), 1, || {});
            let report = run(&library, folder.path(), 1, call, error, false);
            if report.failed.is_empty() {
                assert_eq!(report.outcome, "hit");
                break;
            }
            let what = format!("call {call}, {}: {name}", report.failed[0]);
            assert!(report.warnings.len() <= 1, "{what}: {:?}", report.warnings);
            assert!(!load(&cache(folder.path(), 1 << 30), 1, || {}), "{what}");
        }
    }
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_file_system_without_locks_is_slower_and_no_worse() {
    let (tools, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(library) = library(tools.path()) else {
        return;
    };
    let mut command = start("put-all", folder.path(), &[40, 300_000]);
    command
        .env("LD_PRELOAD", library)
        .env("FAULT_ONLY", "flock")
        .env("FAULT_CALL", "1")
        .env("FAULT_ERRNO", "37")
        .env("FAULT_FOR_EVER", "1");
    let report = report(&mut command);
    assert_eq!(report.outcome, "put");
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(report.warnings[0].contains("lock"), "{:?}", report.warnings);
}
