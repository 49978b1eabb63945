//! `ptxkit diff`.

use super::*;
use serde_json::Value;

/// Compares a sample with itself after `change` of its PTX, which is the older version.
fn diff(name: &str, change: (&str, &str), args: &[&str]) -> Output {
    let source = std::fs::read_to_string(sample(&format!("{name}.ptx"))).unwrap();
    assert!(source.contains(change.0));
    let (folder, old) = file("old.ptx", &source.replace(change.0, change.1));
    let (now, device) = (sample(&format!("{name}.toml")), device());
    let compared = ["diff", &now, "--device", &device, "--against", &old];
    ptxkit(folder.path(), &[&compared, args].concat())
}

/// The lines without the first, which has the names of the files.
fn said(output: &Output) -> Vec<String> {
    let text = stdout(output);
    text.lines().skip(1).map(str::to_owned).collect()
}

/// The versions with their names alone.
fn snapshot(name: &str, output: &Output) {
    let folder = sample("");
    let text = stdout(output);
    let old = text.find("old.ptx").unwrap();
    let start = text[..old].rfind(['"', '\n']).map_or(0, |at| at + 1);
    let text = text.replace(&text[start..old], "");
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/diff"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text.replace(&folder, ""));
    });
}

const ROUNDING: (&str, &str) = ("add.rn.f32 ", "add.rz.f32 ");

#[test]
fn equal_results_say_so() {
    let output = diff("vecadd", ("add.rn.f32", "add.f32"), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(said(&output).last().unwrap(), "c: 100000 elements agree");
}

#[test]
fn a_difference_has_its_writer_and_its_cause() {
    let output = diff("vecadd", ROUNDING, &["--bisect"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = said(&output);
    let of = |start: &str| {
        said.iter()
            .position(|line| line.starts_with(start))
            .unwrap()
    };
    assert_eq!(said[of("c: ")], "c: 50100 of 100000 elements differ");
    assert_eq!(said[of("c: ") + 1], "  c[3]: 3.444359 and 3.4443593");
    let by = of("c[3] is written by");
    for line in &said[by + 1..by + 3] {
        assert!(
            line.ends_with("line 43: block (0,0,0), thread (3,0,0)"),
            "{line}"
        );
    }
    assert!(said[by + 3].ends_with("agrees for 19 instructions, then parts at"));
    assert!(said[by + 4].contains("add.rz.f32") && said[by + 4].contains("%sum = 3.444359  <-"));
    assert!(said[by + 5].contains("add.rn.f32") && said[by + 5].contains("%sum = 3.4443593  <-"));
}

#[test]
fn text_and_json() {
    snapshot("text", &diff("vecadd", ROUNDING, &["--bisect"]));
    let json = ["--bisect", "--format", "json"];
    snapshot("json", &diff("vecadd", ROUNDING, &json));
}

#[test]
fn bounds_allow_differences() {
    for bound in ["--ulp=1", "--absolute=0.1", "--relative=1e-6"] {
        assert_eq!(
            diff("vecadd", ROUNDING, &[bound]).status.code(),
            Some(0),
            "{bound}"
        );
    }
    assert_eq!(
        diff("vecadd", ROUNDING, &["--ulp=0.5"]).status.code(),
        Some(1)
    );
}

/// Compares two versions of vecadd that begin with NaNs with different bits, and store `results`.
fn diff_nans(results: [&str; 2], args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(sample("vecadd.ptx")).unwrap();
    let add = "add.rn.f32      %sum, %x, %y;";
    assert!(source.contains(add));
    for (name, nan, result) in [
        ("vecadd", "7FC17FC1", results[0]),
        ("old", "7FFFFFFF", results[1]),
    ] {
        let body =
            format!("mov.f32 %x, 0f{nan}; mov.b32 %n, %x; mov.b32 %y, %n; mov.f32 %sum, {result};");
        let path = folder.path().join(format!("{name}.ptx"));
        std::fs::write(path, source.replace(add, &body)).unwrap();
    }
    std::fs::copy(sample("vecadd.toml"), folder.path().join("vecadd.toml")).unwrap();
    let path = |name| folder.path().join(name).display().to_string();
    let (now, old, device) = (path("vecadd.toml"), path("old.ptx"), device());
    let compared = ["diff", &now, "--device", &device, "--against", &old];
    ptxkit(folder.path(), &[&compared, args].concat())
}

#[test]
fn nans_are_equal() {
    let stored = ["%y", "%y"];
    let output = diff_nans(stored, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for bounds in [&["--nan-bits"][..], &["--nan-bits", "--absolute=1"]] {
        let output = diff_nans(stored, bounds);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = said(&output);
        assert!(said.contains(&"  c[0]: NaN (0x7fffffff) and NaN (0x7fc17fc1)".to_owned()));
    }
}

/// A NaN with other bits, and its copies, do not hide the difference behind them.
#[test]
fn a_difference_behind_nans_is_found() {
    let parting = |args: &[&str]| {
        let args = [&["--bisect", "--format", "json"], args].concat();
        let output = diff_nans(["0f3F800000", "0f40000000"], &args);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let step = &found["parting"]["steps"][0];
        step["instruction"].as_str().unwrap().to_owned()
    };
    assert_eq!(parting(&[]), "mov.f32 %sum, 0f40000000;");
    assert_eq!(parting(&["--nan-bits"]), "mov.f32 %x, 0f7FFFFFFF;");
}

/// Control flow that differs is a difference, and addresses that differ are none.
#[test]
fn loops_that_end_otherwise_part() {
    let change = ("%more, %step, 32", "%more, %step, 16");
    let output = diff("scan", change, &["--bisect", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["equal"], false);
    assert_eq!(found["writers"][1]["thread"], serde_json::json!([16, 0, 0]));
    let steps = &found["parting"]["steps"];
    assert_eq!(steps[0]["writes"]["%more"], "false");
    assert_eq!(steps[1]["writes"]["%more"], "true");
    assert!(found["parting"]["equal_steps"].as_u64().unwrap() > 20);
}

/// The first of the row after 40, which a launch of blocks of 16 by 8 writes.
#[test]
fn an_element_behind_a_pitch_has_its_writer() {
    let row = "cvt.rn.f32.u32  %y, %row;";
    let output = diff(
        "pitched",
        (row, &format!("min.u32 %row, %row, 40; {row}")),
        &[],
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = said(&output);
    let by = said
        .iter()
        .position(|line| line == "to[4141] is written by")
        .unwrap();
    assert!(
        said[by + 1].ends_with(": block (0,5,0), thread (0,1,0)"),
        "{said:?}"
    );
}

#[test]
fn wrong_input() {
    let run = |args: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let output = ptxkit(folder.path(), &[&["diff"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        stderr(&output)
    };
    let vecadd = sample("vecadd.toml");
    assert!(run(&[&vecadd, "--device", "cpu", "--against", "none.ptx"]).contains("none.ptx"));
    if !on_gpu() {
        assert!(run(&[&vecadd]).contains("--against FILE"));
    }
    let other = sample("saxpy.ptx");
    let said = run(&[&vecadd, "--device", "cpu", "--against", &other]);
    assert!(said.contains("no kernel `vecadd`"), "{said}");
}
