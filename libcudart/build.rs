//! Programs linked with NVIDIA's shared runtime ask for its symbols in a version: without it
//! the dynamic linker warns at each start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // LLVM's linker, which rustc takes, gives symbols no version beside rustc's own list.
        for argument in [
            "-fuse-ld=bfd",
            "-Wl,-soname,libcudart.so.13",
            "-Wl,--default-symver",
        ] {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
}
