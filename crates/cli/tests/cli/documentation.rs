//! What README.md and `docs/` say is what the program does.

use super::*;

#[path = "../../../../docs/console.rs"]
mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(&program())) > 0);
}

/// Files move; what CONTRIBUTING.md says of them goes with them.
#[test]
fn contributing_names_files_that_exist() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let Ok(text) = std::fs::read_to_string(root.join("CONTRIBUTING.md")) else {
        return; // a packed test, away from the sources
    };
    let folders = ["benches/", "crates/", "docs/", "scripts/", "src/", "tests/"];
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|quoted| {
        let is_path = folders.iter().any(|folder| quoted.starts_with(folder));
        is_path && !quoted.contains(' ') && !quoted.contains("NAME")
    });
    let missing: Vec<_> = paths.filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
