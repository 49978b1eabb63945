//! Runs the commands that README.md and the pages in `docs` show, and
//! compares what they print with what stands there. Both programs' tests include
//! this file, as each can only run its own program.
//!
//! A block marked `console` has commands after `$ `, and what they print below.
//! The commands of one page run in one new folder, which has `ptx-samples` and
//! `docs/examples`; what one exports, the later ones have too. `PTXKIT_WRITE_DOCS=1`
//! writes anew what has changed.
//!
//! A block marked `console,remote` needs servers, and a program that can use them.
//!
//! A block marked `sh` shows commands alone. If all of them are ours, they run in a folder that
//! has the files which pages speak of (`STAGED`), and must succeed. Those marked `sh,nvidia` need
//! a program of NVIDIA, and do not run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository, unless a packed test runs without one.
fn repository() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("README.md").is_file().then_some(root)
}

/// Compares the blocks whose commands run `program`; returns how many commands
/// there are.
pub fn compare(program: &Path) -> usize {
    compare_marked(program, "console", &[])
}

/// The same for blocks with this mark. Of each pair in `stands_for`, the first is what the
/// page shows in place of the second.
pub fn compare_marked(program: &Path, mark: &str, stands_for: &[(&str, String)]) -> usize {
    let fence = format!("```{mark}\n");
    let Some(root) = repository() else {
        return 1;
    };
    let mut count = 0;
    for page in pages(&root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = folder(&root);
        let (mut made, mut differs, mut exports) = (String::new(), false, String::new());
        for (number, part) in text.split_inclusive("```\n").enumerate() {
            // A block ends where a part ends; its fence stands before it.
            let Some((before, block)) = part.split_once(&fence) else {
                made.push_str(part);
                continue;
            };
            let block = block.strip_suffix("```\n").unwrap();
            if runs(block) != program.file_stem().unwrap() {
                made.push_str(part);
                continue;
            }
            made.push_str(&format!("{before}{fence}"));
            for (command, shown) in commands(block) {
                count += 1;
                let mut script = format!("{exports}{command}");
                for (shown, real) in stands_for {
                    script = script.replace(shown, real);
                }
                let mut printed = run(program, folder.path(), &script);
                for (shown, real) in stands_for {
                    printed = printed.replace(real, shown);
                }
                if ["export ", "unset "]
                    .iter()
                    .any(|word| command.starts_with(word))
                {
                    exports += &format!("{command}\n");
                }
                let same = masked(&printed) == masked(shown);
                differs |= !same;
                if !same && std::env::var_os("PTXKIT_WRITE_DOCS").is_none() {
                    panic!(
                        "{}, block {number}: `{command}` prints\n{printed}\ninstead of\n{shown}\n\
                         PTXKIT_WRITE_DOCS=1 writes it anew",
                        page.display()
                    );
                }
                let printed = if same { shown } else { &printed };
                made.push_str(&format!("$ {command}\n{printed}"));
                if !made.ends_with('\n') {
                    made.push('\n');
                }
            }
            made.push_str("```\n");
        }
        if differs {
            std::fs::write(&page, made).unwrap();
        }
    }
    count
}

/// README.md and the pages of the book.
pub fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    let book = std::fs::read_dir(root.join("docs")).unwrap();
    pages.extend(book.map(|file| file.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// The fenced blocks of a page: the mark behind the fence, and the text.
pub fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut open = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        if let Some(mark) = line.trim().strip_prefix("```") {
            open = match open {
                Some((mark, from)) => {
                    blocks.push((mark, &page[from..at]));
                    None
                }
                None => Some((mark, at + line.len())),
            };
        }
        at += line.len();
    }
    blocks
}

/// Whether a block marked `sh` has commands of ours alone.
pub fn is_ours(block: &str) -> bool {
    let ours = [
        "ptxkit ",
        "ptxcheck ",
        "ptxkit-ptxas ",
        "cargo run --release -- ",
    ];
    let lines = block
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines = lines.peekable();
    lines.peek().is_some() && lines.all(|line| ours.iter().any(|word| line.starts_with(word)))
}

/// Runs the blocks marked `sh` that are about `program` alone; returns how many there are.
pub fn succeed(program: &Path) -> usize {
    let Some(root) = repository() else {
        return 1;
    };
    let mut count = 0;
    for page in pages(&root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let ours = blocks(&text).into_iter().filter(|(mark, block)| {
            *mark == "sh" && is_ours(block) && runs(block) == program.file_stem().unwrap()
        });
        for (_, block) in ours {
            count += 1;
            // Pages check all PTX of a folder, so those of samples must not lie there.
            let folder = match runs(block) {
                "ptxcheck" => tempfile::tempdir().unwrap(),
                _ => folder(&root),
            };
            let home = folder.path().display().to_string();
            for (from, to) in STAGED {
                let to = folder.path().join(to);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(root.join(from), to).unwrap();
            }
            let mut script =
                format!("HOME={home}\nptxkit_ptxas() {{ ptxkit ptxas \"$@\"; }}\n{block}");
            for (shown, real) in [
                ("--target nvidia", "--target cpu"),
                ("\nptxkit-ptxas", "\nptxkit_ptxas"),
                ("/tmp/torchinductor", &format!("{home}/torchinductor")),
            ] {
                script = script.replace(shown, real);
            }
            let printed = run(
                program,
                folder.path(),
                &format!("set -e\n{script}\necho succeeded"),
            );
            let page = page.display();
            assert!(
                printed.ends_with("succeeded\n"),
                "{page}:\n{block}\nprints\n{printed}"
            );
        }
    }
    count
}

/// Files of the repository, and where blocks marked `sh` have them.
const STAGED: &[(&str, &str)] = &[
    ("ptx-samples/vecadd.ptx", "kernel.ptx"),
    ("ptx-samples/vecadd.ptx", "kernels.ptx"),
    ("ptx-samples/vecadd.ptx", "kernels/vecadd.ptx"),
    ("ptx-samples/saxpy.ptx", "kernels/saxpy.ptx"),
    ("ptx-samples/scan.ptx", "build/scan.ptx"),
    ("docs/examples/reduction.fatbin", "libkernels.so"),
    ("ptx-samples/vecadd.ptx", ".triton/cache/vecadd.ptx"),
    ("ptx-samples/vecadd.ptx", "torchinductor_/vecadd.ptx"),
    (
        "docs/examples/reduction.fatbin",
        "__pycache__/reduction.nbc",
    ),
    (
        "README.md",
        ".local/share/bash-completion/completions/others",
    ),
    ("README.md", ".local/share/man/man1/others"),
];

/// The program that a block is about: `cargo run` runs `ptxkit`.
fn runs(block: &str) -> &str {
    if block.contains("$ ptxcheck") || block.starts_with("ptxcheck") {
        "ptxcheck"
    } else {
        "ptxkit"
    }
}

/// The commands of a block, and what stands below each.
fn commands(block: &str) -> impl Iterator<Item = (&str, &str)> {
    let block = block
        .strip_prefix("$ ")
        .expect("a block begins with a command");
    block.split("\n$ ").map(|part| {
        // A line that ends in `\` goes on in the next.
        let ends = |(at, _): &(usize, &str)| !part[..*at].ends_with('\\');
        match part.match_indices('\n').find(ends) {
            Some((at, _)) => (&part[..at], &part[at + 1..]),
            None => (part, ""),
        }
    })
}

/// What a command prints on both streams, as a terminal shows it.
fn run(program: &Path, folder: &Path, command: &str) -> String {
    let command = command.replace("cargo run --release -- ", "ptxkit ");
    let programs = program.parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PTXKIT_")) {
        shell.env_remove(name);
    }
    let output = shell
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .env("CUDA_CACHE_PATH", folder.join("cache"))
        // On a slow machine a kernel of a page gets hot, and has a blob of its own.
        .env("PTXKIT_CPU_LANES", "never")
        .env("PTXKIT_NVPTXCOMPILER", "off")
        // Settings of the user are not the page's.
        .env("XDG_CONFIG_HOME", folder)
        .env_remove("CUDA_CACHE_DISABLE")
        .env_remove("CUDA_CACHE_MAXSIZE")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The words of a text, line by line, without what differs from run to run and
/// from machine to machine: times, sizes of blobs, keys, devices and folders.
fn masked(text: &str) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "device" {
            lines.push(vec!["device".to_owned()]);
            continue;
        }
        // The lines of `ptxkit bench` that are measured, or name the device.
        let measured = ["time ", "samples ", "buffers ", "flop "];
        if measured.iter().any(|start| line.starts_with(start)) {
            lines.push(vec![words[0].to_owned()]);
            continue;
        }
        if let Some((kernel, _)) = line.split_once(" on CPU: ") {
            lines.push(kernel.split_whitespace().map(str::to_owned).collect());
            continue;
        }
        let mask = |(at, word): (usize, &&str)| {
            let is_key = word.len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit());
            let unit = words.get(at + 1).copied().unwrap_or_default();
            let is_measured = word.parse::<f64>().is_ok()
                && ["ms", "s", "B", "KiB", "MiB", "blobs"].contains(&unit.trim_end_matches(','));
            let is_here = ["/", "cpu-", "ed25519:", "0x7"]
                .iter()
                .any(|start| word.starts_with(start));
            if is_key || is_measured || is_here {
                "_".to_owned()
            } else {
                (*word).to_owned()
            }
        };
        lines.push(words.iter().enumerate().map(mask).collect());
    }
    lines
}

/// A new folder with the files that the commands name.
fn folder(root: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ptx-samples", "docs/examples"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        for file in std::fs::read_dir(root.join(name)).unwrap() {
            let file = file.unwrap();
            if file.path().is_dir() {
                continue; // no page names what is in it
            }
            let to = folder.path().join(name).join(file.file_name());
            std::fs::copy(file.path(), to).unwrap();
        }
    }
    folder
}
