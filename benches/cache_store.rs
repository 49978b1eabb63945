//! The store of the compute cache as it grows from 100 to 100,000 blobs. No GPU.
//!
//! ```sh
//! cargo bench --bench cache_store
//! ```
//!
//! Lookups at each size run beside lookups among 100 blobs, puts beside a plain
//! file that is written, synced and renamed, and checksums beside BLAKE3.

mod paired;

use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ptxkit::cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, Provenance};

use paired::paired;

/// Bytes of a blob's code: a small module's.
const CODE: usize = 8 << 10;
/// Blobs that are read; the others only have to be there.
const READ: u64 = 64;

fn key(n: u64) -> Key {
    Key::new(&KeyParts {
        source: Digest::of(&n.to_le_bytes()),
        target: "bench",
        driver_version: 13000,
        compiler: "bench",
        options: b"",
    })
}

fn cache(folder: &Path, limit: u64) -> Cache {
    let environment = Environment::of([("CUDA_CACHE_PATH", folder)]);
    Cache::new(Policy::from_environment(&environment).with_max_size(limit))
}

fn put(cache: &Cache, key: &Key, code: &[u8]) {
    if let Lookup::Miss(lock) = cache.lookup(key) {
        // SAFETY: nobody loads it.
        unsafe { lock.put(&Provenance::default(), code) };
    }
}

fn path(folder: &Path, key: &Key) -> PathBuf {
    let digits = key.to_string();
    folder
        .join("ptxkit-v1")
        .join(&digits[..2])
        .join(format!("{}.blob", &digits[2..]))
}

fn is_hit(cache: &Cache, n: u64) -> bool {
    matches!(black_box(cache.lookup(&key(n))), Lookup::Hit(_))
}

/// A folder of `blobs` blobs, and the bytes that they take.
fn filled(blobs: u64) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = cache(folder.path(), 4 << 30);
    for n in 0..READ {
        put(&cache, &key(n), &vec![n as u8; CODE]);
    }
    let first = path(folder.path(), &key(0));
    let bytes = fs::metadata(&first).expect("a blob that was put").len();
    for n in 0..256 {
        let _ = fs::create_dir(folder.path().join(format!("ptxkit-v1/{n:02x}")));
    }
    let mut last = first;
    for n in READ..blobs {
        let path = path(folder.path(), &key(n));
        // File systems limit the names of one file.
        if n % 10_000 == READ {
            fs::write(&path, vec![0; bytes as usize]).expect("room for a file");
            last = path;
        } else {
            fs::hard_link(&last, &path).expect("a link beside the file");
        }
    }
    let _ = fs::remove_file(folder.path().join("ptxkit-v1/state"));
    (folder, bytes * blobs)
}

fn main() {
    let (small, _) = filled(100);
    let among_few = cache(small.path(), 4 << 30);
    for blobs in [1_000, 10_000, 100_000] {
        let (folder, bytes) = filled(blobs);

        let started = Instant::now();
        let hit = is_hit(&cache(folder.path(), 4 << 30), 1);
        let first = started.elapsed();
        assert!(hit);
        println!("{blobs} blobs: start and first hit {first:.3?}  goal 1 ms");

        let among_many = cache(folder.path(), 4 << 30);
        let all = |cache: &Cache| assert!((0..READ).all(|n| is_hit(cache, n)));
        paired(
            &format!("64 hits among {blobs} and 100"),
            200,
            1.2,
            || all(&among_many),
            || all(&among_few),
        );
        paired(
            &format!("start, 64 hits: {blobs} and 100"),
            100,
            1.2,
            || all(&cache(folder.path(), 4 << 30)),
            || all(&cache(small.path(), 4 << 30)),
        );
        puts(folder.path(), blobs, bytes);
    }
    checksum();
}

/// Puts, each of which has to evict, beside plain files.
fn puts(folder: &Path, blobs: u64, bytes: u64) {
    let full = cache(folder, bytes);
    let plain = folder.join("plain");
    fs::create_dir(&plain).expect("room for a folder");
    let code = vec![1; CODE];
    // The first counts the folder, which is done again after an eighth of all
    // blobs had to go: so much of it goes to each put.
    let started = Instant::now();
    put(&full, &key(1 << 40), &code);
    let count = started.elapsed();
    let (started, many) = (Instant::now(), 100);
    for n in 1..=many {
        put(&full, &key(1 << 40 | n), &code);
    }
    let mean = started.elapsed() / many as u32 + count / (blobs as u32 / 8);
    let evicted = full.counters().evictions;
    assert!(evicted > many / 2, "{evicted} evictions of {many}");
    println!("{blobs} blobs: put with eviction {mean:.3?}, counting {count:.3?}  goal 10 ms");
    let mut n = 1 << 41;
    let mut m = 0;
    paired(
        &format!("put and evict among {blobs}, file"),
        100,
        2.0,
        || {
            n += 1;
            put(&full, &key(n), &code);
        },
        || {
            m += 1;
            let aside = plain.join(format!("{m}.tmp"));
            let mut file = fs::File::create(&aside).expect("a file");
            file.write_all(&code).expect("room for it");
            fs::rename(&aside, plain.join(m.to_string())).expect("a name");
        },
    );
}

/// What a process pays once for a blob of 4 MiB, beside reading it and taking
/// its BLAKE3.
fn checksum() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let code: Vec<u8> = (0..4 << 20)
        .map(|n: u32| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    put(&cache(folder.path(), 4 << 30), &key(1), &code);
    let path = path(folder.path(), &key(1));
    paired(
        "first hit of 4 MiB, BLAKE3 of it",
        50,
        0.5,
        || assert!(is_hit(&cache(folder.path(), 4 << 30), 1)),
        || {
            black_box(Digest::of(&fs::read(&path).expect("the blob")));
        },
    );
    let known = cache(folder.path(), 4 << 30);
    paired(
        "second hit of 4 MiB, reading it",
        50,
        1.1,
        || assert!(is_hit(&known, 1)),
        || {
            black_box(fs::read(&path).expect("the blob"));
        },
    );
}
