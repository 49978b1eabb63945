//! Tests of all rules.

use super::*;

fn found(example: &str) -> Vec<String> {
    let source = Rule::module(example);
    let reading = ptx::read(&source);
    let errors = reading.diagnostics.iter().cloned();
    let errors = errors.chain(ptx::check(&reading.module, &source));
    let mut all: Vec<Finding> = errors.map(Finding::from).collect();
    let mut options = Options {
        rules: RULES.to_vec(),
        ..Options::default()
    };
    // The examples of other rules have a recent version, whatever they need.
    let own = |rule: &Rule| example == rule.bad || example == rule.good;
    options
        .rules
        .retain(|rule| rule.name != "newer-version-than-needed" || own(rule));
    all.extend(run(&reading.module, &source, &options));
    all.into_iter()
        .map(|finding| format!("{} {}", finding.code, finding.message))
        .collect()
}

#[test]
fn examples_show_their_own_rule() {
    for rule in RULES {
        let bad = found(rule.bad);
        let own = |text: &String| text.starts_with(&rule.code.to_string());
        assert!(
            !bad.is_empty() && bad.iter().all(own),
            "{}: {bad:?}",
            rule.name
        );
        assert_eq!(found(rule.good), [""; 0], "{}", rule.name);
    }
}

/// A page of a mistake names what it is one against: the language's manual, CUDA's, or a paper.
#[test]
fn pages_have_a_reference() {
    let named = ["PTX ISA, \"", "CUDA C++ Programming Guide, \""];
    let without = RULES.iter().filter(|rule| {
        rule.code.letter() == 'W' && !named.iter().any(|source| rule.why.contains(source))
    });
    assert_eq!(without.map(|rule| rule.name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn codes_rise_and_names_are_words() {
    assert!(RULES.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
    for rule in RULES {
        let kebab = |c: char| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
        assert!(rule.name.chars().all(kebab), "{}", rule.name);
        assert!(rule.summary.ends_with('.') && !rule.summary.contains('\n'));
        // Rules are on by default if they are sure and no matter of taste.
        assert!(!rule.default || rule.code.letter() == 'W', "{}", rule.name);
    }
}

/// `W`, `P`, `D`, each by number.
fn order(rule: &Rule) -> (Option<usize>, u16) {
    ("WPD".find(rule.code.letter()), rule.code.number())
}
