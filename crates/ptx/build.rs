//! Gives this crate an identity, a hash of its sources, and writes the rows of the table of
//! instructions as Rust.
//!
//! Caches keep what is made by reading PTX, under keys that hold the identity. A version
//! number alone would let a changed reader find what the one before made.

use std::fmt::Write;
use std::path::{Path, PathBuf};

#[path = "src/isa/lines.rs"]
mod lines;

/// The files of the table. Of two rows with one opcode, that of the earlier file comes first.
const FAMILIES: &[&str] = &[
    "integer",
    "extended",
    "float",
    "half",
    "packed",
    "convert",
    "compare",
    "logic",
    "video",
    "move",
    "memory",
    "cache",
    "fence",
    "atomic",
    "multimem",
    "control",
    "barrier",
    "warp",
    "cluster",
    "async",
    "bulk",
    "tensor_copy",
    "mbarrier",
    "fabric",
    "sparse",
    "matrix",
    "wmma",
    "mma",
    "wgmma",
    "tcgen05",
    "texture",
    "surface",
];

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    write_rows()?;
    let mut files = vec![PathBuf::from("build.rs")];
    collect(Path::new("src"), &mut files);
    files.sort();
    // FNV-1a: changes are told apart, nothing is defended against.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in std::fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=PTXKIT_PTX_SOURCES={hash:016x}");
    Ok(())
}

/// Writes what `src/isa/mod.rs` includes.
fn write_rows() -> std::io::Result<()> {
    let (mut lists, mut rows) = (Vec::new(), Vec::new());
    for family in FAMILIES {
        let text = std::fs::read_to_string(format!("src/isa/forms/{family}.txt"))?;
        for line in lines::lines(&text) {
            match lines::list(&line) {
                Some((name, words)) => lists.push((name.to_owned(), words.to_owned())),
                None => rows.push(line),
            }
        }
    }
    let mut heads: Vec<_> = rows
        .iter()
        .map(|row| (lines::Head::new(row, &lists), row))
        .collect();
    // A stable sort: the rows of an opcode stay in order.
    heads.sort_by_key(|(head, _)| head.opcode);
    let count = heads.len();
    let mut rust = format!("static LISTS: &row::Lists<'static> = &{lists:?};\n");
    let _ = writeln!(rust, "static ROWS: [Row; {count}] = [");
    for (head, row) in heads {
        let groups: Vec<_> = head.required.iter().map(|group| modifiers(group)).collect();
        let (opcode, words) = (head.opcode, modifiers(&head.opcode_words));
        let _ = writeln!(
            rust,
            "Row::new({opcode:?}, {words}, &[{}], {row:?}),",
            groups.join(", ")
        );
    }
    rust.push_str("];\n");
    let folder = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(Path::new(&folder).join("rows.rs"), rust)
}

/// A slice of these words of the language, by their Rust names.
fn modifiers(words: &[&str]) -> String {
    let words = words
        .iter()
        .map(|word| format!("Modifier::{}", rust_name(word)));
    format!("&[{}]", words.collect::<Vec<_>>().join(", "))
}

/// As `src/names.rs` derives it: `shared::cta` is `SharedCta`, `4b` is `N4b`, `sp::2:4` is
/// `Sp2Of4`.
fn rust_name(word: &str) -> String {
    let mut name = String::new();
    let mut begins = true;
    for letter in word.replace("::", "_").replace(':', "_of_").chars() {
        match letter {
            '_' => begins = true,
            _ if begins => {
                if name.is_empty() && letter.is_ascii_digit() {
                    name.push('N');
                }
                name.push(letter.to_ascii_uppercase());
                begins = false;
            }
            _ => name.push(letter),
        }
    }
    name
}

/// The Rust files, and the tables of instructions, which are text.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
