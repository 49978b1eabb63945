//! Links the program so that it starts fast: for a fixed address, as one that lies anywhere has
//! 34,000 pointers to adjust, which takes as long as a small file does; and with its own copy of
//! what unwinds the stack, in place of a library that has to be found and mapped.

use std::path::Path;
use std::process::Command;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |key: &str| std::env::var(key).unwrap_or_default();
    let is_linux = variable("CARGO_CFG_TARGET_OS") == "linux";
    if !is_linux || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return Ok(());
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    if variable("HOST") == variable("TARGET") && has_static_unwinder() {
        let folder = variable("OUT_DIR");
        // What the standard library links, by a script that names the other.
        let script = Path::new(&folder).join("libgcc_s.so");
        std::fs::write(script, "INPUT(-lgcc_eh)\n")?;
        println!("cargo::rustc-link-arg-bins=-L{folder}");
    }
    Ok(())
}

fn has_static_unwinder() -> bool {
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let asked = Command::new(linker)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // It answers with a path where it has the file.
    asked.is_ok_and(|answer| answer.stdout.starts_with(b"/"))
}
