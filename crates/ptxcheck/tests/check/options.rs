//! Which rules run, what is printed, and what else there is on the command line.

use super::*;

/// A warning in one kernel, and an error in another.
const MIXED: &str = "\
.version 8.0
.target sm_90
.address_size 64

.visible .entry k(.param .u64 p)
{
	.reg .b32 a;
	mov.u32 a, %tid.x;
	shl.b32 a, a, 40;
	ret;
}
.visible .entry l()
{
	rte;
}
";

fn codes(args: &[&str]) -> Vec<String> {
    let ran = ptxcheck_on(MIXED, &[&["-", "--output-format", "json"], args].concat());
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let code = |finding: &serde_json::Value| finding["code"].as_str().unwrap().to_owned();
    found.as_array().unwrap().iter().map(code).collect()
}

#[test]
fn select_replaces_and_extend_select_adds() {
    let all = codes(&[]);
    assert!(all.contains(&"W0103".to_owned()) && all.contains(&"E0101".to_owned()));
    assert_eq!(codes(&["--select", "W0103"]), ["W0103"]);
    assert_eq!(codes(&["--select", "P"]), [""; 0]);
    let more = codes(&["--extend-select", "P"]);
    assert!(all.iter().all(|code| more.contains(code)), "{more:?}");
    for ignore in ["--ignore", "--extend-ignore"] {
        assert_eq!(
            codes(&["--select", "W0103,E", ignore, "W"]),
            ["W0103", "E0101"]
        );
        assert_eq!(codes(&["--select", "W,E0101", ignore, "W"]), ["E0101"]);
    }
}

#[test]
fn select_of_a_file_is_replaced_and_what_it_ignores_stays() {
    let settings = "select = [\"W\"]\nextend-select = [\"E0101\"]\nextend-ignore = [\"W0102\"]\n";
    let folder = folder(&[("ptxcheck.toml", settings), ("k.ptx", MIXED)]);
    let statistics = |args: &[&str]| {
        let args = [&["k.ptx", "--statistics"], args].concat();
        let ran = ptxcheck(folder.path(), &args);
        let codes = ran.out.lines().map(|line| line.split_whitespace().nth(1));
        let mut codes: Vec<String> = codes.map(|code| code.unwrap().to_owned()).collect();
        codes.sort();
        codes
    };
    assert_eq!(statistics(&[]), ["E0101", "W0103"]);
    assert_eq!(statistics(&["--select", "P"]), ["E0101"]);
    assert_eq!(statistics(&["--select", "W"]), ["E0101", "W0103"]);
    assert_eq!(statistics(&["--ignore", "W0103"]), ["E0101"]);
}

#[test]
fn what_cannot_be_read_is_always_said() {
    let ran = ptxcheck_on(
        ".version 8.0\n.target sm_90\n{",
        &["-", "--select", "W0103", "--output-format", "concise"],
    );
    assert_eq!(ran.status, Some(1));
    assert!(ran.out.contains("error[E00"), "{}", ran.out);
}

#[test]
fn findings_alone_and_status_0_where_they_are_wanted() {
    let folder = folder(&[("k.ptx", BAD)]);
    let ran = ptxcheck(folder.path(), &["k.ptx", "--quiet"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out.starts_with("error[E0101]"), "{}", ran.out);
    let ran = ptxcheck(folder.path(), &["k.ptx", "--exit-zero"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), "\n1 error\n"));
    // An error of the program is one.
    let ran = ptxcheck(folder.path(), &["none.ptx", "--exit-zero", "--quiet"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("none.ptx"), "{}", ran.err);
}

#[test]
fn files_and_settings_are_shown() {
    let settings = "\
select = [\"W0103\", \"P\"]
deny = [\"W0201\"]
target = \"sm_80\"
exclude = [\"old\"]

[per-file-ignores]
\"b.ptx\" = [\"W0103\"]
";
    let folder = folder(&[
        ("ptxcheck.toml", settings),
        ("b.ptx", MIXED),
        ("c.ptx", MIXED),
        ("old/deep/a.ptx", MIXED),
    ]);
    let ran = ptxcheck(folder.path(), &["--show-files"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "b.ptx\nc.ptx\n"));
    let ran = ptxcheck(folder.path(), &["--show-settings", "c.ptx"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.out.contains("target = \"sm_80\"\n"), "{}", ran.out);
    assert!(
        ran.out.contains("  \"W0103\", # shift-beyond-width\n"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("W0101"), "{}", ran.out);
    // They are settings that say the same.
    let shown = self::folder(&[("ptxcheck.toml", &ran.out), ("c.ptx", MIXED)]);
    let again = ptxcheck(shown.path(), &["--show-settings", "c.ptx"]).out;
    let settings = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(settings(&again), settings(&ran.out));
}

/// `shfl` without `.sync`: which threads take part is for the user to say.
const OLD: &str = "\
.version 6.3
.target sm_60
.address_size 64

.visible .entry k()
{
	.reg .b32 a;
	.reg .pred p;
	mov.u32 a, %laneid;
	shfl.up.b32 a, a, 1, 0;
	setp.eq.u32 p, a, 1;
	vote.all.pred p, !p;
	@p trap;
	ret;
}
";

#[test]
fn fixes_that_are_not_safe_are_asked_for() {
    let args = ["-", "--select", "D0101", "--fix", "--quiet"];
    let ran = ptxcheck_on(OLD, &args);
    assert_eq!((ran.status, ran.out.as_str()), (Some(1), OLD));
    let ran = ptxcheck_on(OLD, &["-", "--select", "D0101"]);
    assert!(
        ran.err.ends_with("; --fix --unsafe-fixes mends 2\n"),
        "{}",
        ran.err
    );
    assert!(!ran.out.contains("shfl.sync.up"), "{}", ran.out);
    let ran = ptxcheck_on(OLD, &[&args[..], &["--unsafe-fixes"]].concat());
    let mended = OLD
        .replace(
            "shfl.up.b32 a, a, 1, 0",
            "shfl.sync.up.b32 a, a, 1, 0, 0xffffffff",
        )
        .replace(
            "vote.all.pred p, !p",
            "vote.sync.all.pred p, !p, 0xffffffff",
        );
    assert_eq!((ran.status, ran.out), (Some(0), mended));
}

#[test]
fn suppressions_are_added_for_what_there_is() {
    let folder = folder(&[("k.ptx", MIXED)]);
    let ran = ptxcheck(
        folder.path(),
        &["k.ptx", "--add-suppressions", "--select", "W0103"],
    );
    assert_eq!(
        (ran.status, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "", "1 finding is suppressed by a new comment\n")
    );
    let commented = std::fs::read_to_string(folder.path().join("k.ptx")).unwrap();
    assert_eq!(
        commented,
        MIXED.replace("a, 40;", "a, 40; // ptxcheck: disable=W0103")
    );
    // Errors stay.
    let ran = ptxcheck_on(MIXED, &["-", "--add-suppressions", "--select", "W0103,E"]);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (Some(1), commented.as_str())
    );
    assert!(ran.err.contains("E0101"), "{}", ran.err);
}

#[test]
fn shells_and_man_are_told() {
    let here = Path::new(".");
    for shell in ["bash", "zsh", "fish"] {
        let ran = ptxcheck(here, &["completions", shell]);
        assert_eq!(ran.status, Some(0));
        assert!(ran.out.contains("extend-select"), "{shell}");
    }
    let ran = ptxcheck(here, &["man"]);
    assert!(ran.out.contains(".TH ptxcheck 1") && ran.out.contains("unsafe\\-fixes"));
    let ran = ptxcheck(here, &["man", "cfg"]);
    assert!(ran.out.contains("ptxcheck\\-cfg"), "{}", ran.out);
    let ran = ptxcheck(here, &["man", "none"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("`rules`"), "{}", ran.err);
}

#[test]
fn older_names_still_work() {
    let here = Path::new(".");
    let rule = |command| ptxcheck(here, &[command, "W0103"]).out;
    assert_eq!(rule("explain"), rule("rule"));
    let format = |option| ptxcheck_on(MIXED, &["-", option, "json"]).out;
    assert_eq!(format("--format"), format("--output-format"));
}
