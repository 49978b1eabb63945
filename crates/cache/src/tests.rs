//! The cache as a whole, against real folders.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "images that the tests have made"
)]
#![allow(unsafe_code, reason = "what is put into these caches is never run")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::local::FOLDER;
use super::lock::FileLock;
use super::store::Found;
use super::warnings::warnings_of;
use super::*;

fn policy(folder: &Path) -> Policy {
    Policy::from_environment(&Environment::of([("CUDA_CACHE_PATH", folder)]))
}

fn key(n: u32) -> Key {
    Key::new(&KeyParts {
        source: Digest::of(&n.to_le_bytes()),
        target: "sm_90",
        driver_version: 13000,
        compiler: "test",
        options: b"",
    })
}

fn provenance() -> Provenance {
    Provenance {
        source: "k.ptx".into(),
        kernels: vec!["one".into(), "two".into()],
        ..Provenance::default()
    }
}

/// What the cache holds for a key, compiling `code` where it holds nothing.
fn load(cache: &Cache, key: &Key, code: &[u8]) -> (Vec<u8>, &'static str) {
    match cache.lookup(key) {
        Lookup::Hit(blob) => (blob.to_vec(), "hit"),
        Lookup::Miss(lock) => (unsafe { lock.put(&provenance(), code) }.to_vec(), "miss"),
        Lookup::Failed(failure) => (failure.to_string().into_bytes(), "failed"),
        Lookup::Off => (code.to_vec(), "off"),
    }
}

fn blob_path(folder: &Path, key: &Key) -> PathBuf {
    let digits = key.to_string();
    folder
        .join(FOLDER)
        .join(&digits[..2])
        .join(format!("{}.blob", &digits[2..]))
}

#[test]
fn what_is_compiled_now_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    let other = Cache::new(policy(folder.path()));
    assert_eq!(other.compiling().unwrap(), []);
    let Lookup::Miss(lock) = cache.lookup(&key(1)) else {
        panic!("nothing is there");
    };
    assert_eq!(other.compiling().unwrap(), [key(1)]);
    unsafe { lock.put(&provenance(), b"code") };
    assert_eq!(other.compiling().unwrap(), []);
    // One that a killed process left.
    let locks = cache.folder().unwrap().join("locks");
    fs::write(locks.join(format!("{}.lock", key(2))), "").unwrap();
    assert_eq!(other.compiling().unwrap(), []);
    assert_eq!(load(&cache, &key(2), b"code").1, "miss");
}

#[test]
fn a_miss_then_hits_also_for_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    assert_eq!(load(&cache, &key(1), b"a"), (b"a".to_vec(), "miss"));
    assert_eq!(load(&cache, &key(1), b"b"), (b"a".to_vec(), "hit"));
    let other = Cache::new(policy(folder.path()));
    assert_eq!(load(&other, &key(1), b"b"), (b"a".to_vec(), "hit"));
    assert_eq!(load(&other, &key(2), b"b"), (b"b".to_vec(), "miss"));
    let counters = other.counters();
    assert_eq!((counters.hits, counters.misses, counters.puts), (1, 1, 1));
}

/// A blob is not synced: after a power failure it may have a name and no bytes, or
/// zeros for the last of them.
#[test]
fn a_blob_that_was_torn_is_a_miss() {
    for kept in [0, 1, 100] {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(policy(folder.path()));
        load(&cache, &key(1), &[7; 10_000]);
        let path = blob_path(folder.path(), &key(1));
        let mut bytes = fs::read(&path).unwrap();
        bytes[kept..].fill(0);
        fs::write(&path, &bytes[..if kept == 0 { 0 } else { bytes.len() }]).unwrap();
        let next = Cache::new(policy(folder.path()));
        assert_eq!(load(&next, &key(1), b"anew").1, "miss", "{kept} bytes");
        assert_eq!(load(&next, &key(1), b"").0, b"anew");
    }
}

#[test]
fn nothing_but_the_blob_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"a");
    let path = blob_path(folder.path(), &key(1));
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(names, std::slice::from_ref(&path));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&folder.path().join(FOLDER)), 0o700);
}

#[test]
fn a_disabled_cache_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()).with_enabled(false));
    assert_eq!(load(&cache, &key(1), b"a").1, "off");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_bad_blob_is_quarantined_and_compiled_anew() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("a flipped bit", |path| {
            let mut bytes = fs::read(path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("cut short", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("empty", |path| fs::write(path, b"").unwrap()),
        ("a link", |path| {
            let elsewhere = path.with_extension("moved");
            fs::rename(path, &elsewhere).unwrap();
            symlink(elsewhere, path).unwrap();
        }),
        ("writable by others", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(policy(folder.path()));
        load(&cache, &key(1), b"good");
        damage(&blob_path(folder.path(), &key(1)));
        let (found, warnings) = warnings_of(|| load(&cache, &key(1), b"good"));
        assert_eq!(found, (b"good".to_vec(), "miss"), "{name}");
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert_eq!(cache.counters().bad, 1, "{name}");
        let quarantine = folder.path().join(FOLDER).join("bad");
        assert_eq!(fs::read_dir(quarantine).unwrap().count(), 1, "{name}");
        assert_eq!(load(&cache, &key(1), b"other").1, "hit", "{name}");
    }
}

#[test]
fn no_memory_is_taken_for_a_length_that_no_blob_has() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"a");
    let path = blob_path(folder.path(), &key(1));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(1 << 42).unwrap();
    assert_eq!(load(&cache, &key(1), b"b"), (b"b".to_vec(), "miss"));
    assert_eq!(load(&cache, &key(1), b"c"), (b"b".to_vec(), "hit"));
}

#[test]
fn the_blob_of_another_key_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"one");
    load(&cache, &key(2), b"two");
    let (from, to) = (
        blob_path(folder.path(), &key(1)),
        blob_path(folder.path(), &key(2)),
    );
    fs::copy(from, to).unwrap();
    assert_eq!(load(&cache, &key(2), b"two"), (b"two".to_vec(), "miss"));
}

#[test]
fn a_folder_that_cannot_be_trusted_or_made_is_one_warning_and_no_cache() {
    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 3] = [
        ("others can write to it", |root| {
            fs::create_dir(root).unwrap();
            fs::set_permissions(root, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("symbolic link", |root| {
            let elsewhere = root.with_extension("real");
            fs::create_dir(&elsewhere).unwrap();
            symlink(elsewhere, root).unwrap();
        }),
        ("not a directory", |root| {
            fs::write(root, b"a file").unwrap()
        }),
    ];
    for (words, spoil) in spoils {
        let folder = tempfile::tempdir().unwrap();
        spoil(&folder.path().join(FOLDER));
        let cache = Cache::new(policy(folder.path()));
        let (found, warnings) = warnings_of(|| {
            load(&cache, &key(1), b"x");
            load(&cache, &key(1), b"y")
        });
        assert_eq!(found, (b"y".to_vec(), "off"), "{words}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(words), "{warnings:?}");
        assert!(warnings[0].contains("CUDA_CACHE_PATH"));
    }
}

#[test]
fn a_blob_that_cannot_be_written_is_one_warning_and_still_given() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"x");
    // Where its folder should be lies a file: this fails for root too.
    let fan = blob_path(folder.path(), &key(2));
    let _ = fs::remove_dir_all(fan.parent().unwrap());
    fs::write(fan.parent().unwrap(), b"").unwrap();
    let (found, warnings) = warnings_of(|| load(&cache, &key(2), b"y"));
    assert_eq!(found, (b"y".to_vec(), "miss"));
    assert!(cache.counters().errors > 0);
    let (again, more) = warnings_of(|| load(&cache, &key(2), b"y"));
    assert_eq!(again.1, "miss");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn the_longest_unused_go_first_and_the_limit_holds() {
    let folder = tempfile::tempdir().unwrap();
    let room = Cache::new(policy(folder.path()));
    let code = [7; 1000];
    for n in 0..3 {
        load(&room, &key(n), &code);
    }
    let size = fs::metadata(blob_path(folder.path(), &key(0)))
        .unwrap()
        .len();
    // 1 was used last, then 0; 2 is the oldest.
    for (n, age) in [(0, 200), (1, 100), (2, 300)] {
        let file = fs::File::options()
            .write(true)
            .open(blob_path(folder.path(), &key(n)))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
    }
    let tight = Cache::new(policy(folder.path()).with_max_size(3 * size));
    load(&tight, &key(3), &code);
    assert!(!blob_path(folder.path(), &key(2)).exists());
    // A hit on 0 makes 1 the oldest.
    assert_eq!(load(&tight, &key(0), &code).1, "hit");
    load(&tight, &key(4), &code);
    assert!(!blob_path(folder.path(), &key(1)).exists());
    assert!(blob_path(folder.path(), &key(0)).exists());
    assert_eq!(tight.counters().evictions, 2);
    assert_eq!(tight.stats().unwrap().bytes, 3 * size);
}

#[test]
fn what_is_larger_than_the_cache_is_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()).with_max_size(500));
    load(&cache, &key(1), b"small");
    assert_eq!(load(&cache, &key(2), &[0; 500]).1, "miss");
    assert_eq!(load(&cache, &key(2), &[0; 500]).1, "miss");
    assert_eq!(load(&cache, &key(1), b"").1, "hit");
}

#[test]
fn what_a_dead_writer_left_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"x");
    let root = folder.path().join(FOLDER);
    let left = [root.join("tmp/1-0.tmp"), root.join("locks/dead.lock")];
    let held = [root.join("tmp/2-0.tmp"), root.join("locks/held.lock")];
    let files: Vec<fs::File> = left
        .iter()
        .chain(&held)
        .map(|path| fs::File::create(path).unwrap())
        .collect();
    // Their writers live.
    files[2].lock().unwrap();
    files[3].lock().unwrap();
    // A process looks once, when it first puts.
    let other = Cache::new(policy(folder.path()));
    load(&other, &key(2), b"y");
    assert!(left.iter().all(|path| !path.exists()));
    assert!(held.iter().all(|path| path.exists()));
}

#[test]
fn a_file_that_another_process_of_this_number_writes_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"a");
    let blob = blob_path(folder.path(), &key(1));
    // The names that this process would take next.
    let temporary = folder.path().join(FOLDER).join("tmp");
    let theirs: Vec<PathBuf> = (0..1000)
        .map(|count| temporary.join(format!("{}-{count}.tmp", std::process::id())))
        .collect();
    for path in &theirs {
        fs::write(path, b"theirs").unwrap();
    }
    fs::remove_file(&blob).unwrap();
    assert_eq!(load(&cache, &key(1), b"b").1, "miss");
    assert_eq!(cache.counters().puts, 2);
    for path in &theirs {
        assert_eq!(fs::read(path).unwrap(), b"theirs");
    }
}

#[test]
fn a_bad_blob_that_somebody_else_quarantined_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"a");
    cache.discard(&key(1), "it does not load");
    cache.discard(&key(1), "it does not load");
    assert_eq!(cache.counters().errors, 0);
}

#[test]
fn a_good_blob_is_not_quarantined_for_the_bad_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    load(&cache, &key(1), b"good");
    fs::write(blob_path(folder.path(), &key(1)), b"bad").unwrap();
    let other = Store::existing(&cache.folder().unwrap()).unwrap();
    let Found::Bad(_, file) = other.get(&key(1)).unwrap() else {
        panic!("it is bad")
    };
    // The first to find it quarantines and compiles it.
    assert_eq!(load(&cache, &key(1), b"good").1, "miss");
    other.quarantine(&key(1), file).unwrap();
    assert_eq!(load(&cache, &key(1), b"other").1, "hit");
}

#[test]
fn any_wait_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()).with_wait(Duration::MAX));
    assert_eq!(load(&cache, &key(1), b"a").1, "miss");
}

#[test]
fn many_threads_compile_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    let compiles = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| match cache.lookup(&key(1)) {
                Lookup::Hit(blob) => assert_eq!(&*blob, b"code"),
                Lookup::Miss(lock) => {
                    compiles.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    unsafe { lock.put(&provenance(), b"code") };
                }
                Lookup::Failed(_) | Lookup::Off => panic!("the cache is on"),
            });
        }
    });
    assert_eq!(compiles.load(Ordering::SeqCst), 1);
    assert_eq!(cache.counters().hits, 15);
}

#[test]
fn caches_that_share_a_folder_compile_once() {
    let folder = tempfile::tempdir().unwrap();
    let compiles = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // As another process would: a cache of its own.
            let cache = Cache::new(policy(folder.path()));
            let compiles = &compiles;
            scope.spawn(move || {
                if let Lookup::Miss(lock) = cache.lookup(&key(1)) {
                    compiles.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    unsafe { lock.put(&provenance(), b"code") };
                }
            });
        }
    });
    assert_eq!(compiles.load(Ordering::SeqCst), 1);
}

#[test]
fn a_compile_lock_that_is_dropped_goes_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    let tries = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                if let Lookup::Miss(lock) = cache.lookup(&key(1)) {
                    // The first two fail.
                    if tries.fetch_add(1, Ordering::SeqCst) < 2 {
                        drop(lock);
                    } else {
                        unsafe { lock.put(&provenance(), b"code") };
                    }
                }
            });
        }
    });
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[test]
fn a_wait_ends_and_then_everyone_compiles_alone() {
    let folder = tempfile::tempdir().unwrap();
    let short = policy(folder.path()).with_wait(Duration::from_millis(10));
    let (cache, other) = (Cache::new(short.clone()), Cache::new(short));
    let Lookup::Miss(lock) = cache.lookup(&key(1)) else {
        panic!("an empty cache has no hit")
    };
    assert_eq!(load(&cache, &key(1), b"same cache").1, "miss");
    let _ = fs::remove_file(blob_path(folder.path(), &key(1)));
    assert_eq!(load(&other, &key(1), b"other cache").1, "miss");
    assert_eq!((cache.counters().waits, other.counters().waits), (1, 1));
    unsafe { lock.put(&provenance(), b"late") };
    assert_eq!(load(&cache, &key(1), b"").0, b"late");
}

#[test]
fn the_list_is_the_same_with_and_without_a_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    for n in 0..3 {
        load(&cache, &key(n), b"code");
    }
    let first = cache.entries().unwrap();
    assert_eq!(first.len(), 3);
    assert_eq!(first[0].provenance, provenance());
    // Now from the catalogue, less what is gone.
    fs::remove_file(blob_path(folder.path(), &key(0))).unwrap();
    let second = cache.entries().unwrap();
    assert!(second.iter().all(|blob| blob.key != key(0)));
    assert!(second.iter().all(|blob| first.contains(blob)));
    // Damaged: made anew.
    let catalogue = folder.path().join(FOLDER).join("catalogue");
    for entry in fs::read_dir(&catalogue).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::write(path, b"rubbish").unwrap();
        }
    }
    assert_eq!(cache.entries().unwrap(), second);
    assert_eq!(cache.entries().unwrap(), second);
    // Held by somebody else: the blobs are read.
    let lock = catalogue.with_extension("lock");
    let far = Instant::now() + Duration::from_secs(10);
    let _held = FileLock::acquire(&lock, far).unwrap().unwrap();
    assert_eq!(cache.entries().unwrap(), second);
}

#[test]
fn clear_empties_it_and_an_absent_folder_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    assert_eq!(cache.clear().unwrap(), Removed::default());
    load(&cache, &key(1), b"a");
    load(&cache, &key(2), b"b");
    assert_eq!(cache.stats().unwrap().kernels, 4);
    assert_eq!(cache.clear().unwrap().blobs, 2);
    assert_eq!(cache.stats().unwrap().blobs, 0);
    assert_eq!(load(&cache, &key(1), b"a").1, "miss");
}
