//! What the rules cost: all default rules with reading and checking, beside
//! reading and checking alone, on one thread, in turn.
//!
//! The text is what nvcc made of `tests/conformance/large/large.cu`, 10 MB.
//!
//! `PTXKIT_PEER_PARSE` names a program that only parses: it is given the file,
//! and prints the seconds that took, without reading the file or starting up.
//! What all default rules take is then compared with it, in turn.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use ptxkit_lint as lint;

#[path = "../../ptx/tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

const RUNS: usize = 15;

fn main() {
    let text = archive::read("large");
    let megabytes = text.len() as f64 / 1e6;
    println!("{megabytes:.1} MB of nvcc's output, medians of {RUNS}");
    let options = lint::Options::default();
    let front_end = || {
        let reading = ptx::read(&text);
        black_box(ptx::check(&reading.module, &text));
        reading
    };
    let all = || {
        let reading = front_end();
        black_box(lint::run(&reading.module, &text, &options));
    };
    let mut runs: Vec<(f64, f64)> = (0..RUNS)
        .map(|_| (seconds(|| drop(front_end())), seconds(all)))
        .collect();
    runs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (alone, whole) = runs[RUNS / 2];
    println!("read and check         {:>8.1} MB/s", megabytes / alone);
    let rate = megabytes / whole;
    let verdict = if rate >= 40.0 { "met" } else { "MISSED" };
    println!("with all default rules {rate:>8.1} MB/s, goal 40: {verdict}");
    println!(
        "that is                {:>8.2} times as long",
        whole / alone
    );
    beside_peer(&text, all);
    rules(&text, &options);
}

/// Both in turn, so that whatever else the machine does slows both.
fn beside_peer(text: &str, all: impl Fn()) {
    let Some(program) = std::env::var_os("PTXKIT_PEER_PARSE") else {
        return println!("no peer: set PTXKIT_PEER_PARSE to compare with a parser");
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("the text in it");
    let mut command = Command::new(&program);
    command.arg(file.path());
    let peer = || -> Option<f64> {
        let output = command.output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let pairs: Option<Vec<(f64, f64)>> = std::iter::repeat_with(peer)
        .take(RUNS)
        .map(|theirs| Some((theirs?, seconds(&all))))
        .collect();
    let Some(mut pairs) = pairs else {
        return println!("{} does not print seconds", program.display());
    };
    pairs.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (theirs, ours) = pairs[RUNS / 2];
    let rate = text.len() as f64 / 1e6 / theirs;
    println!("the peer's parse alone {rate:>8.1} MB/s");
    let verdict = if theirs > ours { "met" } else { "MISSED" };
    println!(
        "with all default rules {:>8.2} times as fast, goal 1: {verdict}",
        theirs / ours
    );
}

/// What each rule adds to those before it.
fn rules(text: &str, options: &lint::Options) {
    let module = ptx::read(text).module;
    let mut some = options.clone();
    some.rules.clear();
    let mut before = seconds(|| drop(black_box(lint::run(&module, text, &some))));
    for rule in &options.rules {
        some.rules.push(rule);
        let mut times: Vec<f64> = (0..3)
            .map(|_| seconds(|| drop(black_box(lint::run(&module, text, &some)))))
            .collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{} {:<30} {:>7.1} ms",
            rule.code,
            rule.name,
            (times[1] - before) * 1e3
        );
        before = times[1];
    }
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}
