//! When kernels are compiled to vectors.

/// When a kernel gets a vector function, which runs several consecutive threads at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vectorization {
    /// Once the kernel has run for a while. Optimized code takes several times as long to compile. That
    /// happens in the background while the kernel runs in code that was compiled quickly.
    #[default]
    WhenHot,
    /// Immediately.
    Always,
    /// Never: the smallest binary and the fastest compilation.
    Never,
}
