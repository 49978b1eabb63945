//! What README.md and `docs/` say is what the program does.

use super::*;

#[path = "../../../../docs/console.rs"]
mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(&program())) > 0);
}
