//! Any bytes can be read as a fatbin, and what it holds unpacked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::image::{Image, Unpacker, open};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Image::Fatbin(fatbin)) = open(bytes) else {
        return;
    };
    let mut unpacker = Unpacker::default();
    for entry in &fatbin.entries {
        let Ok(unpacked) = unpacker.unpack(entry) else {
            continue;
        };
        assert_eq!(unpacked.len() as u64, entry.size, "{entry:?}");
        if entry.kind.is_ptx() {
            let _ = entry.text_of(unpacked);
        }
    }
});
