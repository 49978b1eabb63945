//! `// ptxcheck: disable=CODE`

use super::*;

/// Two kernels with a mistake each, in lines 7 and 11.
const TWO: &str = "\
.version 5.1
.target sm_70
.address_size 64

.visible .entry a()
{
	rte;
	ret;
}
.visible .entry b() {
	rte;
	ret;
}
";

/// The findings, as `line code`.
fn found(source: &str, more: &[&str]) -> Vec<String> {
    let ran = ptxcheck_on(source, &[&["-", "--format", "concise"], more].concat());
    let line = |line: &str| {
        let number = line.split(':').nth(1).unwrap();
        let code = line.split(['[', ']']).nth(1).unwrap();
        format!("{number} {code}")
    };
    ran.out.lines().map(line).collect()
}

#[test]
fn for_a_line_a_kernel_or_a_file() {
    assert_eq!(found(TWO, &[]), ["7 E0101", "11 E0101"]);
    let behind = TWO.replacen("rte;", "rte; // ptxcheck: disable=E0101", 1);
    assert_eq!(found(&behind, &[]), ["11 E0101"]);
    let before = TWO.replacen("\trte;", "\t// ptxcheck: disable=E01 why not\n\n\trte;", 1);
    assert_eq!(found(&before, &[]), ["13 E0101"]);
    let kernel = TWO.replace(
        ".visible .entry b",
        "// ptxcheck: disable=E\n// more\n.visible .entry b",
    );
    assert_eq!(found(&kernel, &[]), ["7 E0101"]);
    let file = format!("// a file\n//ptxcheck: disable = no\n// ptxcheck: disable=E0101\n{TWO}");
    assert_eq!(found(&file, &[]), ["2 W0001"]);
}

#[test]
fn what_suppresses_nothing_is_found() {
    let good = GOOD.replacen("ret;", "ret; // ptxcheck: disable=W0103", 1);
    assert_eq!(found(&good, &[]), ["7 W0001"]);
    // What is not looked for cannot be found.
    assert_eq!(found(&good, &["--ignore", "W0103"]), [""; 0]);
    assert_eq!(found(&good, &["--ignore", "W0001"]), [""; 0]);
    let partly = TWO.replacen("rte;", "rte; // ptxcheck: disable=W0103, E0101", 1);
    assert_eq!(found(&partly, &[]), ["7 W0001", "11 E0101"]);
    let unknown = GOOD.replacen("ret;", "ret; // ptxcheck: disable=W7777", 1);
    assert_eq!(found(&unknown, &[]), ["7 W0001"]);
    // Only a comment is one.
    let text = GOOD.replacen(
        ".visible",
        ".file 1 \"// ptxcheck: disable=W0103\"\n.visible",
        1,
    );
    assert_eq!(found(&text, &[]), [""; 0]);
}

#[test]
fn fix_takes_away_what_suppresses_nothing() {
    for comment in [
        " // ptxcheck: disable=W0103",
        "\n\t// ptxcheck: disable=W0103,E",
    ] {
        let source = if comment.starts_with('\n') {
            GOOD.replacen("{", &format!("{{{comment}"), 1)
        } else {
            GOOD.replacen("ret;", &format!("ret;{comment}"), 1)
        };
        let ran = ptxcheck_on(&source, &["-", "--fix"]);
        assert_eq!(
            (ran.status, ran.out.as_str()),
            (Some(0), GOOD),
            "{}",
            ran.err
        );
    }
}
