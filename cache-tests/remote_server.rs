//! A store that does not answer as it should: a server in the test's own process that speaks
//! as much of Redis's protocol as a client needs to ask for a blob.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "a server of this test, whose data nothing runs"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ptxkit::cache::remote::{RemoteConfig, SigningKey, Trust};
use ptxkit::cache::{Cache, Environment, Lookup, Policy};

use crate::program::{all_events, key, policy, start, warnings_of};

/// What the server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Takes it, and says nothing.
    Silent,
    /// Closes it.
    Closes,
    /// Answers with what is no answer.
    Babbles,
    /// Answers everything, but no GET.
    NeverGets,
    /// Has an error in answer to a GET.
    Refuses,
    /// Announces ten gigabytes and sends a few bytes.
    Announces,
    /// Announces a blob, and closes in its middle.
    Cuts,
    /// Answers each GET late.
    Drips,
    /// Repeats the password in answer to a GET.
    Tells,
    /// Has nothing: this one is as it should be.
    Empty,
}

const FAULTS: [Fault; 8] = [
    Fault::Silent,
    Fault::Closes,
    Fault::Babbles,
    Fault::NeverGets,
    Fault::Refuses,
    Fault::Announces,
    Fault::Cuts,
    Fault::Drips,
];

/// A server on loopback; its threads end with the process.
struct Server {
    port: u16,
    connections: Arc<AtomicU64>,
}

impl Server {
    fn start(fault: Fault) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let stream = stream.unwrap();
                std::thread::spawn(move || serve(stream, fault));
            }
        });
        Server { port, connections }
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Until the client closes.
fn serve(mut stream: TcpStream, fault: Fault) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    match fault {
        Fault::Closes => return None,
        Fault::Babbles => stream.write_all(&[0xff; 100]).ok()?,
        _ => {}
    }
    let mut told = String::new();
    loop {
        let command = command(&mut reader)?;
        let is_get = command[0] == "GET";
        let answer: &[u8] = match fault {
            Fault::Silent | Fault::Closes | Fault::Babbles => continue,
            _ if command[0] == "PING" => b"+PONG\r\n",
            _ if command[0] == "AUTH" => {
                told = format!("-WRONGPASS {}\r\n", command.join(" "));
                b"+OK\r\n"
            }
            _ if !is_get => b"+OK\r\n",
            Fault::Tells => told.as_bytes(),
            Fault::NeverGets => continue,
            Fault::Refuses => b"-LOADING the data set\r\n",
            Fault::Announces => b"$10000000000\r\nPTXKBLOB",
            Fault::Cuts => {
                stream.write_all(b"$4000\r\nPTXKBLOB").ok()?;
                return None;
            }
            Fault::Drips => {
                std::thread::sleep(Duration::from_millis(500));
                b"$-1\r\n"
            }
            Fault::Empty => b"$-1\r\n",
        };
        stream.write_all(answer).ok()?;
    }
}

/// The words of the next command.
fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let number = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|length| *length > 0)?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let count = number(reader)?;
    (0..count)
        .map(|_| {
            let mut word = vec![0; number(reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            Some(String::from_utf8_lossy(&word).into_owned())
        })
        .collect()
}

fn machine(folder: &Path, port: u16) -> Cache {
    let config = RemoteConfig::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let config = unsafe { config.with_trust(Trust::Network) };
    Cache::new(policy(folder, 1 << 30).with_remote(Some(config)))
}

/// Whether it must be compiled.
fn misses(cache: &Cache, n: u64) -> bool {
    match cache.lookup(&key(n)) {
        Lookup::Miss(_) => true,
        Lookup::Hit(_) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whatever_a_server_does_each_load_goes_on_and_after_three_it_is_left_alone() {
    for fault in FAULTS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(fault);
        let cache = machine(folder.path(), server.port);
        let ((), warnings) = warnings_of(|| (0..3).for_each(|n| assert!(misses(&cache, n))));
        let counted = cache.counters().remote;
        assert_eq!(
            counted.errors + counted.timeouts,
            3,
            "{fault:?}: {counted:?}"
        );
        assert_eq!(counted.breaker_opens, 1, "{fault:?}: {counted:?}");
        assert_eq!(
            (counted.hits, counted.misses),
            (0, 0),
            "{fault:?}: {counted:?}"
        );
        // One for each kind.
        let kinds = u64::from(counted.errors > 0) + u64::from(counted.timeouts > 0);
        assert_eq!(warnings.len() as u64, kinds, "{fault:?}: {warnings:?}");
        assert!(server.connections() > 0, "{fault:?}");
        // Nor do other processes ask it: there is a stamp in the folder.
        let other = machine(folder.path(), server.port);
        for n in 0..10 {
            assert!(misses(&cache, n) && misses(&other, n));
        }
        assert_eq!(other.counters().remote, Default::default());
        let after = cache.counters().remote;
        assert_eq!(after.errors + after.timeouts, 3, "{fault:?}: {after:?}");
    }
}

#[test]
fn short_processes_count_their_failures_together() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Fault::Silent);
    let opened: Vec<u64> = (0..5)
        .map(|n| {
            let cache = machine(folder.path(), server.port);
            assert!(misses(&cache, n));
            cache.counters().remote.breaker_opens
        })
        .collect();
    assert_eq!(opened, [0, 0, 1, 0, 0]);
    // Another store, of which nothing is known.
    let good = Server::start(Fault::Empty);
    let cache = machine(folder.path(), good.port);
    assert!(misses(&cache, 9));
    assert_eq!(cache.counters().remote.misses, 1);
}

#[test]
fn a_server_that_nobody_has_started_is_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let cache = machine(folder.path(), port);
    let (_, warnings) = warnings_of(|| (0..10).for_each(|n| assert!(misses(&cache, n))));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let store = format!("redis://127.0.0.1:{port}");
    assert!(warnings[0].contains(&store), "{warnings:?}");
    let status = cache.remote_status().unwrap();
    assert!(status.answer.is_err(), "{status:?}");
}

/// What waits to be written to a server that does not take it holds up neither loads nor the
/// end of the process.
#[test]
fn writes_that_nobody_takes_are_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Fault::Silent);
    let file = folder.path().join("key");
    let signer = SigningKey::create(&file).unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port);
    let config = RemoteConfig::parse(&url).unwrap();
    let config = unsafe { config.with_trust(Trust::Keys(vec![signer.public()])) };
    let policy = policy(&folder.path().join("a"), 1 << 30);
    let cache = Cache::new(policy.with_remote(Some(config.with_signer(file))));
    for n in 0..200 {
        assert!(crate::program::load(&cache, n, || {}));
    }
    let counted = cache.counters().remote;
    assert_eq!(counted.puts, 0);
    assert!(counted.drops >= 200 - 64, "{counted:?}");
    assert_eq!(cache.counters().puts, 200);
}

const PASSWORD: &str = "hunter2-of-the-fleet";

/// The process whose every message is listened to: with the levels that nobody looks at, and
/// those of all crates.
pub fn shout(folder: &Path, port: u64) {
    let url = format!("redis://user:{PASSWORD}@127.0.0.1:{port}/0");
    let environment = Environment::of([
        ("CUDA_CACHE_PATH", folder.as_os_str().to_owned()),
        ("PTXKIT_REMOTE", url.into()),
        ("PTXKIT_REMOTE_TRUST", "none".into()),
        ("REDISCLI_AUTH", PASSWORD.into()),
    ]);
    let events = all_events();
    let policy = Policy::from_environment(&environment);
    let cache = Cache::new(policy.clone());
    for n in 0..4 {
        // In a second, which even a busy machine needs less than.
        assert!(matches!(
            cache.lookup_of(&key(n), 1_000_000),
            Lookup::Miss(_)
        ));
    }
    let status = cache.remote_status();
    let pulled = cache.pull(Some(&[key(1)]), |_| {});
    println!("{environment:?} {policy:#?} {cache:?} {status:?} {pulled:?}");
    println!("{}", events.lock().unwrap().join("\n"));
}

#[test]
fn a_password_reaches_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Fault::Tells);
    let mut process = start("shout", folder.path(), &[u64::from(server.port)]);
    let output = process.env("RUST_BACKTRACE", "1").stdout(Stdio::piped());
    let output = output.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    // The server was asked, and answered with the password.
    assert!(text.contains("WRONGPASS"), "{text}");
    assert!(
        text.contains(&format!("redis://127.0.0.1:{}", server.port)),
        "{text}"
    );
    assert!(!text.contains(PASSWORD), "{text}");
}

/// A server of HTTP that has nothing is no error: the client can talk to it.
#[cfg(feature = "remote-webdav")]
#[test]
fn a_store_over_http_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        reader.read_line(&mut line).unwrap();
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).unwrap();
        // The rest of the request, until the client closes.
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        line
    });
    let folder = tempfile::tempdir().unwrap();
    let url = format!("webdav+http://127.0.0.1:{port}/a?wait=2s");
    let config = RemoteConfig::parse(&url).unwrap();
    // SAFETY: nothing of it is loaded.
    let config = unsafe { config.with_trust(Trust::Network) };
    let cache = Cache::new(policy(folder.path(), 1 << 30).with_remote(Some(config)));
    assert!(misses(&cache, 1));
    let counted = cache.counters().remote;
    assert_eq!((counted.misses, counted.errors), (1, 0), "{counted:?}");
    drop(cache);
    let line = server.join().unwrap();
    let path = format!("GET /a/default/v{}/{}", ptxkit::cache::SCHEMA, key(1));
    assert!(line.starts_with(&path), "{line}");
}
