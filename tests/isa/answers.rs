//! What an H200 computed, in tables that `scripts/gpu-answers` writes.

use std::process::Command;

use ptxkit::cpu::Vectorization;

use crate::kernels::{Kernels, device};

/// The variable that tells a child process which test it runs.
const CHILD: &str = "PTXKIT_TEST_CHILD";
/// Bodies of a module.
const BODIES: usize = 64;

/// A body, its inputs, and what a GPU gives for each of them.
struct Answer<'t> {
    body: &'t str,
    inputs: Vec<[u64; 4]>,
    results: Vec<u64>,
}

fn hexadecimal(word: &str) -> u64 {
    u64::from_str_radix(word, 16).expect("a hexadecimal number")
}

/// The answers in a table. Those to bodies that a GPU refuses are left out.
fn answers(table: &str) -> Vec<Answer<'_>> {
    let mut inputs: Vec<(&str, Vec<[u64; 4]>)> = Vec::new();
    let (mut of_bodies, mut body, mut found) = (None, None, Vec::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(' ') {
            Some(("inputs", name)) => {
                inputs.push((name, Vec::new()));
                of_bodies = None;
            }
            Some(("bodies", name)) => {
                of_bodies = inputs.iter().position(|(other, _)| *other == name);
                assert!(of_bodies.is_some(), "there are no inputs {name}");
            }
            Some(("=", results)) => found.push(Answer {
                body: body.expect("a body is before its results"),
                inputs: inputs[of_bodies.expect("it has inputs")].1.clone(),
                results: results.split(' ').map(hexadecimal).collect(),
            }),
            Some(_) if of_bodies.is_some() => body = Some(line),
            Some(_) => {
                let four: Vec<u64> = line.split(' ').map(hexadecimal).collect();
                let table = &mut inputs.last_mut().expect("inputs have a name").1;
                table.push(four.try_into().expect("four numbers"));
            }
            None => {}
        }
    }
    found
}

/// Runs each body of a table as first code and as code for lane groups.
fn check(table: &str) {
    let (device, answers) = (device(), answers(table));
    assert!(!answers.is_empty());
    let mut wrong = Vec::new();
    for lanes in [Vectorization::Never, Vectorization::Always] {
        for chunk in answers.chunks(BODIES) {
            let bodies: Vec<&str> = chunk.iter().map(|answer| answer.body).collect();
            let kernels = Kernels::load(&device, &bodies, lanes);
            for (
                number,
                Answer {
                    body,
                    inputs,
                    results,
                },
            ) in chunk.iter().enumerate()
            {
                match kernels.run(number, inputs) {
                    Ok(found) => {
                        let differs = |at: &usize| found[*at] != results[*at];
                        if let Some(at) = (0..results.len()).find(differs) {
                            let count = (0..results.len()).filter(differs).count();
                            wrong.push(format!(
                                "{body} {:X?}\n  gives {:#X}, not {:#X} ({lanes:?}, {count} of {})",
                                inputs[at],
                                found[at],
                                results[at],
                                results.len()
                            ));
                        }
                    }
                    Err(error) => wrong.push(format!("{body}\n  {error}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a test in a process of its own with `PTXKIT_CPU_NAN=gpu`.
fn with_gpu_nans(name: &str, test: fn()) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env("PTXKIT_CPU_NAN", "gpu")
        .output()
        .expect("the test starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn carries() {
    check(include_str!("answers/carry.txt"));
}

#[test]
fn fields_beyond_the_width() {
    check(include_str!("answers/field.txt"));
}

#[test]
fn video_instructions() {
    check(include_str!("answers/video.txt"));
}

#[test]
fn bits_of_nans() {
    with_gpu_nans("answers::bits_of_nans", || {
        check(include_str!("answers/nan.txt"));
    });
}
