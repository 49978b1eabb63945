//! The crates that the library and the programs depend on.
//!
//! A change that is meant is taken over by
//! `INSTA_UPDATE=always cargo test -p ptxkit-cli --test cli tree`.

use super::*;

/// The names of the crates that a package needs to run, sorted; none where cargo
/// or the sources are absent.
fn tree(arguments: &str) -> Option<Vec<String>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if !root.join("Cargo.lock").exists() {
        eprintln!("skipped: the sources are not here");
        return None;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "-e", "normal", "--locked", "--offline"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(arguments.split_whitespace())
        .current_dir(root)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: cargo cannot be run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", stderr(&output));
    // Each line is a name, a version, and a path or a note.
    let lines = stdout(&output);
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Some(names)
}

/// Some crates depend on the platform.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn trees() {
    for (name, arguments) in [
        ("library", "-p ptxkit"),
        (
            "library_without_cpu",
            "-p ptxkit --no-default-features --features driver,cache",
        ),
        ("library_alone", "-p ptxkit --no-default-features"),
        ("ptxcheck", "-p ptxcheck"),
        ("ptxkit", "-p ptxkit-cli"),
    ] {
        let Some(tree) = tree(arguments) else {
            return;
        };
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/trees"),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, tree.join("\n"));
        });
    }
}

#[test]
fn the_library_brings_nothing_of_the_command_line() {
    let Some(tree) = tree("-p ptxkit") else {
        return;
    };
    for name in [
        "clap",
        "rhai",
        "indicatif",
        "tracing-subscriber",
        "toml",
        "serde",
        "tokio",
        "opendal",
    ] {
        assert!(!tree.iter().any(|of| of == name), "{name}");
    }
}
