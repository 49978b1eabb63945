//! Whether PTX may be compiled while a program runs.

use std::fmt;

/// The reaction of a load to PTX whose code is not in the cache (`PTXKIT_ON_COMPILE`).
///
/// ```
/// use ptxkit_cache::{Environment, OnCompile, Policy};
///
/// let policy = Policy::from_environment(&Environment::of([("PTXKIT_ON_COMPILE", "error")]));
/// assert_eq!(policy.on_compile(), OnCompile::Error);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnCompile {
    /// It compiles the PTX.
    #[default]
    Allow,
    /// It compiles the PTX and warns through `tracing`.
    Warn,
    /// It fails: for services whose code must have been compiled before.
    Error,
}

impl OnCompile {
    /// Returns the word for the environment and command lines.
    pub const fn word(self) -> &'static str {
        match self {
            OnCompile::Allow => "allow",
            OnCompile::Warn => "warn",
            OnCompile::Error => "error",
        }
    }
}

/// A word that is none of `allow`, `warn` and `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnOnCompile(String);

impl fmt::Display for NotAnOnCompile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is none of allow, warn and error", self.0)
    }
}

impl std::error::Error for NotAnOnCompile {}

impl std::str::FromStr for OnCompile {
    type Err = NotAnOnCompile;

    fn from_str(text: &str) -> Result<OnCompile, NotAnOnCompile> {
        let all = [OnCompile::Allow, OnCompile::Warn, OnCompile::Error];
        let found = all.into_iter().find(|choice| choice.word() == text);
        found.ok_or_else(|| NotAnOnCompile(text.to_owned()))
    }
}
