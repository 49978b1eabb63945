//! Programs that look for a library of this name among those that are loaded find this one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvrtc.so.13");
}
