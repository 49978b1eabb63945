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

#[test]
fn folders_are_looked_through() {
    let (folder, untidy) = file("untidy.ptx", UNTIDY);
    let inside = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(inside("more")).unwrap();
    std::fs::create_dir_all(inside(".hidden")).unwrap();
    std::fs::write(inside("more/tidy.PTX"), TIDY).unwrap();
    std::fs::write(inside("more/notes.txt"), UNTIDY).unwrap();
    std::fs::write(inside(".hidden/untidy.ptx"), UNTIDY).unwrap();
    let all = folder.path().display().to_string();
    let output = fmt(&["--check", &all]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), format!("would reformat {untidy}\n"));
    // A file with errors does not keep the others from being written.
    std::fs::write(inside("a.ptx"), ".version 8.0\n.target sm_80\n.entry k( {").unwrap();
    let output = fmt(&["--write", &all]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a.ptx:3:"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&untidy).unwrap(), TIDY);
    for other in ["more/notes.txt", ".hidden/untidy.ptx"] {
        assert_eq!(std::fs::read_to_string(inside(other)).unwrap(), UNTIDY);
    }
    let output = fmt(&[&inside("more").display().to_string()]);
    assert_eq!(stdout(&output), TIDY);
    let empty = tempfile::tempdir().unwrap();
    let output = fmt(&[&empty.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no file in this folder is named .ptx"));
}

#[test]
fn diff_shows_what_write_would_change() {
    let (_folder, untidy) = file("untidy.ptx", UNTIDY);
    let output = fmt(&["--diff", &untidy]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(
        said.starts_with(&format!("--- {untidy}\n+++ {untidy}\n@@ ")),
        "{said}"
    );
    assert!(said.contains("\n-.entry k(){ret; /* done */}\n"), "{said}");
    assert!(said.contains("\n+\tret; /* done */\n"), "{said}");
    assert_eq!(std::fs::read_to_string(&untidy).unwrap(), UNTIDY);
    let (_folder, tidy) = file("tidy.ptx", TIDY);
    let output = fmt(&["--diff", &tidy]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "")
    );
    assert_eq!(fmt(&["--diff", "--write", &tidy]).status.code(), Some(2));
}
