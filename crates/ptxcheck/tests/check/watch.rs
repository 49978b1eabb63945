//! `--watch`.

use std::io::{BufRead, BufReader};

use super::*;

#[test]
fn a_change_is_checked() {
    let folder = folder(&[("deep/k.ptx", BAD)]);
    let mut child = program()
        .args(["--watch", "--output-format", "concise", "--select", "E"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("deep/k.ptx:7:2: error[E0101]"));
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("deep/k.ptx"), BAD.replace("rte;", "\n\n\trte;")).unwrap();
    assert!(next().starts_with("deep/k.ptx:9:2: error[E0101]"));
    // Settings count, and new files.
    std::fs::write(path("ptxcheck.toml"), "exclude = [\"deep\"]\n").unwrap();
    std::fs::write(path("new.ptx"), BAD).unwrap();
    assert!(std::iter::repeat_with(next).any(|line| line.starts_with("new.ptx:7:2: ")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn standard_input_cannot_be_watched() {
    let ran = ptxcheck(Path::new("."), &["--watch", "-"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("standard input"), "{}", ran.err);
}
