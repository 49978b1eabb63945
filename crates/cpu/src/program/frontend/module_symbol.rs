//! What the names of a module mean.

use ptx::ast::{Function, Variable};

#[derive(Clone, Copy)]
pub(crate) enum ModuleSymbol<'m, 'a> {
    /// Index into the variables of the module.
    Global(u32),
    /// Allocated in each kernel that uses it.
    Shared(&'m Variable<'a>),
    /// The same, in each thread; before PTX 3.0.
    Local(&'m Variable<'a>),
    Function(&'m Function<'a>),
    /// Samplers.
    Opaque,
}
