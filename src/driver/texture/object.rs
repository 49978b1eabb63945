//! Texture and surface objects as kernel arguments.

use std::fmt::Debug;

use crate::driver::device::context::Context;
use crate::driver::stream::retained::RetainedRef;

/// A texture or surface object whose handle is a kernel argument.
pub(crate) trait Object: Debug {
    fn context(&self) -> &Context;
    fn retained(&self) -> RetainedRef;
}
