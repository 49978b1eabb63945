//! Processes that are killed at any moment.

use std::collections::HashSet;
use std::process::Child;
use std::time::{Duration, Instant};

use ptxkit::cache::Lookup;

use crate::program::{
    LARGEST, blob_bytes, cache, code, compiled, files, key, load, random, root, start,
};

/// A machine of two cores starts some 30 processes a second.
fn kills() -> u64 {
    std::env::var("PTXKIT_CACHE_KILLS").map_or(300, |text| text.parse().unwrap())
}

#[test]
fn whoever_is_killed_leaves_nothing_wrong_and_nothing_locked() {
    const KEYS: u64 = 30;
    let limit = 400_000;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    // Three at a time, so that some die while others go on.
    let mut living: Vec<Child> = Vec::new();
    for round in 0..kills() {
        // Every fourth one rebuilds the catalogue, the others put and evict.
        let mut command = match round % 4 {
            3 => start("rebuild", folder.path(), &[limit]),
            _ => start("put", folder.path(), &[KEYS, limit, round]),
        };
        living.push(command.spawn().unwrap());
        std::thread::sleep(Duration::from_micros(random(&mut state) % 40_000));
        if living.len() == 3 {
            let mut victim = living.remove(0);
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
    }
    for mut victim in living {
        victim.kill().unwrap();
        victim.wait().unwrap();
    }

    let cache = cache(&place, limit);
    let acknowledged: HashSet<u64> = compiled(folder.path()).into_iter().collect();
    assert!(acknowledged.len() as u64 > KEYS / 2, "{acknowledged:?}");
    let started = Instant::now();
    let mut there = 0;
    for &n in &acknowledged {
        // Right, or evicted.
        match cache.lookup(&key(n)) {
            Lookup::Hit(blob) => {
                assert!(*blob == *code(n), "the wrong bytes for {n}");
                there += 1;
            }
            Lookup::Miss(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(there > 0);
    // No lock of the dead was waited for.
    assert!(started.elapsed() < cache.policy().wait());
    assert_eq!(cache.counters().bad, 0);
    assert_eq!(cache.verify(|_| {}).unwrap().bad, []);

    // The limit holds, and all of it can be used: the sum that the dead left
    // behind is right.
    for n in 0..60 {
        load(&cache, 1000 + n, || {});
        assert!(blob_bytes(&place) <= limit);
    }
    assert!(blob_bytes(&place) > limit - LARGEST);
    let root = root(&place);
    assert_eq!(files(&root.join("tmp")), [] as [&std::path::Path; 0]);
    assert_eq!(files(&root.join("locks")), [] as [&std::path::Path; 0]);
    // The catalogue that was killed says what there is.
    let entries = cache.entries().unwrap();
    let bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    assert_eq!(bytes, blob_bytes(&place));
    assert!(
        entries
            .iter()
            .all(|entry| entry.provenance.kernels.len() == 1)
    );
}
