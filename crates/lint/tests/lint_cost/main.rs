//! Do the rules of what is slow find it where it was planted, and how often do
//! they speak on what a compiler writes?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ptx::{self, diagnostic::LineIndex};
use ptxkit_lint::{self as lint, Code, Finding, Rule};

#[path = "../../../ptx/tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

fn slow() -> Vec<&'static Rule> {
    let rules = lint::RULES.iter().copied();
    rules.filter(|rule| rule.code.letter() == 'P').collect()
}

fn found(source: &str) -> Vec<Finding> {
    let options = lint::Options {
        rules: slow(),
        ..lint::Options::default()
    };
    lint::run(&ptx::read(source).module, source, &options)
}

/// The folder of planted cases: `// expect: P0101` stands in the line that has
/// it. Each file is named after its rule.
fn planted() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint_cost/planted");
    let files = std::fs::read_dir(folder).expect("the folder of planted cases");
    let mut texts: Vec<_> = files
        .map(|file| {
            let file = file.expect("a file of planted cases");
            let name = file.file_name().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(file.path()).expect("its text");
            (name, text)
        })
        .collect();
    texts.sort();
    texts
}

/// The line and code of each case; codes of other letters are not ours.
fn expected(text: &str) -> BTreeSet<(u32, Code)> {
    let lines = (1..).zip(text.lines());
    let codes = lines.flat_map(|(line, text)| {
        let said = text.split_once("// expect: ");
        let codes = said.map_or("", |(_, codes)| codes).split_whitespace();
        codes.map(move |code| (line, code.parse::<Code>().expect("a code")))
    });
    codes.filter(|(_, code)| code.letter() == 'P').collect()
}

/// Each file shows its own rule: of the others, only what it says.
#[test]
fn what_is_slow_is_found_at_its_line() {
    let mut wrong = String::new();
    let mut ways: BTreeMap<Code, usize> = BTreeMap::new();
    for (name, text) in planted() {
        let lines = LineIndex::new(&text);
        let rule = slow().into_iter().find(|rule| {
            let own = expected(&text).into_iter().map(|(_, code)| code);
            own.filter(|code| *code == rule.code).count() >= 5
        });
        let rule = rule.unwrap_or_else(|| panic!("{name} shows no rule in five ways"));
        let expected = expected(&text);
        let all = found(&text);
        let found: BTreeSet<(u32, Code)> = all
            .iter()
            .map(|finding| (lines.locate(finding.span.start).line, finding.code))
            .filter(|(_, code)| *code == rule.code)
            .collect();
        for (line, code) in expected.difference(&found) {
            if *code == rule.code {
                wrong += &format!("{name}:{line}: {code} was not found\n")
            } else {
                continue;
            }
        }
        for (line, code) in found.difference(&expected) {
            wrong += &format!("{name}:{line}: {code} is not there\n");
        }
        *ways.entry(rule.code).or_default() += expected.len();
    }
    assert!(wrong.is_empty(), "{wrong}");
    for rule in slow() {
        let planted = ways.get(&rule.code).copied().unwrap_or(0);
        assert!(planted >= 5, "{} {}: {planted}", rule.code, rule.name);
    }
}

/// A fix leaves nothing to find at that place, and a text that reads without
/// errors.
#[test]
fn fixes_mend_what_they_are_for() {
    let mut fixes = 0;
    for (name, text) in planted() {
        for finding in found(&text) {
            let Some(fix) = &finding.fix else {
                continue;
            };
            fixes += 1;
            let mut edits = fix.edits.clone();
            edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
            let mut mended = text.clone();
            for edit in edits {
                let range = edit.span.start as usize..edit.span.end as usize;
                mended.replace_range(range, &edit.replacement);
            }
            let reading = ptx::read(&mended);
            let place = format!("{name}: {} {}", finding.code, finding.message);
            let mut errors = reading.diagnostics.clone();
            errors.extend(ptx::check(&reading.module, &mended));
            assert!(errors.is_empty(), "{place}: {errors:?}");
            let same = |all: Vec<Finding>| all.iter().filter(|f| f.code == finding.code).count();
            assert!(same(found(&mended)) < same(found(&text)), "{place}");
        }
    }
    assert!(fixes >= 20, "{fixes} fixes");
}

/// A rule that speaks on every kernel that a compiler writes helps nobody.
#[test]
fn rules_do_not_shout_at_compiler_output() {
    let mut kernels = 0;
    let mut findings: BTreeMap<Code, (usize, usize)> = BTreeMap::new();
    let mut modules = 0;
    for entry in archive::entries(&archive::read("corpus")) {
        modules += 1;
        kernels += entry.text.matches(".entry").count();
        let mut of_module: BTreeMap<Code, usize> = BTreeMap::new();
        for finding in found(&entry.text) {
            *of_module.entry(finding.code).or_default() += 1;
        }
        for (code, count) in of_module {
            let (all, with) = findings.entry(code).or_default();
            *all += count;
            *with += 1;
        }
    }
    for (code, (all, with)) in &findings {
        println!("{code}: {all} findings in {with} of {modules} modules with {kernels} kernels");
        assert!(
            *with * 2 < modules,
            "{code} speaks in {with} of {modules} modules"
        );
    }
}

/// Tangled texts end in good time, without a panic.
#[test]
fn anything_is_survived() {
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let mut jumps = format!(
        "{head}.entry k(.param .u64 out) .maxntid 64 {{ .reg .pred p; .reg .b64 r<40>;\n\
         ld.param.u64 r0, [out]; cvta.to.global.u64 r0, r0;\n"
    );
    for at in 0..1500 {
        jumps += &format!(
            "L{at}: @p bra L{}; add.u64 r{}, r{}, r{}; ld.global.u64 r{}, [r{}+{}];\n",
            (at * 7919 + 13) % 1500,
            at % 40,
            at * 31 % 40,
            at * 17 % 40,
            at * 11 % 40,
            at * 13 % 40,
            at % 64 * 8,
        );
    }
    jumps += "ret; }\n";
    let mut straight = format!("{head}.entry k() {{ .reg .b32 a<30>; .reg .b64 p<30>;\n");
    for at in 0..20_000 {
        straight += &format!(
            "ld.global.u32 a{}, [p{}+{}]; shfl.sync.bfly.b32 a1, a2, 16, 31, -1; add.u32 a3, a1, a2;\n",
            at % 30,
            at * 7 % 30,
            at * 4,
        );
    }
    straight += "ret; }\n";
    for text in [
        jumps.as_str(),
        straight.as_str(),
        "",
        ".entry k() .maxntid {",
    ] {
        found(text);
    }
}
