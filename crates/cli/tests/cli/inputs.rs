//! Input files that have no end or are no files, pipes, and names with control characters.

use std::io::Write as _;
use std::process::Stdio;

use super::*;

/// The commands that read a file, each with the arguments for `path`.
fn readers(path: &str) -> Vec<Vec<String>> {
    let device = device();
    let vecadd = sample("vecadd.toml");
    let lines = [
        format!("run {path} --device {device}"),
        format!("bench {path} --device {device}"),
        format!("bench {vecadd} --device {device} --against {path}"),
        format!("diff {vecadd} --device {device} --against {path}"),
        format!("trace {path} --device {device}"),
        format!("fmt {path}"),
        format!("assemble {path} --target sm_90 -o out.cubin"),
        format!("ptxas {path} -arch=sm_90 -o out.cubin"),
        format!("ptxas --options-file {path}"),
        format!("inspect {path}"),
        format!("explain {path} --target sm_90"),
        format!("extract {path}"),
        format!("occupancy {path}"),
        format!("cache import {path}"),
        format!("cache warm {path} --target {device}"),
    ];
    let words = |line: &String| line.split(' ').map(str::to_owned).collect();
    lines.iter().map(words).collect()
}

fn run(folder: &Path, args: &[String]) -> (Option<i32>, String) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = Command::new(program());
    let output = command
        .args(args)
        .current_dir(folder)
        .env("CUDA_CACHE_PATH", folder.join("cache"))
        .env("XDG_CONFIG_HOME", folder)
        .output()
        .unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), said)
}

/// Files of /proc may be regular ones and have no end.
#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    for args in readers("/dev/zero") {
        let (status, said) = run(folder.path(), &args);
        assert!(
            matches!(status, Some(1 | 2 | 255)),
            "{args:?}: {status:?} {said}"
        );
        let is_named = said.contains("it is a character device, not a file");
        assert!(is_named || args[0] == "ptxas", "{args:?}: {said}");
    }
    for command in ["fmt", "inspect"] {
        let (status, said) = run(
            folder.path(),
            &[command.to_owned(), "/proc/kmsg".to_owned()],
        );
        assert_eq!(status, Some(2), "{said}");
    }
    let (_sample, path) = file(
        "s.toml",
        "grid = 1\nblock = 1\nptx = \"/dev/zero\"\nkernel = \"k\"\n",
    );
    let (status, said) = run(folder.path(), &["run".to_owned(), path]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("character device"), "{said}");
}

/// A file of holes takes no space on the disk.
#[test]
fn files_that_are_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.ptx");
    let large = std::fs::File::create(&path).unwrap();
    large.set_len((4 << 30) + 1).unwrap();
    for command in [
        "fmt",
        "inspect",
        "run",
        "explain --target sm_90",
        "extract",
        "occupancy",
    ] {
        let mut args: Vec<String> = command.split(' ').map(str::to_owned).collect();
        args.push("large.ptx".to_owned());
        let (status, said) = run(folder.path(), &args);
        assert_eq!(status, Some(2), "{command}: {said}");
        assert!(
            said.contains("large.ptx: it is larger than the limit of 4 GiB"),
            "{command}: {said}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn pipes_are_inputs() {
    let ptx = std::fs::read(sample("vecadd.ptx")).unwrap();
    for args in [
        &["fmt", "/dev/stdin"][..],
        &["fmt", "-"],
        &["inspect", "/dev/stdin"],
        &["inspect", "/dev/fd/0"],
        &["explain", "--target", "sm_90", "/dev/stdin"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(program())
            .args(args)
            .env("CUDA_CACHE_PATH", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&ptx).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
}

/// No part of a name is printed that moves the cursor or begins a line.
#[cfg(unix)]
#[test]
fn names_with_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\nerror:\x1b[2J.ptx";
    let text = std::fs::read_to_string(sample("vecadd.ptx")).unwrap();
    std::fs::write(folder.path().join(name), text.replace("ret;", "rte;")).unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    let more = ["fmt --check NAME", "fmt --diff NAME", "inspect NAME ."];
    let commands = readers("NAME").into_iter().chain(more.map(words));
    for (name, commands) in [
        (name, commands.collect()),
        (
            "none\nerror:\x1b[2J",
            vec![words("fmt NAME"), words("run NAME")],
        ),
    ] {
        for mut args in commands {
            for word in &mut args {
                if word == "NAME" {
                    name.clone_into(word);
                }
            }
            let (_, said) = run(folder.path(), &args);
            assert!(!said.contains("\nerror:\x1b"), "{args:?}: {said}");
            assert!(!said.contains("\x1b["), "{args:?}: {said}");
        }
    }
}
