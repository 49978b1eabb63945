//! How long `ptxcheck` takes as a process: one file of 21 KB, and 1,000 files
//! of 20 KB, each beside `ptxas -arch=compute_90` on the same files; and how long
//! `ptxcheck server` takes from a change in a text of 1 MB to its diagnostics.
//!
//! The texts are functions of what nvcc made of
//! `tests/conformance/large/large.cu`. `PTXAS` names the ptxas; without it, the
//! one of `PATH` is taken, if any.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "../../ptx/tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

#[path = "../tests/check/server/client.rs"]
#[allow(dead_code, reason = "only documents are opened and changed")]
mod client;

const FILES: usize = 1000;
/// ptxas takes one file a process: of so many, the time of all is told.
const OF_PTXAS: usize = 20;

fn main() {
    let text = archive::read("large");
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let folder = folder.path();
    std::fs::write(folder.join("one.ptx"), cut(&text, 21_000)).expect("a file in it");
    std::fs::create_dir(folder.join("many")).expect("a folder in it");
    let content = cut(&text, 20_000);
    for number in 0..FILES {
        let path = folder.join(format!("many/{number:04}.ptx"));
        std::fs::write(path, &content).expect("a file in it");
    }

    let (one, one_of_ptxas) = pairs(15, folder, "one.ptx", 1, "one.ptx");
    goal("one file of 21 KB", one * 1e3, 10.0, "ms");
    beside(one_of_ptxas / one);
    let (many, some_of_ptxas) = pairs(7, folder, "many", OF_PTXAS, "many/0000.ptx");
    goal("1,000 files of 20 KB", many, 1.0, "s");
    beside(some_of_ptxas * FILES as f64 / OF_PTXAS as f64 / many);
    let change = change(&cut(&text, 1_000_000));
    goal("a change in 1 MB", change * 1e3, 30.0, "ms");
}

/// Median of the time from a change to the diagnostics of the text after it: someone
/// types a comment in the middle of it.
fn change(text: &str) -> f64 {
    const URI: &str = "untitled:k.ptx";
    let mut client = client::Client::start(&mut program());
    client.open(URI, text);
    client.diagnostics(URI, 1);
    let line = text.lines().count() / 2;
    let place = serde_json::json!({"line": line, "character": 0});
    let range = serde_json::json!({"start": place, "end": place});
    let mut times = Vec::new();
    for version in 2..60 {
        let letter = if version == 2 { "// \n" } else { "/" };
        times.push(seconds(|| {
            client.change(URI, version, &[(range.clone(), letter)]);
            client.diagnostics(URI, version);
        }));
    }
    client.end();
    median(times)
}

/// Packed benches find it by the environment.
fn program() -> Command {
    let program = std::env::var_os("PTXKIT_CHECK_BIN");
    Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_ptxcheck").into()))
}

/// Medians of ours over `path` and of ptxas over `file`, so many times, in turn.
fn pairs(runs: usize, folder: &Path, path: &str, of_ptxas: usize, file: &str) -> (f64, f64) {
    let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..=runs {
        let mut command = program();
        command
            .arg(path)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ours.push(seconds(|| drop(command.status())));
        let mut command = Command::new(&ptxas);
        command
            .args(["-arch=compute_90", file, "-o", "out"])
            .current_dir(folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let there = command.status().is_ok();
        theirs.push(if there {
            seconds(|| (0..of_ptxas).for_each(|_| drop(command.status())))
        } else {
            f64::NAN
        });
    }
    (median(ours), median(theirs))
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// Without the first, which warms up.
fn median(mut times: Vec<f64>) -> f64 {
    times.remove(0);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Printed, not asserted: a busy machine must not fail a build.
fn goal(what: &str, value: f64, goal: f64, unit: &str) {
    let verdict = if value <= goal { "met" } else { "MISSED" };
    println!("{what:<22} {value:>8.2} {unit}, goal {goal}: {verdict}");
}

fn beside(ratio: f64) {
    if ratio.is_nan() {
        println!("no ptxas: set PTXAS to compare with one")
    } else {
        println!("{:<22} {ratio:>8.1} times as fast", "beside ptxas, in turn")
    }
}

/// So many bytes of functions that need nothing of the rest of the text.
fn cut(text: &str, bytes: usize) -> String {
    const HEAD: &str = ".address_size 64\n";
    let (head, rest) = text.split_at(text.find(HEAD).map_or(0, |at| at + HEAD.len()));
    let mut all = head.to_owned();
    for function in rest.split_inclusive("\n}\n") {
        let alone = format!("{head}{function}");
        let reading = ptx::read(&alone);
        let good = reading.diagnostics.is_empty() && ptx::check(&reading.module, &alone).is_empty();
        if good && function.len() > 2000 && all.len() + function.len() <= bytes {
            all.push_str(function);
        }
        if all.len() + 2000 > bytes {
            break;
        }
    }
    all
}
