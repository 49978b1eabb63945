//! What the README shows is what the program says.

use super::*;

#[test]
fn the_example_is_the_output() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    // Packed tests run where there is none.
    let Ok(readme) = std::fs::read_to_string(folder.join("README.md")) else {
        return;
    };
    let cases = folder.join("crates/ptxcheck/tests/check/cases");
    let ran = ptxcheck(&cases, &["scale.ptx", "--isolated"]);
    let block = format!("```text\n{}```\n", ran.out);
    assert!(readme.contains(&block), "the README does not have\n{block}");
}

/// The hook of the README is the one that the repository offers.
#[test]
fn hooks_are_the_same() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let texts = ["README.md", ".pre-commit-hooks.yaml"];
    let texts = texts.map(|name| std::fs::read_to_string(folder.join(name)));
    let [Ok(readme), Ok(offered)] = texts else {
        return;
    };
    for line in ["id: ptxcheck\n", "entry: ptxcheck\n", "files: \\.ptx$\n"] {
        assert!(readme.contains(line) && offered.contains(line), "{line}");
    }
}
