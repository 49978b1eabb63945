//! Records what ptxas says, for `tests/conformance`:
//!
//! ```text
//! cargo run --release --no-default-features --example record -- [PART …]
//! ```
//!
//! PART is `corpus`, `large`, `grid`, `mutations`, `hand`, `floors` or `printed`;
//! without one, all are recorded. `new` is the grid too, but asks only about
//! what it does not hold yet. Needs python3 with pip and, for the corpus, a C++
//! compiler; no GPU.

use std::path::Path;
use std::process::ExitCode;

#[path = "../archive.rs"]
mod archive;
mod corpus;
mod floors;
mod grid;
#[path = "../hand.rs"]
mod hand;
mod hand_verdicts;
#[path = "../instruction.rs"]
mod instruction;
mod mutations;
mod operands;
#[path = "../parallel.rs"]
mod parallel;
mod printed;
mod random;
mod toolkit;

use toolkit::Toolkit;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match record(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn record(wanted: &[String]) -> std::io::Result<()> {
    let parts = [
        "corpus",
        "large",
        "grid",
        "new",
        "mutations",
        "hand",
        "floors",
        "printed",
    ];
    if let Some(unknown) = wanted.iter().find(|part| !parts.contains(&part.as_str())) {
        return Err(std::io::Error::other(format!(
            "no part is called `{unknown}`: there are {}",
            parts.join(", ")
        )));
    }
    let part = |name: &str| wanted.is_empty() || wanted.iter().any(|part| part == name);
    let toolkit = Toolkit::install()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    if part("corpus") {
        corpus::record(&toolkit, &folder.join("cuda"))?;
    }
    if part("large") {
        corpus::record_large(&toolkit, &folder.join("large"))?;
    }
    if part("grid") {
        grid::record(&toolkit, false)?;
    }
    // Not a part of recording all anew.
    if wanted.iter().any(|part| part == "new") {
        grid::record(&toolkit, true)?;
    }
    if part("mutations") {
        mutations::record(&toolkit)?;
    }
    if part("hand") {
        hand_verdicts::record(&toolkit)?;
    }
    if part("floors") {
        floors::record(&toolkit)?;
    }
    if part("printed") {
        printed::check(&toolkit)?;
    }
    Ok(())
}
