//! Any module can be cut, and the slices of one without mistakes have none either.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::slice::{cut, cut_always_for, HostAccess, Slices};
use ptxkit::ptx::{check, read};

/// Kernels behind the module, so that it has enough text and kernels to be cut.
static KERNELS: LazyLock<String> = LazyLock::new(|| {
    let body = "bar.sync 0;\n".repeat(1000);
    (0..8)
        .map(|n| format!("\n.entry kernel_{n}() {{\n{body}ret;\n}}"))
        .collect()
});

fuzz_target!(|source: &str| {
    let long = format!("{source}{}", *KERNELS);
    slices_are_right(&long, &cut(&long, &read(&long).module));
    for access in [HostAccess::Writes, HostAccess::Addresses] {
        slices_are_right(
            source,
            &cut_always_for(source, &read(source).module, access),
        );
    }
});

fn slices_are_right(source: &str, slices: &Slices) {
    let reading = read(source);
    let right = reading.diagnostics.is_empty() && check(&reading.module, source).is_empty();
    for slice in slices.slices() {
        let text = slice.text(source);
        slice.original_line(source, 9);
        if right {
            let reading = read(&text);
            assert_eq!(reading.diagnostics, [], "{text}");
            assert_eq!(check(&reading.module, &text), [], "{text}");
        }
    }
}
