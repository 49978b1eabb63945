//! Where the optimized code of hot kernels is kept from one process to the next.

use super::blob::Image;

/// Names the optimized code of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Variant {
    /// The number of the kernel, in the order of the PTX.
    pub kernel: usize,
    /// The threads in x, y and z of the blocks that may run the code; `None` for all sizes.
    pub block: Option<[u32; 3]>,
}

/// Keeps the optimized code of a module's hot kernels, so that only one process compiles it
/// ([`set_code_store`](super::set_code_store)).
pub trait CodeStore: Send + Sync {
    /// The PTX of the module, for a module that was loaded from a binary without it
    /// ([`with_text`]). Asked for once, when a kernel is compiled.
    fn text(&self) -> Option<String>;

    /// The code of a kernel, if it is there. The first launch of the kernel with blocks of that size
    /// waits for it.
    fn find(&self, variant: Variant) -> Option<Vec<u8>>;

    /// The same for a kernel that is hot: if its code is not there, and no other thread or
    /// process brings it meanwhile, it is what `compile` returns, which is kept. A thread in
    /// the background waits for it.
    fn find_or_compile(
        &self,
        variant: Variant,
        name: &str,
        compile: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>>;

    /// What was found for a kernel is not its code, and why.
    fn discard(&self, variant: Variant, why: &str);
}

/// A binary whose kernels are compiled again when they are hot, with this PTX in it, or with
/// none where that is empty. Other bytes are returned as they are.
///
/// Without its PTX a binary is smaller. Its hot kernels are compiled from what the module's
/// [`CodeStore`] returns, and it cannot be linked with others.
///
/// ```
/// use ptxkit_cpu::{CompileOptions, compile, with_text};
///
/// let ptx = ".version 8.0\n.target sm_90\n.entry k() { ret; }";
/// let binary = compile(ptx, &CompileOptions::default())?;
/// let short = with_text(&binary, "");
/// assert!(short.len() < binary.len());
/// assert_eq!(with_text(&short, ptx), binary);
/// # Ok::<(), ptxkit_cpu::CompileError>(())
/// ```
pub fn with_text(binary: &[u8], ptx: &str) -> Vec<u8> {
    // SAFETY: nothing of it is loaded here; what is returned has the same code.
    match unsafe { Image::read(binary) } {
        Ok(image) if image.tier_up => {
            let ptx = ptx.to_owned();
            Image { ptx, ..image }.write()
        }
        _ => binary.to_vec(),
    }
}
