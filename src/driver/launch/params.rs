//! Arguments laid out as one block, for launches by parameter buffer.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::launch::argument::Argument;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::memory::uses::Use;
use crate::driver::module::layout::ParamSlot;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::RetainedRef;

/// A kernel's parameters as one block of bytes, each aligned to its type
/// (PTX ISA, "Kernel Function Parameters"): what `CU_LAUNCH_PARAM_BUFFER_POINTER`
/// takes. It borrows the buffers whose addresses are in it.
///
/// ```
/// use ptxkit::driver::ParamBuffer;
/// let mut params = ParamBuffer::new();
/// params.push(7_u8).push(1.5_f64);
/// assert_eq!(params.bytes().len(), 16); // the double is aligned to 8
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParamBuffer<'a> {
    bytes: Vec<u8>,
    packed: Vec<PackedArgument>,
    buffers: PhantomData<&'a ()>,
}

/// One argument in the block.
#[derive(Clone, Debug)]
pub(crate) struct PackedArgument {
    pub offset: usize,
    pub size: usize,
    /// The memory that it points to.
    pub memory: Option<Arc<Allocation>>,
    /// The part of it that the kernel uses, and how.
    pub part: Part,
    pub effect: Effect,
    /// The texture or surface that it stands for, and its context.
    pub object: Option<(Context, RetainedRef)>,
}

impl PackedArgument {
    /// Whether it lies where the parameter does.
    #[inline]
    pub fn is_at(&self, slot: &ParamSlot) -> bool {
        self.offset == slot.offset()
            && self.size == slot.size()
            && slot.takes_address(self.part.start())
    }

    /// Whether a launch in `stream`, which has this identity, has nothing to note for it.
    #[inline]
    pub fn needs_no_tracking(&self, stream: &Stream, identity: *mut ()) -> bool {
        let memory = self.memory.as_ref();
        self.object.is_none()
            && memory.is_none_or(|memory| memory.needs_no_tracking(stream, identity, self.effect))
    }

    /// The memory as what the kernel uses.
    pub fn used(&self) -> Option<Use<'_>> {
        self.memory.as_ref().map(|memory| Use {
            memory,
            part: self.part.clone(),
            effect: self.effect,
        })
    }
}

impl<'a> ParamBuffer<'a> {
    /// An empty block.
    pub fn new() -> ParamBuffer<'a> {
        ParamBuffer::default()
    }

    /// Appends an argument at the next multiple of its alignment.
    pub fn push(&mut self, argument: impl Argument + 'a) -> &mut ParamBuffer<'a> {
        let arg = argument.arg();
        let offset = self.bytes.len().next_multiple_of(arg.align());
        self.bytes.resize(offset, 0);
        arg.append_to(&mut self.bytes);
        let used = arg.used();
        self.packed.push(PackedArgument {
            offset,
            size: arg.size(),
            effect: used.as_ref().map_or(Effect::Read, |used| used.effect),
            memory: arg.memory().cloned(),
            part: used.map_or(Part::new(0, 0), |used| used.part),
            object: arg
                .object()
                .map(|object| (object.context().clone(), object.retained())),
        });
        self
    }

    /// The block.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(crate) fn packed(&self) -> &[PackedArgument] {
        &self.packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::launch::argument::Arg;

    #[test]
    fn arguments_are_aligned_to_their_types() {
        let vector = [1.0_f32, 2.0, 3.0, 4.0];
        let structure = [9_u8; 20];
        let structure = Arg::bytes(&structure, 16);
        let mut params = ParamBuffer::new();
        params.push(1_u8).push(2_u16).push(3_u64).push(4_u8);
        params.push(vector).push(structure).push(5_u32);
        let offsets: Vec<_> = params
            .packed()
            .iter()
            .map(|argument| argument.offset)
            .collect();
        assert_eq!(offsets, [0, 2, 8, 16, 20, 48, 68]);
        assert_eq!(params.bytes().len(), 72);
        assert_eq!(params.bytes()[8..16], 3_u64.to_le_bytes());
        assert_eq!(params.bytes()[68..], 5_u32.to_le_bytes());
    }
}
