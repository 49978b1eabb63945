//! `ptxkit exec`: what a program finds that it runs.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use super::{program, ptxkit, ptxkit_with, stderr, stdout};

/// A folder with something in the place of the driver, which no program here opens.
fn driver() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libcuda.so.1"), "").unwrap();
    folder
}

#[test]
fn the_driver_comes_first_on_the_search_path() {
    let (driver, cache) = (driver(), tempfile::tempdir().unwrap());
    let folder = driver.path().to_str().unwrap();
    let args = [
        "exec",
        "--device",
        "cpu",
        "--driver",
        folder,
        "--",
        "sh",
        "-c",
        "echo $LD_LIBRARY_PATH",
    ];
    let before = [("LD_LIBRARY_PATH", Path::new("/one:/two"))];
    let ran = ptxkit_with(cache.path(), &before, &args);
    assert_eq!(stdout(&ran), format!("{folder}:/one:/two\n"));
    // Not twice, where one runs the other.
    let before = [("LD_LIBRARY_PATH", driver.path())];
    let ran = ptxkit_with(cache.path(), &before, &args);
    assert_eq!(stdout(&ran), format!("{folder}\n"));
}

#[test]
fn exit_status_and_signals_are_those_of_the_program() {
    let (driver, cache) = (driver(), tempfile::tempdir().unwrap());
    let folder = driver.path().to_str().unwrap();
    let run = |command: &[&str]| {
        let args = [
            &["exec", "--device", "cpu", "--driver", folder, "--"],
            command,
        ]
        .concat();
        ptxkit(cache.path(), &args)
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(
        run(&["sh", "-c", "kill -TERM $$"]).status.signal(),
        Some(15)
    );
    let ran = run(&["no-such-program"]);
    assert_eq!(ran.status.code(), Some(127));
    assert!(stderr(&ran).starts_with("error: no-such-program: "));
    assert_eq!(run(&[folder]).status.code(), Some(126));
}

#[test]
fn a_missing_driver_is_told_with_what_to_do() {
    let (empty, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = empty.path().to_str().unwrap();
    let ran = ptxkit(
        cache.path(),
        &["exec", "--device", "cpu", "--driver", folder, "--", "true"],
    );
    assert_eq!(ran.status.code(), Some(2));
    let said = stderr(&ran);
    assert!(
        said.contains(&format!("there is no {folder}/libcuda.so.1")),
        "{said}"
    );
    assert!(said.contains("pip install ptxkit-cpu"), "{said}");
}

#[test]
fn a_report_begins_anew_and_has_a_whole_path() {
    let (driver, folder) = (driver(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("report.html"), "old").unwrap();
    let ran = Command::new(program())
        .args([
            "exec",
            "--device",
            "cpu",
            "--report",
            "report.html",
            "--driver",
        ])
        .arg(driver.path())
        .args(["--", "sh", "-c", "cd /; echo $PTXKIT_EXEC_REPORT"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let report = folder.path().join("report.html");
    assert_eq!(stdout(&ran), format!("{}\n", report.display()));
    assert!(!report.exists());
}

#[test]
fn a_report_has_arguments_if_it_is_asked_to() {
    let (driver, folder) = (driver(), tempfile::tempdir().unwrap());
    let asked = |flags: &[&str]| {
        let ran = Command::new(program())
            .args(["exec", "--device", "cpu", "--driver"])
            .arg(driver.path())
            .args(flags)
            .args(["--", "sh", "-c", "echo $PTXKIT_EXEC_REPORT_ARGUMENTS"])
            .current_dir(folder.path())
            .env("PTXKIT_EXEC_REPORT_ARGUMENTS", "1")
            .output()
            .unwrap();
        stdout(&ran)
    };
    assert_eq!(asked(&["--report", "r.html"]), "0\n");
    assert_eq!(asked(&["--report", "r.html", "--report-arguments"]), "1\n");
    assert_eq!(asked(&[]), "1\n");
}

/// Without a GPU, the CPU device; a `--device` behind another wins.
#[test]
fn the_device_is_chosen_and_named() {
    let (driver, cache) = (driver(), tempfile::tempdir().unwrap());
    let folder = driver.path().to_str().unwrap();
    let run = |devices: &[&str], flags: &[&str]| {
        let args = [
            &["exec"],
            devices,
            flags,
            &["--driver", folder, "--", "true"],
        ]
        .concat();
        ptxkit(cache.path(), &args)
    };
    if !Path::new("/dev/nvidiactl").exists() {
        assert_eq!(stderr(&run(&[], &[])), "ptxkit: the CPU device\n");
    }
    let nvidia = ["--device", "cpu", "--device", "nvidia"];
    let ran = run(
        &nvidia,
        &["--remote", "redis://h", "--save-compiles", "/nowhere/list"],
    );
    assert!(
        stderr(&ran).starts_with("ptxkit: NVIDIA's driver"),
        "{}",
        stderr(&ran)
    );
    for flag in ["--remote", "--save-compiles"] {
        let ran = run(&["--device", "cpu"], &[flag, "x"]);
        assert_eq!(ran.status.code(), Some(2));
        assert!(
            stderr(&ran).contains("need --device nvidia"),
            "{}",
            stderr(&ran)
        );
    }
}

#[test]
fn a_trace_begins_anew_and_has_a_whole_path() {
    let (driver, folder) = (driver(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("trace.json"), "old").unwrap();
    let ran = Command::new(program())
        .args([
            "exec",
            "--device",
            "cpu",
            "--trace",
            "trace.json",
            "--driver",
        ])
        .arg(driver.path())
        .args(["--", "sh", "-c", "echo $PTXKIT_EXEC_TRACE"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let trace = folder.path().join("trace.json");
    assert_eq!(stdout(&ran), format!("{}\n", trace.display()));
    assert!(!trace.exists());
}

#[test]
fn a_page_is_written_for_nvidias_driver_and_a_trace_is_not() {
    let (driver, folder) = (driver(), tempfile::tempdir().unwrap());
    let exec = |flags: &[&str]| {
        Command::new(program())
            .args(["exec", "--device", "nvidia", "--driver"])
            .arg(driver.path())
            .args(flags)
            .args(["--", "sh", "-c", "echo $PTXKIT_REPORT"])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let ran = exec(&["--report", "page.html"]);
    assert!(stdout(&ran).ends_with("/page.html\n"), "{}", stderr(&ran));
    let ran = exec(&["--trace", "trace.json"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(stderr(&ran).contains("nsys profile"), "{}", stderr(&ran));
}
