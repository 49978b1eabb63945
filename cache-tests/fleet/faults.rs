//! Every fault of a network against every store: no load fails, none gets wrong bytes.

use std::time::Duration;

use super::proxy::{Fault, Proxy};
use super::servers::stores;
use super::{Machine, finish, places};
use crate::program::{load, warnings_of};

const MODULES: u64 = 4;

#[test]
fn no_fault_of_the_network_fails_a_load_or_gives_wrong_bytes() {
    let faults = [
        Fault::None,
        Fault::BlackHole,
        Fault::Reset,
        Fault::Delay(Duration::from_millis(5)),
        Fault::Delay(Duration::from_secs(5)),
        Fault::Announce,
        Fault::Flood,
    ];
    let cuts = [0, 1, 10, 100, 1000, 5000].map(Fault::Cut);
    // In what the protocol says, and in the blobs.
    let flips = [2, 7, 31, 97, 499, 1999].map(Fault::Flip);
    let faults = faults.into_iter().chain(cuts).chain(flips);
    for store in stores() {
        for fault in faults.clone() {
            let proxy = Proxy::start(&store.address().unwrap(), fault);
            let hosts = [&store.address().unwrap(), &proxy.address()];
            let [mut direct, mut broken] = places(store, hosts.map(String::as_str));
            direct += "&wait=2s";
            if fault == Fault::None {
                broken += "&wait=2s";
            }
            let writer = Machine::writer(&direct).cache();
            for n in 0..MODULES {
                load(&writer, n, || {});
            }
            finish(writer);
            let what = format!("{store:?} {fault:?}");
            let cache = Machine::reader(&broken).cache();
            let (compiled, warnings) = warnings_of(|| {
                // `load` compares the bytes.
                let compiled = (0..MODULES).filter(|n| load(&cache, *n, || {}));
                compiled.count() as u64
            });
            let counters = cache.counters();
            match fault {
                Fault::None => assert_eq!((compiled, &warnings[..]), (0, &[][..]), "{what}"),
                Fault::Flip(_) | Fault::Delay(_) | Fault::Cut(5000) => {}
                _ => assert_eq!(compiled, MODULES, "{what}"),
            }
            assert_eq!(counters.remote.hits, MODULES - compiled, "{what}");
            assert_eq!(counters.errors, 0, "{what}");
            // One warning of each kind.
            let most = if fault == Fault::BlackHole {
                1
            } else {
                compiled
            };
            assert!(warnings.len() as u64 <= most, "{what}: {warnings:?}");
            let taken = proxy.answered();
            assert!(taken < 1 << 30, "{what}: {taken} bytes were taken");
        }
    }
}

/// No load waits for an answer that does not come, and after three the store is left alone.
/// What that costs beside a compilation is a figure of `benches/remote_load`.
#[test]
fn loads_do_not_wait_for_a_store_that_does_not_answer() {
    for store in stores() {
        for fault in [Fault::BlackHole, Fault::Delay(Duration::from_secs(3600))] {
            let proxy = Proxy::start(&store.address().unwrap(), fault);
            let [url] = places(store, [&proxy.address()]);
            let cache = Machine::reader(&url).cache();
            for (n, timeouts) in [1, 2, 3, 3, 3].into_iter().enumerate() {
                assert!(load(&cache, n as u64, || {}), "{store:?} {fault:?}");
                let counters = cache.counters().remote;
                assert_eq!(counters.timeouts, timeouts, "{store:?} {fault:?}");
                assert_eq!(counters.breaker_opens, u64::from(n >= 2), "{store:?}");
            }
            assert_eq!(proxy.answered(), 0, "{store:?} {fault:?}");
        }
    }
}

#[test]
fn puts_through_a_broken_network_fail_no_load() {
    for store in stores() {
        for fault in [
            Fault::BlackHole,
            Fault::Reset,
            Fault::Cut(3),
            Fault::Flip(2),
        ] {
            let proxy = Proxy::start(&store.address().unwrap(), fault);
            let [url] = places(store, [&proxy.address()]);
            let machine = Machine::writer(&url);
            let cache = machine.cache();
            for n in 0..MODULES {
                assert!(load(&cache, n, || {}), "{store:?} {fault:?}");
                assert!(!load(&cache, n, || {}), "{store:?} {fault:?}");
            }
        }
    }
}
