//! Many processes that start together on an empty cache.

use crate::program::{all_succeed, cache, compiled, files, load, root, start};

#[test]
fn a_cold_start_of_many_processes_compiles_each_key_once() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..32)
        .map(|seed| start("cold", folder.path(), &[20, seed]).spawn().unwrap())
        .collect();
    all_succeed(children);
    let mut keys = compiled(folder.path());
    keys.sort_unstable();
    assert_eq!(keys, (0..20).collect::<Vec<u64>>());
    // Locks are removed by whoever held them, and so are the files written aside.
    let root = root(&folder.path().join("cache"));
    assert_eq!(files(&root.join("locks")).len(), 0);
    assert_eq!(files(&root.join("tmp")).len(), 0);
}

#[test]
fn threads_and_processes_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..4)
        .map(|seed| {
            start("cold", folder.path(), &[20, seed * 5])
                .spawn()
                .unwrap()
        })
        .collect();
    let cache = cache(&folder.path().join("cache"), 1 << 30);
    let here = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (cache, here) = (&cache, &here);
            scope.spawn(move || {
                for step in 0..20 {
                    load(cache, (first * 3 + step) % 20, || {
                        here.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    });
                }
            });
        }
    });
    all_succeed(children);
    let here = here.into_inner();
    assert_eq!(here + compiled(folder.path()).len(), 20);
    let counters = cache.counters();
    assert_eq!(counters.hits + counters.misses, 160);
    assert_eq!(counters.misses, here as u64);
}
