//! The state file: the size of all blobs, so that a put need not list the folder.
//!
//! One small file, read and written in place under its own lock by whoever puts.
//! It holds the total size, how far the eviction queue is used up, and which
//! drivers put lately. Before a blob is renamed or removed the file names it as
//! *pending*: whoever comes after a crash checks that one blob and has the total
//! right again.
//!
//! It is derived from the blobs: missing, damaged or older than the last boot, it
//! is rebuilt by listing them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::xxh3_128;

use super::key::{Generation, Key};

const TITLE: &str = "ptxkit state 1";
/// One write of this length replaces the whole file.
const LENGTH: usize = 2048;
/// The most drivers that are recorded; the longest inactive is dropped.
const MAX_GENERATIONS: usize = 16;
/// Seconds to which it is known when a driver last put.
const ACTIVE_EVERY: u64 = 600;
/// A driver that put nothing for so many seconds, while another of its family
/// did, is taken for replaced.
const REPLACED_AFTER: u64 = 24 * 60 * 60;
/// The total is trusted for so many seconds: somebody may have removed blobs by
/// hand.
const COUNT_EVERY: u64 = 24 * 60 * 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Bytes of all blobs, quarantined ones too.
    pub total: u64,
    /// Records of the eviction queue that are used up, and how many there are.
    pub queue: (u64, u64),
    /// A blob that is being renamed or removed, and its bytes that the total
    /// includes.
    pub pending: Option<(Key, u64)>,
    /// When the blobs were listed, in seconds since 1970.
    counted: u64,
    generations: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    generation: Generation,
    active: u64,
}

impl State {
    /// Takes over what was counted just now. What is known of drivers stays.
    pub(super) fn recounted(&mut self, total: u64, queue: u64) {
        self.total = total;
        self.queue = (0, queue);
        self.pending = None;
        self.counted = now();
    }

    /// Whether the total may still be trusted.
    pub(super) fn is_current(&self) -> bool {
        // A clock that was set back makes `counted` lie in the future.
        now()
            .checked_sub(self.counted)
            .is_some_and(|age| age < COUNT_EVERY)
    }

    /// Records that a blob of `generation` is put.
    pub(super) fn record_put(&mut self, generation: Generation) {
        let now = now();
        let before = self.newest(generation.family);
        match self
            .generations
            .iter_mut()
            .find(|row| row.generation == generation)
        {
            Some(row) if row.active > now || now - row.active > ACTIVE_EVERY => row.active = now,
            Some(_) => return,
            None => {
                if self.generations.len() == MAX_GENERATIONS {
                    self.generations.sort_by_key(|row| row.active);
                    self.generations.remove(0);
                }
                let active = now;
                self.generations.push(Row { generation, active });
            }
        }
        // Other blobs are stale now than when the queue was written.
        if before.is_some() && self.newest(generation.family) != before {
            self.queue = (0, 0);
        }
    }

    /// Whether blobs of `generation` are of no more use: a newer driver is active
    /// here, or this one is not. A blob that was `used` lately shows that its driver
    /// is active: machines with another build may find all that they need.
    pub(super) fn is_stale(&self, generation: Generation, used: SystemTime) -> bool {
        let family = generation.family;
        let Some(newest) = self.newest(family) else {
            return false;
        };
        let is_live = || {
            let mut live = self.live(family);
            live.any(|row| row.generation == generation)
                || self.last(family) <= seconds(used).saturating_add(REPLACED_AFTER)
        };
        generation.version < newest || !is_live()
    }

    /// The newest active driver of a family.
    fn newest(&self, family: u16) -> Option<u32> {
        self.live(family).map(|row| row.generation.version).max()
    }

    fn live(&self, family: u16) -> impl Iterator<Item = &Row> {
        let last = self.last(family);
        self.of(family)
            .filter(move |row| last - row.active <= REPLACED_AFTER)
    }

    /// When a driver of a family last put.
    fn last(&self, family: u16) -> u64 {
        self.of(family).map(|row| row.active).max().unwrap_or(0)
    }

    fn of(&self, family: u16) -> impl Iterator<Item = &Row> {
        let rows = self.generations.iter();
        rows.filter(move |row| row.generation.family == family)
    }

    /// Reads the file; `None` where it is missing or damaged.
    pub(super) fn read(mut file: &File) -> Option<State> {
        let mut bytes = [0; LENGTH];
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?.trim_end_matches('\n');
        let (text, sum) = text.rsplit_once("\nsum ")?;
        (u128::from_str_radix(sum, 16).ok()? == xxh3_128(text.as_bytes())).then_some(())?;
        let mut lines = text.lines();
        (lines.next()? == TITLE).then_some(())?;
        let mut state = State::default();
        for line in lines {
            let mut words = line.split(' ');
            let name = words.next()?;
            let first = words.next()?;
            let mut number = || words.next()?.parse::<u64>().ok();
            match name {
                "total" => state.total = first.parse().ok()?,
                "counted" => state.counted = first.parse().ok()?,
                "queue" => state.queue = (first.parse().ok()?, number()?),
                "pending" => state.pending = Some((Key::parse(first)?, number()?)),
                "driver" => {
                    let bytes = u64::from_str_radix(first, 16).ok()?.to_be_bytes();
                    state.generations.push(Row {
                        generation: Generation::from_bytes(bytes),
                        active: number()?,
                    });
                }
                _ => {}
            }
        }
        Some(state)
    }

    /// Writes the file in place, with one call: a killed process leaves the old
    /// state or the new one.
    pub(super) fn write(&self, mut file: &File) -> io::Result<()> {
        let mut text = format!(
            "{TITLE}\ntotal {}\ncounted {}\nqueue {} {}",
            self.total, self.counted, self.queue.0, self.queue.1
        );
        // Writing to a string cannot fail.
        if let Some((key, bytes)) = &self.pending {
            let _ = write!(text, "\npending {key} {bytes}");
        }
        for row in &self.generations {
            let generation = u64::from_be_bytes(row.generation.to_bytes());
            let _ = write!(text, "\ndriver {generation:016x} {}", row.active);
        }
        let sum = xxh3_128(text.as_bytes());
        let _ = write!(text, "\nsum {sum:032x}");
        let mut bytes = text.into_bytes();
        bytes.resize(LENGTH, b'\n');
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes)
    }
}

fn now() -> u64 {
    seconds(SystemTime::now())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// Whether the machine was booted after `written`: the last writes before that
/// may be lost.
pub(super) fn is_before_boot(written: SystemTime) -> bool {
    static BOOT: OnceLock<Option<SystemTime>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| {
        // The first number of the file: seconds since boot.
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        SystemTime::now().checked_sub(Duration::try_from_secs_f64(up).ok()?)
    });
    boot.is_some_and(|boot| written < boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_AGO: SystemTime = SystemTime::UNIX_EPOCH;

    fn generation(version: u32, compiler: u16) -> Generation {
        Generation {
            family: 1,
            version,
            compiler,
        }
    }

    fn full() -> State {
        let mut state = State {
            pending: Some((Key::from_bytes([0xab; 32]), u64::MAX)),
            ..State::default()
        };
        for n in 0..20 {
            state.record_put(generation(u32::MAX - n, n as u16));
        }
        state.total = u64::MAX;
        state.queue = (u64::MAX, u64::MAX);
        state
    }

    #[test]
    fn it_is_read_as_it_was_written_and_nothing_else_is() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(State::read(&file), None);
        full().write(&file).unwrap();
        assert_eq!(State::read(&file), Some(full()));
        State::default().write(&file).unwrap();
        assert_eq!(State::read(&file), Some(State::default()));
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != b'\n').unwrap();
        for at in 0..=end {
            let mut bad = tempfile::tempfile().unwrap();
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            bad.write_all(&changed).unwrap();
            assert_eq!(State::read(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn a_count_is_believed_for_a_day_and_not_from_the_future() {
        let mut state = State::default();
        assert!(!state.is_current());
        state.recounted(1, 1);
        assert!(state.is_current());
        state.counted -= COUNT_EVERY;
        assert!(!state.is_current());
        state.counted = now() + 1000;
        assert!(!state.is_current());
    }

    #[test]
    fn an_older_driver_is_stale_and_another_family_is_not() {
        let mut state = State::default();
        let (old, new) = (generation(12080, 1), generation(13000, 2));
        assert!(!state.is_stale(old, LONG_AGO));
        state.record_put(old);
        assert!(!state.is_stale(old, LONG_AGO));
        state.queue = (3, 9);
        state.record_put(new);
        assert_eq!(state.queue, (0, 0));
        assert!(state.is_stale(old, LONG_AGO) && !state.is_stale(new, LONG_AGO));
        let other = Generation { family: 2, ..old };
        assert!(!state.is_stale(other, LONG_AGO));
    }

    #[test]
    fn machines_with_other_compilers_of_one_version_share_a_folder() {
        let mut state = State::default();
        state.record_put(generation(13000, 1));
        state.record_put(generation(13000, 2));
        assert!(!state.is_stale(generation(13000, 1), LONG_AGO));
        assert!(!state.is_stale(generation(13000, 2), LONG_AGO));
        // One that nobody put with for days.
        state.generations[0].active -= 2 * REPLACED_AFTER;
        assert!(state.is_stale(generation(13000, 1), LONG_AGO));
        // Its machines are there still: they find what they need.
        let hour = Duration::from_secs(3600);
        let lately = SystemTime::now() - hour;
        assert!(!state.is_stale(generation(13000, 1), lately));
        assert!(state.is_stale(generation(13000, 1), lately - 24 * hour));
        // An older driver's go first, whoever uses them.
        assert!(state.is_stale(generation(12080, 3), lately));
    }

    #[test]
    fn going_back_to_an_older_driver_makes_it_current_in_time() {
        let mut state = State::default();
        state.record_put(generation(13000, 1));
        state.record_put(generation(12080, 2));
        assert!(state.is_stale(generation(12080, 2), LONG_AGO));
        state.generations[0].active -= 2 * REPLACED_AFTER;
        assert!(!state.is_stale(generation(12080, 2), LONG_AGO));
        assert!(state.is_stale(generation(13000, 1), LONG_AGO));
    }
}
