//! Chrome traces, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open.
//!
//! The file is a JSON array of events without the closing `]`, which the format lets programs leave out: so several
//! processes append to one file, and a killed process leaves a file that loads. For another JSON parser append `]`.

use std::io::Result;
use std::path::Path;

use serde_json::json;

use super::file::append;
use super::record::{Event, Lane, Process};

/// Appends lanes and events of a process.
///
/// Times are microseconds since 1970, so that those of several processes fit together.
///
/// # Errors
/// The file cannot be written.
///
/// ```
/// use ptxkit_report::{Event, EventKind, Lane, Process, trace};
///
/// let path = std::env::temp_dir().join(format!("trace-{}.json", std::process::id()));
/// let lane = Lane { id: 0, name: "default stream".into() };
/// let event = Event {
///     kind: EventKind::Launch,
///     lane: 0,
///     start: 0.25,
///     seconds: 0.5,
///     name: "scale".into(),
///     bytes: None,
///     grid: Some([4, 1, 1]),
///     block: Some([256, 1, 1]),
///     fault: None,
/// };
/// trace::append_events(&path, &Process::current(), &[lane], &[event])?;
/// let events: Vec<serde_json::Value> =
///     serde_json::from_str(&(std::fs::read_to_string(&path)? + "]"))?;
/// assert_eq!(events[2]["dur"], 500_000.0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn append_events(
    path: &Path,
    process: &Process,
    lanes: &[Lane],
    events: &[Event],
) -> Result<()> {
    let mut lines = Vec::new();
    // The first lane comes with the first event.
    if lanes.iter().any(|lane| lane.id == 0) {
        let name = process.command.join(" ");
        lines.push(metadata("process_name", process.id, 0, &name));
    }
    for lane in lanes {
        lines.push(metadata("thread_name", process.id, lane.id, &lane.name));
    }
    lines.extend(events.iter().map(|event| complete(process, event)));
    if lines.is_empty() {
        return Ok(());
    }
    append(path, |is_empty| {
        let start = if is_empty { "[" } else { "," };
        format!("{start}{}\n", lines.join("\n,"))
    })
}

fn metadata(kind: &str, process: u32, lane: u32, name: &str) -> String {
    json!({"ph": "M", "name": kind, "pid": process, "tid": lane, "args": {"name": name}})
        .to_string()
}

/// An event with its duration.
fn complete(process: &Process, event: &Event) -> String {
    let mut args = serde_json::Map::new();
    let mut add = |name: &str, value: serde_json::Value| {
        args.insert(name.into(), value);
    };
    if let Some(bytes) = event.bytes {
        add("bytes", bytes.into());
    }
    if let Some(grid) = event.grid {
        add("grid", json!(grid));
    }
    if let Some(block) = event.block {
        add("block", json!(block));
    }
    if let Some(fault) = &event.fault {
        add("fault", fault.as_str().into());
    }
    // In 64 bits of floating point microseconds since 1970 have no room for nanoseconds.
    let nanoseconds =
        u128::from(process.started) * 1_000_000 + (event.start.max(0.0) * 1e9).round() as u128;
    format!(
        "{{\"ph\":\"X\",\"ts\":{}.{:03},\"dur\":{:.3},\"pid\":{},\"tid\":{},\"cat\":{},\"name\":{},\"args\":{}}}",
        nanoseconds / 1000,
        nanoseconds % 1000,
        event.seconds * 1e6,
        process.id,
        event.lane,
        json!(event.kind),
        json!(event.name),
        serde_json::Value::Object(args),
    )
}
