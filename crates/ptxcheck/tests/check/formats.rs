//! `--format` and `--statistics`.

use super::*;

fn ran(format: &str, files: &[(&str, &str)]) -> Ran {
    let folder = folder(files);
    ptxcheck(folder.path(), &["--format", format])
}

#[test]
fn full_has_the_line_the_cause_and_a_hint() {
    let ran = ran("full", &[("k.ptx", BAD)]);
    assert_eq!(
        ran.out,
        "error[E0101]: unknown instruction `rte`
 --> k.ptx:7:2
  |
7 |     rte;
  |     ^^^
  |
  = note: in kernel `k`
  = help: did you mean `ret`?
"
    );
    assert_eq!(ran.err, "\n1 error\n");
}

#[test]
fn colour_is_as_wanted() {
    let folder = folder(&[("k.ptx", BAD)]);
    for format in ["full", "concise"] {
        let coloured = |more: &[&str]| {
            let args = [&["k.ptx", "--format", format], more].concat();
            ptxcheck(folder.path(), &args).out.contains('\x1b')
        };
        assert!(!coloured(&[]));
        assert!(!coloured(&["--color", "never"]));
        assert!(coloured(&["--color", "always"]));
    }
    let mut forced = program();
    forced
        .args(["k.ptx"])
        .current_dir(folder.path())
        .env("CLICOLOR_FORCE", "1");
    assert!(Ran::from(forced.output().unwrap()).out.contains('\x1b'));
    forced.env("NO_COLOR", "1");
    assert!(!Ran::from(forced.output().unwrap()).out.contains('\x1b'));
}

#[test]
fn a_string_that_is_not_ascii_is_drawn() {
    let source = BAD.replace(
        "\n\n.visible",
        "\n.file 1 \"x\u{e9}\u{20ac}.cu\"\n# 1 \"\u{20ac}.cu\"\n.visible",
    );
    let ran = ran("full", &[("k.ptx", &source)]);
    assert!(
        ran.out
            .contains("4 | .file 1 \"x\u{e9}\u{20ac}.cu\"\n  |           ^\n"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("5 | # 1 \"\u{20ac}.cu\"\n  |      ^\n"),
        "{}",
        ran.out
    );
}

#[test]
fn json_is_one_array_with_places_from_1() {
    let wide = BAD.replace("\trte", "\t/* \u{e4}\u{f6} */ rte");
    let ran = ran(
        "json",
        &[("a.ptx", &wide), ("b.ptx", GOOD), ("c.ptx", DOUBTFUL)],
    );
    let array: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let array = array.as_array().unwrap();
    let error = array
        .iter()
        .find(|object| object["code"] == "E0101")
        .unwrap();
    let start = wide.find("rte").unwrap();
    assert_eq!(
        *error,
        serde_json::json!({
            "file": "a.ptx", "code": "E0101", "severity": "error",
            "message": "unknown instruction `rte`",
            "line": 7, "column": 11, "end_line": 7, "end_column": 14,
            "byte_start": start, "byte_end": start + 3,
            "help": "did you mean `ret`?",
            "function": "k", "demangled": null, "source": null, "inlined_at": null,
        })
    );
    let last = array.last().unwrap();
    assert_eq!(
        (&last["file"], &last["severity"]),
        (&"c.ptx".into(), &"warning".into())
    );
    assert_eq!(array.len(), 2);
}

#[test]
fn json_without_findings_is_an_empty_array() {
    let ran = ran("json", &[("a.ptx", GOOD)]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "[\n]\n"));
}

#[test]
fn github_shows_it_at_the_line() {
    let ran = ran("github", &[("a.ptx", BAD)]);
    assert_eq!(
        ran.out,
        "::error file=a.ptx,line=7,endLine=7,col=2,endColumn=5,title=E0101::\
         unknown instruction `rte`%0Adid you mean `ret`?%0Ain kernel `k`\n"
    );
}

/// Linux has a file that is always full.
#[test]
#[cfg(target_os = "linux")]
fn what_could_not_be_written_is_said() {
    let folder = folder(&[("a.ptx", GOOD), ("b.ptx", BAD)]);
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    for args in [&["b.ptx"][..], &["a.ptx", "--format", "json"], &["rules"]] {
        let mut command = program();
        command.args(args).current_dir(folder.path());
        let ran = Ran::from(
            command
                .stdout(full())
                .stderr(Stdio::piped())
                .output()
                .unwrap(),
        );
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(
            ran.err.contains("error: cannot write to standard output"),
            "{}",
            ran.err
        );
    }
    // Where nothing can be said, the exit status does.
    let mut silent = program();
    silent.arg("none.ptx").current_dir(folder.path());
    let status = silent.stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn statistics_count() {
    let folder = folder(&[("a.ptx", BAD), ("b.ptx", BAD), ("c.ptx", DOUBTFUL)]);
    let ran = ptxcheck(folder.path(), &["--statistics"]);
    assert_eq!(
        ran.out,
        "      2  E0101  unknown-opcode\n      \
         1  W0202  missing-return (1 with --fix)\n"
    );
    assert_eq!(ran.status, Some(1));
    let ran = ptxcheck(folder.path(), &["--statistics", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        rows[0],
        serde_json::json!({ "code": "E0101", "name": "unknown-opcode", "count": 2, "fixable": 0, "unsafely_fixable": 0 })
    );
}
