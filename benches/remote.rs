//! The store that machines share, beside a plain client of it and beside a cache
//! without it. Redis on loopback:
//!
//! ```sh
//! scripts/remote-servers cargo bench --features remote-redis --bench remote
//! ```

mod paired;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ptxkit::cache::remote::{RemoteConfig, SigningKey, Trust};
use ptxkit::cache::{Cache, Digest, Key, KeyParts, Lookup, Policy, Provenance, SCHEMA};

use paired::{paired, paired_by};

/// Bytes of the code of a module of 500 kernels.
const LARGE: usize = 3_400_000;
/// Bytes of its text: what the time of a lookup goes by.
const SOURCE: usize = 3_500_000;
const SMALL: usize = 8 << 10;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let address = std::env::var("PTXKIT_TEST_REDIS")
        .map_err(|_| "no server: scripts/remote-servers starts one")?;
    let folder = tempfile::tempdir()?;
    let signer = folder.path().join("key");
    let trust = Trust::Keys(vec![SigningKey::create(&signer)?.public()]);
    let store = RemoteConfig::parse(&format!("redis://{address}/0?prefix=bench"))?;
    // SAFETY: this program alone has the key.
    let store = unsafe { store.with_trust(trust) }.with_signer(signer);
    large_hit(folder.path(), &address, &store)?;
    lookups(folder.path(), &store);
    breaker(folder.path(), &store)
}

fn key(n: u64) -> Key {
    Key::new(&KeyParts {
        source: Digest::of(&n.to_le_bytes()),
        target: "bench",
        driver_version: 13000,
        compiler: "bench",
        options: b"",
    })
}

fn cache(folder: &Path, store: Option<&RemoteConfig>) -> Cache {
    let policy = Policy::disabled().with_enabled(true).with_path(folder);
    Cache::new(policy.with_remote(store.cloned()))
}

/// Whether it was there; else it is put.
fn load(cache: &Cache, key: &Key, code: &[u8]) -> bool {
    match cache.lookup_of(key, SOURCE) {
        Lookup::Miss(lock) => {
            // SAFETY: nobody loads it.
            unsafe { lock.put(&Provenance::default(), code) };
            false
        }
        found => matches!(black_box(found), Lookup::Hit(_)),
    }
}

/// A hit of the store by a machine with an empty folder, beside what it cannot do without:
/// the bytes over the network, and a put into the folder.
fn large_hit(folder: &Path, address: &str, store: &RemoteConfig) -> Fallible<()> {
    let code: Vec<u8> = (0..LARGE as u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    let key = key(1);
    let writer = cache(&folder.join("writer"), Some(store));
    assert!(!load(&writer, &key, &code) && writer.flush());

    let name = format!("bench/default/v{SCHEMA}/{key}");
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut plain = Redis(BufReader::new(stream));
    let [reader, peer] = [Some(store), None].map(|store| {
        let name = if store.is_some() { "reader" } else { "peer" };
        cache(&folder.join(name), store)
    });
    let timed = |run: &mut dyn FnMut()| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64()
    };
    paired_by(
        "remote hit of 3.4 MB, GET and put",
        100,
        1.5,
        || {
            let time = timed(&mut || assert!(load(&reader, &key, &code) && reader.flush()));
            let _ = reader.clear();
            time
        },
        || {
            let time = timed(&mut || {
                let value = plain.get(&name).expect("the blob that was put");
                assert!(!load(&peer, &key, &value[..LARGE]));
            });
            let _ = peer.clear();
            time
        },
    );
    Ok(())
}

/// Eight threads of a machine with an empty folder.
fn lookups(folder: &Path, store: &RemoteConfig) {
    const KEYS: u64 = 4096;
    let code = vec![7; SMALL];
    let writer = cache(&folder.join("many"), Some(store));
    for n in 0..KEYS {
        load(&writer, &key(1 << 20 | n), &code);
        // The queue drops what is too much for it.
        if n % 32 == 31 {
            writer.flush();
        }
    }
    for (title, first, is_hit) in [("hits", 1 << 20, true), ("misses", 1 << 21, false)] {
        let reader = cache(&folder.join(title), Some(store));
        let (next, started) = (AtomicU64::new(0), Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= KEYS {
                            break;
                        }
                        let found = reader.lookup_of(&key(first | n), SOURCE);
                        assert_eq!(matches!(found, Lookup::Hit(_)), is_hit, "{found:?}");
                    }
                });
            }
        });
        let rate = KEYS as f64 / started.elapsed().as_secs_f64();
        let verdict = if rate >= 1000.0 { "met" } else { "MISSED" };
        println!("{title} of 8 threads: {rate:.0} lookups/s  goal 1000: {verdict}");
    }
}

/// Loads beside a store that is left alone, and beside none.
fn breaker(folder: &Path, store: &RemoteConfig) -> Fallible<()> {
    // Nobody listens there.
    let dead = RemoteConfig::parse("redis://127.0.0.1:1/0")?;
    // SAFETY: as for the store.
    let dead = unsafe { dead.with_trust(store.trust().cloned().ok_or("no trust")?) };
    let [with, without] = [Some(&dead), None].map(|store| {
        let name = if store.is_some() { "dead" } else { "none" };
        folder.join(name)
    });
    // Three failures open it, for all processes that use the folder.
    let opened = cache(&with, Some(&dead));
    for n in 0..3 {
        load(&opened, &key(n), b"code");
    }
    assert_eq!(opened.counters().remote.breaker_opens, 1);
    let none = cache(&without, None);
    let code = vec![7; SMALL];
    for cache in [&opened, &none] {
        load(cache, &key(9), &code);
    }
    paired(
        "hit, breaker open or no store",
        5000,
        1.02,
        || assert!(load(&opened, &key(9), &code)),
        || assert!(load(&none, &key(9), &code)),
    );
    // The least that a load which compiles does in the cache; compiling comes to it.
    let (mut n, mut m) = (1 << 30, 1 << 30);
    paired(
        "miss and put, the same",
        2000,
        1.02,
        || {
            n += 1;
            assert!(!load(&opened, &key(n), &code));
        },
        || {
            m += 1;
            assert!(!load(&none, &key(m), &code));
        },
    );
    Ok(())
}

/// A connection that does nothing but what it is told.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn get(&mut self, name: &str) -> std::io::Result<Vec<u8>> {
        let request = format!("*2\r\n$3\r\nGET\r\n${}\r\n{name}\r\n", name.len());
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let length = line.trim_end().trim_start_matches('$').parse::<usize>();
        let mut value = vec![0; length.map_err(std::io::Error::other)? + 2];
        self.0.read_exact(&mut value)?;
        Ok(value)
    }
}
