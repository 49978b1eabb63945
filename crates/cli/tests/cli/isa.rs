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
