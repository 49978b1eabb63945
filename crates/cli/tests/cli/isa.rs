//! `ptxkit isa`.

use super::*;

fn isa(args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    ptxkit(cache.path(), &[&["isa"], args].concat())
}

#[test]
fn shows_the_forms_that_have_the_words() {
    let all = stdout(&isa(&["mul"]));
    let wide = stdout(&isa(&["mul.wide"]));
    assert!(wide.starts_with("mul.wide"), "{wide}");
    assert!(all.contains(wide.trim_end()) && all.len() > wide.len());
    assert!(stdout(&isa(&[])).lines().any(|line| line == "bfind"));
}

#[test]
fn what_is_not_there_has_a_neighbour() {
    for (wrong, help) in [
        ("mull", "did you mean `mul`?"),
        ("mul.wid", "did you mean `wide`?"),
        ("mul.nope", "`ptxkit isa mul` prints its forms"),
        ("mul.v4", "`ptxkit isa mul` prints all forms"),
    ] {
        let output = isa(&[wrong]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(help), "{}", stderr(&output));
    }
}

#[test]
fn drivers_are_listed_with_what_they_read() {
    let text = stdout(&isa(&["--drivers"]));
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["driver", "CUDA", "PTX"]);
    assert!(lines.contains(&vec!["570", "12.8", "8.7"]), "{text}");
    assert_eq!(isa(&["--drivers", "mul"]).status.code(), Some(2));
}

#[test]
fn targets_are_listed_with_their_limits() {
    let text = stdout(&isa(&["--targets"]));
    let hopper = text
        .lines()
        .find(|line| line.starts_with("sm_90 "))
        .unwrap();
    let words: Vec<&str> = hopper.split_whitespace().collect();
    assert_eq!(
        words[..8],
        ["sm_90", "7.8", "64", "32", "65536", "65536", "228", "227"]
    );
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&isa(&["--targets", "--format", "json"]))).unwrap();
    let of_sm_120 = json
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["target"] == "sm_120a")
        .unwrap();
    assert_eq!(of_sm_120["limits"]["warps"], 48);
    assert_eq!(isa(&["--targets", "mul"]).status.code(), Some(2));
    assert_eq!(isa(&["mul", "--format", "json"]).status.code(), Some(2));
}

/// As the PTX ISA says it in each instruction's section.
#[test]
fn features_are_those_of_the_ptx_isa() {
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&isa(&["--features", "--format", "json"]))).unwrap();
    let feature = |name: &str| {
        let found = json
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name);
        let found = found.unwrap();
        (
            found["ptx"].as_str().unwrap().to_owned(),
            found["targets"][0].as_str().unwrap().to_owned(),
            found["from_there_on"].as_bool().unwrap(),
        )
    };
    for (name, ptx, target, from_there_on) in [
        ("f16 arithmetic", "4.2", "sm_53", true),
        ("dot products of bytes", "5.0", "sm_61", true),
        ("atomic add of f64", "5.0", "sm_60", true),
        ("mbarrier", "7.0", "sm_80", true),
        ("clusters", "7.8", "sm_90", true),
        ("wgmma", "8.0", "sm_90a", false),
        ("tcgen05", "8.6", "sm_100a", false),
        ("pairs of f32", "8.6", "sm_100", true),
    ] {
        assert_eq!(
            feature(name),
            (ptx.to_owned(), target.to_owned(), from_there_on),
            "{name}"
        );
    }
}
