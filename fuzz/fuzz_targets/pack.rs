//! The images of any file can be packed, or are refused, and come back as they were.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::image::{Compression, Image, Packer, contents, open};

fuzz_target!(|bytes: &[u8]| {
    let Ok(contents) = contents(bytes) else {
        return;
    };
    for piece in &contents.pieces {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let mut packer = Packer::new(compression);
            if packer.add(&piece.image).is_err() {
                continue;
            }
            let packed = packer.finish();
            let Ok(Image::Fatbin(again)) = open(&packed) else {
                panic!("what was packed is not a fatbin");
            };
            let before = piece.entries();
            assert_eq!(before.len(), again.entries.len());
            for (before, after) in before.iter().zip(&again.entries) {
                assert_eq!(before.kind, after.kind);
                assert_eq!(before.target.number, after.target.number);
                // The suffix of a cubin in a file is not in its header.
                if matches!(piece.image, Image::Fatbin(_)) {
                    assert_eq!(before.target.suffix, after.target.suffix);
                }
                let Ok(before) = before.unpack() else {
                    continue;
                };
                let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0);
                let after = after.unpack().expect("it was packed");
                let mark = b"\xef\xbb\xbf";
                let before = before.strip_prefix(mark).unwrap_or(&before);
                assert_eq!(used(before), used(&after));
                assert!(before.iter().zip(&*after).all(|(one, other)| one == other));
            }
        }
    }
});
