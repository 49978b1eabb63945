//! `ptxcheck`, run as a user runs it.

mod codes;
mod containers;
mod fix;
mod formats;
mod inputs;
mod large;
mod limits;
mod options;
mod origin;
mod readme;
mod report;
mod sarif;
mod server;
mod settings;
mod snapshots;
mod subcommands;
mod suppression;
mod watch;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program; packed tests find it by the environment.
fn program() -> Command {
    let path =
        std::env::var_os("PTXKIT_CHECK_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxcheck").into());
    let mut command = Command::new(path);
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// What came of a run.
#[derive(Debug)]
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran {
            status: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }
}

/// In a folder.
fn ptxcheck(folder: &Path, args: &[&str]) -> Ran {
    program()
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
        .into()
}

/// With something on standard input.
fn ptxcheck_on(input: &str, args: &[&str]) -> Ran {
    let folder = folder(&[]);
    let mut child = program()
        .args(args)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().into()
}

/// A folder with these files, and a repository: what lies above does not count.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Nothing is wrong with it.
const GOOD: &str = "\
.version 5.1
.target sm_70
.address_size 64

.visible .entry k()
{
	ret;
}
";

/// One error, in line 7.
const BAD: &str = "\
.version 5.1
.target sm_70
.address_size 64

.visible .entry k()
{
	rte;
	ret;
}
";

/// One warning, in line 7, which `--fix` mends: then it is [`GOOD`].
const DOUBTFUL: &str = "\
.version 5.1
.target sm_70
.address_size 64

.visible .entry k()
{
}
";
