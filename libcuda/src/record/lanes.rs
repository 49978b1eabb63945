//! The rows of the timeline: streams, and threads of the host that load and compile.

use std::collections::HashMap;
use std::mem::take;
use std::thread::{self, ThreadId};

use cpu::observe::StreamId;

#[derive(Default)]
pub(super) struct Lanes {
    known: HashMap<Key, u32>,
    /// Names of lanes that are not written yet.
    new: Vec<(u32, String)>,
    /// How many of each kind there are.
    default_streams: u32,
    streams: u32,
    threads: u32,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Stream(u64),
    Thread(ThreadId),
    /// Compilations in the background: each has a thread of its own.
    Background,
}

impl Lanes {
    /// The lane of a stream, or that of this thread.
    pub(super) fn of(&mut self, stream: Option<StreamId>) -> u32 {
        let Some(stream) = stream else {
            return self.of_thread(false);
        };
        if let Some(lane) = self.known.get(&Key::Stream(stream.id)) {
            return *lane;
        }
        let name = if stream.is_default {
            numbered("default stream", &mut self.default_streams)
        } else {
            self.streams += 1;
            format!("stream {}", self.streams)
        };
        self.add(Key::Stream(stream.id), name)
    }

    /// The lane of this thread, or that of compilations in the background.
    pub(super) fn of_thread(&mut self, is_background: bool) -> u32 {
        let key = if is_background {
            Key::Background
        } else {
            Key::Thread(thread::current().id())
        };
        if let Some(lane) = self.known.get(&key) {
            return *lane;
        }
        let name = if is_background {
            "background compiler".to_owned()
        } else {
            numbered("host thread", &mut self.threads)
        };
        self.add(key, name)
    }

    fn add(&mut self, key: Key, name: String) -> u32 {
        let lane = self.known.len() as u32;
        self.known.insert(key, lane);
        self.new.push((lane, name));
        lane
    }

    /// The lanes that are new.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u32, String)> + use<> {
        take(&mut self.new).into_iter()
    }
}

/// `name`, and from the second on `name 2`.
fn numbered(name: &str, count: &mut u32) -> String {
    *count += 1;
    if *count == 1 {
        name.to_owned()
    } else {
        format!("{name} {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_a_lane() {
        let mut lanes = Lanes::default();
        let stream = |id, is_default| Some(StreamId { id, is_default });
        assert_eq!(lanes.of(stream(7, true)), 0);
        assert_eq!(lanes.of(stream(9, false)), 1);
        assert_eq!(lanes.of(stream(7, true)), 0);
        assert_eq!(lanes.of(None), 2);
        assert_eq!(lanes.of_thread(true), 3);
        let names: Vec<(u32, String)> = lanes.take().collect();
        let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        let wanted = [
            "default stream",
            "stream 1",
            "host thread",
            "background compiler",
        ];
        assert_eq!(names, wanted);
        assert_eq!(lanes.take().count(), 0);
    }
}
