//! Errors.

use std::fmt;

use ptx::Diagnostics;

/// Why a module cannot be built or edited. [`Module::finish`](crate::Module::finish) returns the
/// first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A name that PTX cannot have: it begins with a letter or `_`, and has letters, digits, `_`
    /// and `$`.
    Name {
        /// The name as given.
        name: String,
    },
    /// Two things of one name in one module or function.
    Taken {
        /// The name.
        name: String,
    },
    /// A variable or array without elements.
    Empty {
        /// Its name.
        name: String,
    },
    /// A value that is used after the block, `if_` or loop in which it was made. There it may
    /// not have been computed.
    OutOfScope {
        /// The kernel or function.
        function: String,
        /// The instruction that uses it.
        instruction: String,
    },
    /// A function or variable of another [`Module`](crate::Module).
    Foreign {
        /// Its name.
        name: String,
    },
    /// A text template that does not fit its inputs and outputs.
    Template {
        /// The template as given.
        template: String,
        /// What is wrong with it.
        why: String,
    },
    /// A function or name that an edited module does not have.
    Missing {
        /// The name.
        name: String,
    },
    /// Two edits of one part of a text.
    Overlap {
        /// The text that the second one puts there.
        text: String,
    },
    /// The errors that the checker finds: of what text templates contain, and of what no target
    /// has at once.
    Wrong(Diagnostics),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Name { name } => write!(
                f,
                "`{name}` is no name of PTX: begin with a letter, and use letters, digits, `_` \
                 and `$`"
            ),
            Error::Taken { name } => write!(f, "`{name}` is declared twice: choose another name"),
            Error::Empty { name } => write!(f, "`{name}` has no elements: give it at least one"),
            Error::OutOfScope {
                function,
                instruction,
            } => write!(
                f,
                "`{instruction}` in `{function}` uses a value of a block that has ended: make a \
                 variable before the block, and set it there"
            ),
            Error::Foreign { name } => write!(
                f,
                "`{name}` belongs to another module: declare it in the one that uses it"
            ),
            Error::Template { template, why } => write!(f, "the template `{template}` {why}"),
            Error::Missing { name } => write!(f, "the module declares no `{name}`"),
            Error::Overlap { text } => write!(
                f,
                "`{text}` replaces what another edit replaces: edit each part once"
            ),
            Error::Wrong(diagnostics) => diagnostics.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Wrong(diagnostics) => Some(diagnostics),
            _ => None,
        }
    }
}
