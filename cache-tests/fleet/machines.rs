//! What one machine compiled, others load.

use std::fs;

use super::servers::stores;
use super::{Machine, finish, place};
use crate::program::{all_succeed, blob_path, compiled, key, load};

const MODULES: u64 = 16;

#[test]
fn what_one_machine_compiled_another_loads_byte_for_byte() {
    for store in stores() {
        let url = place(store, &store.address().unwrap());
        let (one, other) = (Machine::writer(&url), Machine::reader(&url));
        all_succeed([one.process(MODULES, 0).spawn().unwrap()]);
        assert_eq!(compiled(one.folder.path()).len() as u64, MODULES);
        all_succeed([other.process(MODULES, 3).spawn().unwrap()]);
        assert_eq!(compiled(other.folder.path()), [0; 0], "{store:?}");
        for n in 0..MODULES {
            let [made, loaded] =
                [&one, &other].map(|one| fs::read(blob_path(&one.path(), &key(n))).unwrap());
            assert!(made == loaded, "{store:?}: {n}");
        }
    }
}

#[test]
fn a_cold_fleet_compiles_nothing_that_was_pushed() {
    for store in stores() {
        let url = place(store, &store.address().unwrap());
        let builder = Machine::writer(&url);
        all_succeed([builder.process(MODULES, 0).spawn().unwrap()]);
        let fleet: Vec<Machine> = (0..8).map(|_| Machine::reader(&url)).collect();
        let processes = (0..24).map(|n| {
            let machine = &fleet[n as usize % fleet.len()];
            machine.process(MODULES, n).spawn().unwrap()
        });
        all_succeed(processes.collect::<Vec<_>>());
        for machine in &fleet {
            assert_eq!(compiled(machine.folder.path()), [0; 0], "{store:?}");
        }
    }
}

#[test]
fn a_hit_of_the_store_is_a_local_one_from_then_on() {
    for store in stores() {
        let url = place(store, &store.address().unwrap());
        let writer = Machine::writer(&url).cache();
        for n in 0..MODULES {
            assert!(load(&writer, n, || {}));
        }
        finish(writer);
        let reader = Machine::reader(&url);
        let cache = reader.cache();
        // The second load and the third meet the blob on its way, in the folder, or between.
        for n in (0..MODULES).flat_map(|n| [n; 3]) {
            assert!(!load(&cache, n, || {}), "{store:?}");
        }
        let counters = cache.counters();
        assert_eq!(
            (counters.hits, counters.remote.hits),
            (3 * MODULES, MODULES),
            "{store:?}"
        );
        finish(cache);
        for n in 0..MODULES {
            assert!(blob_path(&reader.path(), &key(n)).is_file());
        }
    }
}
