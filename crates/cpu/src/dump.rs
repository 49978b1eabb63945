//! Dumps of kernels at stages of their compilation: `PTXKIT_CPU_DUMP=STAGE[:KERNEL]`.

use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

const VARIABLE: &str = "PTXKIT_CPU_DUMP";

/// A stage of compilation that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The program before code is generated.
    Ir,
    /// The program after each pass.
    Passes,
    /// Cranelift's intermediate representation of its functions.
    Clif,
    /// Their machine code.
    Asm,
    /// Vector code before registers are allocated.
    Simd,
}

#[derive(Debug, PartialEq, Eq)]
struct Choice {
    stage: Stage,
    /// The kernel to print; all kernels if `None`.
    kernel: Option<String>,
}

fn parse(text: &str) -> Option<Choice> {
    let (stage, kernel) = match text.split_once(':') {
        Some((stage, kernel)) => (stage, Some(kernel.to_owned())),
        None => (text, None),
    };
    let stage = match stage {
        "ir" => Stage::Ir,
        "passes" => Stage::Passes,
        "clif" => Stage::Clif,
        "asm" => Stage::Asm,
        "simd" => Stage::Simd,
        _ => return None,
    };
    Some(Choice { stage, kernel })
}

/// Returns whether `PTXKIT_CPU_DUMP` selects this stage and kernel. Warns of an unknown stage.
pub(crate) fn wants(stage: Stage, kernel: &str) -> bool {
    static CHOICE: OnceLock<Option<Choice>> = OnceLock::new();
    let choice = CHOICE.get_or_init(|| {
        let text = std::env::var(VARIABLE)
            .ok()
            .filter(|text| !text.is_empty())?;
        let choice = parse(&text);
        if choice.is_none() {
            tracing::warn!(
                "{VARIABLE}={text} is unknown: use ir, passes, simd, clif or asm, and :KERNEL"
            );
        }
        choice
    });
    choice.as_ref().is_some_and(|choice| {
        choice.stage == stage && choice.kernel.as_deref().is_none_or(|name| name == kernel)
    })
}

#[cfg(test)]
thread_local! {
    /// What [`show`] is given on this thread, by title, if a test records it.
    pub(crate) static RECORDS: std::cell::RefCell<Option<Vec<(String, String)>>> =
        const { std::cell::RefCell::new(None) };
}

/// Prints a stage of a kernel under a title, if `PTXKIT_CPU_DUMP` selects it.
pub(crate) fn show(stage: Stage, kernel: &str, title: &str, text: impl Display) {
    #[cfg(test)]
    RECORDS.with_borrow_mut(|records| {
        if let Some(records) = records {
            records.push((title.to_owned(), text.to_string()));
        }
    });
    if wants(stage, kernel) {
        print(title, text);
    }
}

/// Prints a text under a title.
pub(crate) fn print(title: &str, text: impl Display) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "; {title}\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_and_a_kernel_are_chosen() {
        let choice = |stage, kernel: Option<&str>| {
            let kernel = kernel.map(str::to_owned);
            Some(Choice { stage, kernel })
        };
        assert_eq!(parse("ir"), choice(Stage::Ir, None));
        assert_eq!(parse("asm:_Z3addPf"), choice(Stage::Asm, Some("_Z3addPf")));
        assert_eq!(parse("clif:"), choice(Stage::Clif, Some("")));
        assert_eq!(parse("all"), None);
    }
}
