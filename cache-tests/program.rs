//! What the processes of these tests do, and what the tests ask of a folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use ptxkit::cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, Provenance, Prune};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Set in the processes that the tests start: what to do, the folder, numbers.
pub const ROLE: &str = "PTXKIT_CACHE_TEST_ROLE";

pub fn key(n: u64) -> Key {
    key_of_driver(n, 13000)
}

pub fn key_of_driver(n: u64, driver_version: u32) -> Key {
    Key::new(&KeyParts {
        source: Digest::of(&n.to_le_bytes()),
        target: "test",
        driver_version,
        compiler: "test",
        options: b"",
    })
}

/// What a compiler would make of `n`: from 1 to 64 KiB, all of it known.
pub fn code(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = 1024 + (state >> 40) as usize % (63 * 1024);
    (0..length).map(|_| random(&mut state) as u8).collect()
}

/// Bytes of the largest blob file that [`code`] gives.
pub const LARGEST: u64 = 65 * 1024;

pub fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

pub fn policy(folder: &Path, limit: u64) -> Policy {
    let environment = Environment::of([("CUDA_CACHE_PATH", folder)]);
    Policy::from_environment(&environment).with_max_size(limit)
}

pub fn cache(folder: &Path, limit: u64) -> Cache {
    Cache::new(policy(folder, limit))
}

/// The folder that is the cache's own.
pub fn root(folder: &Path) -> PathBuf {
    cache(folder, 0).folder().unwrap()
}

pub fn blob_path(folder: &Path, key: &Key) -> PathBuf {
    let digits = key.to_string();
    let shard = root(folder).join(&digits[..2]);
    shard.join(format!("{}.blob", &digits[2..]))
}

pub fn provenance(n: u64) -> Provenance {
    Provenance {
        source: format!("{n}.ptx"),
        kernels: vec![format!("kernel_{n}")],
        target: "test".into(),
        compiler: "test".into(),
        compile_time: Duration::from_micros(n),
        image: String::new(),
        slices: Vec::new(),
        module: None,
    }
}

/// Loads `n`; whether it had to be compiled.
pub fn load(cache: &Cache, n: u64, compile: impl FnOnce()) -> bool {
    match cache.lookup(&key(n)) {
        Lookup::Hit(blob) => {
            assert!(*blob == *code(n), "the wrong bytes for {n}");
            false
        }
        Lookup::Miss(lock) => {
            compile();
            // SAFETY: data of this test, which nothing runs.
            let blob = unsafe { lock.put(&provenance(n), &code(n)) };
            assert!(*blob == *code(n));
            true
        }
        Lookup::Failed(failure) => panic!("{failure}"),
        Lookup::Off => panic!("the cache is off"),
    }
}

/// Starts this program as `role` on `folder`.
pub fn start(role: &str, folder: &Path, numbers: &[u64]) -> Command {
    let mut words = vec![role.to_owned(), folder.display().to_string()];
    words.extend(numbers.iter().map(u64::to_string));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "role", "--nocapture", "--quiet"])
        .env(ROLE, words.join("|"))
        .stdout(Stdio::null());
    command
}

pub fn all_succeed(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

/// Does what [`start`] was told.
pub fn play(role: &str) {
    let words: Vec<&str> = role.split('|').collect();
    let folder = Path::new(words[1]);
    let numbers: Vec<u64> = words[2..]
        .iter()
        .map(|word| word.parse().unwrap())
        .collect();
    match (words[0], &numbers[..]) {
        ("cold", &[keys, seed]) => load_all(folder, keys, seed),
        ("random", &[keys, operations, limit, seed]) => {
            do_anything(folder, keys, operations, limit, seed);
        }
        ("put", &[keys, limit, seed]) => put_for_ever(folder, keys, limit, seed),
        ("rebuild", &[limit]) => rebuild_for_ever(folder, limit),
        ("put-all", &[keys, limit]) => crate::faults::put_and_report(folder, keys, limit),
        ("fault", &[n]) => crate::faults::load_and_report(folder, n),
        #[cfg(all(
            feature = "remote-redis",
            feature = "remote-memcached",
            feature = "remote-s3"
        ))]
        ("fleet", &[keys, first]) => crate::fleet::load_all(folder, keys, first),
        #[cfg(feature = "remote-redis")]
        ("shout", &[port]) => crate::remote_server::shout(folder, port),
        _ => panic!("{role}"),
    }
}

/// Loads every key once, in an order of its own, and logs each compile.
fn load_all(folder: &Path, keys: u64, seed: u64) {
    let cache = cache(&folder.join("cache"), 1 << 30);
    for step in 0..keys {
        let n = (seed + step) % keys;
        load(&cache, n, || {
            // Long enough for the others to come and wait.
            std::thread::sleep(Duration::from_millis(5));
            log(folder, n);
        });
    }
}

/// Notes in `folder` that `n` was compiled.
pub fn log(folder: &Path, n: u64) {
    let mut file = fs::File::options()
        .append(true)
        .create(true)
        .open(folder.join("compiled"))
        .unwrap();
    file.write_all(format!("{n}\n").as_bytes()).unwrap();
}

/// The keys that were compiled, in the order in which they were.
pub fn compiled(folder: &Path) -> Vec<u64> {
    let log = fs::read_to_string(folder.join("compiled")).unwrap_or_default();
    log.lines().map(|line| line.parse().unwrap()).collect()
}

/// Everything that a program can do with a cache, in a random order.
fn do_anything(folder: &Path, keys: u64, operations: u64, limit: u64, seed: u64) {
    let cache = cache(&folder.join("cache"), limit);
    let mut state = seed.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1;
    for _ in 0..operations {
        let n = (random(&mut state) >> 33) % keys;
        match random(&mut state) >> 32 & 0xff {
            0 => cache.discard(&key(n), "the test says so"),
            1 => {
                let entries = cache.entries().unwrap();
                assert!(entries.iter().all(|entry| entry.size <= LARGEST));
            }
            2 => {
                let max_size = Some(limit / 2);
                cache
                    .prune(&Prune {
                        max_size,
                        ..Prune::default()
                    })
                    .unwrap();
            }
            3 => drop(cache.rebuild()),
            4 => {
                let found = cache.verify(|_| {}).unwrap();
                assert!(found.bad.is_empty(), "{:?}", found.bad);
            }
            _ => drop(load(&cache, n, || {})),
        }
    }
}

/// Puts until it is killed, saying which blobs are there for good.
fn put_for_ever(folder: &Path, keys: u64, limit: u64, seed: u64) {
    let cache = cache(&folder.join("cache"), limit);
    let mut state = seed.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1;
    loop {
        let n = (random(&mut state) >> 33) % keys;
        let before = cache.counters().puts;
        load(&cache, n, || {});
        if cache.counters().puts > before {
            log(folder, n);
        }
    }
}

fn rebuild_for_ever(folder: &Path, limit: u64) {
    let cache = cache(&folder.join("cache"), limit);
    loop {
        // Another process may have the catalogue open.
        let _ = cache.rebuild();
        cache.entries().unwrap();
    }
}

/// Every file under `folder`, however deep.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Bytes of all blobs, quarantined ones too.
pub fn blob_bytes(folder: &Path) -> u64 {
    files(folder)
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "blob"))
        // A file that goes between listing and asking takes no room.
        .map(|path| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len()))
        .sum()
}

/// Runs `f` and gives what it gives and the warnings that it emitted.
pub fn warnings_of<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    events_of(f, |level, _| level == Level::WARN)
}

/// The same for the events that `wanted` takes, by level and message.
pub fn events_of<T>(f: impl FnOnce() -> T, wanted: fn(Level, &str) -> bool) -> (T, Vec<String>) {
    // Of a thread without any subscriber `tracing` learns that nobody listens
    // to a message, and believes it of the other threads too.
    static SINK: Once = Once::new();
    SINK.call_once(|| {
        let sink = Events {
            texts: Arc::default(),
            wanted: |_, _| false,
        };
        let _ = tracing::subscriber::set_global_default(sink);
    });
    let texts = Arc::<Mutex<Vec<String>>>::default();
    let events = Events {
        texts: Arc::clone(&texts),
        wanted,
    };
    let value = tracing::subscriber::with_default(events, f);
    let texts = std::mem::take(&mut *texts.lock().unwrap());
    (value, texts)
}

/// The events of all threads from here on, for a process of its own.
#[cfg(feature = "remote-redis")]
pub fn all_events() -> Arc<Mutex<Vec<String>>> {
    let texts = Arc::<Mutex<Vec<String>>>::default();
    let events = Events {
        texts: Arc::clone(&texts),
        wanted: |_, _| true,
    };
    tracing::subscriber::set_global_default(events).unwrap();
    texts
}

struct Events {
    texts: Arc<Mutex<Vec<String>>>,
    wanted: fn(Level, &str) -> bool,
}

static SPANS: AtomicU64 = AtomicU64::new(1);

impl Subscriber for Events {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if (self.wanted)(*event.metadata().level(), &text.0) {
            self.texts.lock().unwrap().push(text.0);
        }
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(SPANS.fetch_add(1, Ordering::Relaxed))
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write;
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
