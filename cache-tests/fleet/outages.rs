//! Servers that die, are full, take no writes or know another password.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::servers::{Redis, Store, name, redis};
use super::{Machine, finish, place, places};
use crate::program::{key, load, warnings_of};

#[test]
fn a_server_that_is_killed_and_restarted_fails_no_load() {
    let Some(mut server) = Redis::start(&[]) else {
        return;
    };
    let [url] = places(Store::Redis, [&server.address()]);
    let (done, loads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (url, done, loads) = (&url, &done, &loads);
            scope.spawn(move || {
                // Each machine is new: all of its loads ask the store.
                while !done.load(Ordering::Relaxed) {
                    let cache = Machine::writer(url).cache();
                    for n in 0..8 {
                        load(&cache, (n + thread) % 8, || {});
                        loads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let wait_for = |more: u64| {
            let end = loads.load(Ordering::Relaxed) + more;
            while loads.load(Ordering::Relaxed) < end {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        for _ in 0..3 {
            wait_for(50);
            server.kill();
            wait_for(50);
            server.restart();
        }
        wait_for(50);
        done.store(true, Ordering::Relaxed);
    });
    // It is used again.
    let url = format!("{url}&wait=2s");
    let writer = Machine::writer(&url).cache();
    load(&writer, 100, || {});
    finish(writer);
    assert!(!load(&Machine::reader(&url).cache(), 100, || {}));
}

#[test]
fn a_full_server_costs_a_warning() {
    let full = ["--maxmemory", "1mb", "--maxmemory-policy", "noeviction"];
    let Some(server) = Redis::start(&full) else {
        return;
    };
    let url = place(Store::Redis, &server.address());
    let machine = Machine::writer(&url);
    let (counters, warnings) = warnings_of(|| {
        let cache = machine.cache();
        for n in 0..60 {
            assert!(load(&cache, n, || {}));
            assert!(!load(&cache, n, || {}));
        }
        cache.flush();
        cache.counters()
    });
    assert!(counters.remote.errors > 0, "{counters:?}");
    assert!(warnings.len() <= 2, "{warnings:?}");
}

#[test]
fn a_server_that_takes_no_writes_is_read() {
    let (Some(first), Some(server)) = (Redis::start(&[]), Redis::start(&[])) else {
        return;
    };
    let url = place(Store::Redis, &first.address());
    let writer = Machine::writer(&url).cache();
    load(&writer, 1, || {});
    finish(writer);
    let (host, port) = first
        .address()
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    redis(
        &server.address(),
        &[b"REPLICAOF", host.as_bytes(), port.as_bytes()],
    )
    .unwrap();
    let name = name(&url, &key(1));
    while redis(&server.address(), &[b"GET", name.as_bytes()])
        .ok()
        .flatten()
        .is_none()
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = url.replace(&first.address(), &server.address());
    let (_, warnings) = warnings_of(|| {
        let cache = Machine::writer(&url).cache();
        assert!(!load(&cache, 1, || {}));
        assert!(load(&cache, 2, || {}));
        cache.flush();
        // Writes that are refused do not keep it from being read.
        assert_eq!(cache.counters().remote.errors, 1);
    });
    assert!(warnings.len() <= 1, "{warnings:?}");
}

#[test]
fn a_wrong_password_is_told_once_and_not_shown() {
    let Some(server) = Redis::start(&["--requirepass", "right-one"]) else {
        return;
    };
    let host = |password: &str| format!(":{password}@{}", server.address());
    let [wrong] = places(Store::Redis, [&host("wrong-one")]);
    let (_, warnings) = warnings_of(|| {
        let cache = Machine::writer(&wrong).cache();
        for n in 0..6 {
            assert!(load(&cache, n, || {}));
        }
        cache.flush();
        assert!(!format!("{cache:?}").contains("wrong-one"));
    });
    assert!((1..=2).contains(&warnings.len()), "{warnings:?}");
    assert!(!warnings.concat().contains("wrong-one"), "{warnings:?}");
    let url = place(Store::Redis, &host("right-one"));
    let writer = Machine::writer(&url).cache();
    load(&writer, 1, || {});
    finish(writer);
    assert!(!load(&Machine::reader(&url).cache(), 1, || {}));
}

/// What the page on fleets grants to those who read and to those who write is enough.
#[test]
fn the_users_of_the_documentation_suffice() {
    let page = include_str!("../../docs/fleet.md");
    let users: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("user "))
        .collect();
    assert_eq!(users.len(), 3, "{users:?}");
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let administrator = server.address();
    for user in &users {
        let words = ["ACL", "SETUSER"]
            .into_iter()
            .chain(user.split(' ').skip(1));
        // The default user is needed until the last is set.
        if !user.contains("default") {
            let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
            redis(&administrator, &words).unwrap();
        }
    }
    redis(&administrator, &[b"ACL", b"SETUSER", b"default", b"off"]).unwrap();
    let url =
        |user: &str, password: &str| format!("redis://{user}:{password}@{administrator}/0?wait=2s");
    let (_, warnings) = warnings_of(|| {
        let writer = Machine::writer(&url("writer", "WRITER_PASSWORD")).cache();
        load(&writer, 1, || {});
        finish(writer);
        assert!(!load(
            &Machine::reader(&url("reader", "READER_PASSWORD")).cache(),
            1,
            || {}
        ));
    });
    assert_eq!(warnings, [] as [&str; 0]);
}
