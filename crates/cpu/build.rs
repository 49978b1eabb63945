//! Gives the CPU device's compiler its identity: a hash of its sources.
//!
//! Cached code is found by a key that holds the compiler's identity. A version
//! number alone would let a changed compiler find the code of the one before.

use std::path::{Path, PathBuf};

fn main() {
    // The manifest names the version of the code generator.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let mut files = vec![PathBuf::from("Cargo.toml")];
    println!("cargo::rerun-if-changed=src");
    collect(Path::new("src"), &mut files);
    files.sort();
    // FNV-1a: changes are told apart, nothing is defended against.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in std::fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=PTXKIT_COMPILER_SOURCES={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
