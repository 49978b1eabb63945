//! Do the rules find what is planted, and nothing in what a compiler writes?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ptx::{self, diagnostic::LineIndex};
use ptxkit_lint::{self as lint, Code, Finding};

#[path = "../../../ptx/tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

/// What is wrong, and what ptxas refuses: the planted texts are of today, and
/// say nothing of what is deprecated.
fn found(source: &str) -> Vec<Finding> {
    let reading = ptx::read(source);
    let checked = ptx::check(&reading.module, source);
    let errors = reading.diagnostics.iter().cloned().chain(checked);
    let mut all: Vec<Finding> = errors.map(Finding::from).collect();
    let rules = lint::RULES.iter().copied();
    let options = lint::Options {
        rules: rules.filter(|rule| rule.code.letter() == 'W').collect(),
        ..lint::Options::default()
    };
    all.extend(lint::run(&reading.module, source, &options));
    all
}

/// The folder of mistakes: `// expect: W0101` stands in the line that has it.
fn planted() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint/planted");
    let files = std::fs::read_dir(folder).expect("the folder of planted mistakes");
    let mut texts: Vec<_> = files
        .map(|file| {
            let file = file.expect("a file of planted mistakes");
            let name = file.file_name().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(file.path()).expect("its text");
            (name, text)
        })
        .collect();
    texts.sort();
    texts
}

/// The line and code of each mistake that a text says it has.
fn expected(text: &str) -> BTreeSet<(u32, Code)> {
    let lines = (1..).zip(text.lines());
    let codes = lines.flat_map(|(line, text)| {
        let said = text
            .split_once("// expect: ")
            .map_or("", |(_, codes)| codes);
        said.split_whitespace()
            .map(move |code| (line, code.parse().expect("a code")))
    });
    codes.collect()
}

#[test]
fn planted_mistakes_are_found_at_their_lines() {
    let mut wrong = String::new();
    for (name, text) in planted() {
        let lines = LineIndex::new(&text);
        let found: BTreeSet<(u32, Code)> = found(&text)
            .iter()
            .map(|finding| (lines.locate(finding.span.start).line, finding.code))
            .collect();
        let expected = expected(&text);
        for (line, code) in expected.difference(&found) {
            wrong += &format!("{name}:{line}: {code} was not found\n");
        }
        for (line, code) in found.difference(&expected) {
            wrong += &format!("{name}:{line}: {code} is not there\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_mistake_is_planted_in_five_ways() {
    let mut ways: BTreeMap<Code, usize> = BTreeMap::new();
    for (_, text) in planted() {
        for (_, code) in expected(&text) {
            *ways.entry(code).or_default() += 1;
        }
    }
    for rule in lint::RULES.iter().filter(|rule| rule.code.letter() == 'W') {
        let planted = ways.get(&rule.code).copied().unwrap_or(0);
        assert!(planted >= 5, "{} {}: {planted}", rule.code, rule.name);
    }
}

/// A line of `reviewed.txt`: `module | code | what the line has | why it is right`.
struct Reviewed {
    module: &'static str,
    code: &'static str,
    text: &'static str,
}

fn reviewed() -> Vec<Reviewed> {
    let lines = include_str!("reviewed.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.split(" | ");
            let mut column = || columns.next().expect("module | code | text | reason");
            let (module, code, text, reason) = (column(), column(), column(), column());
            assert!(!reason.is_empty(), "{line}");
            Reviewed { module, code, text }
        })
        .collect()
}

/// On what nvcc and NVRTC write, every finding has been read: it is true, and
/// the list says why.
#[test]
fn compiler_output_has_no_false_findings() {
    let reviewed = reviewed();
    let mut used = vec![false; reviewed.len()];
    let mut unexplained = String::new();
    let mut count = 0;
    for entry in archive::entries(&archive::read("corpus")) {
        let lines = LineIndex::new(&entry.text);
        let reading = ptx::read(&entry.text);
        let found = lint::run(&reading.module, &entry.text, &lint::Options::default());
        for finding in found.iter().filter(|f| f.code.letter() == 'W') {
            count += 1;
            let line = lines.locate(finding.span.start).line;
            let text = lines.text(line);
            let explains = |reviewed: &Reviewed| {
                entry.name.starts_with(reviewed.module)
                    && finding.code.to_string() == reviewed.code
                    && text.contains(reviewed.text)
            };
            match reviewed.iter().position(explains) {
                Some(at) => used[at] = true,
                None => {
                    unexplained += &format!(
                        "{}:{line}: {} {}:{text}\n",
                        entry.name, finding.code, finding.message
                    );
                }
            }
        }
    }
    println!("{count} findings, {} reasons", reviewed.len());
    assert!(unexplained.is_empty(), "{unexplained}");
    let idle = reviewed.iter().zip(used).filter(|(_, used)| !used);
    let idle: Vec<_> = idle.map(|(r, _)| (r.module, r.code, r.text)).collect();
    assert!(idle.is_empty(), "nothing has {idle:?} any more");
}

/// Broken and tangled texts end in good time, without a panic.
#[test]
fn anything_is_survived() {
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let mut jumps = format!("{head}.entry k() {{ .reg .pred p; .reg .b32 r<200>;\n");
    for at in 0..2000 {
        jumps += &format!(
            "L{at}: @p bra L{}; add.s32 r{}, r{}, 1; @p bra L{};\n",
            (at * 7919 + 13) % 2000,
            at % 200,
            at * 31 % 200,
            (at * 104_729 + 5) % 2000
        );
    }
    jumps += "ret; }\n";
    let deep = format!(
        "{head}.entry k() {{ {} .reg .b32 a; mov.b32 a, a; {} ret; }}",
        "{".repeat(5000),
        "}".repeat(5000)
    );
    let many =
        format!("{head}.entry k() {{ .reg .b32 r<4294967295>; mov.b32 r4294967294, r0; ret; }}");
    let mut sums = format!("{head}.entry k() {{ .reg .b32 r<30000>, unset;\n");
    for at in 1..30_000 {
        sums += &format!("add.s32 r{at}, r{}, unset;\n", at - 1);
    }
    sums += "ret; }\n";
    for text in [
        jumps.as_str(),
        sums.as_str(),
        deep.as_str(),
        many.as_str(),
        "",
        ".entry k() {",
        ".entry k() { bra X; X: }",
        ".entry k() { @p bra.uni; brx.idx a, b; call; ret }",
    ] {
        lint::run(&ptx::read(text).module, text, &lint::Options::default());
    }
}

/// A line at a time is taken away and put back: what is linted again has the findings of a text
/// that nobody has seen before.
#[test]
fn what_is_linted_again_has_the_same_findings() {
    let options = lint::Options {
        rules: lint::RULES.to_vec(),
        ..lint::Options::default()
    };
    for (name, text) in planted() {
        let mut clean = lint::CleanFunctions::default();
        let lines: Vec<&str> = text.lines().collect();
        let step = lines.len().div_ceil(8);
        for left_out in (0..=lines.len()).step_by(step) {
            let kept = lines.iter().enumerate();
            let kept = kept.filter(|(at, _)| *at != left_out);
            let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
            for version in [kept.join("\n"), text.clone()] {
                let module = ptx::read(&version).module;
                let mut again = lint::Findings::with_limit(usize::MAX);
                clean.run_into(&module, &version, &options, &mut again);
                let fresh = lint::run(&module, &version, &options);
                assert_eq!(again.into_vec(), fresh, "{name}, line {left_out}");
            }
        }
    }
}

/// What the functions of a text have, looked at one after the other; `None` where that does not
/// do.
fn found_in_turn(source: &str, options: &lint::Options) -> Option<Vec<Finding>> {
    let (module, mut bodies) = ptx::read_outline(source)?;
    let mut rules = lint::InTurn::new(&module, source, options)?;
    let mut found = lint::Findings::with_limit(usize::MAX);
    let valid = ptx::check_bodies(
        &module,
        &mut bodies,
        source,
        &ptx::CheckOptions::default(),
        &mut |function, body, names, mnemonics| {
            rules.look(function, body, names, mnemonics, &mut found);
        },
    );
    rules.end(&mut found);
    valid.then(|| found.into_vec())
}

#[test]
fn functions_in_turn_have_the_findings_of_the_whole_text() {
    let rules = lint::RULES.iter().copied();
    let options = lint::Options {
        rules: rules
            .filter(|rule| matches!(rule.check, lint::Check::Function(_)))
            .collect(),
        ..lint::Options::default()
    };
    let compiled = archive::entries(&archive::read("corpus"));
    // Some of them will do.
    let compiled = compiled
        .into_iter()
        .step_by(4)
        .map(|entry| (entry.name.to_string(), entry.text.to_string()));
    let mut compared = 0;
    for (name, text) in planted().into_iter().chain(compiled) {
        let Some(found) = found_in_turn(&text, &options) else {
            continue;
        };
        compared += 1;
        let whole = lint::run(&ptx::read(&text).module, &text, &options);
        assert_eq!(found, whole, "{name}");
    }
    assert!(compared > 25, "{compared}");
}

/// One kernel uses an mbarrier, another may be the one that initialises it, before or after.
#[test]
fn what_another_kernel_does_refutes_a_finding() {
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 8 .b64 bar;\n";
    let uses = ".entry k() { .reg .b64 s; mbarrier.arrive.shared.b64 s, [bar]; ret; }\n";
    let initialises = ".entry l() { mbarrier.init.shared.b64 [bar], 1; ret; }\n";
    let options = lint::Options::default();
    let is_told = |text: &str| {
        let found = lint::run(&ptx::read(text).module, text, &options);
        let in_turn = found_in_turn(text, &options).expect("it is right");
        assert_eq!(in_turn, found);
        let mut codes = found.iter().map(|finding| finding.code.to_string());
        codes.any(|code| code == "W0404")
    };
    assert!(is_told(&format!("{head}{uses}")));
    assert!(!is_told(&format!("{head}{uses}{initialises}")));
    assert!(!is_told(&format!("{head}{initialises}{uses}")));
}
