//! What README.md and `docs/` say is what the program does.

use super::assemble::recorded_ptxas;
use super::*;

#[path = "../../../../docs/console.rs"]
pub mod console;

#[test]
fn commands_print_what_is_shown() {
    assert!(console::compare(Path::new(&program())) > 0);
}

#[test]
fn commands_without_output_succeed() {
    assert!(console::succeed(Path::new(&program())) > 0);
}

/// Executes the commands with a ptxas of recorded cubins.
#[test]
fn commands_with_ptxas_print_what_is_shown() {
    let tools = tempfile::tempdir().unwrap();
    let ptxas = recorded_ptxas(tools.path());
    let ptxas = ptxas.display();
    let real = format!("ptxkit assemble --ptxas {ptxas} ");
    let program = program();
    let compared = console::compare_marked(
        Path::new(&program),
        "console,ptxas",
        &[("ptxkit assemble ", real)],
    );
    assert!(compared > 0);
}

/// The commands of ours in the workflow of docs/assemble.md succeed.
#[test]
fn the_workflow_of_resources_succeeds() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let Ok(page) = std::fs::read_to_string(root.join("docs/assemble.md")) else {
        return; // a packed test, away from the sources
    };
    let blocks = console::blocks(&page);
    let (_, workflow) = blocks.iter().find(|(mark, _)| *mark == "yaml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kernels = folder.path().join("kernels");
    std::fs::create_dir(&kernels).unwrap();
    let sample = root.join("ptx-samples/reduction.ptx");
    std::fs::copy(sample, kernels.join("reduction.ptx")).unwrap();
    let ptxas = recorded_ptxas(folder.path());
    let commands = workflow.lines().filter_map(|line| {
        let command = line.trim().strip_prefix("- run: ptxkit-cpu ")?;
        Some(command.to_owned())
    });
    let run = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", &format!("exec \"$PTXKIT\" {command}")])
            .env("PTXKIT", program())
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", ptxas.parent().unwrap().display()),
            )
            .env("CUDA_HOME", folder.path())
            .env("CUDA_CACHE_PATH", folder.path().join("cache"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{command}: {}",
            stderr(&output)
        );
    };
    let commands: Vec<String> = commands.collect();
    assert_eq!(commands.len(), 2);
    // The baseline, as the page says.
    run(&commands[0].replace("--against", "--save"));
    commands.iter().for_each(|command| run(command));
}

/// Whoever adds a block makes it run, or says here why it does not.
#[test]
fn every_command_is_executed_or_listed() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if !root.join("README.md").is_file() {
        return; // a packed test, away from the sources
    }
    let listed = include_str!("not_executed.txt").lines();
    let listed = listed.filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut listed: Vec<(&str, &str)> = listed
        .map(|line| {
            let (place, reason) = line.rsplit_once(" | ").expect("a line ends with a reason");
            assert!(reason.len() > 10, "{line}: why is it not executed?");
            place.split_once(" | ").expect("a page and a first line")
        })
        .collect();
    let mut unknown = Vec::new();
    for page in console::pages(root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root).unwrap().display().to_string();
        for (mark, block) in console::blocks(&text) {
            let executed = match mark {
                "console" | "console,remote" | "console,ptxas" => true,
                "sh" => console::is_ours(block),
                "sh,nvidia" | "bash" | "shell" | "" => false,
                _ => !block.lines().any(|line| line.starts_with("$ ")),
            };
            if executed {
                continue;
            }
            let first = block.lines().next().unwrap_or_default();
            match listed.iter().position(|line| *line == (&name, first)) {
                Some(at) => {
                    listed.swap_remove(at);
                }
                None => unknown.push(format!("{name} | {first}")),
            }
        }
    }
    assert!(
        unknown.is_empty() && listed.is_empty(),
        "neither executed nor in not_executed.txt: {unknown:#?}; listed, but executed or gone: {listed:#?}"
    );
}

/// A page that the table of contents lacks is not in the book.
#[test]
fn every_page_is_in_the_book() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let Ok(contents) = std::fs::read_to_string(root.join("docs/SUMMARY.md")) else {
        return;
    };
    for page in console::pages(root) {
        let name = page.file_name().unwrap().to_str().unwrap();
        let is_there = contents.matches(&format!("({name})")).count() == 1;
        assert!(
            is_there || ["README.md", "SUMMARY.md"].contains(&name),
            "{name}"
        );
    }
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
