//! Tests by text. Each file of `text/` begins with a command. PTX with one kernel follows, then `// ----` and
//! the expected output of the command, in comments. `PTXKIT_TEST_REFRESH=1` rewrites the expected outputs.
//!
//! | command | output |
//! |---|---|
//! | `// pass NAME` | the program after the pass |
//! | `// compile avx512` or `avx2` | the vector code before registers are allocated, without cold blocks |
//! | `// run GRID BLOCK N` | the first N words that the kernel `k(in, out, n)` writes to `out`, scalar and vectorized |

use std::fs;
use std::path::Path;

use super::lanes::run;
use crate::codegen::Vectorization;
use crate::compile::CompileOptions;
use crate::dump::RECORDS;
use crate::processor;
use crate::simd::{IN_TESTS, Isa};
use crate::source::compile_image;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/text");
const MARK: &str = "// ----\n";

#[test]
fn outputs_of_commands() {
    let mut wrong = Vec::new();
    let mut files: Vec<_> = fs::read_dir(FOLDER).unwrap().flatten().collect();
    assert!(!files.is_empty());
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let text = fs::read_to_string(file.path()).unwrap();
        let (source, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        // This processor may not have the vectors of a test.
        let Some(found) = output(source) else {
            continue;
        };
        let found: String = found
            .lines()
            .map(|line| format!("// {line}").trim_end().to_owned() + "\n")
            .collect();
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

/// The output of the command in the first line; `None` if this processor cannot execute it.
fn output(source: &str) -> Option<String> {
    let line = source.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    Some(match words[..] {
        ["pass", name] => dumped(source, name, Vectorization::Never),
        ["compile", isa @ ("avx512" | "avx2")] => {
            let isa = if isa == "avx2" {
                Isa::Avx2
            } else {
                Isa::Avx512
            };
            if !processor::has(isa.feature()) {
                return None;
            }
            IN_TESTS.set(Some(isa));
            let text = dumped(source, "simd", Vectorization::Always);
            IN_TESTS.set(None);
            // Cold blocks are last.
            let hot = text.lines().take_while(|line| !line.ends_with(": cold"));
            hot.map(|line| line.to_owned() + "\n").collect()
        }
        ["run", grid, block, n] => {
            let [grid, block, n] = [grid, block, n].map(|word| word.parse().unwrap());
            let modes = [Vectorization::Never, Vectorization::Always];
            let results = modes.map(|mode| run(source, mode, grid, [block, 1, 1], n).unwrap());
            let [alone, together] = results.each_ref().map(|words| &words[..n as usize]);
            assert_eq!(alone, together);
            let rows = alone.chunks(8).map(|row| {
                let words: Vec<_> = row.iter().map(u32::to_string).collect();
                words.join(" ") + "\n"
            });
            rows.collect()
        }
        _ => panic!("{line}: not a command"),
    })
}

/// The first dump with a title while a module is compiled.
fn dumped(source: &str, title: &str, vectorization: Vectorization) -> String {
    RECORDS.with_borrow_mut(|records| *records = Some(Vec::new()));
    let compiled = compile_image(source, &CompileOptions { vectorization });
    let records = RECORDS.take().unwrap_or_default();
    compiled.unwrap_or_else(|error| panic!("{error}"));
    let found = records.into_iter().find(|(known, _)| known == title);
    found
        .unwrap_or_else(|| panic!("nothing is dumped as {title}"))
        .1
}

fn refresh(path: &Path, source: &str, found: &str) {
    fs::write(path, format!("{source}{MARK}{found}")).unwrap();
}
