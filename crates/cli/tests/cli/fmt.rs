//! `ptxkit fmt`.

use super::*;

const UNTIDY: &str = ".version 8.0\n.target sm_80\n.entry k(){ret; /* done */}";
const TIDY: &str = ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\tret; /* done */\n}\n";

fn fmt(args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    ptxkit(cache.path(), &[&["fmt"], args].concat())
}

#[test]
fn prints_the_canonical_form() {
    let (_folder, path) = file("untidy.ptx", UNTIDY);
    let output = fmt(&[&path]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), TIDY);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), UNTIDY);
}

#[test]
fn check_names_what_would_change_and_changes_nothing() {
    let (_first, untidy) = file("untidy.ptx", UNTIDY);
    let (_second, tidy) = file("tidy.ptx", TIDY);
    let output = fmt(&["--check", &untidy, &tidy]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), format!("would reformat {untidy}\n"));
    assert_eq!(std::fs::read_to_string(&untidy).unwrap(), UNTIDY);
    assert_eq!(fmt(&["--check", &tidy]).status.code(), Some(0));
}

#[test]
fn write_changes_the_file() {
    let (_folder, path) = file("untidy.ptx", UNTIDY);
    let output = fmt(&["--write", &path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), TIDY);
}

#[test]
fn what_cannot_be_read_is_shown_and_left_alone() {
    let (_folder, path) = file("bad.ptx", ".version 8.0\n.target sm_80\n.entry k( {");
    let output = fmt(&["--write", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("bad.ptx:3:"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fmt(&["none.ptx"]).status.code(), Some(2));
}
