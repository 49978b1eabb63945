//! The addresses of slots.

use cranelift_codegen::ir::Value;

use crate::abi::{SLOT_BYTES, WARP_SIZE};
use crate::program::RegClass;

/// The host addresses of the values of the current thread, or of the lane group's first
/// thread: in slot 0, with values of 4 and of 8 bytes. Those of other slots are at constant
/// distances.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub first: [Value; 2],
    pub distance: [u32; 2],
}

impl Slots {
    /// Those of the thread so many threads after this one, which is the first of a warp. A warp has so
    /// many slots.
    pub fn behind(self, slot_count: u32, threads: u32) -> Slots {
        let warps = threads / WARP_SIZE * slot_count * SLOT_BYTES;
        let distance = [4, 8].map(|bytes| warps + threads % WARP_SIZE * bytes);
        Slots { distance, ..self }
    }

    /// The address of the first value in a slot for values of this class: an address and an
    /// offset.
    pub fn at(self, slot: u32, class: RegClass) -> (Value, i32) {
        let size = usize::from(class.bytes() == 8);
        let offset = slot * SLOT_BYTES + self.distance[size];
        (self.first[size], offset.cast_signed())
    }
}

/// Those of the first thread of a warp.
impl From<Value> for Slots {
    fn from(start: Value) -> Slots {
        Slots {
            first: [start; 2],
            distance: [0; 2],
        }
    }
}
