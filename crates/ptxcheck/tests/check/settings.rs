//! `ptxcheck.toml`.

use super::*;

#[test]
fn the_next_file_above_counts() {
    let folder = folder(&[
        ("ptxcheck.toml", "ignore = [\"W\"]\n"),
        ("k.ptx", DOUBTFUL),
        ("deep/er/k.ptx", DOUBTFUL),
        ("strict/ptxcheck.toml", "deny = [\"W0202\"]\n"),
        ("strict/k.ptx", DOUBTFUL),
    ]);
    let ran = ptxcheck(folder.path(), &["--format", "concise"]);
    assert!(
        ran.out.starts_with("strict/k.ptx:7:1: error[W0202]"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    // From elsewhere, too.
    let path = folder.path().join("deep/er/k.ptx");
    assert_eq!(
        ptxcheck(Path::new("/"), &[path.to_str().unwrap()]).status,
        Some(0)
    );
    // The command line counts more, and may do without, or with another.
    for more in [
        &["--select", "W"][..],
        &["--isolated"],
        &["--config", "strict/ptxcheck.toml"],
    ] {
        let ran = ptxcheck(folder.path(), &[&["k.ptx"], more].concat());
        assert_eq!(ran.status, Some(1), "{more:?}");
    }
}

#[test]
fn what_lies_above_the_repository_does_not_count() {
    let folder = folder(&[
        ("ptxcheck.toml", "ignore = [\"all\"]\n"),
        ("k.ptx", BAD),
        ("worktree/.git", "gitdir: elsewhere\n"),
        ("worktree/k.ptx", BAD),
        ("clone/.git/HEAD", "ref: refs/heads/main\n"),
        ("clone/deep/k.ptx", BAD),
        // The top of a repository is a part of it.
        ("own/.git/HEAD", "ref: refs/heads/main\n"),
        ("own/ptxcheck.toml", "ignore = [\"E0101\"]\n"),
        ("own/deep/k.ptx", BAD),
    ]);
    let ran = ptxcheck(folder.path(), &["--format", "concise"]);
    let files: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(files, ["clone/deep/k.ptx", "worktree/k.ptx"], "{}", ran.out);
}

#[test]
fn all_that_it_knows() {
    let settings = "\
extend-select = [\"P\"]
ignore = [\"D02\"]
extend-ignore = [\"D01\"]
deny = [\"W\"]
preview = true
unsafe-fixes = true
force-exclude = false
target = \"sm_90\"
ptx-version = \"8.0\"
codegen = true
max-warnings = 3
exclude = [\"vendor/**\", \"*.gen.ptx\"]

[per-file-ignores]
\"old/*.ptx\" = [\"E0101\"]
\"legacy.ptx\" = [\"E\"]
";
    let folder = folder(&[
        ("ptxcheck.toml", settings),
        ("vendor/a/k.ptx", BAD),
        ("x/k.gen.ptx", BAD),
        ("old/k.ptx", BAD),
        ("old/deeper/k.ptx", BAD),
        ("x/legacy.ptx", BAD),
    ]);
    let ran = ptxcheck(folder.path(), &["--format", "concise"]);
    assert!(
        ran.out.starts_with("old/deeper/k.ptx:7:2: error[E0101]"),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    // What is named is looked at, excluded or not, unless that is asked for.
    let named = ["vendor/a/k.ptx"];
    assert_eq!(ptxcheck(folder.path(), &named).status, Some(1));
    let forced = ptxcheck(folder.path(), &[&named[..], &["--force-exclude"]].concat());
    assert_eq!((forced.status, forced.out.as_str()), (Some(0), ""));
}

#[test]
fn mistakes_in_it_have_their_place() {
    for (settings, words) in [
        (
            "selct = []\n",
            &["ptxcheck.toml:1:1", "unknown field `selct`", "`select`"][..],
        ),
        (
            "\nignore = [\"W9\"]\n",
            &["ptxcheck.toml:2:10", "no code begins with `W9`"],
        ),
        (
            "target = \"sm_91\"\n",
            &["ptxcheck.toml:1:10", "no toolkit knows"],
        ),
        ("max-warnings = \"many\"\n", &["ptxcheck.toml:1:16"]),
        ("exclude = [\"a[\"]\n", &["ptxcheck.toml:1:11"]),
        ("ignore = [\n", &["ptxcheck.toml:"]),
    ] {
        let folder = folder(&[("ptxcheck.toml", settings), ("k.ptx", GOOD)]);
        let ran = ptxcheck(folder.path(), &["k.ptx"]);
        assert_eq!(ran.status, Some(2), "{settings}");
        for word in words {
            assert!(ran.err.contains(word), "`{word}` is not in:\n{}", ran.err);
        }
    }
}

#[test]
fn warnings_are_counted_for_each_file_of_settings() {
    let folder = folder(&[
        ("a/ptxcheck.toml", "max-warnings = 1\n"),
        ("a/1.ptx", DOUBTFUL),
        ("b/ptxcheck.toml", "max-warnings = 2\n"),
        ("b/1.ptx", DOUBTFUL),
        ("b/2.ptx", DOUBTFUL),
    ]);
    assert_eq!(ptxcheck(folder.path(), &[]).status, Some(0));
    std::fs::write(folder.path().join("a/2.ptx"), DOUBTFUL).unwrap();
    assert_eq!(ptxcheck(folder.path(), &[]).status, Some(1));
}
