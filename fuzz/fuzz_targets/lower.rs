//! A module under the lowest version and target that it needs is right, and
//! one that is lowered has nothing else changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::ast::Version;
use ptxkit::ptx::version::{lower, needed};
use ptxkit::ptx::{check, read};

fuzz_target!(|source: &str| {
    let module = read(source).module;
    let needed = needed(&module, source);
    let version = match &needed {
        Some(needed) => needed.version,
        None => Version { major: 8, minor: 0 },
    };
    let Ok(text) = lower(&module, source, version) else {
        return;
    };
    let again = read(&text);
    assert_eq!(again.module.items.len(), module.items.len());
    if needed.is_some() {
        assert_eq!(check(&again.module, &text), [], "{text}");
    }
});
