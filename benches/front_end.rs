//! How fast the front end is: reading, and reading with checking, on one
//! thread, beside `ptxas -arch=compute_90`, which does no more than that.
//!
//! The text is what nvcc made of `tests/conformance/large/large.cu`, 10 MB.
//! For the growth from 5 to 60 MB it is cut at a function, and repeated with
//! another number in the name of every function and variable. Peak memory is
//! that of a process of its own, which reads and checks once.
//!
//! `PTXAS` names the ptxas; without it, the one of `PATH` is taken, if any.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use ptxkit::ptx;

#[path = "../tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

/// Set in the process that only measures its memory: the file to read.
const CHILD: &str = "PTXKIT_BENCH_MEMORY";
const RUNS: usize = 15;

fn main() {
    if let Some(path) = std::env::var_os(CHILD) {
        return measure_memory(path.as_ref());
    }
    let text = archive::read("large");
    let megabytes = text.len() as f64 / 1e6;
    println!("{megabytes:.1} MB of nvcc's output, medians of {RUNS}");

    let read = seconds(RUNS, || drop(black_box(ptx::read(&text))));
    let whole = seconds(RUNS, || front_end(&text));
    goal("read", megabytes / read, 200.0, "MB/s");
    goal("read and check", megabytes / whole, 100.0, "MB/s");

    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file in it");
        path
    };
    let path = file("large.ptx", &text);
    let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
    let mut command = Command::new(&ptxas);
    command.arg("-arch=compute_90").arg(&path);
    command.arg("-o").arg(folder.path().join("out"));
    match command.output() {
        Ok(output) if output.status.success() => {
            let mut pairs: Vec<(f64, f64)> = (0..RUNS)
                .map(|_| {
                    let ours = seconds(1, || front_end(&text));
                    (seconds(1, || drop(command.output())) / ours, ours)
                })
                .collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (ratio, ours) = pairs[RUNS / 2];
            println!("{:<22} {:>8.1} MB/s", "ptxas", megabytes / (ours * ratio));
            goal("beside ptxas, in turn", ratio, 20.0, "times as fast");
        }
        Ok(output) => println!("ptxas failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => println!("no ptxas: set PTXAS to compare with one"),
    }

    let (small, big) = (cut(&text, 5_000_000), repeated(&text, 60_000_000));
    for text in [&small, &big] {
        let path = file("memory.ptx", text);
        let name = format!("memory, {:.0} MB", text.len() as f64 / 1e6);
        match memory(&path) {
            Some(bytes) => at_most(&name, bytes / text.len() as f64, 8.0, "times the text"),
            None => println!("{name}: this system does not say"),
        }
    }
    let rate = |text: &str| text.len() as f64 / seconds(RUNS.min(7), || front_end(text));
    at_most(
        "time, 5 to 60 MB",
        rate(&small) / rate(&big),
        1.15,
        "times as much a byte",
    );
}

fn front_end(text: &str) {
    let reading = ptx::read(text);
    assert_eq!(reading.diagnostics, []);
    let found = ptx::check(&reading.module, text);
    assert_eq!(found, []);
    black_box(reading);
}

/// The median of so many runs, after one that warms up.
fn seconds(runs: usize, mut run: impl FnMut()) -> f64 {
    if runs > 1 {
        run();
    }
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

/// Printed, not asserted: a busy machine must not fail a build.
fn goal(what: &str, value: f64, goal: f64, unit: &str) {
    let verdict = if value >= goal { "met" } else { "MISSED" };
    println!("{what:<22} {value:>8.1} {unit}, goal {goal}: {verdict}");
}

fn at_most(what: &str, value: f64, goal: f64, unit: &str) {
    let verdict = if value <= goal { "met" } else { "MISSED" };
    println!("{what:<22} {value:>8.2} {unit}, goal {goal}: {verdict}");
}

/// The functions that begin in the first so many bytes.
fn cut(text: &str, bytes: usize) -> String {
    let end = text[bytes..]
        .find("\n}\n")
        .map_or(text.len(), |at| bytes + at + 3);
    text[..end].to_owned()
}

/// The functions again and again, called something else each time.
fn repeated(text: &str, bytes: usize) -> String {
    let head = text
        .find(".address_size 64")
        .map_or(0, |at| at + ".address_size 64".len());
    let (head, functions) = text.split_at(head);
    let mut all = head.to_owned();
    for copy in 0.. {
        if all.len() >= bytes {
            break;
        }
        all.push_str(
            &functions
                .replace("_Z", &format!("_Z{copy}_"))
                .replace("$L__", &format!("$L{copy}__")),
        );
    }
    all
}

/// Bytes that reading and checking a file take at most, its text included.
fn memory(path: &std::path::Path) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).env(CHILD, path).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn measure_memory(path: &std::path::Path) {
    let before = status("VmRSS:");
    let text = std::fs::read_to_string(path).expect("the file that the bench wrote");
    front_end(&text);
    if let (Some(before), Some(peak)) = (before, status("VmHWM:")) {
        println!("{}", peak - before);
    }
}

/// A line of Linux's `/proc/self/status`, in bytes.
fn status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024.0)
}
