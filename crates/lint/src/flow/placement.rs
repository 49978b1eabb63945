//! Where a variable may lie.
//!
//! ptxas lays the variables of a state space out one behind the other, each aligned as it
//! says: those of `.shared` in the order of the text, a function's own first, those of
//! `.local` the other way round. So a variable lies at a multiple of more than it says
//! unless one before it has a size that is none.

use ptx::ast::{Space, Span, Variable};
use ptx::signature::layout;

/// The variables that are laid out together, with what lies before each.
#[derive(Debug, Default)]
pub(crate) struct Placement<'a> {
    /// In the order of the text.
    laid_out: Vec<LaidOut<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct LaidOut<'a> {
    space: Space,
    order: u64,
    name: &'a str,
    size: u64,
    /// Of those before it, the one whose size is a multiple of the least power of two.
    before: Option<(&'a str, u64)>,
}

impl LaidOut<'_> {
    /// Where its name stands, by which it is found.
    fn place(&self) -> usize {
        self.name.as_ptr() as usize
    }
}

impl<'a> Placement<'a> {
    /// Of variables that a function names, or of those of a module.
    pub(crate) fn new<'m>(
        variables: impl Iterator<Item = &'m Variable<'a>>,
        source: &str,
        function: Option<Span>,
    ) -> Self
    where
        'a: 'm,
    {
        let laid_out = variables.map(|variable| {
            let start = variable.name.span(source).start;
            let own = function.is_some_and(|span| span.start <= start && start < span.end);
            LaidOut {
                space: variable.space,
                order: match variable.space {
                    Space::Local => u64::from(u32::MAX - start),
                    _ => u64::from(!own) << 32 | u64::from(start),
                },
                name: variable.name.text,
                size: layout(variable).0,
                before: None,
            }
        });
        let mut laid_out: Vec<_> = laid_out.collect();
        laid_out.sort_by_key(|one| (one.space as u8, one.order));
        let mut before: Option<(Space, &str, u64)> = None;
        for one in &mut laid_out {
            let known = before.filter(|(space, ..)| *space == one.space);
            one.before = known.map(|(_, name, size)| (name, size));
            let odder =
                known.is_none_or(|(.., size)| one.size.trailing_zeros() < size.trailing_zeros());
            if odder {
                before = Some((one.space, one.name, one.size));
            }
        }
        laid_out.sort_by_key(LaidOut::place);
        Placement { laid_out }
    }

    /// The variable that puts another one at an address that may be no multiple of
    /// `bytes`, with its size; `None` if none does.
    pub(crate) fn displacing(&self, variable: &Variable<'_>, bytes: u64) -> Option<(&'a str, u64)> {
        let place = variable.name.text.as_ptr() as usize;
        let index = self.laid_out.binary_search_by_key(&place, LaidOut::place);
        let one = self.laid_out.get(index.ok()?)?;
        one.before.filter(|(_, size)| size % bytes != 0)
    }
}
