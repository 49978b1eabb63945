//! Any bytes can be read as a cubin, down to its kernels.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::image::{Image, open};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Image::Cubin(cubin)) = open(bytes) else {
        return;
    };
    if let Ok(contents) = cubin.contents() {
        // Each has a symbol and a section header of its own.
        assert!(contents.kernels.len() <= bytes.len() / 64);
    }
});
