//! Notices when the CPU device has compiled a hot kernel a second time, by its tracing event.

use std::fmt::Debug;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// The number of second compilations of this process that have ended. The first call starts to
/// count.
pub fn finished() -> usize {
    static START: Once = Once::new();
    START.call_once(|| {
        // Where another subscriber is set, nothing is counted.
        let _ = tracing::subscriber::set_global_default(Counter);
    });
    FINISHED.load(Ordering::Acquire)
}

struct Counter;

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ptxkit_cpu")
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" && format!("{value:?}") == "a hot kernel has optimized code" {
            FINISHED.fetch_add(1, Ordering::Release);
        }
    }
}
