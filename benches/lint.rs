//! What the rules cost: all default rules with reading and checking, beside
//! reading and checking alone, on one thread, in turn.
//!
//! The text is what nvcc made of `tests/conformance/large/large.cu`, 10 MB.

use std::hint::black_box;
use std::time::Instant;

use ptxkit::{lint, ptx};

#[path = "../tests/conformance/archive.rs"]
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
    rules(&text, &options);
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
