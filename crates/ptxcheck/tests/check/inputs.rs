//! What is given, and what is said of what cannot be looked at.

use super::*;

#[test]
fn good_files_say_nothing() {
    let folder = folder(&[("a.ptx", GOOD), ("b.ptx", GOOD)]);
    for args in [&["a.ptx", "b.ptx"][..], &["."], &[]] {
        let ran = ptxcheck(folder.path(), args);
        assert_eq!(
            (ran.status, ran.out.as_str(), ran.err.as_str()),
            (Some(0), "", "")
        );
    }
}

#[test]
fn the_samples_are_as_they_should_be() {
    let samples = std::env::var_os("PTXKIT_SAMPLES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ptx-samples"),
        Into::into,
    );
    let ran = ptxcheck(&samples, &["--isolated"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), ""));
}

#[test]
fn folders_are_looked_through_in_order() {
    let folder = folder(&[
        ("b/2.ptx", BAD),
        ("b/1.PTX", BAD),
        ("a.ptx", BAD),
        ("notes.txt", "no PTX"),
        (".hidden/x.ptx", BAD),
    ]);
    let ran = ptxcheck(folder.path(), &[".", "a.ptx", "--format", "concise"]);
    let files: Vec<&str> = ran
        .out
        .lines()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(files, ["a.ptx", "b/1.PTX", "b/2.ptx"]);
    assert_eq!(ran.status, Some(1));
    // Whatever the threads do.
    for jobs in ["1", "2", "7"] {
        let again = ptxcheck(folder.path(), &["-j", jobs, "--format", "concise"]);
        assert_eq!(again.out, ran.out);
    }
}

#[test]
fn standard_input_has_a_name() {
    let ran = ptxcheck_on(BAD, &["-", "--format", "concise"]);
    assert!(
        ran.out.starts_with("<stdin>:7:2: error[E0101]"),
        "{}",
        ran.out
    );
    let ran = ptxcheck_on(
        BAD,
        &["-", "--format=concise", "--stdin-filename", "x/k.ptx"],
    );
    assert!(ran.out.starts_with("x/k.ptx:7:2: "), "{}", ran.out);
}

/// Files of /proc may be regular ones and have no end.
#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end() {
    let folder = folder(&[("good.ptx", GOOD)]);
    let large = std::fs::File::create(folder.path().join("large.ptx")).unwrap();
    large.set_len((4 << 30) + 1).unwrap();
    for path in ["/dev/zero", "/proc/kmsg", "large.ptx"] {
        for args in [
            &[path][..],
            &["floors", path],
            &["cfg", path],
            &["resources", path],
            &["report", path, "-o", "report.html"],
            &["good.ptx", "--config", path],
        ] {
            let ran = ptxcheck(folder.path(), args);
            assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
            let cause = match path {
                "/dev/zero" => "/dev/zero: it is a character device, not a file",
                "large.ptx" => "large.ptx: it is larger than the limit of 4 GiB",
                _ => path,
            };
            assert!(ran.err.contains(cause), "{args:?}: {}", ran.err);
        }
    }
    // Of a folder only files are read.
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.ptx")).unwrap();
    std::fs::remove_file(folder.path().join("large.ptx")).unwrap();
    let ran = ptxcheck(folder.path(), &["."]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn pipes_are_inputs() {
    for path in ["-", "/dev/stdin", "/dev/fd/0"] {
        let ran = ptxcheck_on(BAD, &[path, "--format=concise"]);
        assert_eq!(ran.status, Some(1), "{}", ran.err);
        assert!(ran.out.contains(":7:2: "), "{}", ran.out);
    }
}

#[cfg(unix)]
#[test]
fn names_have_no_control_characters() {
    let name = "a\nerror:\u{1b}[2J.ptx";
    let folder = folder(&[(name, BAD)]);
    std::fs::write(folder.path().join("none\nerror.ptx"), "").unwrap();
    for args in [
        &[name][..],
        &["."],
        &[name, "--format=concise"],
        &[name, "--format=github"],
        &[name, "--format=json"],
        &[name, "--format=sarif"],
        &[name, "--diff"],
        &[name, "--statistics"],
        &[name, "--show-files"],
        &[name, "--show-settings"],
        &["floors", name],
        &["cfg", name],
        &["cfg", name, "none"],
        &["resources", name],
        &["missing\nerror.ptx"],
    ] {
        let ran = ptxcheck(folder.path(), args);
        for text in [&ran.out, &ran.err] {
            assert!(!text.contains("\nerror:\u{1b}"), "{args:?}: {text}");
            assert!(!text.contains("\nerror.ptx"), "{args:?}: {text}");
            assert!(!text.contains("\u{1b}"), "{args:?}: {text}");
        }
    }
}

#[test]
fn what_cannot_be_looked_at_is_status_2_with_what_to_do() {
    let folder = folder(&[
        ("empty.ptx", ""),
        ("code.ptx", "__global__ void k() {}"),
        ("text.ptx", "int main() {}"),
        ("binary", "\u{1}\u{2}\u{3}"),
        ("escapes", "\u{1b}[31mred"),
        ("nothing/notes.txt", "no PTX"),
        ("good.ptx", GOOD),
    ]);
    for (args, words) in [
        (
            &["none.ptx"][..],
            &["none.ptx: No such file", "help: give PTX files"][..],
        ),
        (&["empty.ptx"], &["empty.ptx", "empty"]),
        (&["code.ptx"], &["code.ptx", "nvcc -ptx"]),
        (&["text.ptx"], &["text.ptx", "not PTX"]),
        (&["binary"], &["binary"]),
        (&["escapes"], &["this with `\\u{1b}[31mred`"]),
        (
            &["nothing"],
            &["nothing: no file in this folder contains PTX", "help: "],
        ),
        (
            &["good.ptx", "--select", "W9999"],
            &["W9999", "ptxcheck rules"],
        ),
        (
            &["good.ptx", "--ignore", "shift-beyond-widht"],
            &["did you mean `shift-beyond-width`?"],
        ),
        (
            &["good.ptx", "--target", "sm_91"],
            &["sm_91", "no toolkit knows"],
        ),
        (
            &["good.ptx", "--target", "hopper"],
            &["`hopper` is not a target: write sm_90"],
        ),
        (
            &["good.ptx", "--ptx-version", "6.6"],
            &["6.6", "no such version"],
        ),
        (&["good.ptx", "--format", "xml"], &["sarif"]),
        (&["good.ptx", "--jobs", "0"], &["--jobs"]),
        (&["good.ptx", "--exclude", "a["], &["--exclude a["]),
        (&["good.ptx", "--config", "none.toml"], &["none.toml"]),
    ] {
        let ran = ptxcheck(folder.path(), args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(!ran.err.contains('\u{1b}'), "{args:?}: {}", ran.err);
        for word in words {
            assert!(
                ran.err.contains(word),
                "{args:?}: `{word}` is not in:\n{}",
                ran.err
            );
        }
    }
}

#[test]
fn one_file_that_cannot_be_read_does_not_hide_the_others() {
    let folder = folder(&[("bad.ptx", BAD)]);
    let ran = ptxcheck(
        folder.path(),
        &["none.ptx", "bad.ptx", "--format", "concise"],
    );
    assert_eq!(ran.status, Some(2));
    assert!(ran.out.starts_with("bad.ptx:7:2: "), "{}", ran.out);
}

#[test]
fn a_text_without_a_head_is_judged() {
    let ran = ptxcheck_on(
        ".visible .entry k() { ret; }",
        &["-", "--format", "concise"],
    );
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(
        ran.out.contains("E0010") && ran.out.contains("E0011"),
        "{}",
        ran.out
    );
}

/// Work is long enough for a bar where standard input keeps it waiting.
#[test]
fn without_a_terminal_there_is_no_bar() {
    let folder = folder(&[("bad.ptx", BAD)]);
    let mut child = program()
        .args(["-j", "1", "-", "bad.ptx", "--format", "concise"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(GOOD.as_bytes()).unwrap();
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    assert!(ran.out.starts_with("bad.ptx:7:2: "), "{}", ran.out);
    assert_eq!(ran.err, "");
}

#[test]
fn what_is_no_ptx_does_not_steer_the_terminal() {
    let folder = folder(&[("a.ptx", "\x1b[31mhello\x07")]);
    let ran = ptxcheck(folder.path(), &["a.ptx"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("\\u{1b}[31mhello"), "{}", ran.err);
    assert!(!ran.err.contains(['\x1b', '\x07']), "{}", ran.err);

    let folder = self::folder(&[("b\x1b[2J.ptx", BAD)]);
    for format in ["full", "concise"] {
        let ran = ptxcheck(folder.path(), &[".", "--format", format]);
        assert_eq!(ran.status, Some(1), "{}", ran.err);
        assert!(ran.out.contains("b\\u{1b}[2J.ptx") && !ran.out.contains('\x1b'));
    }
}

#[test]
fn escape_bytes_of_a_text_are_not_printed() {
    let source = GOOD.replace(
        "\tret;\n",
        "\t.pragma \"\u{1b}[31mx\"; \u{1b} // ptxcheck: disable=\u{1b}[31mW\n\tret;\n",
    );
    let folder = folder(&[("k.ptx", &source)]);
    for args in [
        &["k.ptx"][..],
        &["k.ptx", "--format", "concise"],
        &["k.ptx", "--format", "github"],
        &["floors", "k.ptx"],
    ] {
        let ran = ptxcheck(folder.path(), args);
        assert_eq!(ran.status, Some(1), "{args:?}: {}", ran.err);
        for output in [&ran.out, &ran.err] {
            assert!(!output.contains('\u{1b}'), "{args:?}: {output:?}");
        }
    }
}
