//! What happened since the last writing.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::take;
use std::time::{Duration, Instant};

use cpu::observe::{self, Direction, Event as Observed, Span};
use report::{
    Compiles, Copies, Event, EventKind, Failure, Kind, Lane, Load, Missing, Outcome, Record,
};

use super::device::device;
use super::kernels::Kernels;
use super::lanes::Lanes;
use super::sources::Sources;

/// Different failures that are kept until the next writing. Those of a fuzzer have no end.
const MAX_FAILURES: usize = 1000;

/// The events of a process on the timeline of the page: a browser has to draw them.
const MAX_EVENTS: usize = 20_000;

/// The events of a process in a trace.
const MAX_TRACED: usize = 1_000_000;

/// Names of events that are longer are cut.
const MAX_NAME: usize = 200;

#[derive(Default)]
pub(super) struct News {
    loads: Vec<Load>,
    /// Number and time of first compilations, and of optimizing ones.
    compiles: [(u64, Duration); 2],
    copies: BTreeMap<&'static str, (u64, u64, Duration)>,
    kernels: Kernels,
    sources: Sources,
    lanes: Lanes,
    events: Vec<Event>,
    dropped: u64,
    failures: BTreeMap<Reason, u64>,
    missing: BTreeMap<String, u64>,
    /// Events since the start that were kept, and their limit.
    kept: usize,
    limit: usize,
    /// Events that the page has.
    on_page: usize,
    is_device_told: bool,
    /// When what was new was written, since the start.
    pub written: Option<Duration>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reason {
    pub entry: &'static str,
    pub status: c_int,
    pub cause: String,
}

impl News {
    /// Keeps as many events as a trace has, or as a page has.
    pub(super) fn new(is_traced: bool) -> News {
        News {
            limit: if is_traced { MAX_TRACED } else { MAX_EVENTS },
            ..News::default()
        }
    }

    pub(super) fn missing(&mut self, entry: &str) {
        *self.missing.entry(entry.to_owned()).or_default() += 1;
    }

    pub(super) fn failed(&mut self, mut reason: Reason) {
        if self.failures.len() >= MAX_FAILURES && !self.failures.contains_key(&reason) {
            reason.cause = "and others".into();
        }
        *self.failures.entry(reason).or_default() += 1;
    }

    /// Adds what the CPU device did. Times count from `zero`.
    pub(super) fn add(&mut self, event: &Observed<'_>, zero: Instant) {
        match event {
            Observed::Load(load) => self.loaded(load, zero),
            Observed::Compile(compile) => {
                let (times, sum) = &mut self.compiles[usize::from(compile.is_optimized)];
                *times += 1;
                *sum += compile.span.time;
                let lane = self.lanes.of_thread(compile.is_optimized);
                self.push(
                    EventKind::Compile,
                    lane,
                    (compile.span, zero),
                    compile.kernel.unwrap_or("all kernels"),
                );
            }
            Observed::Copy(copy) => {
                let name = direction(copy.direction);
                let (times, bytes, sum) = self.copies.entry(name).or_default();
                *times += 1;
                *bytes += copy.bytes;
                *sum += copy.span.time;
                let lane = self.lanes.of(copy.stream);
                if let Some(event) = self.push(EventKind::Copy, lane, (copy.span, zero), name) {
                    event.bytes = Some(copy.bytes);
                }
            }
            Observed::Launch(launch) => {
                self.kernels.launched(launch);
                self.sources.launched(launch);
                let lane = self.lanes.of(launch.stream);
                let times = (launch.span, zero);
                if let Some(event) = self.push(EventKind::Launch, lane, times, launch.kernel) {
                    event.grid = Some(launch.grid);
                    event.block = Some(launch.block);
                    event.fault = launch.fault.map(|fault| fault.message.to_owned());
                }
            }
            _ => {}
        }
    }

    fn loaded(&mut self, load: &observe::Load<'_>, zero: Instant) {
        let module = self.sources.loaded(load);
        let image = match &load.target {
            Some(target) if load.image == "fatbin" => format!("fatbin, PTX for {target}"),
            Some(target) => format!("{} for {target}", load.image),
            None => load.image.to_owned(),
        };
        let lane = self.lanes.of_thread(false);
        self.push(EventKind::Load, lane, (load.span, zero), &image);
        self.loads.push(Load {
            entry: load.entry.to_owned(),
            image,
            reason: None,
            module,
            kernels: Some(load.kernels.len() as u64),
            outcome: match (load.ptx, load.is_lazy) {
                (None, _) => Outcome::Binary,
                (_, true) => Outcome::Lazy,
                _ => Outcome::Compiled,
            },
            start: since(load.span.start, zero),
            seconds: load.span.time.as_secs_f64(),
        });
    }

    /// Adds an event to the timeline, if there is room.
    fn push(
        &mut self,
        kind: EventKind,
        lane: u32,
        (span, zero): (Span, Instant),
        name: &str,
    ) -> Option<&mut Event> {
        if self.kept >= self.limit {
            self.dropped += 1;
            return None;
        }
        self.kept += 1;
        self.events.push(Event {
            kind,
            lane,
            start: since(span.start, zero),
            seconds: span.time.as_secs_f64(),
            name: name.chars().take(MAX_NAME).collect(),
            bytes: None,
            grid: None,
            block: None,
            fault: None,
        });
        self.events.last_mut()
    }

    /// Moves the news into a record, and returns all events for the trace.
    pub(super) fn take<'p>(
        &mut self,
        mut record: Record<'p>,
        name_of: impl Fn(c_int) -> String,
    ) -> (Record<'p>, Vec<Event>) {
        if !self.is_device_told {
            record.device = device();
            self.is_device_told = record.device.is_some();
        }
        let compiles = take(&mut self.compiles).into_iter().zip([false, true]);
        record.compiles = compiles
            .filter(|((times, _), _)| *times > 0)
            .map(|((times, time), optimized)| Compiles {
                optimized,
                times,
                seconds: time.as_secs_f64(),
            })
            .collect();
        let copies = take(&mut self.copies).into_iter();
        record.copies = copies
            .map(|(direction, (times, bytes, time))| Copies {
                direction: direction.to_owned(),
                times,
                bytes,
                seconds: time.as_secs_f64(),
            })
            .collect();
        record.loads = take(&mut self.loads);
        record.kernels = self.kernels.take(&self.sources);
        record.sources = self.sources.take();
        record.lanes = self
            .lanes
            .take()
            .map(|(id, name)| Lane { id, name })
            .collect();
        let events = take(&mut self.events);
        let on_page = events.len().min(MAX_EVENTS.saturating_sub(self.on_page));
        self.on_page += on_page;
        record.events = events[..on_page].to_vec();
        record.dropped = take(&mut self.dropped) + (events.len() - on_page) as u64;
        let failures = take(&mut self.failures).into_iter();
        record.failures = failures
            .map(|(reason, times)| {
                let (status, error) = (kind(reason.status), name_of(reason.status));
                Failure::new(status, reason.entry, &error, reason.cause, times)
            })
            .collect();
        let missing = take(&mut self.missing).into_iter();
        record.missing = missing
            .map(|(entry, times)| Missing { entry, times })
            .collect();
        (record, events)
    }
}

/// Seconds from `zero`.
fn since(start: Instant, zero: Instant) -> f64 {
    start.saturating_duration_since(zero).as_secs_f64()
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::HostToDevice => "host to device",
        Direction::DeviceToHost => "device to host",
        Direction::DeviceToDevice => "device to device",
        Direction::HostToHost => "host to host",
        Direction::Batch => "batch",
        Direction::Fill => "fill",
    }
}

fn kind(status: c_int) -> Kind {
    match status {
        // INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED
        200 | 209 | 218 | 222 | 801 => Kind::Refused,
        // From ILLEGAL_ADDRESS to LAUNCH_FAILED, but not LAUNCH_OUT_OF_RESOURCES, and what has to
        // do with peers and host memory; UNKNOWN
        700 | 702 | 710 | 714..=719 | 999 => Kind::Fault,
        _ => Kind::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu::observe::Transfer;
    use report::Process;

    fn copy(zero: Instant) -> Observed<'static> {
        Observed::Copy(Transfer {
            stream: None,
            direction: Direction::Fill,
            bytes: 8,
            span: Span {
                start: zero,
                time: Duration::from_millis(1),
            },
        })
    }

    #[test]
    fn failures_without_end_do_not_fill_the_memory() {
        let mut news = News::new(false);
        for number in 0..2 * MAX_FAILURES {
            news.failed(Reason {
                entry: "cuMemFree_v2",
                status: 1,
                cause: format!("address {number}"),
            });
        }
        assert_eq!(news.failures.len(), MAX_FAILURES + 1);
        assert_eq!(news.failures.values().sum::<u64>(), 2 * MAX_FAILURES as u64);
    }

    #[test]
    fn events_beyond_the_limit_are_counted() {
        let (zero, process) = (Instant::now(), Process::current());
        let mut news = News::new(false);
        let event = copy(zero);
        for _ in 0..MAX_EVENTS + 5 {
            news.add(&event, zero);
        }
        let (record, _) = news.take(Record::new(&process, 1.0), |_| String::new());
        assert_eq!((record.events.len(), record.dropped), (MAX_EVENTS, 5));
        assert_eq!(record.copies[0].times, MAX_EVENTS as u64 + 5);
        news.add(&event, zero);
        let (record, _) = news.take(Record::new(&process, 1.0), |_| String::new());
        assert_eq!((record.events.len(), record.dropped), (0, 1));
    }

    #[test]
    fn a_trace_has_more_events_than_the_page() {
        let (zero, process) = (Instant::now(), Process::current());
        let mut news = News::new(true);
        let event = copy(zero);
        for _ in 0..MAX_EVENTS + 5 {
            news.add(&event, zero);
        }
        let (record, traced) = news.take(Record::new(&process, 1.0), |_| String::new());
        assert_eq!((record.events.len(), record.dropped), (MAX_EVENTS, 5));
        assert_eq!(traced.len(), MAX_EVENTS + 5);
    }
}
