//! Any bytes can be read as a program or an archive, and the PTX in it taken out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::image::{contents, ptx_texts};

fuzz_target!(|bytes: &[u8]| {
    let Ok(contents) = contents(bytes) else {
        return;
    };
    for piece in &contents.pieces {
        assert!(piece.offset <= bytes.len() as u64);
    }
    for entry in contents.entries() {
        let end = entry.offset.saturating_add(entry.payload.len() as u64);
        assert!(end <= bytes.len() as u64, "{entry:?}");
    }
    for text in ptx_texts(bytes).into_iter().flatten() {
        let _ = text;
    }
});
