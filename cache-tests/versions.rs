//! Programs of different versions, and of different drivers, on one folder.

use std::fs;
use std::path::Path;

use ptxkit::cache::{Cache, Key, Lookup, Prune};

use crate::program::{
    blob_bytes, blob_path, cache, code, key, key_of_driver, load, provenance, root, warnings_of,
};

/// A blob as a later version of this program would write it: another schema,
/// and after that bytes that this one knows nothing of.
fn put_of_the_future(folder: &Path, key: &Key, length: usize) {
    let mut bytes = vec![0xee; length];
    bytes[..8].copy_from_slice(b"PTXKBLOB");
    bytes[8..12].copy_from_slice(&9999_u32.to_le_bytes());
    let path = blob_path(folder, key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    use std::os::unix::fs::PermissionsExt;
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(path.parent().unwrap(), private).unwrap();
    fs::write(&path, bytes).unwrap();
}

#[test]
fn blobs_of_a_later_version_are_left_alone_but_count() {
    let folder = tempfile::tempdir().unwrap();
    let first = cache(folder.path(), 1 << 30);
    load(&first, 1, || {});
    for n in 100..105 {
        put_of_the_future(folder.path(), &key(n), 20_000);
    }
    let (found, warnings) = warnings_of(|| {
        assert!(!load(&first, 1, || {}));
        first.entries().unwrap();
        first.verify(|_| {}).unwrap()
    });
    assert_eq!(warnings, [] as [&str; 0]);
    assert_eq!((found.good, found.other_schema), (1, 5));
    assert_eq!(found.bad, []);
    assert!((100..105).all(|n| blob_path(folder.path(), &key(n)).exists()));
    // They take room, and go when room is needed.
    fs::remove_file(root(folder.path()).join("state")).unwrap();
    let limit = 100_000;
    let tight = cache(folder.path(), limit);
    for n in 2..20 {
        load(&tight, n, || {});
        assert!(blob_bytes(folder.path()) <= limit);
    }
    assert!(!(100..105).any(|n| blob_path(folder.path(), &key(n)).exists()));
}

#[test]
fn a_blob_of_a_later_version_under_a_key_of_this_one_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    load(&cache, 2, || {});
    put_of_the_future(folder.path(), &key(1), 5000);
    let (miss, warnings) = warnings_of(|| load(&cache, 1, || {}));
    assert!(miss);
    assert!(
        warnings.len() == 1 && warnings[0].contains("schema 9999"),
        "{warnings:?}"
    );
    assert!(!load(&cache, 1, || {}));
}

/// A later version may have another state file: each counts for itself then.
#[test]
fn two_programs_with_different_state_files_both_keep_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 300_000;
    let cache = cache(folder.path(), limit);
    for n in 0..40 {
        if n % 5 == 4 {
            put_of_the_future(folder.path(), &key(1000 + n), 10_000);
            fs::write(root(folder.path()).join("state"), b"ptxkit state 7\n").unwrap();
        }
        load(&cache, n, || {});
        assert!(blob_bytes(folder.path()) <= limit);
    }
    assert_eq!(cache.counters().errors, 0);
}

fn put(cache: &Cache, key: &Key, n: u64) {
    if let Lookup::Miss(lock) = cache.lookup(key) {
        // SAFETY: data of this test, which nothing runs.
        unsafe { lock.put(&provenance(n), &code(n)) };
    }
}

#[test]
fn what_an_older_driver_made_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let room = cache(folder.path(), 1 << 30);
    let (old, new): (Vec<Key>, Vec<Key>) = (0..10)
        .map(|n| (key_of_driver(n, 12080), key_of_driver(n, 13000)))
        .unzip();
    for (n, key) in new.iter().enumerate() {
        put(&room, key, n as u64);
    }
    let size = |keys: &[Key]| -> u64 {
        let paths = keys.iter().map(|key| blob_path(folder.path(), key));
        paths
            .map(|path| fs::metadata(path).map_or(0, |file| file.len()))
            .sum()
    };
    // Put last, and used just now: but of a driver that was replaced.
    for (n, key) in old.iter().enumerate() {
        put(&room, key, n as u64);
        assert!(matches!(room.lookup(key), Lookup::Hit(_)));
    }
    assert_eq!(room.stats().unwrap().stale, 10);
    let tight = cache(folder.path(), size(&old) + size(&new));
    let there = |keys: &[Key]| keys.iter().filter(|key| tight.contains(key)).count();
    for n in 10..14 {
        put(&tight, &key_of_driver(n, 13000), n);
    }
    assert!(there(&old) < 10);
    assert_eq!(there(&new), 10);
    // A tool need not wait for that.
    let left = there(&old) as u64;
    let removed = tight.prune(&Prune::default()).unwrap();
    assert_eq!((removed.blobs, there(&old)), (left, 0));
    assert_eq!(there(&new), 10);
}
