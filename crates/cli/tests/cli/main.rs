//! The programs, run as a user runs them.

mod assemble;
mod bad_input;
mod bench;
mod cache;
mod check;
mod cpu_device;
mod diff;
mod documentation;
mod exec;
mod explain;
mod fmt;
mod inputs;
mod isa;
mod nvptxcompiler;
mod occupancy;
mod ptxas;
mod ptxas_cache;
mod remote;
mod run;
mod terminal;
#[cfg(target_os = "linux")]
mod top;
mod trace;
mod tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `ptxkit`; packed tests find it by the environment.
fn program() -> OsString {
    std::env::var_os("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into())
}

/// Runs `ptxkit` with a compute cache of its own.
fn ptxkit(cache: &Path, args: &[&str]) -> Output {
    ptxkit_with(cache, &[], args)
}

/// The same with variables of the environment.
fn ptxkit_with(cache: &Path, variables: &[(&str, &Path)], args: &[&str]) -> Output {
    Command::new(program())
        .args(args)
        .env_remove("CUDA_CACHE_DISABLE")
        .env_remove("CUDA_CACHE_MAXSIZE")
        .env_remove("PTXKIT_CACHE_READONLY")
        .env_remove("PTXKIT_SLICED")
        .env_remove("PTXKIT_REMOTE")
        .env("XDG_CONFIG_HOME", cache)
        .env_remove("RUST_LOG")
        // A kernel that is hot has a blob of its own: tests count blobs.
        .env("PTXKIT_CPU_LANES", "never")
        // This machine may have it.
        .env("PTXKIT_NVPTXCOMPILER", "off")
        .env("CUDA_CACHE_PATH", cache)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// The device that these tests run on: `cpu`, unless the environment says.
fn device() -> String {
    std::env::var("PTXKIT_DEVICE").unwrap_or("cpu".into())
}

fn on_gpu() -> bool {
    device().starts_with("nvidia")
}

fn sample(name: &str) -> String {
    let folder = std::env::var_os("PTXKIT_SAMPLES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ptx-samples")),
        PathBuf::from,
    );
    folder.join(name).display().to_string()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with one file; the file's path.
fn file(name: &str, content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let path = path.display().to_string();
    (folder, path)
}
