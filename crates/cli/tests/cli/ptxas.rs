//! `ptxkit ptxas`: what a program that runs ptxas sees.

use std::path::Path;
use std::process::{Command, Output};

use super::{file, program, ptxkit, stderr, stdout};

const RIGHT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry k(.param .u64 p)\n{\n\
    .reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n\
    ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd1, %rd1;\n\
    mov.u32 %r1, 7;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";

/// Runs `ptxkit ptxas` in a folder with `k.ptx`.
fn ptxas(text: &str, args: &[&str]) -> (tempfile::TempDir, Output) {
    let (folder, _) = file("k.ptx", text);
    let ran = Command::new(program())
        .arg("ptxas")
        .args(args)
        .current_dir(folder.path())
        .env_remove("PTXKIT_EXEC_REPORT")
        .output()
        .unwrap();
    (folder, ran)
}

fn made(folder: &Path, name: &str) -> bool {
    std::fs::read(folder.join(name)).is_ok_and(|code| code.starts_with(b"PTXKCPU1"))
}

#[test]
fn a_binary_of_the_cpu_device_is_made() {
    let (folder, ran) = ptxas(RIGHT, &["-arch=sm_80", "-v", "k.ptx", "-o", "k.cubin"]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert!(made(folder.path(), "k.cubin"));
    let said = stderr(&ran);
    assert!(said.starts_with("ptxas info    : 0 bytes gmem\n"), "{said}");
    assert!(said.contains("ptxas info    : Compiling entry function 'k' for 'sm_80'\n"));
    assert!(
        said.contains("ptxas info    : Used 32 registers\n"),
        "{said}"
    );

    let (folder, ran) = ptxas("", &["-arch=sm_80", "--input-as-string", RIGHT]);
    assert!(ran.status.success() && made(folder.path(), "elf.o"));
    assert_eq!(stderr(&ran), "");
}

#[test]
fn a_link_with_the_name_ptxas_is_ptxas() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ptxas", "ptxkit-ptxas"] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(program(), &link).unwrap();
        let ran = Command::new(&link).arg("--version").output().unwrap();
        let said = stdout(&ran);
        // What Triton and XLA look for.
        assert!(said.contains("release 13.5, V13.5.0"), "{said}");
    }
}

#[test]
fn errors_are_written_as_ptxas_writes_them() {
    let wrong = RIGHT.replace("mov.u32", "mvo.u32");
    let (folder, ran) = ptxas(&wrong, &["-arch=sm_80", "k.ptx", "-o", "k.cubin"]);
    assert_eq!(ran.status.code(), Some(255));
    assert_eq!(
        stderr(&ran),
        "ptxas k.ptx, line 10; error   : unknown instruction `mvo` (E0101); did you mean `mov`?\n\
         ptxas fatal   : Ptx assembly aborted due to errors\n"
    );
    assert!(!folder.path().join("k.cubin").exists());

    for (args, expected) in [
        (
            &["none.ptx"][..],
            "Input file 'none.ptx' could not be opened",
        ),
        (
            &["k.ptx"],
            "SM version specified by .target is higher than default SM version assumed",
        ),
        (
            &["-arch=sm_80", "-e", "none", "k.ptx"],
            "Unknown function none",
        ),
        (
            &["-arch=sm_80", "k.ptx", "-o", "none/k"],
            "Output file 'none/k' could not be opened",
        ),
        (&["-arch=sm_80", "k.ptx", "k.ptx"], "a second input"),
    ] {
        let (_folder, ran) = ptxas(RIGHT, args);
        let said = stderr(&ran);
        assert_eq!(ran.status.code(), Some(255), "{args:?}");
        assert!(
            said.starts_with(&format!("ptxas fatal   : {expected}")),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn the_checker_takes_the_place_of_ptxas() {
    let suspicious = RIGHT.replace("mov.u32 %r1, 7;", "shl.b32 %r1, %r2, 32;");
    let (folder, ran) = ptxas(&suspicious, &["--check", "-arch=sm_80", "k.ptx"]);
    assert_eq!(ran.status.code(), Some(0));
    let said = stderr(&ran);
    assert!(said.contains("ptxas k.ptx, line 10; warning : "), "{said}");
    assert!(said.contains("(W0103)"), "{said}");
    assert!(!folder.path().join("elf.o").exists());

    let (_folder, ran) = ptxas(&suspicious, &["--check", "-w", "-arch=sm_80", "k.ptx"]);
    assert_eq!((ran.status.code(), stderr(&ran).as_str()), (Some(0), ""));
    let (_folder, ran) = ptxas(&suspicious, &["--check", "-Werror", "-arch=sm_80", "k.ptx"]);
    assert_eq!(ran.status.code(), Some(255));
    assert!(stderr(&ran).contains("; error   : "));
}

#[test]
fn what_is_refused_is_in_the_report_of_exec() {
    let refused = RIGHT.replace("mov.u32 %r1, 7;", "tcgen05.shift.cta_group::1.down [%r1];");
    let refused = refused.replace("sm_80", "sm_100a").replace("8.0", "8.6");
    let (folder, path) = file("k.ptx", &refused);
    let report = folder.path().join("report.json");
    let ran = Command::new(program())
        .args(["ptxas", "-arch=sm_100a", &path])
        .env("PTXKIT_EXEC_REPORT", &report)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(255), "{}", stderr(&ran));
    let record = std::fs::read_to_string(&report).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let failure = &record["failures"][0];
    assert_eq!(failure["kind"], "refused");
    let cause = failure["cause"].as_str().unwrap();
    assert!(
        cause.starts_with("k: line 10: the CPU device cannot run `tcgen05"),
        "{cause}"
    );
}

#[test]
fn its_help_is_its_own() {
    let cache = tempfile::tempdir().unwrap();
    let ran = ptxkit(cache.path(), &["ptxas", "--help"]);
    assert!(stdout(&ran).contains("--gpu-name <value> (-arch)"));
    assert!(ran.status.success());
}
