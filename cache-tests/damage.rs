//! Bytes that are not those that were written.

use std::fs;
use std::path::Path;

use crate::program::{blob_path, cache, files, key, load, root, warnings_of};

/// One place in every field of a blob file, by the table in `crates/cache/src/blob.rs`.
fn places(length: usize) -> Vec<(&'static str, usize)> {
    vec![
        ("magic", 3),
        ("schema", 8),
        ("length of the head", 12),
        ("key", 20),
        ("the key's driver", 44),
        ("length of the file", 48),
        ("checksum of the code", 60),
        ("checksum of the head", 80),
        ("provenance", 90),
        ("the start of the code", 200),
        ("middle of the code", length / 2),
        ("the last byte", length - 1),
    ]
}

/// A cache with one blob.
fn filled(folder: &Path) {
    load(&cache(folder, 1 << 30), 1, || {});
}

/// The damaged blob is quarantined with one warning, and the one put in its place
/// is found.
fn is_healed(folder: &Path, what: &str) {
    let cache = cache(folder, 1 << 30);
    let (miss, warnings) = warnings_of(|| load(&cache, 1, || {}));
    assert!(miss, "{what}: taken for good");
    assert_eq!(warnings.len(), 1, "{what}: {warnings:?}");
    assert_eq!(cache.counters().bad, 1, "{what}");
    assert_eq!(cache.stats().unwrap().bad, 1, "{what}");
    assert!(!load(&cache, 1, || {}), "{what}");
    assert_eq!(cache.verify(|_| {}).unwrap().good, 1, "{what}");
}

#[test]
fn a_flipped_bit_in_any_field() {
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        fs::read(blob_path(folder.path(), &key(1))).unwrap()
    };
    for (what, at) in places(whole.len()) {
        for bit in [0, 7] {
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path());
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(blob_path(folder.path(), &key(1)), &bytes).unwrap();
            is_healed(folder.path(), what);
        }
    }
}

#[test]
fn cut_short_in_any_field_and_one_byte_too_long() {
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        fs::read(blob_path(folder.path(), &key(1))).unwrap()
    };
    let mut lengths = places(whole.len());
    lengths.push(("nothing", 0));
    for (what, length) in lengths {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        fs::write(blob_path(folder.path(), &key(1)), &whole[..length]).unwrap();
        is_healed(folder.path(), what);
    }
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let longer = [&whole[..], &[0]].concat();
    fs::write(blob_path(folder.path(), &key(1)), longer).unwrap();
    is_healed(folder.path(), "one byte more");
}

#[test]
fn the_blob_of_another_key_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    load(&cache(folder.path(), 1 << 30), 2, || {});
    let (one, two) = (
        blob_path(folder.path(), &key(1)),
        blob_path(folder.path(), &key(2)),
    );
    fs::copy(two, one).unwrap();
    is_healed_beside_another(folder.path());
}

fn is_healed_beside_another(folder: &Path) {
    let cache = cache(folder, 1 << 30);
    let (miss, warnings) = warnings_of(|| load(&cache, 1, || {}));
    assert!(miss);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("another key"), "{warnings:?}");
    assert!(!load(&cache, 1, || {}) && !load(&cache, 2, || {}));
}

#[test]
fn verify_finds_what_no_load_came_across() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    for n in 0..10 {
        load(&cache, n, || {});
    }
    let path = blob_path(folder.path(), &key(3));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&path, bytes).unwrap();
    let mut seen = Vec::new();
    let found = cache
        .verify(|checked| seen.push((checked.done, checked.of)))
        .unwrap();
    assert_eq!(seen, (1..=10).map(|done| (done, 10)).collect::<Vec<_>>());
    assert_eq!(found.good, 9);
    assert_eq!(found.bad.len(), 1);
    assert_eq!(found.bad[0].0, key(3));
    assert!(!path.exists());
    assert_eq!(cache.verify(|_| {}).unwrap().good, 9);
}

/// sled panics on some damage, so damage must never reach it.
#[test]
fn a_damaged_catalogue_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    for n in 0..20 {
        load(&cache, n, || {});
    }
    let before = cache.entries().unwrap();
    assert_eq!(before.len(), 20);
    let place = root(folder.path());
    let all = || {
        let mut all = files(&place.join("catalogue"));
        all.push(place.join("catalogue.sum"));
        all
    };
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 6] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.truncate(bytes.len().saturating_sub(1)),
        |bytes| bytes.first_mut().into_iter().for_each(|byte| *byte ^= 0x80),
        |bytes| bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1),
        |bytes| {
            let middle = bytes.len() / 2;
            bytes
                .iter_mut()
                .skip(middle)
                .take(64)
                .for_each(|byte| *byte = !*byte);
        },
    ];
    for damage in damages {
        for name in 0..all().len() {
            let Some(path) = all().into_iter().nth(name) else {
                break;
            };
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            assert_eq!(cache.entries().unwrap(), before, "{}", path.display());
        }
    }
    for path in all() {
        fs::remove_file(&path).unwrap();
        assert_eq!(cache.entries().unwrap(), before, "{}", path.display());
    }
}

#[test]
fn a_state_file_that_is_wrong_or_gone_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 300_000;
    let place = root(folder.path());
    let first = cache(folder.path(), limit);
    for n in 0..20 {
        load(&first, n, || {});
    }
    for (round, name) in ["state", "queue", "state", "queue"].iter().enumerate() {
        let path = place.join(name);
        if round < 2 {
            fs::write(&path, b"rubbish").unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let again = cache(folder.path(), limit);
        for n in 0..20 {
            load(&again, 100 * (round as u64 + 1) + n, || {});
            let total = crate::program::blob_bytes(&place);
            assert!(total <= limit, "{name}: {total}");
        }
        assert_eq!(again.counters().errors, 0, "{name}");
    }
}
