//! How fast the front end is: reading, and reading with checking, on one
//! thread, and cutting into slices; beside `ptxas -arch=compute_90`, which does no more than that.
//!
//! What ptxas takes for a megabyte depends on what stands in it, so there are
//! four kinds of text, all made by nvcc: see [`Kind`]. For the growth from 5 to
//! 60 MB the first is cut at a function, and repeated. Peak memory is that of a
//! process of its own, which reads and checks once.
//!
//! `PTXAS` names the ptxas; without it, the one of `PATH` is taken, if any.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ptxkit_ptx::{self as ptx, slice};

#[path = "../tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

/// Set in the process that only measures its memory: the file to read.
const CHILD: &str = "PTXKIT_BENCH_MEMORY";
const RUNS: usize = 9;

/// A text to measure on.
struct Kind {
    name: &'static str,
    text: String,
}

/// The least that counts, in bytes: of what is less, one copy follows another.
const ENOUGH: usize = 5_000_000;

fn kinds() -> Vec<Kind> {
    let corpus = archive::entries(&archive::read("corpus"));
    let of_corpus = |name: &str| {
        let entry = corpus.iter().find(|entry| entry.name == name);
        &entry.expect("a module of the corpus").text
    };
    vec![
        Kind {
            name: "sorting, reducing and scanning with CUB: large/large.cu",
            text: archive::read("large"),
        },
        Kind {
            name: "small kernels, again and again: large/kernels.cu",
            text: repeated(&archive::read("kernels"), ENOUGH),
        },
        Kind {
            name: "double-precision mathematics, again and again: cuda/math_double.cu",
            text: repeated(of_corpus("math_double.sm_80.plain"), ENOUGH),
        },
        Kind {
            name: "built with -G, half of it for a debugger: cuda/device_select.cu",
            text: of_corpus("device_select.sm_90a.debug").clone(),
        },
    ]
}

fn main() {
    if let Some(path) = std::env::var_os(CHILD) {
        return measure_memory(path.as_ref());
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let kinds = kinds();
    for Kind { name, text } in &kinds {
        let megabytes = text.len() as f64 / 1e6;
        println!("{megabytes:.1} MB, {name}");
        let read = seconds(RUNS, || drop(black_box(ptx::read(text))));
        let whole = seconds(RUNS, || front_end(text));
        goal("read", megabytes / read, 200.0, "MB/s");
        goal("read and check", megabytes / whole, 100.0, "MB/s");
        cutting(text, read);
        beside_ptxas(text, folder.path());
        println!();
    }

    let text = &kinds[0].text;
    let (small, big) = (cut(text, ENOUGH), repeated(text, 60_000_000));
    for text in [&small, &big] {
        let path = folder.path().join("memory.ptx");
        std::fs::write(&path, text).expect("a file in the folder");
        let name = format!("memory, {:.0} MB", text.len() as f64 / 1e6);
        match memory(&path) {
            Some(bytes) => at_most(&name, bytes / text.len() as f64, 8.0, "times the text"),
            None => println!("{name}: this system does not say"),
        }
    }
    let rate = |text: &str| text.len() as f64 / seconds(RUNS, || front_end(text));
    at_most(
        "time, 5 to 60 MB",
        rate(&small) / rate(&big),
        1.15,
        "times as much a byte",
    );
}

/// Cutting into slices, beside the seconds that reading takes; and the text of all slices.
fn cutting(text: &str, read: f64) {
    let module = ptx::read(text).module;
    let slices = slice::cut(text, &module);
    if let Some(why) = slices.whole() {
        println!("{:<22} not done: {why}", "cut");
        return;
    }
    let cut = seconds(RUNS, || drop(black_box(slice::cut(text, &module))));
    at_most("cut", cut / read, 0.5, "times as long as reading");
    let write = seconds(RUNS, || {
        for slice in slices.slices() {
            black_box(slice.text(text));
        }
    });
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{:<22} {:>8.1} MB/s, {} slices",
        "text of the slices",
        megabytes / write,
        slices.slices().len()
    );
}

/// Both in turn, so that whatever else the machine does slows both.
fn beside_ptxas(text: &str, folder: &Path) {
    let path = folder.join("module.ptx");
    std::fs::write(&path, text).expect("a file in the folder");
    let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
    let mut command = Command::new(&ptxas);
    command.arg(format!("-arch=compute_{}", architecture(text)));
    command.arg(&path).arg("-o").arg(folder.join("out"));
    match command.output() {
        Ok(output) if output.status.success() => {
            let mut pairs: Vec<(f64, f64)> = (0..RUNS)
                .map(|_| {
                    let ours = seconds(1, || front_end(text));
                    (seconds(1, || drop(command.output())) / ours, ours)
                })
                .collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (ratio, ours) = pairs[RUNS / 2];
            let rate = text.len() as f64 / 1e6 / (ours * ratio);
            println!("{:<22} {rate:>8.1} MB/s", "ptxas");
            goal("beside ptxas, in turn", ratio, 20.0, "times as fast");
        }
        Ok(output) => println!("ptxas failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => println!("no ptxas: set PTXAS to compare with one"),
    }
}

/// `90`, or `90a` of a module for `sm_90a`, which is for no other.
fn architecture(text: &str) -> &str {
    let target = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
    let end = target.find(|c: char| !c.is_ascii_alphanumeric());
    match &target[..end.unwrap_or(target.len())] {
        special if special.ends_with('a') => special,
        _ => "90",
    }
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
    // Functions, labels, and what the library of mathematics brings along.
    let names = ["_Z", "$L__", "__cudart", "__internal"];
    let mut all = head.to_owned();
    for copy in 0.. {
        if all.len() >= bytes {
            break;
        }
        let renamed = names.iter().fold(functions.to_owned(), |text, name| {
            text.replace(name, &format!("{name}{copy}_"))
        });
        all.push_str(&renamed);
    }
    all
}

/// Bytes that reading and checking a file take at most, its text included.
fn memory(path: &Path) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).env(CHILD, path).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn measure_memory(path: &Path) {
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
