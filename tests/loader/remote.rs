//! Loads on one machine of what another has compiled: two machines are two folders, and a
//! third is the store that they share.

use std::path::Path;

use ptxkit::cache::remote::{RemoteConfig, SigningKey, Trust};
use ptxkit::cache::{Cache, Lookup, Provenance, Slicing};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, Loader, Prepare, Source};

use super::{PTX, context, load, policy};

/// A loader on a machine that may write to the store, and reads what the fleet's key signed.
fn machine(fleet: &Path, name: &str) -> Loader {
    let key = fleet.join("key");
    let signer = if key.exists() {
        SigningKey::read(&key).unwrap()
    } else {
        SigningKey::create(&key).unwrap()
    };
    let trust = Trust::Keys(vec![signer.public()]);
    with_trust(fleet, name, trust)
}

fn with_trust(fleet: &Path, name: &str, trust: Trust) -> Loader {
    // A busy machine needs longer than the PTX of these tests is worth.
    let url = format!("file://{}?wait=2s", fleet.join("store").display());
    let config = RemoteConfig::parse(&url).unwrap();
    // SAFETY: nobody else writes to the folder.
    let config = unsafe { config.with_trust(trust) }.with_signer(fleet.join("key"));
    let policy = policy(&fleet.join(name)).with_remote(Some(config));
    Loader::new(context(), Cache::new(policy.with_slicing(Slicing::Always)))
}

#[test]
fn a_module_that_another_machine_compiled_is_not_compiled() {
    let fleet = tempfile::tempdir().unwrap();
    let a = machine(fleet.path(), "a");
    assert_eq!(load(&a, PTX).unwrap().report.cache, CacheUse::Miss);
    assert!(a.cache().flush());
    let b = machine(fleet.path(), "b");
    let loaded = load(&b, PTX).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Hit);
    loaded.module.kernel("second").unwrap();
    let counters = b.counters();
    assert_eq!((counters.compiles, counters.cache.remote.hits), (0, 1));
    let text = counters.prometheus().to_string();
    assert!(text.contains("\nptxkit_remote_hits_total 1\n"), "{text}");
}

#[test]
fn slices_come_one_by_one_as_their_kernels_are_asked_for() {
    let fleet = tempfile::tempdir().unwrap();
    let source = Source::new("k.ptx", PTX.as_bytes());
    let options = JitOptions::default();
    let a = machine(fleet.path(), "a");
    let module = a.load_sliced(&source, &options).unwrap();
    module.prepare(Prepare::All, |_| {}).unwrap();
    assert_eq!(a.counters().compiles, 2);
    assert!(a.cache().flush());
    let b = machine(fleet.path(), "b");
    let module = b.load_sliced(&source, &options).unwrap();
    assert_eq!(module.report().slices, 2);
    assert_eq!(b.counters().cache.remote.hits, 1);
    module.kernel("second").unwrap();
    assert_eq!(b.counters().cache.remote.hits, 2);
    module.prepare(Prepare::All, |_| {}).unwrap();
    let counters = b.counters();
    assert_eq!((counters.compiles, counters.cache.remote.hits), (0, 3));
}

/// The code of the CPU device runs in the process itself.
#[test]
fn without_signatures_nothing_is_loaded_for_the_cpu_device() {
    let fleet = tempfile::tempdir().unwrap();
    let a = machine(fleet.path(), "a");
    load(&a, PTX).unwrap();
    a.cache().flush();
    let b = with_trust(fleet.path(), "b", Trust::Network);
    assert_eq!(load(&b, PTX).unwrap().report.cache, CacheUse::Miss);
    assert_eq!(b.counters().compiles, 1);
}

#[test]
fn code_that_does_not_load_is_compiled() {
    let fleet = tempfile::tempdir().unwrap();
    let probe = Loader::new(context(), Cache::new(policy(&fleet.path().join("c"))));
    let key = load(&probe, PTX).unwrap().report.key.unwrap();
    let a = machine(fleet.path(), "a");
    let Lookup::Miss(lock) = a.cache().lookup(&key) else {
        panic!("it is there")
    };
    // SAFETY: it is loaded by this test alone, and no device takes it.
    unsafe { lock.put(&Provenance::default(), b"no code") };
    assert!(a.cache().flush());
    let b = machine(fleet.path(), "b");
    let loaded = load(&b, PTX).unwrap();
    loaded.module.kernel("first").unwrap();
    let counters = b.counters();
    assert_eq!((counters.compiles, counters.cache.remote.hits), (1, 1));
    // And it has gone from the store.
    assert!(b.cache().flush());
    let c = machine(fleet.path(), "d");
    assert_eq!(load(&c, PTX).unwrap().report.cache, CacheUse::Hit);
}
