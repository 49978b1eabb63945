//! What was read without a mistake, printed and read again is the same module,
//! and so is its canonical form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::printer::{format, print};
use ptxkit::ptx::read;

#[path = "../../tests/conformance/shape.rs"]
mod shape;

fuzz_target!(|source: &str| {
    let reading = read(source);
    let printed = print(&reading.module);
    if !reading.diagnostics.is_empty() {
        return;
    }
    let again = read(&printed);
    assert_eq!(again.diagnostics, [], "{printed}");
    assert_eq!(
        shape::shape(&reading.module),
        shape::shape(&again.module),
        "{:?}\n{:?}\n{printed}",
        reading.module,
        again.module
    );
    let tidy = format(source).expect("it was read without a mistake");
    assert_eq!(read(&tidy).diagnostics, [], "{tidy}");
    assert_eq!(format(&tidy).as_ref(), Ok(&tidy));
});
