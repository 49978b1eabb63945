//! Events of several processes: a page that all of them map counts the recordings.

use std::ffi::c_char;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};

use super::exported::Exported;
use super::queue::{Mark, Queue};
use super::status::{Result, Status};
use super::virtual_memory::system;
use crate::memory::{page_size, sealed_file};

/// The first bytes of a handle.
const TITLE: &[u8; 8] = b"ptxkevt1";

/// So many recordings of an event are told apart at a time.
const RECORDINGS: usize = 256;

/// Between two looks whether the process that records still lives.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the page holds.
#[repr(C)]
struct Counts {
    /// The number of the last recording, and in the upper half the process that made it. 0 if
    /// there was none.
    last: AtomicU64,
    /// The newest recording that was reached, of those with the same lower bits.
    reached: [AtomicU32; RECORDINGS],
}

/// A recording by one of the processes.
#[derive(Clone, Copy)]
struct Recording {
    number: u32,
    process: u32,
}

pub(crate) struct SharedEvent {
    page: MmapRaw,
    /// Named by handles; `None` for an event of another process.
    file: Option<File>,
}

/// Whether `number` is no later than `reached`. Numbers start again after the last.
fn includes(reached: u32, number: u32) -> bool {
    reached.wrapping_sub(number).cast_signed() >= 0
}

impl SharedEvent {
    /// An event of this process.
    pub(crate) fn new() -> Result<Arc<SharedEvent>> {
        let file = sealed_file("event", page_bytes()).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => {
                Status::NOT_SUPPORTED.because("processes share events on Linux alone")
            }
            _ => system(&error),
        })?;
        SharedEvent::map(
            &file,
            Some(file.try_clone().map_err(|error| system(&error))?),
        )
    }

    /// The event of another process.
    pub(crate) fn open(handle: &[c_char; 64]) -> Result<Arc<SharedEvent>> {
        let exported = Exported::from_handle(TITLE, handle)?;
        if exported.process == u64::from(std::process::id()) {
            return Err(Status::INVALID_CONTEXT.because("a process does not open its own event"));
        }
        if exported.bytes != size_of::<Counts>() as u64 {
            return Err(Status::INVALID_VALUE.because("the handle is of no event"));
        }
        SharedEvent::map(&exported.file()?, None)
    }

    fn map(page: &File, file: Option<File>) -> Result<Arc<SharedEvent>> {
        let page = MmapOptions::new().len(size_of::<Counts>()).map_raw(page);
        let page = page.map_err(|error| system(&error))?;
        Ok(Arc::new(SharedEvent { page, file }))
    }

    /// The handle by which other processes open it.
    pub(crate) fn handle(&self) -> Result<[c_char; 64]> {
        let file = self.file.as_ref();
        let file = file.ok_or_else(|| {
            Status::INVALID_HANDLE.because("the event is another process's, which exports it")
        })?;
        export(file).map(|exported| exported.to_handle(TITLE))
    }

    fn counts(&self) -> &Counts {
        // SAFETY: the mapping begins at a page and has the structure's bytes, which the file's
        // seals keep. All of them are atomics, which have no invalid values, and which other
        // processes may write.
        unsafe { &*self.page.as_ptr().cast::<Counts>() }
    }

    fn slot(&self, number: u32) -> &AtomicU32 {
        &self.counts().reached[number as usize % RECORDINGS]
    }

    fn last(&self) -> Option<Recording> {
        let last = self.counts().last.load(Ordering::Acquire);
        (last != 0).then_some(Recording {
            number: last as u32,
            process: (last >> 32) as u32,
        })
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.last().is_some()
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.last().is_none_or(|last| self.includes(last))
    }

    fn includes(&self, recording: Recording) -> bool {
        let reached = self.slot(recording.number).load(Ordering::Acquire);
        includes(reached, recording.number)
    }

    /// Counts a recording of this process, whose number is to be [reached](Self::reach).
    pub(crate) fn record(&self) -> u32 {
        let next = |last: u64| {
            let process = u64::from(std::process::id());
            process << 32 | u64::from((last as u32).wrapping_add(1))
        };
        let last = &self.counts().last;
        let mut seen = last.load(Ordering::Relaxed);
        loop {
            match last.compare_exchange_weak(seen, next(seen), Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return next(seen) as u32,
                Err(other) => seen = other,
            }
        }
    }

    /// Wakes all who wait for a recording.
    pub(crate) fn reach(&self, number: u32) {
        let slot = self.slot(number);
        let newer = |seen| (!includes(seen, number)).then_some(number);
        // A newer recording was reached already.
        let _ = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
        wake(slot);
    }

    /// Waits for the last recording.
    pub(crate) fn wait(&self) {
        if let Some(last) = self.last() {
            self.wait_for(last);
        }
    }

    /// Waits until a recording is reached, or the process that made it has ended.
    fn wait_for(&self, recording: Recording) {
        let slot = self.slot(recording.number);
        loop {
            let reached = slot.load(Ordering::Acquire);
            if includes(reached, recording.number) || has_ended(recording.process) {
                return;
            }
            sleep(slot, reached);
        }
    }

    /// What a stream waits for that waits for the last recording: a queue of its own sleeps.
    pub(crate) fn unfinished(self: &Arc<Self>) -> Option<Mark> {
        let last = self.last().filter(|last| !self.includes(*last))?;
        let (event, queue) = (self.clone(), Queue::new());
        let mark = queue.push(Vec::new(), Box::new(move || event.wait_for(last)));
        queue.close();
        Some(mark)
    }
}

/// Whether a process is gone, or waits for its parent to notice that.
fn has_ended(process: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{process}/exe"));
    program.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(unix)]
fn export(file: &File) -> Result<Exported> {
    Exported::of(file, size_of::<Counts>() as u64).map_err(|error| system(&error))
}

#[cfg(not(unix))]
fn export(_: &File) -> Result<Exported> {
    Err(Status::NOT_SUPPORTED.because("processes share events on Linux alone"))
}

/// The bytes of the file: whole pages.
fn page_bytes() -> u64 {
    (size_of::<Counts>() as u64).next_multiple_of(page_size())
}

#[cfg(target_os = "linux")]
fn sleep(slot: &AtomicU32, seen: u32) {
    use rustix::thread::futex::{Flags, Timespec, wait};

    let longest = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(PATIENCE.subsec_nanos()),
    };
    // It wakes early if the slot has changed; the caller looks again.
    let _ = wait(slot, Flags::empty(), seen, Some(&longest));
}

#[cfg(target_os = "linux")]
fn wake(slot: &AtomicU32) {
    use rustix::thread::futex::{Flags, wake};

    // It fails for bad addresses alone.
    let _ = wake(slot, Flags::empty(), i32::MAX.cast_unsigned());
}

#[cfg(not(target_os = "linux"))]
fn sleep(_: &AtomicU32, _: u32) {
    std::thread::sleep(PATIENCE);
}

#[cfg(not(target_os = "linux"))]
fn wake(_: &AtomicU32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The same page, as another process sees it.
    fn opened(event: &SharedEvent) -> Arc<SharedEvent> {
        SharedEvent::map(event.file.as_ref().unwrap(), None).unwrap()
    }

    #[test]
    fn a_recording_is_reached_on_both_sides() {
        let event = SharedEvent::new().unwrap();
        let other = opened(&event);
        assert!(!other.is_recorded() && other.is_reached());
        let first = event.record();
        assert!(other.is_recorded() && !other.is_reached());
        let waited = other.unfinished().unwrap();
        assert!(!waited.passed());
        event.reach(first);
        waited.wait();
        assert!(other.is_reached() && other.unfinished().is_none());
    }

    #[test]
    fn one_who_waits_for_a_recording_waits_for_no_other() {
        let event = SharedEvent::new().unwrap();
        let slow = event.record();
        let waited = event.unfinished().unwrap();
        let quick = event.record();
        event.reach(quick);
        assert!(event.is_reached());
        assert!(!waited.passed());
        event.reach(slow);
        waited.wait();
        assert!(
            event.is_reached(),
            "an earlier recording takes nothing back"
        );
    }

    #[test]
    fn numbers_start_again() {
        let event = SharedEvent::new().unwrap();
        for number in [u32::MAX - 1, u32::MAX, 0, 1] {
            event.counts().last.store(
                1 << 32 | u64::from(number.wrapping_sub(1)),
                Ordering::Relaxed,
            );
            event
                .slot(number)
                .store(number.wrapping_sub(RECORDINGS as u32), Ordering::Relaxed);
            assert_eq!(event.record(), number);
            assert!(!event.is_reached());
            event.reach(number);
            assert!(event.is_reached());
        }
    }

    #[test]
    fn nobody_waits_for_a_process_that_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let event = SharedEvent::new().unwrap();
        event
            .counts()
            .last
            .store(u64::from(child.id()) << 32 | 1, Ordering::Relaxed);
        // Before its parent has noticed, and after that.
        event.wait();
        child.wait().unwrap();
        event.wait();
        assert!(!event.is_reached());
    }
}
