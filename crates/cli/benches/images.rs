//! How long it takes to list the images of a library, beside cuobjdump.
//!
//! The goal: faster than `cuobjdump -lelf -lptx`, and below 2 s for 250 MB with 1,500 images.
//! `PTXKIT_CUOBJDUMP` names the peer, `PTXKIT_IMAGE_LIBRARIES` the files, separated by colons;
//! without them there is nothing to time.

#[path = "../../../benches/paired/mod.rs"]
mod paired;

use std::process::{Command, Stdio};

fn main() {
    let (Ok(peer), Ok(libraries)) = (
        std::env::var("PTXKIT_CUOBJDUMP"),
        std::env::var("PTXKIT_IMAGE_LIBRARIES"),
    ) else {
        println!("images: PTXKIT_CUOBJDUMP and PTXKIT_IMAGE_LIBRARIES are unset, nothing is timed");
        return;
    };
    let ours = std::env::var("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into());
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .expect("the program runs");
        assert!(status.success(), "{program} {arguments:?}");
    };
    for library in libraries.split(':') {
        let name = library.rsplit('/').next().unwrap_or(library);
        paired::paired(
            &format!("list {name}"),
            5,
            1.0,
            || run(&ours, &["inspect", "--no-kernels", library]),
            || run(&peer, &["-lelf", "-lptx", library]),
        );
        paired::paired(
            &format!("kernels of {name}"),
            3,
            1.0,
            || run(&ours, &["inspect", "--kernels", library]),
            || run(&peer, &["-res-usage", library]),
        );
    }
}
