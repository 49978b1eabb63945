//! What the blobs take together, kept so that a put need not count them.
//!
//! One small file, read and written in place under its own lock by whoever
//! puts. It holds the sum of the sizes, how far the queue of what goes next is
//! used up, and which drivers put lately. Before a blob is renamed or removed
//! the ledger names it as *pending*, so that whoever comes after a crash looks
//! at that one file and has the sum right again.
//!
//! It is derived from the blobs: missing, damaged or of before the last start
//! of the machine, it is made anew by counting them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_128;

use super::key::{Generation, Key};

const TITLE: &str = "ptxkit ledger 1";
/// One write of this length replaces the whole of it.
const LENGTH: usize = 2048;
/// As many drivers as one folder serves; the one quiet for longest makes room.
const MOST_GENERATIONS: usize = 16;
/// How exactly it is known when a driver last put.
const ACTIVE_EVERY: u64 = 600;
/// A driver that put nothing for so long, while another of its family did, is
/// one that was replaced.
const REPLACED_AFTER: u64 = 24 * 60 * 60;
/// What was counted is believed for so long: somebody may have removed blobs
/// by hand.
const COUNT_EVERY: u64 = 24 * 60 * 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// Bytes of all blobs, those set aside too.
    pub total: u64,
    /// Records of the queue that are used up, and how many there are.
    pub queue: (u64, u64),
    /// A blob that is being renamed or removed, and the bytes of it that are in
    /// the total.
    pub pending: Option<(Key, u64)>,
    /// When the blobs were counted, in seconds since 1970.
    counted: u64,
    generations: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    generation: Generation,
    active: u64,
}

impl Ledger {
    /// A ledger of what was counted just now. What is known of drivers stays.
    pub(super) fn recounted(&mut self, total: u64, queue: u64) {
        self.total = total;
        self.queue = (0, queue);
        self.pending = None;
        self.counted = now();
    }

    /// Whether it still may be believed.
    pub(super) fn is_current(&self) -> bool {
        // A clock that was set back makes `counted` lie in the future.
        now()
            .checked_sub(self.counted)
            .is_some_and(|age| age < COUNT_EVERY)
    }

    /// Notes that a blob of `generation` is put.
    pub(super) fn note(&mut self, generation: Generation) {
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
                if self.generations.len() == MOST_GENERATIONS {
                    self.generations.sort_by_key(|row| row.active);
                    self.generations.remove(0);
                }
                let active = now;
                self.generations.push(Row { generation, active });
            }
        }
        // Other blobs are stale now than those that the queue put first.
        if before.is_some() && self.newest(generation.family) != before {
            self.queue = (0, 0);
        }
    }

    /// Whether a newer driver than that of `generation` is at work, or this
    /// one no longer is, of which a blob of it that was `used` lately is proof:
    /// machines of another build of the driver may find all that they need.
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

    /// The newest driver of a family that is at work.
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

    /// Reads it; `None` where there is none that holds.
    pub(super) fn read(mut file: &File) -> Option<Ledger> {
        let mut bytes = [0; LENGTH];
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?.trim_end_matches('\n');
        let (text, sum) = text.rsplit_once("\nsum ")?;
        (u128::from_str_radix(sum, 16).ok()? == XxHash3_128::oneshot(text.as_bytes()))
            .then_some(())?;
        let mut lines = text.lines();
        (lines.next()? == TITLE).then_some(())?;
        let mut ledger = Ledger::default();
        for line in lines {
            let mut words = line.split(' ');
            let name = words.next()?;
            let first = words.next()?;
            let mut number = || words.next()?.parse::<u64>().ok();
            match name {
                "total" => ledger.total = first.parse().ok()?,
                "counted" => ledger.counted = first.parse().ok()?,
                "queue" => ledger.queue = (first.parse().ok()?, number()?),
                "pending" => ledger.pending = Some((Key::parse(first)?, number()?)),
                "driver" => {
                    let bytes = u64::from_str_radix(first, 16).ok()?.to_be_bytes();
                    ledger.generations.push(Row {
                        generation: Generation::from_bytes(bytes),
                        active: number()?,
                    });
                }
                _ => {}
            }
        }
        Some(ledger)
    }

    /// Writes it in place, with one call: a killed process leaves the old one
    /// or the new one.
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
        let sum = XxHash3_128::oneshot(text.as_bytes());
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

/// Whether the machine was started after `written`: what was not synced then
/// may be lost, and with it what the ledger said last.
pub(super) fn is_of_before_start(written: SystemTime) -> bool {
    static START: OnceLock<Option<SystemTime>> = OnceLock::new();
    let start = START.get_or_init(|| {
        // The first number of the file: seconds since the start.
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        SystemTime::now().checked_sub(Duration::try_from_secs_f64(up).ok()?)
    });
    start.is_some_and(|start| written < start)
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

    fn full() -> Ledger {
        let mut ledger = Ledger {
            pending: Some((Key::from_bytes([0xab; 32]), u64::MAX)),
            ..Ledger::default()
        };
        for n in 0..20 {
            ledger.note(generation(u32::MAX - n, n as u16));
        }
        ledger.total = u64::MAX;
        ledger.queue = (u64::MAX, u64::MAX);
        ledger
    }

    #[test]
    fn it_is_read_as_it_was_written_and_nothing_else_is() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(Ledger::read(&file), None);
        full().write(&file).unwrap();
        assert_eq!(Ledger::read(&file), Some(full()));
        Ledger::default().write(&file).unwrap();
        assert_eq!(Ledger::read(&file), Some(Ledger::default()));
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != b'\n').unwrap();
        for at in 0..=end {
            let mut bad = tempfile::tempfile().unwrap();
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            bad.write_all(&changed).unwrap();
            assert_eq!(Ledger::read(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn a_count_is_believed_for_a_day_and_not_from_the_future() {
        let mut ledger = Ledger::default();
        assert!(!ledger.is_current());
        ledger.recounted(1, 1);
        assert!(ledger.is_current());
        ledger.counted -= COUNT_EVERY;
        assert!(!ledger.is_current());
        ledger.counted = now() + 1000;
        assert!(!ledger.is_current());
    }

    #[test]
    fn an_older_driver_is_stale_and_another_family_is_not() {
        let mut ledger = Ledger::default();
        let (old, new) = (generation(12080, 1), generation(13000, 2));
        assert!(!ledger.is_stale(old, LONG_AGO));
        ledger.note(old);
        assert!(!ledger.is_stale(old, LONG_AGO));
        ledger.queue = (3, 9);
        ledger.note(new);
        assert_eq!(ledger.queue, (0, 0));
        assert!(ledger.is_stale(old, LONG_AGO) && !ledger.is_stale(new, LONG_AGO));
        let other = Generation { family: 2, ..old };
        assert!(!ledger.is_stale(other, LONG_AGO));
    }

    #[test]
    fn machines_with_other_compilers_of_one_version_share_a_folder() {
        let mut ledger = Ledger::default();
        ledger.note(generation(13000, 1));
        ledger.note(generation(13000, 2));
        assert!(!ledger.is_stale(generation(13000, 1), LONG_AGO));
        assert!(!ledger.is_stale(generation(13000, 2), LONG_AGO));
        // One that nobody put with for days.
        ledger.generations[0].active -= 2 * REPLACED_AFTER;
        assert!(ledger.is_stale(generation(13000, 1), LONG_AGO));
        // Its machines are there still: they find what they need.
        let hour = Duration::from_secs(3600);
        let lately = SystemTime::now() - hour;
        assert!(!ledger.is_stale(generation(13000, 1), lately));
        assert!(ledger.is_stale(generation(13000, 1), lately - 24 * hour));
        // An older driver's go first, whoever uses them.
        assert!(ledger.is_stale(generation(12080, 3), lately));
    }

    #[test]
    fn going_back_to_an_older_driver_makes_it_current_in_time() {
        let mut ledger = Ledger::default();
        ledger.note(generation(13000, 1));
        ledger.note(generation(12080, 2));
        assert!(ledger.is_stale(generation(12080, 2), LONG_AGO));
        ledger.generations[0].active -= 2 * REPLACED_AFTER;
        assert!(!ledger.is_stale(generation(12080, 2), LONG_AGO));
        assert!(ledger.is_stale(generation(13000, 1), LONG_AGO));
    }
}
