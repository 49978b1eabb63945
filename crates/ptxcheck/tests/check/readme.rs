//! What README.md and `docs/` say is what the program does.

use super::*;

#[path = "../../../../docs/console.rs"]
mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(program().get_program())) > 0);
}

/// The hook that the documentation shows is the one that the repository offers.
#[test]
fn hooks_are_the_same() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let texts = ["docs/check.md", ".pre-commit-hooks.yaml"];
    let texts = texts.map(|name| std::fs::read_to_string(folder.join(name)));
    let [Ok(shown), Ok(offered)] = texts else {
        return;
    };
    for line in ["id: ptxcheck\n", "entry: ptxcheck\n", "files: \\.ptx$\n"] {
        assert!(shown.contains(line) && offered.contains(line), "{line}");
    }
}
