//! Tests of passes by text. Each file of `text/` begins with `// pass NAME`. The PTX of one kernel
//! follows, then `// ----` and the expected program after that pass, in comments.
//! `PTXKIT_TEST_REFRESH=1` rewrites the expected programs.

use std::fs;
use std::path::Path;

use super::passes::AFTER;
use super::test_program::with_program;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/program/text");
const MARK: &str = "// ----\n";

#[test]
fn programs_after_passes() {
    let mut wrong = Vec::new();
    let mut files: Vec<_> = fs::read_dir(FOLDER).unwrap().flatten().collect();
    assert!(!files.is_empty());
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let text = fs::read_to_string(file.path()).unwrap();
        let (source, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let found = after(source);
        if found == expected {
            continue;
        }
        match std::env::var_os("PTXKIT_TEST_REFRESH") {
            Some(_) => refresh(&file.path(), source, &found),
            None => wrong.push(format!("{}:\n{found}", file.path().display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comment with the program after the pass that the first line names.
fn after(source: &str) -> String {
    let pass = source.lines().next().unwrap_or_default();
    let pass = pass.strip_prefix("// pass ").expect("// pass NAME");
    AFTER.with_borrow_mut(Vec::clear);
    with_program(source, |_| ());
    let passes = AFTER.with_borrow_mut(std::mem::take);
    let of_pass = passes.into_iter().find(|(name, _)| name == pass);
    let (_, program) = of_pass.unwrap_or_else(|| panic!("there is no pass {pass}"));
    program.lines().map(|line| format!("// {line}\n")).collect()
}

fn refresh(path: &Path, source: &str, found: &str) {
    fs::write(path, format!("{source}{MARK}{found}")).unwrap();
}
