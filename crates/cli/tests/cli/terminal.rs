//! Names that would steer a terminal, and lines that would flood it.

use super::*;

/// A file whose name and content would both clear the screen.
fn hostile() -> (tempfile::TempDir, String) {
    file("a\x1b[2Jb.ptx", "\x1b]0;title\x07 \u{9b}1m")
}

#[track_caller]
fn is_harmless(output: &Output) {
    let (out, err) = (stdout(output), stderr(output));
    for text in [&out, &err] {
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(steers), "{text:?}");
        let longest = text.lines().map(str::len).max().unwrap_or(0);
        assert!(longest < 20_000, "a line of {longest} bytes");
    }
    assert!(!out.is_empty() || !err.is_empty());
}

#[test]
fn names_and_contents_of_files_are_escaped() {
    let (folder, path) = hostile();
    let cache = tempfile::tempdir().unwrap();
    let missing = folder.path().join("c\x1b[2Jd.tar").display().to_string();
    let empty = folder.path().join("e\x1b[2Jf");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.display().to_string();
    for args in [
        &["run", &path][..],
        &["run", &path, "--kernel", "\x1b[2Jk"],
        &["inspect", &path],
        &["inspect", &path, &path],
        &["occupancy", &path],
        &[
            "occupancy",
            "--target",
            "sm_90",
            "--block",
            "32",
            "--kernel",
            "\x1b[2Jk",
        ],
        &["extract", &path],
        &["cache", "import", &path],
        &["cache", "import", &missing],
        &["cache", "import", &empty],
        &["cache", "warm", "--target", "cpu", &path],
    ] {
        let output = ptxkit(cache.path(), args);
        is_harmless(&output);
        assert!(stderr(&output).contains("\\u{1b}[2J") || stdout(&output).contains("\\u{1b}[2J"));
    }
}

#[test]
fn ptx_on_one_long_line_is_shown_in_part() {
    let long = format!(
        ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() {{ {} foo; ret; }}",
        "bar; ".repeat(1 << 18)
    );
    let (_folder, path) = file("long.ptx", &long);
    let cache = tempfile::tempdir().unwrap();
    let output = ptxkit(cache.path(), &["cache", "warm", "--target", "cpu", &path]);
    assert_eq!(output.status.code(), Some(2));
    is_harmless(&output);
}

#[test]
fn a_kernel_with_a_name_of_65536_characters_is_listed() {
    let name = "k".repeat(1 << 16);
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n"
    );
    let (_folder, path) = file("named.ptx", &text);
    let cache = tempfile::tempdir().unwrap();
    let warmed = ptxkit(cache.path(), &["cache", "warm", "--target", "cpu", &path]);
    assert_eq!(warmed.status.code(), Some(0), "{}", stderr(&warmed));
    let listed = ptxkit(cache.path(), &["cache", "list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let listed = stdout(&listed);
    assert!(listed.contains("kkk…"), "{listed}");
    assert!(
        listed.lines().all(|line| line.chars().count() < 300),
        "{listed}"
    );
    let json = ptxkit(cache.path(), &["cache", "list", "--format", "json"]);
    // A blob stores 4 KiB of a name.
    assert!(stdout(&json).contains(&name[..1000]));
}
