//! Texture and surface objects as kernel arguments.

use std::fmt::Debug;

use crate::driver::device::context::Context;
use crate::driver::memory::order::Part;
use crate::driver::stream::retained::RetainedRef;

/// A texture or surface object whose handle is a kernel argument.
pub(crate) trait Object: Debug {
    fn context(&self) -> &Context;
    fn retained(&self) -> RetainedRef;

    /// Its memory, if the program has that under an address too.
    fn memory(&self) -> Option<Part> {
        None
    }
}
