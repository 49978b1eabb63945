//! Any bytes can be read, and what is said of them lies inside of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::diagnostic::{LineIndex, render};
use ptxkit::ptx::{Ptx, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ptx) = Ptx::from_bytes(bytes, "fuzzed") {
        let _ = (ptx.version(), ptx.target(), ptx.kernels());
    }
    let Ok(source) = str::from_utf8(bytes) else {
        return;
    };
    let reading = read(source);
    let lines = LineIndex::new(source);
    for diagnostic in &reading.diagnostics {
        let (start, end) = (diagnostic.span.start, diagnostic.span.end);
        assert!(
            start <= end && end as usize <= source.len(),
            "{diagnostic:?}"
        );
        assert!(lines.locate(start) <= lines.locate(end));
    }
    if let Some(first) = reading.diagnostics.first() {
        let _ = render(source, "fuzzed", first);
    }
});
