//! The end of a context and of all that lives in it.

use std::sync::Arc;

use super::context::{self, Context};
use super::{array, event, memory, module, peer, stream, texture};

/// Destroys a context after its work is done. Users come before what they use:
/// modules and textures before arrays, and all of them before memory.
pub(crate) fn destroy(context: &Arc<Context>) {
    context.close();
    context.wait();
    context::flush_output();
    stream::destroy_all(context);
    event::destroy_all(context);
    module::destroy_all(context);
    peer::disable_all(context);
    texture::destroy_all(context);
    array::destroy_all(context);
    memory::free_all(context);
}
