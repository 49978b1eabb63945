//! `cases/NAME.ptx` and, beside it, what is said of it: `cases/NAME.snap`.
//!
//! The first line of a case may say options: `// options: --select P`. A change
//! that is meant is taken over by `INSTA_UPDATE=always cargo test --test check`.

use super::*;

#[test]
fn cases() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/cases");
    // Packed tests run where there are none.
    let Ok(entries) = std::fs::read_dir(&cases) else {
        return;
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".ptx"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let source = std::fs::read_to_string(cases.join(&name)).unwrap();
        let options = source
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// options: "));
        let options = options.unwrap_or_default().split_whitespace();
        let args: Vec<&str> = [name.as_str(), "--isolated"]
            .into_iter()
            .chain(options)
            .collect();
        let ran = ptxcheck(&cases, &args);
        let said = format!("{}{}status {}", ran.out, ran.err, ran.status.unwrap());
        insta::with_settings!({
            snapshot_path => &cases,
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name.trim_end_matches(".ptx"), said);
        });
    }
}
