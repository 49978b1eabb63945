//! `ptxcheck explain`: prints the documentation of a code.

use std::fmt::Write as _;

use lint::{Code, Rule};
use ptx::diagnostic;
use terminal::failure::{Failure, VERIFIED};
use terminal::output::print;

use super::selection::{Prefix, codes, rule};

/// The arguments of `ptxcheck explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Codes, prefixes of codes, or names of rules: `W0103`, `W01`, `shift-beyond-width`
    #[arg(required = true, value_name = "CODE")]
    codes: Vec<Prefix>,
}

/// Prints the documentation of each code.
pub fn run(args: &ExplainArgs) -> Result<u8, Failure> {
    let wanted = codes().filter(|code| args.codes.iter().any(|prefix| prefix.takes(*code)));
    let texts: Vec<String> = wanted.map(|code| of(code).markdown).collect();
    print(&texts.join("\n"));
    Ok(VERIFIED)
}

/// The documentation of a code.
#[derive(Debug, Default)]
pub struct Text {
    /// `shift-beyond-width`
    pub name: String,
    /// One line.
    pub summary: &'static str,
    /// A paragraph.
    pub why: &'static str,
    /// Whether it is enabled by default.
    pub default: bool,
    /// The whole documentation as Markdown.
    pub markdown: String,
}

/// The documentation of a code of the front end, or of a rule.
pub fn of(code: Code) -> Text {
    if let Some(rule) = rule(code) {
        let Rule {
            name,
            summary,
            why,
            default,
            ..
        } = *rule;
        let (name, markdown) = (name.to_owned(), rule.explanation());
        return Text {
            name,
            summary,
            why,
            default,
            markdown,
        };
    }
    let Some(code) = diagnostic::Code::ALL
        .iter()
        .find(|known| Code::from(**known) == code)
    else {
        return Text::default();
    };
    let explanation = code.explanation();
    let name = kebab(&format!("{code:?}"));
    let mut markdown = format!(
        "# {code} {name}\n\n{}\n\n{}\n",
        explanation.what, explanation.why
    );
    for (heading, example) in [("Wrong", explanation.wrong), ("Right", explanation.right)] {
        if !example.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(
                markdown,
                "\n## {heading}\n\n```ptx\n{}\n```\n",
                example.trim_end()
            );
        }
    }
    Text {
        name,
        summary: explanation.what,
        why: explanation.why,
        default: true,
        markdown,
    }
}

/// `UnknownOpcode` → `unknown-opcode`
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        for code in codes() {
            let text = of(code);
            assert!(!text.name.is_empty() && !text.summary.is_empty(), "{code}");
            assert!(
                text.markdown
                    .starts_with(&format!("# {code} {}\n", text.name))
            );
        }
    }
}
