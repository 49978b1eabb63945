//! Every fault of a network against every store: no load fails, none gets wrong bytes.

use std::time::{Duration, Instant};

use ptxkit::cache::Cache;

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

/// The time that a load may lose is bounded by that of compiling, and is lost thrice.
#[cfg(feature = "cpu")]
#[test]
fn a_store_that_does_not_answer_costs_no_more_than_a_few_compilations() {
    use ptxkit::driver::{Context, Selection, select};
    use ptxkit::jit::JitOptions;
    use ptxkit::loader::{Loader, Source};

    let context = Context::primary(&select(Selection::Cpu).unwrap().device).unwrap();
    let kernel = include_str!("../../benches/kernels/service.ptx");
    let compile = |cache: &Cache, seed: u32| {
        let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
        for n in 0..6 {
            let constant = format!("0f4AE9{:04X}", seed * 100 + n);
            let kernel = kernel.replace("0f4AE99762", &constant);
            text += &kernel.replace("NUMBER", &n.to_string());
        }
        let loader = Loader::new(context.clone(), cache.clone());
        let source = Source::new("one.ptx", text.as_bytes());
        let started = Instant::now();
        loader.code(&source, &JitOptions::default()).unwrap();
        started.elapsed()
    };
    for store in stores() {
        for fault in [Fault::BlackHole, Fault::Delay(Duration::from_secs(5))] {
            let proxy = Proxy::start(&store.address().unwrap(), fault);
            let [url] = places(store, [&proxy.address()]);
            let with = Machine::reader(&url);
            let mut without = Machine::reader(&url);
            without.variables.clear();
            let [with, without] = [with.cache(), without.cache()];
            // The first compile of a process loads the compiler.
            compile(&without, 99);
            let times = (0..3).map(|seed| (compile(&with, seed), compile(&without, seed)));
            let ratios = times.map(|(with, without)| with.as_secs_f64() / without.as_secs_f64());
            let least = ratios.fold(f64::INFINITY, f64::min);
            assert!(
                least < 4.0,
                "{store:?} {fault:?}: {least} times a compilation"
            );
            let counters = with.counters().remote;
            assert_eq!(
                (counters.timeouts, counters.breaker_opens),
                (3, 1),
                "{store:?}"
            );
            // It is left alone now.
            compile(&with, 3);
            assert_eq!(with.counters().remote.timeouts, 3, "{store:?}");
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
