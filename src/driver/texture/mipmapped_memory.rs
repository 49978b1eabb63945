//! The handle of a mipmapped array, which the arrays of its levels share.

use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::stream::retained::Retained;
use crate::driver::texture::shape::{ArrayFlags, ArrayShape};
use api::CUmipmappedArray;

/// The handle of a mipmapped array, destroyed after its last use.
#[derive(Debug)]
pub(crate) struct MipmappedMemory {
    pub context: Context,
    pub raw: CUmipmappedArray,
    pub shape: ArrayShape,
    pub flags: ArrayFlags,
    pub count: u32,
    /// Else other code destroys it.
    pub is_ours: bool,
    /// Memory of another library, which it lies in.
    #[allow(dead_code, reason = "held, not read")]
    pub within: Option<Owner>,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for MipmappedMemory {}
// SAFETY: as above.
unsafe impl Sync for MipmappedMemory {}

impl Retained for MipmappedMemory {}

impl Drop for MipmappedMemory {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        report_drop(
            self.context
                .bind()
                // SAFETY: made once and destroyed once; levels and textures, which keep it,
                // have waited for the work that uses them.
                .and_then(|api| unsafe { Ok(api.cuMipmappedArrayDestroy(self.raw)?) }),
        );
    }
}
