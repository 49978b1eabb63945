//! Catches the warnings of a test, which are part of what the cache promises.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What `f` gives and the warnings that it emitted on this thread.
pub fn warnings_of<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    // Of a thread without any subscriber `tracing` learns that nobody listens
    // to a message, and believes it of the other threads too.
    static SINK: Once = Once::new();
    SINK.call_once(|| {
        let _ = tracing::subscriber::set_global_default(Warnings::default());
    });
    let warnings = Warnings::default();
    let value = tracing::subscriber::with_default(warnings.clone(), f);
    let texts = std::mem::take(&mut *warnings.0.lock().unwrap_or_else(PoisonError::into_inner));
    (value, texts)
}

#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    // Everything is enabled, so that no other test's callsite cache hides a warning.
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == Level::WARN {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(text.0);
        }
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
