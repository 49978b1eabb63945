//! Programs of kernels, for tests.

use super::{Program, lower, module_data};
use ptx::ast::Item;

/// What `f` makes of the program of the first function of a module.
pub(super) fn with_program<T>(source: &str, f: impl FnOnce(&Program<'_>) -> T) -> T {
    with_program_for(source, None, f)
}

/// The same for blocks of a size.
pub(super) fn with_program_for<T>(
    source: &str,
    block: Option<[u32; 3]>,
    f: impl FnOnce(&Program<'_>) -> T,
) -> T {
    let reading = ptx::read(source);
    let (data, _) = module_data(&reading.module, source);
    let Some(Item::Function(kernel)) = reading.module.items.first() else {
        panic!("no kernel");
    };
    f(&lower(&data, kernel, kernel.body.as_ref().unwrap(), block).unwrap())
}
