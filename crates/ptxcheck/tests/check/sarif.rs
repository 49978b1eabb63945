//! `--format sarif`: what SARIF 2.1.0 asks of a log, as far as ours goes.
//!
//! The schema itself is the other judge: `check-jsonschema --schemafile
//! https://json.schemastore.org/sarif-2.1.0.json LOG`.

use serde_json::Value;

use super::*;

fn log(files: &[(&str, &str)]) -> Value {
    let folder = folder(files);
    let ran = ptxcheck(folder.path(), &["--format", "sarif"]);
    serde_json::from_str(&ran.out).unwrap()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| panic!("{value}"))
}

/// `region` (3.30): lines and columns from 1, the end behind the start.
fn region(region: &Value) {
    let number = |name: &str| region[name].as_u64().filter(|number| *number >= 1).unwrap();
    let start = (number("startLine"), number("startColumn"));
    assert!(
        start <= (number("endLine"), number("endColumn")),
        "{region}"
    );
}

#[test]
fn a_log_has_what_the_standard_asks_for() {
    let log = log(&[("a b.ptx", BAD), ("c.ptx", DOUBTFUL), ("d.ptx", GOOD)]);
    assert_eq!(log["version"], "2.1.0");
    let [run] = log["runs"].as_array().unwrap().as_slice() else {
        panic!()
    };
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "ptxcheck");
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        text(&rule["id"]);
        for message in ["shortDescription", "fullDescription", "help"] {
            text(&rule[message]["text"]);
        }
    }
    let results = run["results"].as_array().unwrap();
    let found: Vec<(&str, &str)> = results
        .iter()
        .map(|result| {
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["error", "warning"].contains(&text(&result["level"])));
            text(&result["message"]["text"]);
            let place = &result["locations"][0]["physicalLocation"];
            region(&place["region"]);
            (
                text(&result["ruleId"]),
                text(&place["artifactLocation"]["uri"]),
            )
        })
        .collect();
    assert_eq!(found, [("E0101", "a%20b.ptx"), ("W0202", "c.ptx")]);
    let change = &results[1]["fixes"][0]["artifactChanges"][0];
    assert_eq!(change["artifactLocation"]["uri"], "c.ptx");
    region(&change["replacements"][0]["deletedRegion"]);
    assert_eq!(
        change["replacements"][0]["insertedContent"]["text"],
        "\tret;\n"
    );
}

#[test]
fn without_findings_the_results_are_empty() {
    let log = log(&[("d.ptx", GOOD)]);
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));
}
