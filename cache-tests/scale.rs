//! As many blobs as a fleet's cache has.

use std::fs;
use std::path::Path;

use ptxkit::cache::{Cache, Key};

use crate::program::{
    LARGEST, blob_bytes, blob_path, cache, events_of, key, load, root, warnings_of,
};

const BLOBS: u64 = 100_000;

/// Bytes of each but the first, which lie nowhere: the files are holes.
const SIZE: u64 = 30_000;

/// Fills a cache with files that only their names make blobs: nobody reads
/// those, and whole ones would take minutes.
fn filled(folder: &Path) -> u64 {
    load(&cache(folder, 1 << 30), 0, || {});
    let root = root(folder);
    for n in 0..256 {
        let _ = fs::create_dir(root.join(format!("{n:02x}")));
    }
    let mut last = root.join("hole");
    for n in 1..BLOBS {
        let path = blob_path(folder, &key(1_000_000 + n));
        // A file can have no more names than this on every file system.
        if n % 10_000 == 1 {
            fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
            last = path;
        } else {
            fs::hard_link(&last, &path).unwrap();
        }
    }
    fs::remove_file(root.join("state")).unwrap();
    blob_bytes(folder)
}

#[test]
fn a_hundred_thousand_blobs_are_counted_once() {
    // Of memory where there is such a folder: this is of numbers, not of disks.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let total = filled(folder.path());
    let first = cache(folder.path(), total);
    let is_count = |_, text: &str| text.contains("cache listed");

    let (_, counts) = events_of(|| assert!(!load(&first, 0, || {})), is_count);
    assert_eq!(counts, [] as [&str; 0], "a hit counts nothing");

    let puts = |cache: &Cache, keys: std::ops::Range<u64>| {
        for n in keys {
            load(cache, n, || {});
        }
    };
    let (_, counts) = events_of(|| puts(&first, 1..200), is_count);
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert!(first.counters().evictions > 100);

    // Another process believes what this one counted.
    let other = cache(folder.path(), total);
    let (_, counts) = events_of(|| puts(&other, 200..250), is_count);
    assert_eq!(counts, [] as [&str; 0]);
    assert!(other.counters().evictions > 20);
    let left = blob_bytes(folder.path());
    assert!(left <= total && left > total - LARGEST, "{left} of {total}");
}

#[test]
fn a_key_is_found_by_its_start_among_many() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    for n in 0..300 {
        load(&cache, n, || {});
    }
    let wanted = key(123);
    let digits = wanted.to_string();
    let (found, warnings) = warnings_of(|| cache.find(&digits[..8]).unwrap());
    assert_eq!(warnings, [] as [&str; 0]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key, wanted);
    let all: Vec<Key> = cache
        .find(&digits[..1])
        .unwrap()
        .iter()
        .map(|entry| entry.key)
        .collect();
    assert!(all.contains(&wanted) && all.len() < 60, "{}", all.len());
}
