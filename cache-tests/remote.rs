//! A store that machines share, over a folder: two machines are two local folders. What no
//! server would do is done to the files of the store.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "data of these tests, which nothing runs"
)]

use std::fs;
use std::path::{Path, PathBuf};

use ptxkit::cache::remote::{PublicKey, RemoteConfig, SigningKey, Trust};
use ptxkit::cache::{
    Cache, Digest, Key, KeyParts, Lookup, Policy, RemoteCounters, RemoteError, SCHEMA,
};

use crate::program::{code, files, key, policy, provenance, warnings_of};

/// So long is the PTX that a lookup may take the longest time.
pub const LONG: usize = 10_000_000;

/// The store, the keys and the local folders.
struct Fleet {
    folder: tempfile::TempDir,
    signer: PublicKey,
}

impl Fleet {
    fn new() -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        let signer = SigningKey::create(&folder.path().join("key")).unwrap();
        Fleet {
            signer: signer.public(),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn config(&self) -> RemoteConfig {
        let url = format!("file://{}", self.path("store").display());
        let config = RemoteConfig::parse(&url).unwrap();
        trusting(config, Trust::Keys(vec![self.signer]))
    }

    fn trusting(&self, trust: Trust) -> RemoteConfig {
        trusting(self.config(), trust)
    }

    fn machine(&self, name: &str, config: RemoteConfig) -> Cache {
        Cache::new(policy(&self.path(name), 1 << 30).with_remote(Some(config)))
    }

    /// A machine that writes.
    fn writer(&self, name: &str) -> Cache {
        self.machine(name, self.config().with_signer(self.path("key")))
    }

    /// The file of a key in the store.
    fn object(&self, key: &Key) -> PathBuf {
        self.path(&format!("store/default/v{SCHEMA}/{key}"))
    }

    fn objects(&self) -> Vec<PathBuf> {
        files(&self.path("store"))
    }
}

fn trusting(config: RemoteConfig, trust: Trust) -> RemoteConfig {
    unsafe { config.with_trust(trust) }
}

/// What a lookup of the key gives, compiling where it must.
fn load_key(cache: &Cache, key: &Key, n: u64) -> bool {
    match cache.lookup_of(key, LONG) {
        Lookup::Hit(blob) => {
            assert!(*blob == *code(n), "the wrong bytes for {n}");
            false
        }
        Lookup::Miss(lock) => {
            unsafe { lock.put(&provenance(n), &code(n)) };
            true
        }
        other => panic!("{other:?}"),
    }
}

/// Loads `n`; whether it had to be compiled.
fn load(cache: &Cache, n: u64) -> bool {
    load_key(cache, &key(n), n)
}

fn counters(cache: &Cache) -> RemoteCounters {
    cache.counters().remote
}

fn local_blob(fleet: &Fleet, machine: &str, key: &Key) -> PathBuf {
    crate::program::blob_path(&fleet.path(machine), key)
}

#[test]
fn what_one_machine_compiles_another_loads_byte_for_byte() {
    let fleet = Fleet::new();
    let a = fleet.writer("a");
    for n in 0..8 {
        assert!(load(&a, n));
    }
    assert!(a.flush());
    assert_eq!((counters(&a).puts, counters(&a).misses), (8, 8));
    let b = fleet.machine("b", fleet.config());
    for n in 0..8 {
        assert!(!load(&b, n), "{n} is compiled again");
        assert!((0..10).any(|_| b.flush()));
        let [of_a, of_b] = ["a", "b"].map(|machine| local_blob(&fleet, machine, &key(n)));
        assert_eq!(fs::read(of_a).unwrap(), fs::read(of_b).unwrap());
    }
    let counted = counters(&b);
    assert_eq!((counted.hits, counted.puts, counted.drops), (8, 0, 0));
    assert_eq!(counted.bytes_read, counters(&a).bytes_written);
    assert_eq!(b.counters().hits, 8);
    // It is in the folder now.
    fs::remove_dir_all(fleet.path("store")).unwrap();
    assert!(!load(&b, 3));
    assert!(!load(&fleet.machine("b", fleet.config()), 3));
}

#[test]
fn threads_that_want_one_blob_ask_for_it_once() {
    let fleet = Fleet::new();
    let a = fleet.writer("a");
    load(&a, 1);
    a.flush();
    let b = fleet.machine("b", fleet.config());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(!load(&b, 1)));
        }
    });
    assert_eq!(counters(&b).hits, 1);
}

#[test]
fn nothing_is_written_without_a_key_and_nothing_read_without_trust() {
    let fleet = Fleet::new();
    let reader = fleet.machine("a", fleet.config());
    assert!(load(&reader, 1));
    drop(reader);
    assert!(fleet.objects().is_empty());
    load(&fleet.writer("b"), 1);
    assert_eq!(fleet.objects().len(), 1);
    let store = format!("file://{}", fleet.path("store").display());
    let nobody = RemoteConfig::parse(&store).unwrap();
    let (compiled, warnings) = warnings_of(|| {
        let cache = fleet.machine("c", nobody.clone().with_signer(fleet.path("key")));
        load(&cache, 1) && load(&cache, 2)
    });
    assert!(compiled);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("PTXKIT_REMOTE_TRUST"), "{warnings:?}");
    assert_eq!(fleet.objects().len(), 1);
    // A key that others can read.
    let exposed = fleet.path("exposed");
    fs::copy(fleet.path("key"), &exposed).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&exposed, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, warnings) = warnings_of(|| {
        load(&fleet.machine("d", fleet.config().with_signer(&exposed)), 3);
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(fleet.objects().len(), 1);
}

#[test]
fn a_disabled_cache_asks_no_store_and_a_machine_without_a_folder_does() {
    let fleet = Fleet::new();
    load(&fleet.writer("a"), 1);
    let off = policy(&fleet.path("b"), 1 << 30).with_enabled(false);
    let off = Cache::new(off.with_remote(Some(fleet.config())));
    assert!(matches!(off.lookup_of(&key(1), LONG), Lookup::Off));
    let no_folder = Policy::disabled().with_enabled(true);
    let no_folder = Cache::new(no_folder.with_remote(Some(fleet.config())));
    assert!(!load(&no_folder, 1));
    assert!(load(&no_folder, 2));
}

#[test]
fn read_only_folders_come_first() {
    let fleet = Fleet::new();
    load(&fleet.writer("a"), 1);
    let behind = policy(&fleet.path("b"), 1 << 30).with_read_only([fleet.path("a")]);
    let behind = Cache::new(behind.with_remote(Some(fleet.config())));
    assert!(!load(&behind, 1));
    assert_eq!(
        (behind.counters().lower_hits, counters(&behind).hits),
        (1, 0)
    );
}

/// What is in the store in place of the blob of key 1, and what is said of it.
type Fault = (&'static str, fn(&Fleet, Vec<u8>) -> Vec<u8>, &'static str);

const FAULTS: [Fault; 11] = [
    ("nothing", |_, _| Vec::new(), "no signature"),
    (
        "cut",
        |_, good| good[..good.len() / 2].to_vec(),
        "no signature",
    ),
    (
        "cut by a byte",
        |_, good| good[..good.len() - 1].to_vec(),
        "no signature",
    ),
    ("longer", |_, good| [good, vec![0]].concat(), "no signature"),
    (
        "a flipped bit",
        |_, mut good| {
            good[200] ^= 1;
            good
        },
        "signature does not match",
    ),
    (
        "a flipped bit in the signature",
        |_, mut good| {
            *good.last_mut().unwrap() ^= 1;
            good
        },
        "signature does not match",
    ),
    (
        "another key's blob",
        |fleet, _| fs::read(fleet.object(&key(2))).unwrap(),
        "signature does not match",
    ),
    (
        "not signed",
        |_, good| good[..good.len() - 108].to_vec(),
        "no signature",
    ),
    (
        "signed by another",
        |fleet, _| {
            let other = fleet.path("other");
            SigningKey::create(&other).unwrap();
            let config = fleet.config().with_signer(other);
            fs::remove_file(fleet.object(&key(1))).unwrap();
            load(&fleet.machine("forger", config), 1);
            fs::read(fleet.object(&key(1))).unwrap()
        },
        "not trusted",
    ),
    (
        "of a later layout",
        |_, mut good| {
            let at = good.len() - 100;
            good[at] = 9;
            good
        },
        "version 9",
    ),
    (
        "too large",
        |_, good| [good, vec![0; 4 << 20]].concat(),
        "more bytes",
    ),
];

#[test]
fn whatever_lies_in_the_store_nothing_wrong_is_loaded() {
    for (name, fault, said) in FAULTS {
        let fleet = Fleet::new();
        let a = fleet.writer("a");
        for n in [1, 2] {
            load(&a, n);
        }
        a.flush();
        let good = fs::read(fleet.object(&key(1))).unwrap();
        let bad = fault(&fleet, good);
        fs::write(fleet.object(&key(1)), bad).unwrap();
        let policy = policy(&fleet.path("b"), 4 << 20).with_remote(Some(fleet.config()));
        let b = Cache::new(policy);
        let ((), warnings) = warnings_of(|| {
            let Lookup::Miss(lock) = b.lookup_of(&key(1), LONG) else {
                panic!("{name} is loaded")
            };
            assert!(!local_blob(&fleet, "b", &key(1)).exists(), "{name}");
            drop(lock);
            // Once more: it is not worth a second warning.
            assert!(matches!(b.lookup_of(&key(1), LONG), Lookup::Miss(_)));
            assert!(!load(&b, 2), "{name}");
        });
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert!(warnings[0].contains(said), "{name}: {warnings:?}");
        let counted = counters(&b);
        assert_eq!((counted.rejected, counted.hits), (2, 1), "{name}");
        assert_eq!((counted.errors, counted.breaker_opens), (0, 0), "{name}");
        // The machine that compiles it writes it anew.
        let c = fleet.writer("c");
        assert!(load(&c, 1));
        c.flush();
        let d = fleet.machine("d", fleet.config());
        assert!(!load(&d, 1), "{name} stays");
    }
}

#[test]
fn a_blob_of_another_namespace_is_not_loaded() {
    let fleet = Fleet::new();
    load(&fleet.writer("a"), 1);
    let team = fleet.config().with_namespace("team").unwrap();
    let theirs = fleet.path(&format!("store/team/v{SCHEMA}"));
    fs::create_dir_all(&theirs).unwrap();
    fs::copy(fleet.object(&key(1)), theirs.join(key(1).to_string())).unwrap();
    let b = fleet.machine("b", team);
    assert!(load(&b, 1));
    assert_eq!(counters(&b).rejected, 1);
}

fn cpu_key() -> Key {
    Key::new(&KeyParts {
        source: Digest::of(b"text"),
        target: "cpu",
        driver_version: 13000,
        compiler: "ptxkit 0.1 and so on",
        options: b"",
    })
}

#[test]
fn without_signatures_no_code_for_the_cpu_device_is_loaded() {
    let fleet = Fleet::new();
    let a = fleet.writer("a");
    load_key(&a, &key(1), 1);
    load_key(&a, &cpu_key(), 2);
    a.flush();
    let signed = fleet.machine("b", fleet.config());
    assert!(!load_key(&signed, &key(1), 1) && !load_key(&signed, &cpu_key(), 2));
    let trusting = fleet.machine("c", fleet.trusting(Trust::Network));
    let (_, warnings) = warnings_of(|| {
        assert!(!load_key(&trusting, &key(1), 1));
        assert!(load_key(&trusting, &cpu_key(), 2));
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let keys = [key(1), cpu_key()];
    let pulling = fleet.machine("d", fleet.trusting(Trust::Network));
    let moved = pulling.pull(Some(&keys), |_| {}).unwrap();
    assert_eq!((moved.blobs, moved.damaged.len()), (1, 1));
}

#[test]
fn a_blob_that_does_not_load_is_not_taken_again() {
    let fleet = Fleet::new();
    load(&fleet.writer("a"), 1);
    let b = fleet.writer("b");
    assert!(!load(&b, 1));
    b.discard(&key(1), "the test says so");
    assert!(load(&b, 1));
    assert_eq!(counters(&b).hits, 1);
}

#[test]
fn tools_push_list_and_pull() {
    let fleet = Fleet::new();
    let a = fleet.machine("a", fleet.config());
    for n in 0..20 {
        load(&a, n);
    }
    assert!(matches!(
        a.push(|_| true, false, |_| {}),
        Err(RemoteError::NoSigner { .. })
    ));
    let a = fleet.writer("a");
    let mut last = None;
    let pushed = a.push(|entry| entry.key != key(3), false, |now| last = Some(*now));
    let pushed = pushed.unwrap();
    assert_eq!((pushed.blobs, pushed.skipped), (19, 0));
    let last = last.unwrap();
    assert_eq!((last.done, last.of), (pushed.bytes, pushed.bytes));
    let again = a.push(|_| true, false, |_| {}).unwrap();
    assert_eq!((again.blobs, again.skipped), (1, 19));
    assert_eq!(a.push(|_| true, true, |_| {}).unwrap().blobs, 20);
    let listed = a.remote_entries().unwrap();
    assert_eq!(listed.len(), 20);
    assert!(listed.is_sorted_by_key(|entry| entry.key));

    let b = fleet.machine("b", fleet.config());
    let some = [key(0), key(1), key(99)];
    let pulled = b.pull(Some(&some), |_| {}).unwrap();
    assert_eq!((pulled.blobs, pulled.skipped), (2, 1));
    let mut bad = fs::read(fleet.object(&key(5))).unwrap();
    bad[300] ^= 1;
    fs::write(fleet.object(&key(5)), bad).unwrap();
    let pulled = b.pull(None, |_| {}).unwrap();
    assert_eq!((pulled.blobs, pulled.skipped), (17, 2));
    assert_eq!(pulled.damaged.len(), 1);
    fs::remove_dir_all(fleet.path("store")).unwrap();
    for n in 0..20 {
        assert_eq!(load(&b, n), n == 5);
    }
}

#[test]
fn the_slices_of_an_index_come_with_it() {
    let fleet = Fleet::new();
    let a = fleet.writer("a");
    let index = ptxkit::cache::Provenance {
        slices: vec![key(2), key(3)],
        ..provenance(1)
    };
    let Lookup::Miss(lock) = a.lookup(&key(1)) else {
        panic!()
    };
    unsafe { lock.put(&index, &code(1)) };
    for n in 2..5 {
        load(&a, n);
    }
    a.flush();
    let b = fleet.machine("b", fleet.config());
    assert_eq!(b.pull(Some(&[key(1)]), |_| {}).unwrap().blobs, 3);
}

#[test]
fn the_status_says_how_it_is_set_up() {
    let fleet = Fleet::new();
    let status = fleet.writer("a").remote_status().unwrap();
    assert_eq!(status.store, fleet.config().store());
    assert_eq!(status.namespace, "default");
    assert_eq!(status.signer, Some(fleet.signer));
    assert!(status.answer.is_ok(), "{status:?}");
    assert_eq!(status.open_for, None);
    let none = Cache::new(policy(Path::new("/nowhere"), 0));
    assert!(matches!(
        none.remote_status(),
        Err(RemoteError::NotConfigured)
    ));
    assert!(none.flush());
}

#[test]
fn blobs_larger_than_the_store_takes_are_not_written() {
    let fleet = Fleet::new();
    let url = format!("file://{}?largest=20000", fleet.path("store").display());
    let config = RemoteConfig::parse(&url).unwrap();
    let config = trusting(config, Trust::Keys(vec![fleet.signer]));
    let a = fleet.machine("a", config.with_signer(fleet.path("key")));
    for n in 0..10 {
        load(&a, n);
    }
    a.flush();
    let small = (0..10).filter(|n| code(*n).len() < 19_000).count();
    let counted = counters(&a);
    assert_eq!(
        (counted.puts, counted.drops),
        (small as u64, 10 - small as u64)
    );
    assert!((1..10).contains(&small));
}

#[test]
fn a_store_that_cannot_be_written_to_fails_no_load() {
    let fleet = Fleet::new();
    // A file in place of the folder.
    fs::write(fleet.path("store"), "").unwrap();
    let a = fleet.writer("a");
    for n in 0..10 {
        assert!(load(&a, n));
        assert!(!load(&a, n));
        a.flush();
    }
    let counted = counters(&a);
    assert_eq!(counted.breaker_opens, 1, "{counted:?}");
    assert!(counted.errors >= 3, "{counted:?}");
}
