//! Many processes on a cache that is too small for them.

use std::time::Duration;

use crate::program::{LARGEST, blob_bytes, cache, load, root, start};

#[test]
fn no_wrong_bytes_and_never_over_the_limit() {
    const PROCESSES: u64 = 64;
    let folder = tempfile::tempdir().unwrap();
    let limit = 1_000_000;
    let mut children: Vec<_> = (0..PROCESSES)
        .map(|seed| {
            start("random", folder.path(), &[60, 200, limit, seed])
                .spawn()
                .unwrap()
        })
        .collect();
    let place = root(&folder.path().join("cache"));
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        // A listing is no snapshot: it may see a blob that goes and those that
        // come for it, each of which is one in flight.
        let total = blob_bytes(&place);
        assert!(total <= limit + PROCESSES * LARGEST, "{total}");
        std::thread::sleep(Duration::from_millis(20));
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // Now that nothing is in flight it holds to the byte.
    let total = blob_bytes(&place);
    assert!(total <= limit, "{total}");
    // And what the ledger says is what there is: one more put keeps to it.
    let cache = cache(&folder.path().join("cache"), limit);
    for n in 100..140 {
        load(&cache, n, || {});
        let total = blob_bytes(&place);
        assert!(total <= limit, "{total}");
    }
    assert!(cache.counters().evictions > 0);
    // It is not kept empty either: there is room for less than one more.
    let total = blob_bytes(&place);
    assert!(total > limit - LARGEST, "{total}");
}
