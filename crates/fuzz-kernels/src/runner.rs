//! Runs a kernel in several modes.

use crate::child::Child;
use crate::job::{Job, Outcome};
use crate::kernel::Kernel;
use crate::mode::Mode;
use crate::reference;

/// One child process for each mode.
pub struct Runner {
    children: Vec<Child>,
    reference: bool,
}

/// The outcome in each mode.
pub type Outcomes = Vec<(Mode, Outcome)>;

impl Runner {
    /// A runner for these modes.
    pub fn new(modes: &[Mode]) -> Runner {
        let devices = modes.iter().filter(|&&mode| mode != Mode::Reference);
        Runner {
            children: devices.map(|&mode| Child::new(mode)).collect(),
            reference: modes.contains(&Mode::Reference),
        }
    }

    /// Runs a kernel in all modes at once.
    pub fn run(&mut self, kernel: &Kernel) -> Outcomes {
        let job = Job::new(kernel);
        for child in &mut self.children {
            child.start(&job);
        }
        let reference = if self.reference {
            reference::run(kernel)
        } else {
            None
        };
        let mut outcomes: Outcomes = self
            .children
            .iter_mut()
            .map(|child| (child.mode(), child.wait()))
            .collect();
        outcomes.extend(reference.map(|digest| (Mode::Reference, Outcome::Digest(digest))));
        outcomes
    }
}

/// Whether the modes differ, or one of them gave no results.
pub fn is_finding(outcomes: &Outcomes) -> bool {
    outcomes
        .iter()
        .any(|(_, outcome)| !matches!(outcome, Outcome::Digest(_)) || *outcome != outcomes[0].1)
}

/// Whether the kernel is right in all modes but that of NVIDIA's compiler with optimization.
pub fn is_nvidia_miscompilation(outcomes: &Outcomes) -> bool {
    let others = outcomes.iter().filter(|(mode, _)| *mode != Mode::Nvidia);
    let others: Outcomes = others.cloned().collect();
    let is_checked = others
        .iter()
        .any(|(mode, _)| *mode == Mode::NvidiaUnoptimized);
    is_checked && others.len() > 1 && is_finding(outcomes) && !is_finding(&others)
}

/// The modes by outcome: `baseline scalar: 0123…; vectors: crash: …`.
pub fn describe(outcomes: &Outcomes) -> String {
    let mut groups: Vec<(&Outcome, Vec<&str>)> = Vec::new();
    for (mode, outcome) in outcomes {
        match groups.iter_mut().find(|(of, _)| *of == outcome) {
            Some((_, names)) => names.push(mode.name()),
            None => groups.push((outcome, vec![mode.name()])),
        }
    }
    let groups: Vec<String> = groups
        .iter()
        .map(|(outcome, names)| format!("{}: {outcome}", names.join(" ")))
        .collect();
    groups.join("; ")
}

/// What a reduced kernel must keep: which modes gave what kind of outcome, and which agreed with
/// the first.
pub fn signature(outcomes: &Outcomes) -> Vec<(Mode, String, bool)> {
    outcomes
        .iter()
        .map(|(mode, outcome)| (*mode, outcome.kind(), *outcome == outcomes[0].1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_optimized_code_of_nvidia_is_a_miscompilation() {
        let outcomes = |digests: &[(Mode, u64)]| -> Outcomes {
            let digests = digests.iter();
            digests
                .map(|&(mode, digest)| (mode, Outcome::Digest(digest)))
                .collect()
        };
        let (gpu, plain, cpu) = (Mode::Nvidia, Mode::NvidiaUnoptimized, Mode::Scalar);
        assert!(is_nvidia_miscompilation(&outcomes(&[
            (gpu, 1),
            (plain, 2),
            (cpu, 2)
        ])));
        for others in [
            outcomes(&[(gpu, 2), (plain, 2), (cpu, 2)]),
            outcomes(&[(gpu, 1), (plain, 1), (cpu, 2)]),
            outcomes(&[(gpu, 1), (cpu, 2)]),
            outcomes(&[(gpu, 1), (plain, 2)]),
        ] {
            assert!(!is_nvidia_miscompilation(&others), "{}", describe(&others));
        }
    }
}
