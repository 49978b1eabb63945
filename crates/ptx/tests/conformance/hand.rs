//! Cases written by hand, a file for each diagnostic code or part of the language.
//!
//! ```text
//! == a register that nothing declares: 1 E0201
//! add.u32 r1, r2, r9;
//! == a register that is declared: ok
//! add.u32 r1, r2, r3;
//! ```
//!
//! The line is that of ptxas, counted in the case; the code is ours. A case with
//! a `.version` or `.target` is a whole module, any other the body of a kernel.
//! A name that ends in `(code)` has ptxas make code, not only check.

use std::path::{Path, PathBuf};

use crate::archive::Verdict;

/// What stands before and after a body.
const HEAD: &str = ".version 8.0
.target sm_80
.address_size 64
.global .b32 variable;
.const .b32 constant;
.func (.param .b32 result) function(.param .b32 x) { ret; }
.visible .entry kernel(.param .u64 parameter)
{
.reg .pred p; .reg .b16 h; .reg .b32 r<4>; .reg .b64 d<4>; .reg .f32 f<4>;
";
const FOOT: &str = "ret;\n}\n";

pub struct Case {
    pub name: String,
    /// As ptxas gave it when it was asked, lines counted in the case.
    pub verdict: Verdict,
    /// What we must find first, `E0201`; nothing in an accepted case.
    pub code: Option<String>,
    pub text: String,
}

impl Case {
    /// Whether the case is about what only making code finds.
    pub fn makes_code(&self) -> bool {
        self.name.ends_with("(code)")
    }

    /// The module, and how many of its lines stand before the case.
    pub fn module(&self) -> (String, u32) {
        if self.text.contains(".version") || self.text.contains(".target") {
            return (self.text.clone(), 0);
        }
        let before = HEAD.lines().count() as u32;
        (format!("{HEAD}{}{FOOT}", self.text), before)
    }
}

/// The files, in the order of their names.
pub fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/hand");
    let entries = std::fs::read_dir(folder).expect("the folder of the cases");
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files
}

/// The cases of a file.
pub fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("== ") {
            let (name, verdict) = head.trim_end().rsplit_once(": ").expect("`name: verdict`");
            let mut words = verdict.split(' ');
            cases.push(Case {
                name: name.to_owned(),
                verdict: words
                    .next()
                    .and_then(Verdict::parse)
                    .expect("`ok` or a line"),
                code: words.next().map(str::to_owned),
                text: String::new(),
            });
        } else if let Some(case) = cases.last_mut() {
            case.text += line;
        }
    }
    cases
}
