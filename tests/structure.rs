//! Imports go one way: no cycle of imports crosses folders.
//!
//! The test reads the paths in the sources (`use` declarations and paths in the code)
//! and draws an edge from each file to the files whose items it names, also where a `pub use`
//! of another file exports them. A cycle between two folders, or between a folder and a file
//! beside it, is an error; so no cycle of files crosses folders either. Files in one folder may
//! import each other, except in layered folders, where no cycle between files is allowed. The
//! modules `tests` do not count: a test may use all of its crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder to check, whose module is the crate.
struct Root {
    folder: &'static str,
    /// Subfolders whose files are layered; `""` is the folder itself.
    layered: &'static [&'static str],
}

/// A folder whose files may import each other.
const fn root(folder: &'static str) -> Root {
    Root {
        folder,
        layered: &[],
    }
}

const ROOTS: [Root; 15] = [
    root("src"),
    root("crates/analysis/src"),
    root("crates/api/src"),
    root("crates/build/src"),
    root("crates/cache/src"),
    root("crates/cli/src"),
    Root {
        layered: &[""],
        ..root("crates/cpu/src")
    },
    root("crates/fuzz-kernels/src"),
    root("crates/image/src"),
    root("crates/input/src"),
    root("crates/lint/src"),
    root("crates/occupancy/src"),
    root("crates/ptx/src"),
    root("crates/ptxcheck/src"),
    root("crates/terminal/src"),
];

#[test]
fn no_cycle_of_imports_crosses_folders() {
    for root in ROOTS {
        let folder = root.folder;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let imports = imports(&path, "crate");
        assert!(!imports.is_empty(), "{folder} has no imports");
        let found = cycles(&imports, root.layered);
        assert!(
            found.is_empty(),
            "cycles of imports in {folder}:\n{}",
            found.join("\n")
        );
    }
}

/// A raw name may have line breaks and terminal escapes, and a file may have no end.
#[test]
fn programs_read_files_and_show_names_through_one_crate() {
    const OTHERS: [&str; 5] = [
        ".display()",
        "fs::read(",
        "fs::read_to_string(",
        "File::open(",
        "io::stdin()",
    ];
    // What the programs wrote themselves, and a server's messages.
    const OWN: [&str; 2] = ["cli/src/isolate.rs", "ptxcheck/src/server/transport.rs"];
    for program in ["cli", "ptxcheck", "terminal"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
        let root = folder.join(program).join("src");
        let mut files = Vec::new();
        list(&root, &root, &mut files);
        for file in files {
            let path = root.join(file);
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for other in OTHERS {
                let is_own = OWN.iter().any(|own| path.ends_with(own));
                let line = code.lines().find(|line| line.contains(other));
                assert!(
                    is_own || line.is_none(),
                    "{}: use the crate input for {line:?}",
                    path.display()
                );
            }
        }
    }
}

fn within(file: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}

/// Importing and imported file, relative to the root.
type Imports = BTreeSet<(PathBuf, PathBuf)>;

fn imports(root: &Path, module: &str) -> Imports {
    let mut files = Vec::new();
    list(root, root, &mut files);
    let modules: BTreeMap<String, &PathBuf> = files
        .iter()
        .map(|file| (module_of(module, file), file))
        .collect();
    let paths: BTreeMap<&String, Paths> = modules
        .iter()
        .map(|(module, file)| {
            let source = fs::read_to_string(root.join(file)).unwrap();
            (module, paths(&source, module, &modules))
        })
        .collect();
    // The names by which items are exported, and the paths of the items.
    let exported: BTreeMap<String, &String> = paths
        .iter()
        .flat_map(|(module, paths)| paths.exported.iter().map(move |path| (module, path)))
        .filter_map(|(module, path)| {
            Some((format!("{module}::{}", path.rsplit_once("::")?.1), path))
        })
        .collect();
    let mut imports = Imports::new();
    for (module, file) in &modules {
        let Paths {
            named,
            exported: own,
        } = &paths[module];
        for path in named.iter().chain(own) {
            let mut path = path.clone();
            // Follows the exports to the definition. The limit is for sources that do not
            // compile.
            for _ in 0..10 {
                let Some(item) = prefixes(&path).find_map(|prefix| exported.get(prefix)) else {
                    break;
                };
                path.clone_from(item);
            }
            let named = prefixes(&path).find_map(|prefix| modules.get(prefix));
            if let Some(named) = named.filter(|named| *named != file) {
                imports.insert((file.to_path_buf(), named.to_path_buf()));
            }
        }
    }
    imports
}

fn list(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
}

/// `memory/pool.rs` is `crate::driver::memory::pool`.
fn module_of(root: &str, file: &Path) -> String {
    let mut module = root.to_owned();
    for name in &file.with_extension("") {
        let name = name.to_str().unwrap();
        if !["mod", "lib"].contains(&name) {
            module = format!("{module}::{name}");
        }
    }
    module
}

/// A path and its prefixes, the longest first.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once("::").map(|it| it.0))
}

/// The paths in a file that start in its crate, in full.
#[derive(Default)]
struct Paths {
    /// Those of `pub use` declarations.
    exported: Vec<String>,
    /// All others.
    named: Vec<String>,
}

fn paths(source: &str, module: &str, modules: &BTreeMap<String, &PathBuf>) -> Paths {
    let tokens = tokens(source);
    let mut paths = Paths::default();
    // Inline modules that enclose the token, each with the depth of its braces.
    let mut inner: Vec<(String, usize)> = vec![(module.to_owned(), 0)];
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        let here = inner.last().unwrap().0.clone();
        let previous = at.checked_sub(1).map_or("", |before| tokens[before]);
        match tokens[at] {
            "mod" if tokens.get(at + 2) == Some(&"{") => {
                depth += 1;
                inner.push((format!("{here}::{}", tokens[at + 1]), depth));
                at += 3;
            }
            "{" => {
                depth += 1;
                at += 1;
            }
            "}" => {
                if inner.len() > 1 && inner.last().unwrap().1 == depth {
                    inner.pop();
                }
                depth = depth.saturating_sub(1);
                at += 1;
            }
            // The path of `pub(in path)` imports nothing.
            "in" if previous == "(" => at += 2,
            first if tokens.get(at + 1) == Some(&"::") && !["::", "$"].contains(&previous) => {
                let start = match first {
                    "crate" => Some("crate".to_owned()),
                    "self" => Some(here),
                    "super" => here.rsplit_once("::").map(|it| it.0.to_owned()),
                    child => {
                        let child = format!("{here}::{child}");
                        modules.contains_key(&child).then_some(child)
                    }
                };
                // `pub use`, `pub(crate) use`; not in the inline modules of tests.
                let is_exported = previous == "use"
                    && ["pub", ")"].contains(&tokens[at.saturating_sub(2)])
                    && inner.len() == 1;
                let mut ignored = Vec::new();
                let paths = match is_exported {
                    true => &mut paths.exported,
                    false if inner.iter().any(|(module, _)| is_test(module)) => &mut ignored,
                    false => &mut paths.named,
                };
                at = match start {
                    Some(start) => rest(&tokens, at + 2, &start, paths),
                    None => at + 1,
                };
            }
            _ => at += 1,
        }
    }
    paths
}

fn is_test(module: &str) -> bool {
    module.ends_with("::tests")
}

/// Reads the rest of a path after `start::`; a group in braces is several paths.
fn rest(tokens: &[&str], mut at: usize, start: &str, paths: &mut Vec<String>) -> usize {
    if tokens.get(at) != Some(&"{") {
        let name = tokens.get(at).copied().unwrap_or_default();
        let path = match name {
            "super" => start.rsplit_once("::").map_or("", |it| it.0).to_owned(),
            name => format!("{start}::{name}"),
        };
        if tokens.get(at + 1) == Some(&"::") {
            return rest(tokens, at + 2, &path, paths);
        }
        paths.push(path);
        return at + 1;
    }
    at += 1;
    while let Some(&token) = tokens.get(at) {
        at = match token {
            "}" => return at + 1,
            "," => at + 1,
            "as" => at + 2,
            _ => rest(tokens, at, start, paths),
        };
    }
    at
}

/// Words and punctuation, without comments, strings and characters.
fn tokens(source: &str) -> Vec<&str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let left = &source[at..];
        let find = |end: &str| left.find(end).map_or(left.len(), |found| found + end.len());
        let length = match bytes[at] {
            b'/' if left.starts_with("//") => find("\n"),
            b'/' if left.starts_with("/*") => find("*/"),
            b'r' if left.starts_with("r#\"") => find("\"#"),
            b'"' => string(left.as_bytes()),
            // A character literal, else a lifetime.
            b'\'' if left[1..].starts_with('\\') => 2 + left[2..].find('\'').unwrap_or(0) + 1,
            b'\'' => match left.char_indices().nth(2) {
                Some((end, '\'')) => end + 1,
                _ => 1,
            },
            byte if is_word(byte) => {
                let length = left.bytes().take_while(|&byte| is_word(byte)).count();
                tokens.push(&left[..length]);
                length
            }
            b':' if left.starts_with("::") => {
                tokens.push("::");
                2
            }
            _ => {
                let character = left.chars().next().map_or(1, char::len_utf8);
                if !bytes[at].is_ascii_whitespace() {
                    tokens.push(&left[..character]);
                }
                character
            }
        };
        at += length.max(1);
    }
    tokens
}

/// The length in bytes of the string literal that starts here.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// For each folder, the cycles among its entries, with the imports between them: all in
/// a layered folder, in another those that contain a subfolder.
fn cycles(imports: &Imports, layered: &[&str]) -> Vec<String> {
    let folders: BTreeSet<&Path> = imports
        .iter()
        .flat_map(|(file, named)| [file, named])
        .filter_map(|file| file.parent())
        .flat_map(Path::ancestors)
        .collect();
    let mut cycles = Vec::new();
    for folder in folders {
        // The imports between two entries of the folder.
        let mut between: BTreeMap<(&Path, &Path), Vec<String>> = BTreeMap::new();
        for (file, named) in imports {
            if let (Some(one), Some(other)) = (entry(folder, file), entry(folder, named))
                && one != other
            {
                let import = format!("    {} -> {}", file.display(), named.display());
                between.entry((one, other)).or_default().push(import);
            }
        }
        let edges: BTreeSet<(&Path, &Path)> = between.keys().copied().collect();
        for cycle in cycles_of(&edges) {
            let files_only = cycle.iter().all(|entry| entry.extension().is_some());
            if files_only && !within(folder, layered) {
                continue;
            }
            let names: Vec<_> = cycle.iter().map(|it| it.display().to_string()).collect();
            cycles.push(format!("  {}", names.join(", ")));
            for ((one, other), lines) in &between {
                if cycle.contains(one) && cycle.contains(other) {
                    cycles.extend(lines.iter().cloned());
                }
            }
        }
    }
    cycles
}

/// The entry of a folder that is the file or contains it.
fn entry<'a>(folder: &Path, file: &'a Path) -> Option<&'a Path> {
    let depth = file.strip_prefix(folder).ok()?.components().count();
    file.ancestors().nth(depth.checked_sub(1)?)
}

/// Groups of two or more nodes that reach each other.
fn cycles_of<'a>(edges: &BTreeSet<(&'a Path, &'a Path)>) -> Vec<BTreeSet<&'a Path>> {
    let reached = |from: &'a Path| {
        let mut reached = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(one) = pending.pop() {
            for &(_, other) in edges.iter().filter(|(start, _)| *start == one) {
                if reached.insert(other) {
                    pending.push(other);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&Path, BTreeSet<&Path>> = edges
        .iter()
        .flat_map(|&(one, other)| [one, other])
        .map(|entry| (entry, reached(entry)))
        .collect();
    let mut cycles: Vec<BTreeSet<&Path>> = Vec::new();
    for (entry, reached) in &all {
        let cycle: BTreeSet<&Path> = reached
            .iter()
            .copied()
            .filter(|other| all[other].contains(entry))
            .collect();
        if !cycle.is_empty() && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}

#[test]
fn a_cycle_is_found_however_it_is_written() {
    let root = std::env::temp_dir().join(format!("ptxkit-structure-{}", std::process::id()));
    let files = [
        ("mod.rs", "mod low; mod high; pub use high::top::Top;"),
        (
            "low/mod.rs",
            "pub(crate) mod a;\nmod b { use super::super::high::top; }",
        ),
        (
            "low/a.rs",
            "// crate::x::high\nuse super::Low; const S: &str = \"crate::x::high::top\";\n\
             #[cfg(test)] mod tests { use crate::x::high::top; }",
        ),
        ("high/mod.rs", "pub(crate) mod top;"),
        (
            "high/top.rs",
            "use crate::x::{low::{a::A, Low}, high as other}; fn f(c: char) { c == '\"'; }",
        ),
        ("user.rs", "use super::Top;"),
    ];
    for (file, source) in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, source).unwrap();
    }
    let imports = imports(&root, "crate::x");
    fs::remove_dir_all(&root).unwrap();
    let lines: Vec<String> = imports
        .iter()
        .map(|(file, named)| format!("{} -> {}", file.display(), named.display()))
        .collect();
    assert_eq!(
        lines,
        [
            "high/top.rs -> high/mod.rs",
            "high/top.rs -> low/a.rs",
            "high/top.rs -> low/mod.rs",
            "low/a.rs -> low/mod.rs",
            "low/mod.rs -> high/top.rs",
            "mod.rs -> high/top.rs",
            "user.rs -> high/top.rs",
        ]
    );
    let found = cycles(&imports, &[]);
    assert_eq!(found[0], "  high, low");
    // Without the edge back there is none; files of one folder may import each other if it
    // is not layered.
    let mut one_way = imports;
    one_way.remove(&("low/mod.rs".into(), "high/top.rs".into()));
    one_way.insert(("low/mod.rs".into(), "low/a.rs".into()));
    assert!(cycles(&one_way, &[]).is_empty());
    for layered in ["low", ""] {
        assert_eq!(cycles(&one_way, &[layered])[0], "  low/a.rs, low/mod.rs");
    }
    assert!(cycles(&one_way, &["high"]).is_empty());
}
