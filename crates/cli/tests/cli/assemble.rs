//! `ptxkit assemble`, with a compiler that the tests make.

use std::io::Write;
use std::process::Stdio;

use super::*;

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

/// A ptxas that runs `commands` to compile `$source` to `$code`.
fn ptxas(folder: &Path, commands: &str) -> String {
    let (text, path) = (folder.join("ptxas.sh"), folder.join("ptxas"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo ptxas of the tests; exit 0; }}\n\
         while [ $# -gt 1 ]; do [ \"$1\" = -o ] && code=$2; shift; done\nsource=$1\n{commands}\n"
    );
    std::fs::write(&text, script).unwrap();
    // Not written here: what another test starts meanwhile inherits the open file,
    // and no system executes a file that is open for writing.
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).args([&text, &path]).status();
    assert!(installed.unwrap().success());
    path.display().to_string()
}

/// The code is what the compiler was given.
const COPIES: &str = "cp \"$source\" \"$code\"";

fn assemble(commands: &str, args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let ptxas = ptxas(cache.path(), commands);
    ptxkit(
        &cache.path().join("cache"),
        &[&["assemble", "--ptxas", &ptxas], args].concat(),
    )
}

#[test]
fn a_compiler_that_fails_is_told_from_one_that_crashes() {
    let (_folder, path) = file("k.ptx", PTX);
    for (commands, words) in [
        (
            "echo half a word; kill -SEGV $$",
            &[
                "k.ptx is not compiled",
                "ptxas crashed with signal 11 (SIGSEGV)",
                "half a word",
            ][..],
        ),
        (
            "kill -ABRT $$",
            &["ptxas crashed with signal 6 (SIGABRT)", "help: "],
        ),
        (
            "exit 3",
            &["does not compile", "without a message, exit status: 3"],
        ),
        (
            "echo line 7: no; exit 255",
            &["does not compile: ptxas reports\nline 7: no"],
        ),
    ] {
        let output = assemble(commands, &[&path, "--target", "sm_90"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in:\n{said}");
        }
    }
}

#[test]
fn the_code_goes_beside_the_ptx() {
    let (folder, path) = file("k.ptx", PTX);
    for target in ["90", "sm_90", "compute_90"] {
        let output = assemble(COPIES, &[&path, "--target", target]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&output);
        assert!(
            said.contains("k.cubin, ") && said.contains("target   sm_90\n"),
            "{said}"
        );
        let code = folder.path().join("k.cubin");
        assert_eq!(std::fs::read_to_string(&code).unwrap(), PTX);
        std::fs::remove_file(code).unwrap();
    }
    let output = assemble(COPIES, &[&path, "--target", "hopper"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("`hopper` is not a target: write sm_90"),
        "{said}"
    );
}

#[test]
fn the_code_does_not_replace_the_ptx() {
    let (_folder, path) = file("k.ptx", PTX);
    let output = assemble(COPIES, &[&path, "--target", "90", "--output", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("would replace the PTX"));
    let (_folder, path) = file("k.cubin", PTX);
    let output = assemble(COPIES, &[&path, "--target", "90"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn standard_input_and_output_are_dashes() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = ptxas(folder.path(), COPIES);
    for more in [&[][..], &["--output", "-"]] {
        let mut child = Command::new(program())
            .args(["assemble", "-", "--target", "sm_90", "--ptxas", &ptxas])
            .args(more)
            .env("CUDA_CACHE_PATH", folder.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(PTX.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), PTX, "{}", stderr(&output));
        assert!(stderr(&output).starts_with("output   <stdout>, "));
    }
}
