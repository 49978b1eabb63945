//! A tensor map and its memory.

use std::ffi::c_void;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::slice::DeviceSlice;
use crate::driver::memory::tensor_map::element::TensorElement;
use crate::driver::pod::Pod;
use crate::driver::tensor_map_error::TensorMapError;
use api::CUdeviceptr;

/// What copies of boxes (`cp.async.bulk.tensor`) know of a tensor: its memory, sizes, strides and
/// the box (`CUtensorMap`). [`TensorView`](crate::driver::TensorView) makes it.
///
/// A kernel takes it as a `.param .align 64 .b8 map[128]` (in CUDA C++ a
/// `const __grid_constant__ CUtensorMap`), which `&map` fills. It retains the memory, as kernels
/// and graphs that use it do. A copy reads and writes nothing outside of the tensor.
///
/// It is a value: the memory may be read, written and passed to kernels meanwhile, and what they
/// do to it is ordered as for a buffer.
#[derive(Clone, Debug)]
pub struct TensorMap {
    pub(super) words: api::TensorMap,
    pub(super) allocation: Arc<Allocation>,
    pub(super) address: CUdeviceptr,
    /// Bytes from the first to the last element.
    pub(super) bytes: usize,
    /// What the address is a multiple of.
    pub(super) align: u64,
    pub(super) element: TensorElement,
}

impl TensorMap {
    /// The context whose memory it describes.
    pub fn context(&self) -> &Context {
        self.allocation.context()
    }

    /// The device address of the first element.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Bytes from the first to the last element.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The type of the elements.
    pub fn element(&self) -> TensorElement {
        self.element
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Its 128 bytes, whose meaning the driver alone knows, for calls that the safe layer does not
    /// have.
    pub fn raw(&self) -> &api::TensorMap {
        &self.words
    }

    /// Lets it stand for a tensor of the same shape that begins at `memory`
    /// (`cuTensorMapReplaceAddress`, from CUDA 12.0). Work that was queued with it uses the
    /// former one.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, TensorView};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let buffers = DeviceBuffer::<f32>::zeroed(&context, 2 * 4096)?;
    /// let mut map = TensorView::new(&buffers.slice(..4096)?, &[64, 64]).tiles(&[32, 8])?;
    /// map.replace_address(&buffers.slice(4096..)?)?;
    /// assert_eq!(map.address(), buffers.address() + 4 * 4096);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn replace_address<T: Pod>(&mut self, memory: &DeviceSlice<'_, T>) -> Result<(), Error> {
        if memory.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "the memories of a tensor map",
            });
        }
        check_address(memory.address(), self.align)?;
        if self.bytes > memory.bytes() {
            return Err(TensorMapError::Extent {
                bytes: self.bytes as u64,
                capacity: memory.bytes(),
            }
            .into());
        }
        let api = self.context().bind()?;
        let address = std::ptr::without_provenance_mut::<c_void>(memory.address() as usize);
        // SAFETY: changes one map, which the driver made.
        unsafe { api.cuTensorMapReplaceAddress(&mut self.words, address) }?;
        self.address = memory.address();
        self.allocation = memory.allocation().clone();
        Ok(())
    }
}

pub(super) fn check_address(address: CUdeviceptr, align: u64) -> Result<(), TensorMapError> {
    if address.is_multiple_of(align) {
        Ok(())
    } else {
        Err(TensorMapError::Multiple {
            what: "is the address",
            dimension: None,
            given: address,
            of: align,
        })
    }
}
