//! Any bytes can lie where a blob of the compute cache is looked for.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ptxkit::cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, SCHEMA};
use xxhash_rust::xxh3::Xxh3;

/// A cache in a folder of this process's own, a key, and the file of its blob.
struct Place {
    cache: Cache,
    key: Key,
    file: PathBuf,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap().keep();
    let key = Key::new(&KeyParts {
        source: Digest::of(b"text"),
        target: "sm_90a",
        driver_version: 13000,
        compiler: "test",
        options: b"",
    });
    let cache = Cache::new(Policy::from_environment(&Environment::of([(
        "CUDA_CACHE_PATH",
        folder,
    )])));
    // The first lookup makes the folder.
    drop(cache.lookup(&key));
    let root = cache.folder().unwrap();
    let digits = key.to_string();
    let fan = root.join(&digits[..2]);
    fs::create_dir(&fan).unwrap();
    let file = fan.join(format!("{}.blob", &digits[2..]));
    Place { cache, key, file }
});

/// What no accident changes and then makes right again: without it hardly an
/// input gets past the checksum of the head.
fn repair(bytes: &mut [u8], key: &Key) {
    let length = bytes.len() as u64;
    if bytes.len() < 88 {
        return;
    }
    bytes[..8].copy_from_slice(b"PTXKBLOB");
    bytes[8..12].copy_from_slice(&SCHEMA.to_le_bytes());
    // Heads of up to 4 KiB: a random length would lead nowhere.
    bytes[14..16].fill(0);
    bytes[13] &= 0xf;
    bytes[16..48].copy_from_slice(key.as_bytes());
    bytes[48..56].copy_from_slice(&length.to_le_bytes());
    let head = usize::from(u16::from_le_bytes([bytes[12], bytes[13]]));
    let Some(head) = bytes.get_mut(..head.max(88)) else {
        return;
    };
    let mut sum = Xxh3::new();
    sum.update(&head[..72]);
    sum.update(&head[88..]);
    head[72..88].copy_from_slice(&sum.digest128().to_le_bytes());
}

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (repaired, mut bytes) = input;
    let Place { cache, key, file } = &*PLACE;
    if repaired {
        repair(&mut bytes, key);
    }
    fs::write(file, &bytes).unwrap();
    match cache.lookup(key) {
        Lookup::Hit(blob) => {
            assert!(blob.len() <= bytes.len());
            assert!(blob.provenance().kernels.len() <= bytes.len());
        }
        // It is compiled anew: set aside, and not looked at again.
        Lookup::Miss(_) => assert!(!file.exists()),
        other => panic!("{other:?}"),
    }
});
