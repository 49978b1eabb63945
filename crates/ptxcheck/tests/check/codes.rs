//! Which codes count, and what becomes of the exit status.

use super::*;

#[test]
fn a_warning_is_a_finding_unless_so_many_may_be() {
    let folder = folder(&[("k.ptx", DOUBTFUL)]);
    for (args, status) in [
        (&[][..], 1),
        (&["--max-warnings", "1"], 0),
        (&["--max-warnings", "0"], 1),
        (&["--ignore", "W"], 0),
        (&["--ignore", "W02,D"], 0),
        (&["--ignore", "W", "--select", "W0202"], 1),
        (&["--ignore", "all"], 0),
        (&["--ignore", "missing-return"], 0),
        (&["--deny", "W0202", "--max-warnings", "9"], 1),
    ] {
        let args = [&["k.ptx"], args].concat();
        let ran = ptxcheck(folder.path(), &args);
        assert_eq!(ran.status, Some(status), "{args:?}: {}{}", ran.out, ran.err);
        assert_eq!(
            ran.out.contains("W0202"),
            status == 1 || args.contains(&"1"),
            "{args:?}"
        );
        assert_eq!(ran.out.contains("error[W0202]"), args.contains(&"--deny"));
    }
}

#[test]
fn would_it_load_there() {
    let source = GOOD.replace("ret;", ".reg .b32 a;\n\tcp.async.wait_all;\n\tret;");
    let source = source.replace("5.1", "7.0").replace("sm_70", "sm_80");
    let folder = folder(&[("k.ptx", source.as_str())]);
    let ran = |more: &[&str]| {
        ptxcheck(
            folder.path(),
            &[&["k.ptx", "--format=concise"], more].concat(),
        )
    };
    assert_eq!(ran(&[]).status, Some(0));
    assert!(
        ran(&["--target", "sm_75"])
            .out
            .contains("k.ptx:8:2: error[E0402]")
    );
    assert!(ran(&["--target", "75"]).out.contains("E0402"));
    assert!(ran(&["--ptx-version", "6.5"]).out.contains("E04"));
    assert_eq!(
        ran(&["--target", "sm_90", "--ptx-version", "8.0"]).status,
        Some(0)
    );
}

#[test]
fn what_only_code_generation_finds_is_found_with_codegen() {
    let source = GOOD
        .replace(".visible", ".extern .func f();\n.visible")
        .replace("ret;", "call f;\n\tret;");
    let folder = folder(&[("k.ptx", source.as_str())]);
    assert_eq!(ptxcheck(folder.path(), &["k.ptx"]).status, Some(0));
    assert!(
        ptxcheck(folder.path(), &["k.ptx", "--codegen"])
            .out
            .contains("E0501")
    );
}
