//! `ptxcheck`.

use super::*;

fn ptxcheck(files: &[&str]) -> Output {
    let program =
        std::env::var_os("PTXKIT_CHECK_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxcheck").into());
    Command::new(program).args(files).output().unwrap()
}

#[test]
fn good_files_say_nothing() {
    let output = ptxcheck(&[&sample("vecadd.ptx"), &sample("matmul.ptx")]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn errors_have_places_and_the_status_is_1() {
    let (_folder, path) = file(
        "bad.ptx",
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { foo.u32 %r1; ret; }\n",
    );
    let output = ptxcheck(&[&sample("vecadd.ptx"), &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("bad.ptx:4:14"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_file_that_cannot_be_read_is_status_2() {
    let (_folder, binary) = file("x.ptx", "\u{1}\u{2}\u{3}");
    for path in ["none.ptx", binary.as_str()] {
        let output = ptxcheck(&[path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).starts_with("error: "),
            "{}",
            stderr(&output)
        );
    }
}
