//! Which checks a process asks for.

use std::sync::{Once, OnceLock};

/// The variable that asks for them.
const VARIABLE: &str = "PTXKIT_CPU_CHECK";

/// What is checked beside bounds, alignment and lifetimes, which always are.
///
/// ```
/// use ptxkit_cpu::Checks;
///
/// // Unless PTXKIT_CPU_CHECK asks for some.
/// assert!(!Checks::default().any());
///
/// let mut checks = Checks::default();
/// checks.race = true;
/// checks.choose()?;
/// assert_eq!(Checks::of_process(), checks);
/// # Ok::<(), ptxkit_cpu::ChecksInUse>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checks {
    /// Reads of shared memory, local memory and memory of a device that nobody has written.
    pub init: bool,
    /// Data races in shared and global memory.
    pub race: bool,
}

/// Code that is compiled for some checks does not make others: a process has the same from its
/// first kernel on.
static CHECKS: OnceLock<Checks> = OnceLock::new();

/// The process has others already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process compiles kernels with other checks already ({0:?}): choose them before the \
     first module is loaded"
)]
pub struct ChecksInUse(pub Checks);

impl Checks {
    /// Those of this process: the chosen ones, or else those in the variable
    /// `PTXKIT_CPU_CHECK`: `init`, `race`, or both with a comma between. `memory` is always on.
    /// The variable is read once; an unknown word is warned of.
    pub fn of_process() -> Checks {
        *CHECKS.get_or_init(Checks::of_variable)
    }

    /// Those that the process will have, unless it chooses others.
    pub(super) fn wanted() -> Checks {
        static WANTED: OnceLock<Checks> = OnceLock::new();
        let chosen = CHECKS.get().copied();
        chosen.unwrap_or_else(|| *WANTED.get_or_init(Checks::of_variable))
    }

    fn of_variable() -> Checks {
        Checks::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    /// Makes them those of this process, in the place of the variable's.
    ///
    /// # Errors
    /// The process has chosen others, or has loaded a module with others.
    pub fn choose(self) -> Result<(), ChecksInUse> {
        match *CHECKS.get_or_init(|| self) {
            chosen if chosen == self => Ok(()),
            other => Err(ChecksInUse(other)),
        }
    }

    pub(super) fn parse(words: &str) -> Checks {
        static WARNED: Once = Once::new();
        let mut checks = Checks::default();
        for word in words.split(',').map(str::trim) {
            match word {
                "init" => checks.init = true,
                "race" => checks.race = true,
                "" | "memory" => {}
                _ => WARNED.call_once(|| {
                    tracing::warn!("{VARIABLE}={word} is unknown: use memory, init or race");
                }),
            }
        }
        checks
    }

    /// Whether there are any.
    pub fn any(self) -> bool {
        self.init || self.race
    }
}
