//! What kernels print.

/// Text that kernels have printed and the host has not yet shown.
#[derive(Default)]
pub struct Output {}
