//! Generates a function for each name that NVIDIA's driver exports: a jump through a table. The library's name
//! for linkers and loaders is the driver's.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// The names of NVIDIA's driver 580 (CUDA 13.0).
const NAMES: &str = "names.txt";
/// The names that the library implements itself (`src/loads.rs` and `src/procedure.rs`).
const OWN: &[&str] = &[
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NAMES}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    let names = fs::read_to_string(NAMES).expect("names.txt is part of the package");
    let names: Vec<&str> = names.lines().collect();
    let mut text = format!("pub const NAMES: [&str; {}] = {names:?};\n", names.len());
    for (number, name) in names.iter().enumerate() {
        if OWN.contains(name) {
            let _ = writeln!(text, "pub const {}: usize = {number};", name.to_uppercase());
        } else {
            let _ = writeln!(text, "forward!({name} = {number});");
        }
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("names.rs"), text).expect("the folder can be written");
}
