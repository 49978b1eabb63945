//! When the store is left alone: after three failures nothing is asked of it for 30 seconds,
//! then one request tries it. If that fails too, twice as long, up to ten minutes.
//!
//! A file in the local folder has the state too: processes that live for one load each would
//! wait for a dead store again and again.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use input::ShowName as _;
use tracing::debug;

use crate::folder::{self, Owner};

/// So many failures in a row open it.
const FAILURES: u32 = 3;
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// Failures longer ago than this do not count: the store may have been down for a moment each.
const FORGET: Duration = LONGEST;
const MAX_FILE: u64 = 256;

#[derive(Debug)]
pub(super) struct Breaker {
    state: Mutex<State>,
    /// The file, and what names the store in it: a folder may be used with another one later.
    stamp: Option<(PathBuf, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// In a row.
    failures: u32,
    /// When the last one was, in milliseconds since 1970.
    failed: u64,
    /// Until when it is open; 0 where it never was.
    until: u64,
    /// For how long it was opened last.
    pause: Duration,
    /// Whether this process has read the file.
    is_read: bool,
}

impl Breaker {
    pub(super) fn new(stamp: Option<PathBuf>, store: &str) -> Breaker {
        Breaker {
            state: Mutex::default(),
            stamp: stamp.map(|path| (path, store.to_owned())),
        }
    }

    /// Whether the store may be asked. Where it was open for long enough, one caller may;
    /// the others are told so once that one has succeeded.
    pub(super) fn allows(&self) -> bool {
        self.allows_at(SystemTime::now())
    }

    pub(super) fn succeeded(&self) {
        let mut state = self.state();
        if state.failures == 0 {
            return;
        }
        *state = State {
            is_read: true,
            ..State::default()
        };
        if let Some((path, _)) = &self.stamp {
            let _ = fs::remove_file(path);
        }
    }

    /// Counts a failure; whether it opened the breaker.
    pub(super) fn failed(&self) -> bool {
        self.failed_at(SystemTime::now())
    }

    /// How long it stays open.
    pub(super) fn open_for(&self) -> Option<Duration> {
        let mut state = self.state();
        self.read_once(&mut state);
        let left = state.until.saturating_sub(milliseconds(SystemTime::now()));
        (left > 0).then(|| Duration::from_millis(left))
    }

    fn allows_at(&self, now: SystemTime) -> bool {
        let now = milliseconds(now);
        let mut state = self.state();
        self.read_once(&mut state);
        if state.until == 0 {
            return true;
        }
        if state.is_open(now) {
            return false;
        }
        // Another process may be trying it.
        if let Some(read) = self.read().filter(|read| read.is_open(now)) {
            *state = read;
            return false;
        }
        // This caller tries it. If it fails, or the process ends, the pause has begun already.
        state.open(now);
        self.write(&state);
        true
    }

    fn failed_at(&self, now: SystemTime) -> bool {
        let now = milliseconds(now);
        let mut state = self.state();
        self.read_once(&mut state);
        if state.is_open(now) {
            // The pause began when this request did.
            return false;
        }
        if now.saturating_sub(state.failed) > FORGET.as_millis() as u64 {
            state.failures = 0;
        }
        state.failures += 1;
        state.failed = now;
        let opens = state.failures >= FAILURES;
        if opens {
            state.open(now);
        }
        self.write(&state);
        opens
    }

    fn read_once(&self, state: &mut State) {
        if !std::mem::replace(&mut state.is_read, true)
            && let Some(read) = self.read()
        {
            *state = read;
        }
    }

    fn read(&self) -> Option<State> {
        let (path, store) = self.stamp.as_ref()?;
        let (file, _) = folder::open(path, Owner::User).ok()?;
        let mut text = String::new();
        file.take(MAX_FILE).read_to_string(&mut text).ok()?;
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some(store) {
            return None;
        }
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(State {
            failures: u32::try_from(number()?).ok()?,
            failed: number()?,
            until: number()?,
            pause: Duration::from_millis(number()?).min(LONGEST),
            is_read: true,
        })
    }

    /// A stamp that is lost or torn costs a request.
    fn write(&self, state: &State) {
        let Some((path, store)) = &self.stamp else {
            return;
        };
        let text = format!(
            "{store} {} {} {} {}\n",
            state.failures,
            state.failed,
            state.until,
            state.pause.as_millis()
        );
        let aside = path.with_extension(format!("{}.tmp", std::process::id()));
        let _ = fs::remove_file(&aside);
        let written = folder::create_file(&aside)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&aside, path));
        if let Err(error) = written {
            debug!("{} is not written: {error}", path.shown());
        }
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made state behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_open(&self, now: u64) -> bool {
        // After the clock was set back, the end may lie far in the future.
        now < self.until && self.until - now <= LONGEST.as_millis() as u64
    }

    fn open(&mut self, now: u64) {
        self.pause = match self.pause {
            Duration::ZERO => FIRST,
            pause => (pause * 2).min(LONGEST),
        };
        self.until = now + self.pause.as_millis() as u64;
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    /// The seconds, of those up to `end`, at which a request is allowed and fails.
    fn tries(breaker: &Breaker, end: u64) -> Vec<u64> {
        let allowed = (0..end).filter(|second| {
            let allows = breaker.allows_at(at(*second));
            if allows {
                breaker.failed_at(at(*second));
            }
            allows
        });
        allowed.collect()
    }

    #[test]
    fn three_failures_open_it_and_each_pause_is_twice_as_long() {
        let breaker = Breaker::new(None, "s");
        assert_eq!(
            tries(&breaker, 3000),
            [0, 1, 2, 32, 92, 212, 452, 932, 1532, 2132, 2732]
        );
        breaker.succeeded();
        assert_eq!(tries(&breaker, 40), [0, 1, 2, 32]);
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let breaker = Breaker::new(None, "s");
        for second in 0..20 {
            assert!(breaker.allows_at(at(second)));
            assert!(!breaker.failed_at(at(second)));
            if second % 2 == 1 {
                breaker.succeeded();
            }
        }
        assert!(
            breaker.failed_at(at(20)) || breaker.failed_at(at(21)) || breaker.failed_at(at(22))
        );
        assert!(!breaker.allows_at(at(23)));
    }

    #[test]
    fn one_caller_tries_it_after_the_pause() {
        let breaker = Breaker::new(None, "s");
        tries(&breaker, 3);
        let allowed = (0..100).filter(|_| breaker.allows_at(at(40)));
        assert_eq!(allowed.count(), 1);
        breaker.succeeded();
        assert!(breaker.allows_at(at(40)) && breaker.allows_at(at(40)));
    }

    #[test]
    fn processes_share_it_through_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let process = |store: &str| Breaker::new(Some(folder.path().join("remote")), store);
        for second in 0..3 {
            let breaker = process("s");
            assert!(breaker.allows_at(at(second)));
            assert_eq!(breaker.failed_at(at(second)), second == 2);
        }
        assert!(!process("s").allows_at(at(3)));
        // Another store, of which nothing is known.
        assert!(process("another").allows_at(at(3)));
        // After the pause one of them tries.
        assert!(process("s").allows_at(at(40)));
        assert!(!process("s").allows_at(at(40)));
        let third = process("s");
        assert!(!third.allows_at(at(99)));
        assert!(third.allows_at(at(101)));
        third.succeeded();
        assert!(process("s").allows_at(at(101)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_stamp_keeps_it_open_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("remote");
        let max = u64::MAX;
        for text in [
            "",
            "s",
            "s 1",
            "s x y z w",
            "\u{fffd}",
            &format!("s 9 {max} {max} {max}\n"),
            &"s 9 ".repeat(1000),
        ] {
            fs::write(&path, text).unwrap();
            let breaker = Breaker::new(Some(path.clone()), "s");
            assert!(breaker.allows_at(at(0)), "{text}");
            breaker.failed_at(at(0));
        }
    }
}
