//! What README.md and `docs/` say is what the program does.

use super::*;

#[path = "../../../../docs/console.rs"]
mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(program().get_program())) > 0);
}

#[test]
fn commands_without_output_succeed() {
    assert!(console::succeed(Path::new(program().get_program())) > 0);
}

fn text(name: &str) -> Option<String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(name)).ok()
}

/// The hook that the documentation shows is one that the repository offers.
#[test]
fn hooks_are_the_same() {
    let (Some(shown), Some(offered)) = (text("docs/check.md"), text(".pre-commit-hooks.yaml"))
    else {
        return;
    };
    for line in ["- id: ptxcheck\n", "- id: ptxcheck-fix\n"] {
        assert!(shown.contains(line) && offered.contains(line), "{line}");
    }
}

/// pre-commit installs the wheel of this version.
#[test]
fn the_hook_is_of_this_version() {
    let Some(package) = text("pyproject.toml") else {
        return;
    };
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        format!("version = \"{version}\""),
        format!("\"ptxcheck=={version}\""),
    ] {
        assert!(package.contains(&line), "{line}");
    }
}

/// Every option and command stands in the documentation.
#[test]
fn every_option_is_documented() {
    let Some(documented) = text("docs/check.md") else {
        return;
    };
    let help = ptxcheck(Path::new("."), &["--help"]).out;
    let words = help.split_whitespace();
    let options = words.filter_map(|word| word.strip_prefix("--"));
    let options = options.map(|word| word.split(|c: char| c != '-' && !c.is_alphabetic()).next());
    for option in options
        .flatten()
        .filter(|word| !["help", "version"].contains(word))
    {
        let name = format!("--{option}");
        assert!(documented.contains(&name), "{name} is not in docs/check.md");
    }
}
