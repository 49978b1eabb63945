//! How long a hit of `ptxkit-ptxas-cache` takes, the whole process, beside the real ptxas.
//!
//! The goal: a fifth of the time of ptxas on the smallest sample. `PTXAS` names the ptxas; without
//! it there is nothing to time.

#[path = "../../../benches/paired/mod.rs"]
mod paired;

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Files of the repository, with a target.
const FILES: [(&str, &str); 3] = [
    ("ptx-samples/saxpy.ptx", "-arch=sm_90"),
    ("ptx-samples/matmul_wgmma.ptx", "-arch=sm_90a"),
    ("benches/kernels/matmul.ptx", "-arch=sm_90a"),
];

fn main() {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        println!("ptxas_cache: PTXAS is unset, nothing is timed");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("out");
    let run = |program: &OsStr, file: &str, target: &str| {
        let status = Command::new(program)
            .args([target, "-v", file, "-o"])
            .arg(&output)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("PTXKIT_REAL_PTXAS", &ptxas)
            .env("CUDA_CACHE_PATH", folder.path().join("cache"))
            .env_remove("CUDA_CACHE_DISABLE")
            .env_remove("PTXKIT_REPORT")
            .stderr(Stdio::null())
            .status()
            .expect("the program runs");
        assert!(status.success(), "{file}");
    };
    for (file, target) in FILES {
        let name = file.rsplit('/').next().unwrap_or(file);
        let ours = env!("CARGO_BIN_EXE_ptxkit-ptxas-cache");
        paired::paired(
            &format!("a hit of {name}"),
            20,
            0.2,
            || run(ours.as_ref(), file, target),
            || run(&ptxas, file, target),
        );
    }
}
