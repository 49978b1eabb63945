//! Folders and files that others made, and clocks that go back.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use ptxkit::cache::Lookup;

use crate::program::{blob_path, cache, code, key, load, policy, root, warnings_of};

/// Loads twice and gives the warnings; whatever the folder is like, the loads
/// succeed.
fn loads(folder: &Path) -> (Vec<&'static str>, Vec<String>) {
    let cache = cache(folder, 1 << 30);
    warnings_of(|| {
        let load = |n| match cache.lookup(&key(n)) {
            Lookup::Hit(blob) => {
                assert!(*blob == *code(n));
                "hit"
            }
            Lookup::Miss(lock) => {
                // SAFETY: data of this test, which nothing runs.
                assert!(*unsafe { lock.put(&Default::default(), &code(n)) } == *code(n));
                "miss"
            }
            Lookup::Failed(failure) => panic!("{failure}"),
            Lookup::Off => "off",
        };
        vec![load(1), load(1), load(2)]
    })
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_world_writable_folder_is_not_used() {
    for mode in [0o777, 0o720, 0o702, 0o1777] {
        let folder = tempfile::tempdir().unwrap();
        load(&cache(folder.path(), 1 << 30), 1, || {});
        chmod(&root(folder.path()), mode);
        let (found, warnings) = loads(folder.path());
        assert_eq!(found, ["off", "off", "off"], "{mode:o}");
        assert_eq!(warnings.len(), 1, "{mode:o}: {warnings:?}");
        assert!(warnings[0].contains("chmod go-w"), "{warnings:?}");
    }
}

#[test]
fn a_planted_link_is_not_followed_wherever_it_is() {
    // A cache of somebody's, with the blob that is asked for.
    let planted = tempfile::tempdir().unwrap();
    load(&cache(planted.path(), 1 << 30), 1, || {});
    let theirs = blob_path(planted.path(), &key(1));

    // In place of the cache's folder.
    let folder = tempfile::tempdir().unwrap();
    symlink(root(planted.path()), root(folder.path())).unwrap();
    let (found, warnings) = loads(folder.path());
    assert_eq!(found, ["off", "off", "off"]);
    assert!(warnings.len() == 1 && warnings[0].contains("symbolic link"));

    // In place of a folder of blobs: that one is not used, the others are.
    let folder = tempfile::tempdir().unwrap();
    load(&cache(folder.path(), 1 << 30), 2, || {});
    let ours = blob_path(folder.path(), &key(1));
    assert_ne!(ours.parent(), blob_path(folder.path(), &key(2)).parent());
    symlink(theirs.parent().unwrap(), ours.parent().unwrap()).unwrap();
    let (found, warnings) = loads(folder.path());
    assert_eq!(found, ["miss", "miss", "hit"]);
    assert!(warnings.len() == 1 && warnings[0].contains("symbolic link"));
    assert!(theirs.exists());

    // In place of a blob: the link is quarantined, and its target left alone.
    let folder = tempfile::tempdir().unwrap();
    let ours = blob_path(folder.path(), &key(1));
    load(&cache(folder.path(), 1 << 30), 1, || {});
    fs::remove_file(&ours).unwrap();
    symlink(&theirs, &ours).unwrap();
    let (found, warnings) = loads(folder.path());
    assert_eq!(found, ["miss", "hit", "miss"]);
    assert!(warnings.len() == 1 && warnings[0].contains("symbolic link"));
    assert!(theirs.exists());

    // In place of the state file: nothing is written through it.
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, b"precious").unwrap();
    load(&cache(folder.path(), 1 << 30), 2, || {});
    for name in ["state", "queue", "hits"] {
        let _ = fs::remove_file(root(folder.path()).join(name));
        symlink(&precious, root(folder.path()).join(name)).unwrap();
    }
    let (found, _) = loads(folder.path());
    assert_eq!((found[0], found[2]), ("miss", "hit"));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn a_folder_of_another_user_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    load(&cache(folder.path(), 1 << 30), 1, || {});
    if std::os::unix::fs::chown(root(folder.path()), Some(12345), None).is_err() {
        eprintln!("left out: only root can give a folder away");
        return;
    }
    let (found, warnings) = loads(folder.path());
    assert_eq!(found, ["off", "off", "off"]);
    assert!(warnings.len() == 1 && warnings[0].contains("belongs to user 12345"));
}

#[test]
fn folders_are_the_users_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder.path().join("deep/er"), 1 << 30);
    load(&cache, 1, || {});
    cache.entries().unwrap();
    let mut folders = vec![folder.path().join("deep")];
    while let Some(path) = folders.pop() {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", path.display());
        // sled makes its own inside, which this one guards.
        if path.ends_with("catalogue") {
            continue;
        }
        for entry in fs::read_dir(&path).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

#[test]
fn a_clock_that_was_set_back_turns_nothing_around() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64, time: SystemTime| {
        fs::File::options()
            .write(true)
            .open(blob_path(folder.path(), &key(n)))
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    let room = cache(folder.path(), 1 << 30);
    for n in 0..6 {
        load(&room, n, || {});
    }
    // Written an hour ahead, in this order, before the clock went back; 4 and 5
    // were used since.
    let now = SystemTime::now();
    for n in 0..4 {
        at(n, now + Duration::from_secs(3600 + n));
    }
    let limit = room.stats().unwrap().bytes;
    fs::remove_file(root(folder.path()).join("state")).unwrap();
    // 2 is used now, so its time is put right.
    let tight = cache(folder.path(), limit);
    assert!(!load(&tight, 2, || {}));
    let there = |n: u64| blob_path(folder.path(), &key(n)).exists();
    let mut gone = Vec::new();
    for n in 100..110 {
        load(&tight, n, || {});
        gone.extend((0..6).filter(|&n| !there(n)));
        if !there(3) {
            break;
        }
    }
    let mut order = Vec::new();
    gone.into_iter().for_each(|n| {
        if !order.contains(&n) {
            order.push(n);
        }
    });
    // Of those from the future the oldest first, before any of now.
    let expected = [0, 1, 3];
    assert!(order.len() >= 3, "{order:?}");
    assert_eq!(order[..3], expected);
    assert!(there(2));
}

#[test]
fn tools_make_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    assert_eq!(cache.stats().unwrap().blobs, 0);
    assert_eq!(cache.entries().unwrap(), []);
    assert_eq!(cache.find("ab").unwrap(), []);
    assert_eq!(cache.verify(|_| {}).unwrap().good, 0);
    cache.clear().unwrap();
    cache.rebuild().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_folder_may_vanish_under_a_running_program() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    load(&cache, 1, || {});
    assert!(!load(&cache, 1, || {}));
    fs::remove_dir_all(root(folder.path())).unwrap();
    let (miss, warnings) = warnings_of(|| load(&cache, 1, || {}));
    assert!(miss);
    assert_eq!(warnings, [] as [&str; 0]);
    assert!(!load(&cache, 1, || {}));
    load(&cache, 2, || {});
    assert!(!load(&cache, 2, || {}));
}

/// As on a file system that was mounted read-only after an error of its own.
#[test]
fn a_bad_blob_that_cannot_be_quarantined_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    load(&cache(folder.path(), 1 << 30), 1, || {});
    fs::write(blob_path(folder.path(), &key(1)), b"bad").unwrap();
    // What has to be made for it cannot be, which is so for root too.
    let in_the_way = ["bad", "tmp"].map(|name| root(folder.path()).join(name));
    for path in &in_the_way {
        let _ = fs::remove_dir(path);
        fs::write(path, b"").unwrap();
    }
    let cache = cache(folder.path(), 1 << 30);
    let (_, warnings) = warnings_of(|| {
        for _ in 0..3 {
            assert!(load(&cache, 1, || {}));
        }
    });
    assert_eq!(cache.counters().bad, 1);
    // One of the blob, one that nothing can be put.
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("cannot be quarantined"),
        "{warnings:?}"
    );
    // One that is put is taken again.
    for path in &in_the_way {
        fs::remove_file(path).unwrap();
    }
    assert!(load(&cache, 1, || {}));
    assert!(!load(&cache, 1, || {}));
}

#[test]
fn a_cache_that_is_reached_by_another_path_keeps_what_is_catalogued() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let hits = |path: &Path| cache(path, 1 << 30).entries().unwrap()[0].hits;
    load(&cache(&one, 1 << 30), 1, || {});
    load(&cache(&one, 1 << 30), 1, || {});
    assert_eq!(hits(&one), 1);
    symlink(&one, &other).unwrap();
    assert_eq!(hits(&other), 1);
    assert_eq!(hits(&one), 1);
}

/// As by a child that was forked while the catalogue was open.
#[test]
fn a_catalogue_that_is_still_locked_is_not_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    load(&cache, 1, || {});
    load(&cache, 1, || {});
    assert_eq!(cache.entries().unwrap()[0].hits, 1);
    let database = fs::File::open(root(folder.path()).join("catalogue/db")).unwrap();
    database.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            database.unlock().unwrap();
        });
        assert_eq!(cache.entries().unwrap()[0].hits, 1);
    });
}

#[test]
fn a_rebuild_waits_for_whoever_has_the_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    load(&cache, 1, || {});
    cache.entries().unwrap();
    let catalogue = fs::File::open(root(folder.path()).join("catalogue.lock")).unwrap();
    catalogue.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            catalogue.unlock().unwrap();
        });
        assert_eq!(cache.rebuild().unwrap().blobs, 1);
    });
}

/// As a process that was stopped in the middle of a put.
#[test]
fn a_state_file_that_somebody_holds_is_waited_for_and_then_done_without() {
    let folder = tempfile::tempdir().unwrap();
    load(&cache(folder.path(), 1 << 30), 1, || {});
    let state = fs::File::open(root(folder.path()).join("state")).unwrap();
    state.lock().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    let (misses, warnings) = warnings_of(|| [1, 2, 2, 3].map(|n| load(&cache, n, || {})));
    // Hits do not need it; puts do, and are not stored.
    assert_eq!(misses, [false, true, true, true]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("state file"), "{warnings:?}");
    state.unlock().unwrap();
    assert!(load(&cache, 2, || {}));
    assert!(!load(&cache, 2, || {}));
}

#[test]
fn a_read_only_folder_serves_behind_the_writable_one() {
    let (image, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    load(&cache(image.path(), 1 << 30), 1, || {});
    let listing = || {
        let mut all = crate::program::files(image.path());
        all.sort();
        all
    };
    let before = listing();
    let policy = policy(folder.path(), 1 << 30).with_read_only([image.path()]);
    let both = ptxkit::cache::Cache::new(policy.clone());
    assert!(!load(&both, 1, || {}));
    assert!(load(&both, 2, || {}));
    assert!(!load(&both, 2, || {}));
    let counters = both.counters();
    assert_eq!((counters.hits, counters.lower_hits), (2, 1));
    assert_eq!(both.entries().unwrap().len(), 2);
    assert_eq!(both.stats().unwrap().read_only[0].blobs, 1);
    drop(both);
    assert_eq!(listing(), before);

    // A bad blob in it is ignored, compiled anew, and then found above it.
    fs::write(blob_path(image.path(), &key(1)), b"bad").unwrap();
    let both = ptxkit::cache::Cache::new(policy.clone());
    let (miss, warnings) = warnings_of(|| load(&both, 1, || {}));
    assert!(miss);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(!load(&both, 1, || {}));
    assert_eq!(fs::read(blob_path(image.path(), &key(1))).unwrap(), b"bad");

    // One that cannot be read through keeps nobody from the others.
    fs::write(root(image.path()).join("bad"), b"").unwrap();
    let (listed, warnings) = warnings_of(|| {
        let found = both.find(&key(1).to_string()).unwrap();
        (both.entries().unwrap().len(), found.len())
    });
    assert_eq!(listed, (2, 1));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    fs::remove_file(root(image.path()).join("bad")).unwrap();

    // Without a writable folder it serves alone.
    fs::remove_dir_all(root(folder.path())).unwrap();
    fs::write(root(folder.path()), b"in the way").unwrap();
    fs::remove_file(blob_path(image.path(), &key(1))).unwrap();
    load(&cache(image.path(), 1 << 30), 3, || {});
    let alone = ptxkit::cache::Cache::new(policy);
    let (_, warnings) = warnings_of(|| {
        assert!(!load(&alone, 3, || {}));
        assert!(load(&alone, 4, || {}));
        assert!(load(&alone, 4, || {}));
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
