//! A cache that goes from one place to another.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "launches of kernels that are declared beside them"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ptxkit::cache::{Cache, CacheError, Lookup, Moved, Prune};

use crate::program::{blob_path, cache, key, load, policy, provenance, root, warnings_of};

fn filled(folder: &Path) -> Cache {
    let cache = cache(folder, 1 << 30);
    for n in 0..5 {
        load(&cache, n, || {});
    }
    cache
}

#[test]
fn an_exported_cache_serves_read_only_and_is_imported() {
    for name in ["out", "out.tar"] {
        let (from, to, out) = (
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let source = filled(from.path());
        // One is damaged, one is not wanted.
        fs::write(blob_path(from.path(), &key(1)), b"bad").unwrap();
        source.entries().unwrap();
        let out = out.path().join(name);
        let mut told = Vec::new();
        let moved = source
            .export(&out, |entry| entry.key != key(0), |now| told.push(*now))
            .unwrap();
        assert_eq!(told.len(), 3, "{name}");
        assert!(told.is_sorted_by(|one, next| one.done < next.done));
        assert_eq!(told[2].done, told[2].of, "{name}");
        assert_eq!((moved.blobs, moved.bytes > 0), (3, true), "{name}");

        let target = cache(to.path(), 1 << 30);
        load(&target, 2, || {});
        // What is damaged there is healed.
        load(&target, 3, || {});
        fs::write(blob_path(to.path(), &key(3)), b"bad").unwrap();
        told.clear();
        let moved = unsafe { target.import(&out, |now| told.push(*now)) }.unwrap();
        assert_eq!(told.len(), 3, "{name}");
        assert!(told.iter().all(|now| 0 < now.done && now.done <= now.of));
        assert_eq!((moved.blobs, moved.skipped), (2, 1), "{name}");
        for n in 2..5 {
            assert!(!load(&target, n, || {}), "{name}: {n}");
        }
        assert!(load(&target, 0, || {}) && load(&target, 1, || {}));
        let entry = &target.find(&key(3).to_string()).unwrap()[0];
        assert_eq!(entry.provenance, provenance(3));
    }
}

#[test]
fn an_exported_folder_and_an_unpacked_archive_are_caches() {
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = filled(from.path());
    let (folder, archive) = (out.path().join("a"), out.path().join("b.tar"));
    source.export(&folder, |_| true, |_| {}).unwrap();
    // Again: what is there is left alone.
    let again = source.export(&folder, |_| true, |_| {}).unwrap();
    assert_eq!((again.blobs, again.skipped), (0, 5));
    // So are folders, the cache's own above all.
    source.export(from.path(), |_| true, |_| {}).unwrap();
    let private = fs::metadata(root(from.path())).unwrap().permissions();
    assert_eq!(private.mode() & 0o777, 0o700);
    source.export(&archive, |_| true, |_| {}).unwrap();
    let unpacked = out.path().join("b");
    let unpack = std::process::Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg({
            fs::create_dir(&unpacked).unwrap();
            &unpacked
        })
        .status();
    let mut folders = vec![folder];
    match unpack {
        Ok(status) => {
            assert!(status.success());
            folders.push(unpacked);
        }
        Err(error) => eprintln!("left out: tar cannot be started: {error}"),
    }
    for folder in folders {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&blob_path(&folder, &key(2))), 0o644);
        assert_eq!(mode(&root(&folder)), 0o755);
        let nowhere = tempfile::tempdir().unwrap();
        let shipped = policy(nowhere.path(), 1 << 30).with_read_only([&folder]);
        let cache = Cache::new(shipped);
        for n in 0..5 {
            assert!(!load(&cache, n, || {}));
        }
        assert_eq!(cache.counters().lower_hits, 5);
    }
}

#[test]
fn an_import_keeps_to_the_limit_and_refuses_rubbish() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    filled(from.path());
    let target = cache(to.path(), 60_000);
    unsafe { target.import(from.path(), |_| {}) }.unwrap();
    assert!(crate::program::blob_bytes(to.path()) <= 60_000);
    let rubbish = from.path().join("rubbish.tar");
    fs::write(&rubbish, vec![7; 5000]).unwrap();
    assert!(matches!(
        unsafe { target.import(&rubbish, |_| {}) },
        Err(CacheError::Folder { .. })
    ));
    assert!(unsafe { target.import(&from.path().join("nowhere"), |_| {}) }.is_err());
}

#[test]
fn an_archive_that_is_cut_short_anywhere_is_told() {
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let archive = out.path().join("a.tar");
    let source = filled(from.path());
    source.export(&archive, |_| true, |_| {}).unwrap();
    let whole = fs::read(&archive).unwrap();
    let mut most = 0;
    // Of blocks of 512 bytes; the last two are its end, of which one will do.
    for length in (0..=whole.len() - 1024).step_by(512) {
        fs::write(&archive, &whole[..length]).unwrap();
        let to = tempfile::tempdir().unwrap();
        let target = cache(to.path(), 1 << 30);
        assert!(
            unsafe { target.import(&archive, |_| {}) }.is_err(),
            "{length} bytes"
        );
        // What came before the cut is there, and whole.
        let found = target.verify(|_| {}).unwrap();
        assert_eq!(found.bad, []);
        assert!(found.good >= most, "{length} bytes");
        most = found.good;
    }
    assert_eq!(most, 5);
}

#[test]
fn what_is_no_file_in_a_folder_is_not_imported() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    filled(from.path());
    let place = |n| blob_path(from.path(), &key(n));
    for n in 0..3 {
        fs::remove_file(place(n)).unwrap();
    }
    std::os::unix::fs::symlink(place(3), place(0)).unwrap();
    std::os::unix::fs::symlink(from.path().join("nowhere"), place(1)).unwrap();
    // To open this one is to wait for ever.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, place(2), kind, mode, 0).unwrap();
    let target = cache(to.path(), 1 << 30);
    let (moved, warnings) = warnings_of(|| unsafe { target.import(from.path(), |_| {}) }.unwrap());
    assert_eq!((moved.blobs, moved.skipped), (2, 0));
    let mut damaged: Vec<_> = moved.damaged.iter().map(|file| &file.path).collect();
    damaged.sort();
    let mut expected = [place(0), place(1), place(2)];
    expected.sort();
    assert_eq!(damaged, expected.each_ref());
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}

#[test]
fn damaged_blobs_are_reported_and_not_imported() {
    for name in ["out", "out.tar"] {
        let [from, to, out] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let out = out.path().join(name);
        filled(from.path()).export(&out, |_| true, |_| {}).unwrap();
        // The last byte of one blob, wherever it lies.
        let bytes = fs::read(blob_path(from.path(), &key(3))).unwrap();
        let file = if out.is_dir() {
            blob_path(&out, &key(3))
        } else {
            out.clone()
        };
        let mut damaged = fs::read(&file).unwrap();
        let start = damaged
            .windows(bytes.len())
            .position(|window| window == bytes)
            .unwrap();
        damaged[start + bytes.len() - 1] ^= 1;
        fs::write(&file, damaged).unwrap();
        let target = cache(to.path(), 1 << 30);
        let moved = unsafe { target.import(&out, |_| {}) }.unwrap();
        assert_eq!((moved.blobs, moved.skipped), (4, 0), "{name}");
        let [damaged] = &moved.damaged[..] else {
            panic!("{name}: {:?}", moved.damaged)
        };
        let digits = key(3).to_string();
        let name = format!("{}/{}.blob", &digits[..2], &digits[2..]);
        assert!(damaged.path.ends_with(name), "{damaged:?}");
        assert_eq!(damaged.why, "its checksum does not match");
        assert!(!target.contains(&key(3)));
    }
}

#[test]
fn an_import_of_nothing_moves_nothing() {
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let zeros = from.path().join("zeros.tar");
    let empty = from.path().join("empty");
    fs::write(&zeros, vec![0; 1 << 20]).unwrap();
    fs::create_dir(&empty).unwrap();
    let target = cache(to.path(), 1 << 30);
    for path in [zeros, empty] {
        assert_eq!(
            unsafe { target.import(&path, |_| {}) }.unwrap(),
            Moved::default()
        );
    }
}

#[test]
fn an_archive_that_cannot_be_finished_leaves_nothing() {
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let archive = out.path().join("a.tar");
    fs::create_dir(&archive).unwrap();
    let exported = filled(from.path()).export(&archive, |_| true, |_| {});
    assert!(exported.is_err(), "{exported:?}");
    assert_eq!(crate::program::files(out.path()), [] as [&Path; 0]);
}

#[test]
fn entries_tell_size_use_hits_and_provenance() {
    let folder = tempfile::tempdir().unwrap();
    let first = filled(folder.path());
    for _ in 0..3 {
        load(&first, 4, || {});
    }
    drop(first);
    let other = cache(folder.path(), 1 << 30);
    load(&other, 4, || {});
    load(&other, 3, || {});
    let check = |cache: &Cache| {
        let entries = cache.entries().unwrap();
        assert_eq!(entries.len(), 5);
        for entry in &entries {
            let n = (0..5).find(|&n| key(n) == entry.key).unwrap();
            assert_eq!(entry.hits, [0, 0, 0, 1, 4][n as usize], "{n}");
            assert_eq!(entry.provenance, provenance(n));
            assert_eq!(entry.size, fs::metadata(&entry.path).unwrap().len());
            assert!(!entry.stale);
        }
        assert_eq!(cache.stats().unwrap().hits, 5);
    };
    check(&other);
    check(&other);
    assert_eq!(other.rebuild().unwrap().blobs, 5);
    // By the start of a key.
    let digits = key(2).to_string();
    for length in [1, 2, 3, 20, 64] {
        let found = other.find(&digits[..length].to_uppercase()).unwrap();
        assert!(found.iter().any(|entry| entry.key == key(2)), "{length}");
        assert!(found.len() == 1 || length < 3);
    }
    assert!(other.find("no").is_err() && other.find("").is_err());
}

#[test]
fn prune_removes_by_size_and_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let cache = filled(folder.path());
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(10 * 86_400);
    for n in [1, 3] {
        let file = fs::File::options()
            .write(true)
            .open(blob_path(folder.path(), &key(n)))
            .unwrap();
        file.set_modified(old).unwrap();
    }
    let nothing = cache.prune(&Prune::default()).unwrap();
    assert_eq!(nothing.blobs, 0);
    let older_than = Some(std::time::Duration::from_secs(9 * 86_400));
    let aged = cache
        .prune(&Prune {
            older_than,
            ..Prune::default()
        })
        .unwrap();
    assert_eq!(aged.blobs, 2);
    assert!(!cache.contains(&key(1)) && cache.contains(&key(2)));
    let left = cache.stats().unwrap().bytes;
    let max_size = Some(left - 1);
    let sized = cache
        .prune(&Prune {
            max_size,
            ..Prune::default()
        })
        .unwrap();
    assert_eq!(sized.blobs, 1);
    assert_eq!(cache.stats().unwrap().bytes, left - sized.bytes);
}

#[test]
fn a_failure_is_remembered_by_the_process_alone() {
    let folder = tempfile::tempdir().unwrap();
    let first = cache(folder.path(), 1 << 30);
    let Lookup::Miss(lock) = first.lookup(&key(1)) else {
        panic!("it is empty")
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.lookup(&key(1)));
        lock.fail(std::sync::Arc::new(std::io::Error::other(
            "line 3 is wrong",
        )));
        let Lookup::Failed(why) = waiting.join().unwrap() else {
            panic!("it cannot be compiled")
        };
        assert_eq!(why.to_string(), "line 3 is wrong");
    });
    assert!(matches!(first.lookup(&key(1)), Lookup::Failed(_)));
    assert_eq!(first.counters().failures, 2);
    assert_eq!(first.entries().unwrap().len(), 0);
    // Another process may have a compiler that can; then it is there for all.
    let other = cache(folder.path(), 1 << 30);
    assert!(load(&other, 1, || {}));
    assert!(matches!(first.lookup(&key(1)), Lookup::Hit(_)));
}
