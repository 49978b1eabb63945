//! `--fix` and `--diff`.

use super::*;

#[test]
fn what_is_mended_is_written_and_found_no_more() {
    let folder = folder(&[("k.ptx", DOUBTFUL)]);
    let path = folder.path().join("k.ptx");

    let ran = ptxcheck(folder.path(), &["k.ptx", "--diff"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.out.contains(" {\n+\tret;\n }\n"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), DOUBTFUL);

    let ran = ptxcheck(folder.path(), &["k.ptx", "--fix"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), ""));
    assert_eq!(ran.err, "\n1 change made\n");
    let mended = std::fs::read_to_string(&path).unwrap();
    assert_eq!(mended, GOOD);

    for again in ["--fix", "--diff"] {
        let ran = ptxcheck(folder.path(), &["k.ptx", again]);
        assert_eq!(
            (ran.status, ran.out.as_str(), ran.err.as_str()),
            (Some(0), "", "")
        );
    }
}

#[test]
fn what_cannot_be_mended_is_left_and_said() {
    let source = BAD.replace("\tret;\n", "");
    let folder = folder(&[("k.ptx", source.as_str())]);
    let ran = ptxcheck(folder.path(), &["k.ptx", "--fix", "--format", "concise"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.out.contains("E0101"), "{}", ran.out);
}

#[test]
fn standard_input_is_mended_to_standard_output() {
    let ran = ptxcheck_on(DOUBTFUL, &["-", "--fix"]);
    assert_eq!(ran.out, GOOD);
    // Unchanged, too.
    assert_eq!(ptxcheck_on(GOOD, &["-", "--fix"]).out, GOOD);
}

#[test]
fn a_patch_applies() {
    let folder = folder(&[("k.ptx", DOUBTFUL)]);
    let patch = ptxcheck(folder.path(), &["k.ptx", "--diff"]).out;
    assert!(
        patch.starts_with("--- k.ptx\n+++ k.ptx\n@@ -4,4 +4,5 @@\n"),
        "{patch}"
    );
}
