//! What README.md and `docs/` say is what the program does.

use super::*;

#[path = "../../../../docs/console.rs"]
pub mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(&program())) > 0);
}

/// Files move; what the documentation says of them goes with them.
#[test]
fn named_files_exist() {
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
    let mut missing: Vec<_> = paths.filter(|path| !root.join(path).exists()).collect();

    let book = std::fs::read_dir(root.join("docs")).unwrap();
    let pages = book.map(|file| file.unwrap().path());
    let pages = pages.chain([root.join("README.md")]);
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let pages: Vec<_> = pages
        .map(|page| (std::fs::read_to_string(&page).unwrap(), page))
        .collect();
    for (text, page) in &pages {
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split([')', '#']).next());
        let files = links.filter(|link| !link.is_empty() && !link.contains("://"));
        missing.extend(files.filter(|link| !page.with_file_name(link).exists()));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn shells_and_man_are_told() {
    let cache = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let ran = ptxkit(cache.path(), &["completions", shell]);
        assert!(
            ran.status.success() && stdout(&ran).contains("assemble"),
            "{shell}"
        );
    }
    for (page, words) in [
        (&["man"][..], ".TH ptxkit 1"),
        (&["man", "cache", "list"], "ptxkit\\-cache\\-list"),
    ] {
        let ran = ptxkit(cache.path(), page);
        assert!(
            stdout(&ran).contains(words),
            "{}{}",
            stdout(&ran),
            stderr(&ran)
        );
    }
    let ran = ptxkit(cache.path(), &["man", "none"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(stderr(&ran).contains("`cache`"), "{}", stderr(&ran));
}
