//! Every entry, called with what no program should pass: null, freed handles, handles of other
//! kinds, numbers that are absurd as sizes, and texts that are no code. A call returns an error;
//! it neither ends the process nor panics within.
//!
//! Pointers that are not null point to memory of the test: one into nowhere is a fault of the
//! program, in NVIDIA's driver too. What is below 64 KiB or above what a process can address is a
//! handle or a number in the wrong place, and is refused.

mod arguments;
mod world;

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::*;
use arguments::{Argument, Source};
use cuda::execution_control::*;
use cuda::*;
use std::ffi::{c_char, c_int, c_uint, c_void};
use world::World;

/// `CUDA_ERROR_UNKNOWN`, which is what a panic becomes.
const UNKNOWN: c_int = 999;

/// Calls of one entry, in one process, and how many of them have the same objects.
const CALLS: u64 = 80;
const OBJECTS: u64 = 20;

/// Calls in a sequence of different entries, in one process.
const LENGTH: u64 = 400;

/// A call that takes longer than this is one that has no end.
const LONGEST: Duration = Duration::from_secs(120);

/// What the child process does: an entry's name, or the seed of a sequence.
const TASK: &str = "PTXKIT_HOSTILE_TASK";

/// Number of the sequences.
const SEQUENCES: &str = "PTXKIT_HOSTILE_SEQUENCES";

struct Entry {
    name: &'static str,
    call: fn(&mut Source) -> c_int,
}

macro_rules! entries {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $base:literal $since:literal; )*) => {
        [$( Entry {
            name: stringify!($name),
            call: |_source: &mut Source| {
                _source.begin(stringify!($name));
                $( let $arg: $ty = Argument::choose(_source); )*
                _source.tell();
                // SAFETY: pointers are null, or to memory of the test; the entry returns an
                // error for the rest, which is what is tested.
                let status = unsafe { $name($($arg),*) };
                _source.end(status);
                status
            },
        } ),*]
    };
}

/// The entries of the table, and those that are no rows of it.
fn entries() -> Vec<Entry> {
    let rows = api::driver_entries!(entries);
    let own = entries! {
        fn cuGetProcAddress(symbol: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64) = "" 0;
        fn cuGetProcAddress_v2(symbol: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint) = "" 0;
        fn cuGetExportTable(table: *mut *const c_void, number: *const CUuuid) = "" 0;
    };
    let before_cu_launch_kernel = entries! {
        fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) = "" 0;
        fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) = "" 0;
        fn cuParamSetSize(function: CUfunction, bytes: c_uint) = "" 0;
        fn cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) = "" 0;
        fn cuParamSetf(function: CUfunction, offset: c_int, value: f32) = "" 0;
        fn cuParamSetv(function: CUfunction, offset: c_int, bytes: *mut c_void, count: c_uint) = "" 0;
        fn cuParamSetTexRef(function: CUfunction, unit: c_int, reference: CUtexref) = "" 0;
        fn cuLaunch(function: CUfunction) = "" 0;
        fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) = "" 0;
        fn cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream) = "" 0;
    };
    let own = own.into_iter().chain(before_cu_launch_kernel);
    rows.into_iter().chain(own).collect()
}

/// Entries that wait for what never happens, which is what they are for: not in sequences.
fn waits(name: &str) -> bool {
    name.starts_with("cuStreamWaitValue")
        || [
            "cuStreamBatchMemOp_v2",
            "cuGraphConditionalHandleCreate",
            "cuLaunchHostFunc",
        ]
        .contains(&name)
}

#[test]
#[ignore = "it is a child process"]
fn child() {
    let task = std::env::var(TASK).unwrap();
    let entries = entries();
    match task.parse::<u64>() {
        Ok(seed) => sequence(&entries, seed),
        Err(_) => {
            let entry = entries.iter().find(|entry| entry.name == task).unwrap();
            calls(entry);
        }
    }
    // Streams may have work that has no end.
    // SAFETY: the process ends.
    unsafe { libc::_exit(0) };
}

/// Calls one entry, each time with other arguments.
fn calls(entry: &Entry) {
    for seed in 0..CALLS / OBJECTS {
        let mut source = Source::new(World::new(), seed);
        for _ in 0..OBJECTS {
            let status = (entry.call)(&mut source);
            assert_ne!(status, UNKNOWN, "{}: {}", entry.name, world::last_fault());
        }
    }
}

/// Calls different entries one after the other: what one makes or frees, others are given.
fn sequence(entries: &[Entry], seed: u64) {
    let mut source = Source::new(World::new(), seed);
    let entries: Vec<&Entry> = entries.iter().filter(|entry| !waits(entry.name)).collect();
    for _ in 0..LENGTH {
        let entry = entries[source.below(entries.len())];
        let status = (entry.call)(&mut source);
        assert_ne!(status, UNKNOWN, "{}: {}", entry.name, world::last_fault());
    }
}

/// Runs a task in a child process; returns what went wrong.
fn run(task: &str, folder: &std::path::Path) -> Result<(), String> {
    let log = folder.join(format!("{task}.log"));
    let output = std::fs::File::create(&log).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "hostile::child", "--nocapture"])
        .env(TASK, task)
        .env_remove("PTXKIT_EXEC_REPORT")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if started.elapsed() > LONGEST => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if ended.is_some_and(|status| status.success()) {
        std::fs::remove_file(&log).unwrap();
        return Ok(());
    }
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    let last = text.lines().rev().take(6).collect::<Vec<_>>();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n    ");
    let how = ended.map_or("has no end".to_owned(), |status| status.to_string());
    Err(format!("{task}: {how}\n    {last}"))
}

/// Runs tasks in as many processes as there are processors; fails with all that went wrong.
fn run_all(tasks: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(what) = run(task, folder.path()) {
                        wrong.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        tasks.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_argument_of_an_entry_ends_the_process() {
    let entries = entries();
    let names = entries.iter().map(|entry| entry.name.to_owned());
    let tasks: Vec<String> = names.collect();
    assert!(tasks.len() > 350);
    run_all(&tasks);
}

#[test]
fn no_sequence_of_calls_ends_the_process() {
    let count = std::env::var(SEQUENCES).map_or(24, |count| count.parse().unwrap());
    let tasks: Vec<String> = (0..count).map(|seed: u64| seed.to_string()).collect();
    run_all(&tasks);
}
