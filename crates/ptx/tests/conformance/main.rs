//! Whether the front end judges as ptxas does, on the recorded sets.
//!
//! `recorded/` holds modules with ptxas's verdict and the line of its first
//! error; `record/` says how they came about and makes them anew. The figures
//! are printed with `cargo test --test conformance -- --nocapture`; with
//! `PTXKIT_CONFORMANCE_SHOW=1` every difference as well. `differences.txt` says
//! why those that are known are there.

mod archive;
mod differences;
mod hand;
mod instruction;
mod judge;
mod parallel;
mod shape;

use archive::{Entry, Verdict, entries, read};
use differences::causes;
use judge::{Case, Figures};
use ptxkit_ptx::diagnostic::Code;
use ptxkit_ptx::printer::print;
use ptxkit_ptx::{self as ptx, Level};
use shape::shape;

/// Per cent that must agree, on accepting and rejecting, and on the line of the
/// first error of what both reject.
struct Least {
    verdicts: f64,
    lines: f64,
}

fn compare(set: &str, cases: &[Case], least: &Least) {
    let figures = Figures::of(cases);
    let causes = causes();
    let unexplained: Vec<&str> = figures
        .differences
        .iter()
        .map(String::as_str)
        .filter(|difference| !causes.iter().any(|cause| cause.explains(set, difference)))
        .collect();
    println!(
        "{set}: {figures}; {} of {} differences are not in the list",
        unexplained.len(),
        figures.differences.len()
    );
    if std::env::var_os("PTXKIT_CONFORMANCE_SHOW").is_some() {
        println!("{}", figures.differences.concat());
    }
    let shown = unexplained.iter().take(5).copied().collect::<String>();
    assert!(
        unexplained.is_empty(),
        "{set}: {} differences are not in the list:\n{shown}",
        unexplained.len()
    );
    assert!(
        figures.verdicts() >= least.verdicts,
        "{set}: too many verdicts differ: {figures}\n{shown}"
    );
    assert!(
        figures.lines() >= least.lines,
        "{set}: too many lines differ: {figures}\n{shown}"
    );
}

#[test]
fn compiler_output() {
    let cases: Vec<Case> = entries(&read("corpus"))
        .into_iter()
        .map(
            |Entry {
                 name,
                 verdict,
                 text,
             }| Case {
                name,
                verdict,
                text: text.into_bytes(),
            },
        )
        .collect();
    compare(
        "compiler output",
        &cases,
        &Least {
            verdicts: 100.0,
            lines: 100.0,
        },
    );
}

/// What a compiler writes is known to be valid without a tree of the whole text.
#[test]
fn compiler_output_is_surely_valid() {
    let options = ptx::CheckOptions::default();
    for Entry { name, text, .. } in entries(&read("corpus")) {
        let accepted = judge::judge(text.as_bytes()).0 == Verdict::Accepted;
        assert_eq!(ptx::is_surely_valid(&text, &options), accepted, "{name}");
    }
}

/// Printing loses nothing but the layout.
#[test]
fn compiler_output_printed_and_read_again() {
    let entries = entries(&read("corpus"));
    let lost: Vec<&str> = entries
        .iter()
        .filter(|entry| {
            // Directives keep their text, layout and all.
            let text = entry.text.replace('\t', " ");
            let reading = ptx::read(&text);
            let printed = print(&reading.module);
            shape(&ptx::read(&printed).module) != shape(&reading.module)
        })
        .map(|entry| entry.name.as_str())
        .collect();
    assert!(lost.is_empty(), "{lost:?} changed by printing");
}

/// Several threads read and check what one does, also where something is wrong in the
/// second half.
#[test]
fn several_threads_agree() {
    let mut texts: Vec<String> = vec![read("large"), read("kernels")];
    let entries = entries(&read("corpus")).into_iter();
    texts.extend(
        entries
            .map(|entry| entry.text)
            .filter(|text| text.len() > 300_000),
    );
    let wrong: Vec<String> = texts
        .iter()
        .map(|text| {
            let half = text.ceil_char_boundary(text.len() / 2);
            let at = half + text[half..].find(';').unwrap_or_default();
            format!("{} x{}", &text[..at], &text[at..])
        })
        .collect();
    for text in texts.iter().chain(&wrong) {
        let one = ptx::read(text);
        let found = ptx::check(&one.module, text);
        for threads in [2, 7] {
            let several = ptx::read_parallel(text, threads);
            assert!(several == one, "{threads} threads: {:.60}", text);
            assert_eq!(
                ptx::check_parallel(&one.module, text, &ptx::CheckOptions::default(), threads),
                found
            );
        }
    }
    println!("several threads: {} modules", texts.len() + wrong.len());
    assert!(texts.len() > 5, "{}", texts.len());
}

/// What is accepted as a whole is accepted in slices.
#[test]
fn slices_of_compiler_output() {
    let corpus = entries(&read("corpus"));
    let kernels = read("kernels");
    let texts = corpus.iter().map(|entry| entry.text.as_str());
    let texts: Vec<&str> = texts.chain([kernels.as_str()]).collect();
    let cut = parallel::parallel(&texts, |text| {
        let module = ptx::read(text).module;
        let slices = ptx::slice::cut(text, &module);
        if slices.whole().is_some() || !ptx::check(&module, text).is_empty() {
            return false;
        }
        for slice in slices.slices() {
            let slice = slice.text(text);
            let reading = ptx::read(&slice);
            assert_eq!(reading.diagnostics, [], "{slice}");
            assert_eq!(ptx::check(&reading.module, &slice), [], "{slice}");
        }
        true
    });
    let cut = cut.iter().filter(|cut| **cut).count();
    println!("slices: {cut} of {} modules are cut", texts.len());
    assert!(cut > 5, "{cut} of {}", texts.len());
}

#[test]
fn grid() {
    let recorded = read("grid");
    let cases: Vec<Case> = recorded
        .lines()
        .map(|line| {
            let mut words = line.splitn(4, ' ');
            let mut word = || {
                words
                    .next()
                    .expect("a version, a target, a verdict, an instruction")
            };
            let (version, target, verdict, instruction) = (word(), word(), word(), word());
            Case {
                name: format!("{version} {target} {instruction}"),
                verdict: Verdict::parse(verdict).expect("a verdict"),
                text: instruction::module(version, target, instruction).into_bytes(),
            }
        })
        .collect();
    compare(
        "grid",
        &cases,
        &Least {
            verdicts: 99.9,
            lines: 99.0,
        },
    );
}

#[test]
fn mutations() {
    let seeds = entries(&read("seeds"));
    let recorded = read("mutations");
    let cases: Vec<Case> = recorded
        .lines()
        .map(|line| {
            let mut words = line.splitn(5, ' ');
            let mut word = || {
                words
                    .next()
                    .expect("a module, start, end, a verdict, a replacement")
            };
            let (seed, start, end, verdict, replacement) = (word(), word(), word(), word(), word());
            let seed: &Entry = &seeds[seed.parse::<usize>().expect("the number of a module")];
            let range = start.parse().expect("a start")..end.parse().expect("an end");
            let name = format!(
                "{} {range:?} {:?} -> {replacement}",
                seed.name,
                &seed.text[range.clone()]
            );
            let replacement = unquoted(replacement);
            let mut text = seed.text.clone();
            text.replace_range(range, &replacement);
            Case {
                name,
                verdict: Verdict::parse(verdict).expect("a verdict"),
                text: text.into_bytes(),
            }
        })
        .collect();
    compare(
        "mutations",
        &cases,
        &Least {
            verdicts: 99.9,
            lines: 99.0,
        },
    );
}

/// What a module needs at least is what ptxas takes and, one below, does not.
#[test]
fn floors() {
    let entries = entries(&read("corpus"));
    let recorded = read("floors");
    let recorded: Vec<&str> = recorded.lines().collect();
    let different = parallel::parallel(&recorded, |line| {
        let (name, floor) = line.split_once(' ').expect("a name and a floor");
        let entry = entries.iter().find(|entry| entry.name == name);
        let text = &entry.expect("a module of the corpus").text;
        let ours = match ptx::version::needed(&ptx::read(text).module, text) {
            Some(needed) => format!("{} {}", needed.version, needed.target),
            None => "none".to_owned(),
        };
        (ours != floor).then(|| format!("{name}: {floor}, here {ours}\n"))
    });
    let different: Vec<String> = different.into_iter().flatten().collect();
    println!(
        "floors: {} modules, {} differ",
        recorded.len(),
        different.len()
    );
    assert!(different.is_empty(), "{}", different.concat());
}

/// By hand: for each code, what has it and what just has not.
#[test]
fn every_code() {
    let mut differences = String::new();
    let mut missing: Vec<String> = Code::ALL.iter().map(Code::to_string).collect();
    for path in hand::files() {
        let text = std::fs::read_to_string(&path).expect("a file of cases");
        for case in hand::cases(&text) {
            let (module, before) = case.module();
            let level = if case.makes_code() {
                Level::Codegen
            } else {
                Level::default()
            };
            let (ours, finding) = judge::judge_at(module.as_bytes(), level);
            let ours = match ours {
                Verdict::Rejected(Some(line)) => {
                    Verdict::Rejected(Some(line.saturating_sub(before)))
                }
                ours => ours,
            };
            let code = case.code.unwrap_or_default();
            missing.retain(|missing| *missing != code);
            // For some mistakes ptxas names no line.
            let same_line = ours == case.verdict || case.verdict == Verdict::Rejected(None);
            if !same_line || !finding.starts_with(&code) {
                differences += &format!(
                    "{}: {code} in {}; found: {finding} in {ours}\n",
                    case.name, case.verdict
                );
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(missing.is_empty(), "codes without a case: {missing:?}");
}

/// A string as `{:?}` writes it.
fn unquoted(text: &str) -> String {
    let inner = text.trim_matches('"');
    inner
        .replace("\\\"", "\"")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\\", "\\")
}
