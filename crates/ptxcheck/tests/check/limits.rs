//! Texts with more findings than anyone reads.

use super::*;

const HEAD: &str = ".version 5.1\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n";

fn errors(count: usize) -> String {
    format!("{HEAD}{}\tret;\n}}\n", "\trte;\n".repeat(count))
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let folder = folder(&[("k.ptx", &errors(30))]);
    let limited = |more: &[&str]| {
        let args = [&["k.ptx", "--max-findings", "10"], more].concat();
        ptxcheck(folder.path(), &args)
    };
    let note = "note: 20 more findings are not shown; --max-findings 0 shows all\n";
    for format in ["concise", "json", "sarif", "github"] {
        let ran = limited(&["--format", format]);
        assert_eq!((ran.status, ran.err.as_str()), (Some(1), note), "{format}");
        assert_eq!(
            ran.out.matches("unknown instruction `rte`").count(),
            10,
            "{format}"
        );
    }
    let ran = limited(&[]);
    assert_eq!(ran.err, format!("\n30 errors\n{note}"));
    let ran = limited(&["--statistics"]);
    assert_eq!(ran.out, "     30  E0101  unknown-opcode\n");
    assert_eq!(ran.err, "");
    // What is not looked for is not counted either.
    let ran = limited(&["--ignore", "E0101"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let ran = ptxcheck(
        folder.path(),
        &["k.ptx", "--max-findings", "0", "--format", "concise"],
    );
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (30, ""));
}

#[test]
fn warnings_beyond_the_limit_are_warnings() {
    let shifts = "\tshl.b32 a, a, 32;\n".repeat(30);
    let source = format!(
        "{HEAD}\t.reg .b32 a;\n\t.local .b32 x;\n\tmov.b32 a, %tid.x;\n{shifts}\tst.local.b32 [x], a;\n\tret;\n}}\n"
    );
    let folder = folder(&[("k.ptx", &source)]);
    let run = |most: &str| {
        let args = [
            "k.ptx",
            "--select",
            "W0103",
            "--ignore",
            "D",
            "--max-findings",
            "10",
        ];
        let args = [&args[..], &["--max-warnings", most, "--format", "concise"]].concat();
        ptxcheck(folder.path(), &args)
    };
    let ran = run("29");
    assert_eq!(ran.status, Some(1), "{}", ran.out);
    assert!(ran.err.starts_with("note: 2"), "{}", ran.err);
    assert_eq!(run("1000").status, Some(0));
}

/// A rule with many findings leaves room for those of the others.
#[test]
fn the_limit_is_of_each_rule() {
    let shifts = "\tshl.b32 a, a, 32;\n".repeat(30);
    let source = format!(
        "{HEAD}\t.reg .b32 a;\n\t.local .b32 x;\n\tmov.b32 a, %tid.x;\n{shifts}\tst.local.b32 [x], a;\n}}\n"
    );
    let folder = folder(&[("k.ptx", &source)]);
    let args = ["k.ptx", "--max-findings", "10", "--format", "concise"];
    let ran = ptxcheck(folder.path(), &args);
    assert_eq!(ran.out.matches("warning[W0103]").count(), 10, "{}", ran.out);
    assert_eq!(ran.out.matches("warning[W0202]").count(), 1, "{}", ran.out);
    assert!(ran.err.starts_with("note: 20 more"), "{}", ran.err);
}

#[test]
fn the_limit_without_an_option_is_20000() {
    let folder = folder(&[("k.ptx", &errors(20_001))]);
    let ran = ptxcheck(folder.path(), &["k.ptx", "--format", "concise"]);
    assert_eq!(ran.out.lines().count(), 20_000);
    assert_eq!(
        ran.err,
        "note: 1 more finding is not shown; --max-findings 0 shows all\n"
    );
}

/// A column that costs a scan of its whole line makes minutes of this.
#[test]
fn a_line_may_have_thousands_of_findings() {
    let source = errors(20_000).replace('\n', " ");
    let folder = folder(&[("k.ptx", &source)]);
    for format in ["sarif", "json", "full"] {
        let ran = ptxcheck(folder.path(), &["k.ptx", "--format", format]);
        let last = source.rfind("rte").unwrap() + 1;
        let place = match format {
            "sarif" => format!("\"startColumn\":{last},\"startLine\":1"),
            "json" => format!("\"line\":1,\"column\":{last}"),
            _ => format!("k.ptx:1:{last}\n"),
        };
        assert!(ran.out.contains(&place), "{format} has no {place}");
    }
    let ran = ptxcheck(folder.path(), &["floors", "k.ptx"]);
    assert_eq!(ran.err.matches("error[E0101]").count(), 20_000);
}

/// Each wrong name is compared with all declared ones: only so many are.
#[test]
fn suggestions_do_not_cost_more_than_the_text() {
    let labels = |prefix: &str, count: usize| -> String {
        let labels = (0..count).map(|label| format!("{prefix}{label}:\n"));
        labels.collect()
    };
    let wrong: String = (0..150).map(|label| format!("\tbra M{label};\n")).collect();
    for (declared, helped) in [(500, 150..=150), (20_000, 1..=20)] {
        let source = format!("{HEAD}{}{wrong}\tret;\n}}\n", labels("L", declared));
        let folder = folder(&[("k.ptx", &source)]);
        let ran = ptxcheck(folder.path(), &["floors", "k.ptx"]);
        assert_eq!(ran.status, Some(1));
        assert_eq!(ran.err.matches("error[E0201]").count(), 150);
        let helps = ran.err.matches("did you mean `").count();
        assert!(helped.contains(&helps), "{declared}: {helps}");
    }
}

/// Comments and findings are both walked once: each with each makes minutes of this.
#[test]
fn comments_are_as_many_as_findings() {
    let suppressed = "\trte; // ptxcheck: disable=E0101\n".repeat(20_000);
    let before = "// ptxcheck: disable=E0102\n".repeat(20_000);
    let source = format!("{HEAD}{suppressed}{before}\tret;\n}}\n");
    let folder = folder(&[("k.ptx", &source)]);
    let ran = ptxcheck(folder.path(), &["k.ptx", "--statistics"]);
    assert_eq!(
        ran.out,
        "  20000  W0001  unused-suppression (20000 with --fix)\n"
    );
}
