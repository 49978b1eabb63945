//! The cache under many processes, kills and a small limit.
//!
//! The processes are this program again: a test that the parent starts by name,
//! with a role in the environment.
#![cfg(all(feature = "cache", unix))]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ptxkit::cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, Provenance};

/// Set in the processes that the tests start: the folder, then numbers.
const ROLE: &str = "PTXKIT_CACHE_TEST_ROLE";

fn key(n: u64) -> Key {
    Key::new(&KeyParts {
        source: Digest::of(&n.to_le_bytes()),
        target: "test",
        driver_version: 1,
        compiler: "test",
        options: b"",
    })
}

/// What a compiler would make of `n`: from 1 to 64 KiB, all of it known.
fn code(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = 1024 + (state >> 40) as usize % (63 * 1024);
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn cache(folder: &Path, limit: u64) -> Cache {
    let environment = Environment::of([("CUDA_CACHE_PATH", folder)]);
    Cache::new(Policy::from_environment(&environment).with_max_size(limit))
}

/// Loads `n`, appending a line to `compiled` where it had to be compiled.
fn load(cache: &Cache, n: u64, compiled: &Path) {
    match cache.lookup(&key(n)) {
        Lookup::Hit(blob) => assert_eq!(*blob, *code(n), "the wrong bytes for {n}"),
        Lookup::Miss(turn) => {
            // Long enough for the others to come and wait.
            std::thread::sleep(Duration::from_millis(2));
            let mut log = fs::File::options()
                .append(true)
                .create(true)
                .open(compiled)
                .unwrap();
            log.write_all(format!("{n}\n").as_bytes()).unwrap();
            turn.put(&Provenance::default(), &code(n));
        }
        Lookup::Failed(_) | Lookup::Off => panic!("the cache is off"),
    }
}

/// The process that the tests below start: loads keys at random.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut words = role.split('|');
    let folder = PathBuf::from(words.next().unwrap());
    let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    let [keys, loads, limit, seed] = numbers[..] else {
        panic!("{role}")
    };
    let cache = cache(&folder.join("cache"), limit);
    let mut state = seed;
    for _ in 0..loads {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        load(&cache, (state >> 33) % keys, &folder.join("compiled"));
    }
}

fn start(folder: &Path, keys: u64, loads: u64, limit: u64, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env(
            ROLE,
            format!("{}|{keys}|{loads}|{limit}|{seed}", folder.display()),
        )
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn compiled(folder: &Path) -> usize {
    let log = fs::read_to_string(folder.join("compiled")).unwrap_or_default();
    log.lines().count()
}

/// Every file under `folder`, however deep.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = files(folder);
    found.retain(|path| path.extension().is_some_and(|end| end == extension));
    found
}

#[test]
fn a_cold_start_of_many_compiles_each_key_once() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..8)
        .map(|seed| start(folder.path(), 5, 60, 1 << 30, seed))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(compiled(folder.path()), 5);
    // Locks are removed by whoever held them.
    let locks = with_extension(folder.path(), "lock");
    assert!(
        locks.iter().all(|path| path.ends_with("evict.lock")),
        "{locks:?}"
    );
}

#[test]
fn the_limit_holds_while_many_evict() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 300_000;
    let mut children: Vec<Child> = (0..6)
        .map(|seed| start(folder.path(), 40, 100, limit, seed))
        .collect();
    // A file that goes between listing and asking takes no room.
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        let total: u64 = with_extension(folder.path(), "blob").iter().map(size).sum();
        // A listing is no snapshot: it may see a blob that goes and the one that comes for it.
        assert!(total <= limit + 6 * 65 * 1024, "{total}");
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let total: u64 = with_extension(folder.path(), "blob").iter().map(size).sum();
    assert!(total <= limit, "{total}");
    assert!(compiled(folder.path()) > 40, "nothing was evicted");
}

#[test]
fn killed_processes_leave_nothing_wrong_and_nothing_locked() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let mut child = start(folder.path(), 30, u64::MAX, 400_000, round);
        std::thread::sleep(Duration::from_millis(5 + round * 7 % 40));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Every key is loaded, right, and soon: no lock of the dead is waited for.
    let started = Instant::now();
    let cache = cache(&folder.path().join("cache"), 400_000);
    for n in 0..30 {
        load(&cache, n, &folder.path().join("compiled"));
    }
    assert_eq!(cache.counters().bad, 0);
    assert!(started.elapsed() < cache.policy().wait());
}
