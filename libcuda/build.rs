//! How the library is linked: its name for linkers and loaders is the driver's, and its entries
//! are its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // `cuGetProcAddress` answers with the library's entries, also where a program exports
    // functions of the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
