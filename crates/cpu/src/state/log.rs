//! What the CPU device says of each call that fails, for programs that ask for the driver's log.

use std::collections::VecDeque;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::LogsCallback;

/// As many bytes of messages are kept as by NVIDIA's driver.
const MOST_BYTES: usize = 25_600;

struct Log {
    /// The number of the first line that is kept.
    first: c_uint,
    lines: VecDeque<String>,
    bytes: usize,
    listeners: Vec<Listener>,
    listeners_made: usize,
}

#[derive(Clone, Copy)]
struct Listener {
    number: usize,
    callback: LogsCallback,
    data: usize,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    first: 0,
    lines: VecDeque::new(),
    bytes: 0,
    listeners: Vec::new(),
    listeners_made: 0,
});

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a message and tells it to those that listen.
pub(crate) fn add(message: &str) {
    let mut line = message.replace('\n', " ");
    line.push('\n');
    let listeners = {
        let mut log = log();
        log.bytes += line.len();
        log.lines.push_back(line.clone());
        while log.bytes > MOST_BYTES
            && let Some(old) = log.lines.pop_front()
        {
            log.bytes -= old.len();
            log.first += 1;
        }
        log.listeners.clone()
    };
    for listener in listeners {
        if let Some(callback) = listener.callback {
            let data: *mut c_void = std::ptr::with_exposed_provenance_mut(listener.data);
            let length = line.len();
            // SAFETY: the program registered the function with this argument, for a level (0 is
            // an error) and a message with its length.
            unsafe { callback(data, 0, line.as_mut_ptr().cast(), length) }
        }
    }
}

/// The number of the next message.
pub(crate) fn next() -> c_uint {
    let log = log();
    log.first + log.lines.len() as c_uint
}

/// The last messages from a number on that are no longer than `most` bytes together, how many
/// messages there were, and the number of the next.
pub(crate) fn from(number: c_uint, most: usize) -> (String, usize, c_uint) {
    let log = log();
    let skipped = number.saturating_sub(log.first) as usize;
    let lines = || log.lines.iter().skip(skipped);
    let mut room = most;
    let fitting = lines()
        .rev()
        .take_while(|line| {
            let fits = line.len() <= room;
            room = room.saturating_sub(line.len());
            fits
        })
        .count();
    let count = lines().count();
    let text = lines().skip(count - fitting).map(String::as_str).collect();
    (text, count, log.first + log.lines.len() as c_uint)
}

pub(crate) fn listen(callback: LogsCallback, data: usize) -> usize {
    let mut log = log();
    log.listeners_made += 1;
    let number = log.listeners_made;
    log.listeners.push(Listener {
        number,
        callback,
        data,
    });
    number
}

/// Whether there was such a listener.
pub(crate) fn unlisten(number: usize) -> bool {
    let mut log = log();
    let before = log.listeners.len();
    log.listeners.retain(|listener| listener.number != number);
    log.listeners.len() < before
}
