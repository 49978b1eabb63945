//! Where a variable may lie.
//!
//! Compilers lay the variables of a state space out one behind the other, each aligned
//! as it says. So a variable lies at a multiple of more than that unless one of the
//! others has a size that is none.

use ptx::ast::{Space, Variable};
use ptx::signature::layout;

/// The sizes of variables that are laid out together.
#[derive(Debug, Default)]
pub(crate) struct Sizes<'a> {
    /// For each state space the two variables whose sizes are multiples of the least
    /// power of two, the least first.
    odd: Vec<(Space, [Option<Odd<'a>>; 2])>,
}

#[derive(Clone, Copy, Debug)]
struct Odd<'a> {
    name: &'a str,
    size: u64,
}

impl Odd<'_> {
    fn exponent(self) -> u32 {
        self.size.trailing_zeros()
    }
}

impl<'a> Sizes<'a> {
    pub(crate) fn new<'m>(variables: impl Iterator<Item = &'m Variable<'a>>) -> Self
    where
        'a: 'm,
    {
        let mut sizes = Sizes::default();
        for variable in variables {
            let (size, _) = layout(variable);
            let name = variable.name.text;
            let mut new = Odd { name, size };
            let space = variable.space;
            let index = sizes.odd.iter().position(|(known, _)| *known == space);
            let index = index.unwrap_or_else(|| {
                sizes.odd.push((space, [None; 2]));
                sizes.odd.len() - 1
            });
            for place in &mut sizes.odd[index].1 {
                match place {
                    Some(known) if known.exponent() <= new.exponent() => {}
                    Some(known) => std::mem::swap(known, &mut new),
                    None => {
                        *place = Some(new);
                        break;
                    }
                }
            }
        }
        sizes
    }

    /// The variable that can put another one at an address that is no multiple of
    /// `bytes`, with its size; `None` if none can.
    pub(crate) fn displacing(&self, variable: &Variable<'_>, bytes: u64) -> Option<(&'a str, u64)> {
        let (_, odd) = self
            .odd
            .iter()
            .find(|(space, _)| *space == variable.space)?;
        let other = odd
            .iter()
            .flatten()
            // The same name may be declared in several blocks.
            .find(|odd| odd.name.as_ptr() != variable.name.text.as_ptr())?;
        (other.size % bytes != 0).then_some((other.name, other.size))
    }
}
