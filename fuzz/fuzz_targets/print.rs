//! What was read without a mistake, printed and read again, prints the same; its
//! canonical form is canonical.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxkit::ptx::printer::{format, print};
use ptxkit::ptx::read;

fuzz_target!(|source: &str| {
    let reading = read(source);
    let printed = print(&reading.module);
    if !reading.diagnostics.is_empty() {
        return;
    }
    let again = read(&printed);
    assert_eq!(again.diagnostics, [], "{printed}");
    // Directives keep the white space of their text, which printing makes one.
    assert_eq!(print(&again.module), printed);
    let tidy = format(source).expect("it was read without a mistake");
    assert_eq!(read(&tidy).diagnostics, [], "{tidy}");
    assert_eq!(format(&tidy).as_ref(), Ok(&tidy));
});
