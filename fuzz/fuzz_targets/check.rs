//! Whatever can be read can be checked, its mistakes left out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::{check, read};

fuzz_target!(|source: &str| {
    let reading = read(source);
    for diagnostic in check(&reading.module, source) {
        let (start, end) = (diagnostic.span.start, diagnostic.span.end);
        assert!(
            start <= end && end as usize <= source.len(),
            "{diagnostic:?}"
        );
    }
});
