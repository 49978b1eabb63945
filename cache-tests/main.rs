//! The cache under many processes, kills, full disks and bad bytes.
//!
//! The processes are this program again: the test `role`, started by name with
//! what it is to do in the environment. The `unsafe` blocks put what is no code
//! into caches of their own, from which nothing is loaded.
#![cfg(all(feature = "cache", unix))]

mod cold;
mod damage;
mod faults;
#[cfg(all(
    feature = "remote-redis",
    feature = "remote-memcached",
    feature = "remote-s3"
))]
mod fleet;
mod folders;
mod kills;
mod pressure;
mod program;
#[cfg(feature = "remote-fs")]
mod remote;
#[cfg(feature = "remote-redis")]
mod remote_server;
mod scale;
mod ship;
mod versions;

/// The process that the other tests start.
#[test]
fn role() {
    if let Ok(role) = std::env::var(program::ROLE) {
        program::play(&role);
    }
}
