//! A lint rule: what it reports, and how it is documented.

use super::finding::{Code, Findings};
use super::flow::context::{FunctionContext, ModuleContext};

/// A lint rule: its check and its documentation.
#[derive(Debug)]
pub struct Rule {
    /// `W0103`: the letter is the category, the hundreds are the topic.
    pub code: Code,
    /// Its name: `shift-beyond-width`.
    pub name: &'static str,
    /// What it reports, one line.
    pub summary: &'static str,
    /// Why that is bad: a paragraph or two of Markdown.
    pub why: &'static str,
    /// What to do instead: a sentence or two of Markdown.
    pub instead: &'static str,
    /// PTX, without the head of a module, in which only this rule has a finding.
    pub bad: &'static str,
    /// The same after the fix: no rule has a finding.
    pub good: &'static str,
    /// Whether it is enabled by default.
    pub default: bool,
    /// The check.
    pub check: Check,
}

/// The scope of a rule.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// A whole module.
    Module(fn(&ModuleContext<'_, '_>, &mut Findings)),
    /// A function with a body. All rules share its analyses.
    Function(fn(&FunctionContext<'_, '_>, &mut Findings)),
}

/// The head of [`Rule::bad`] and [`Rule::good`].
const HEAD: &str = ".version 9.0\n.target sm_90\n.address_size 64\n\n";

impl Rule {
    /// An example of this rule as a whole module.
    pub fn module(example: &str) -> String {
        if example.starts_with(".version") {
            example.to_owned()
        } else {
            format!("{HEAD}{example}")
        }
    }

    /// All of the documentation, as Markdown.
    pub fn explanation(&self) -> String {
        format!(
            "# {} {}\n\n{}\n\n## Why it is bad\n\n{}\n\n```ptx\n{}\n```\n\n\
             ## Use instead\n\n{}\n\n```ptx\n{}\n```\n",
            self.code,
            self.name,
            self.summary,
            self.why,
            self.bad.trim_end(),
            self.instead,
            self.good.trim_end(),
        )
    }
}
