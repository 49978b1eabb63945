//! Device memory with aligned rows.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::buffer::DeviceMemory;
use crate::driver::memory::length;
use crate::driver::memory::order::Effect;
use crate::driver::memory::region::{PitchedEndpoint, Rows, RowsMut};
use crate::driver::memory::uses::Use;
use crate::driver::pod::{Pod, zeroed};
use api::CUdeviceptr;

/// A 2D or 3D array with rows aligned for coalesced access (`cuMemAllocPitch_v2`). Host
/// copies have no padding between rows.
#[derive(Debug)]
pub struct PitchedBuffer<T> {
    memory: DeviceMemory,
    width: usize,
    height: usize,
    depth: usize,
    pitch: usize,
    values: PhantomData<T>,
}

impl<T: Pod> PitchedBuffer<T> {
    /// `height` rows of `width` values each, with unspecified contents.
    pub fn new(context: &Context, width: usize, height: usize) -> Result<PitchedBuffer<T>, Error> {
        PitchedBuffer::with_planes(context, width, height, 1)
    }

    /// `depth` planes of `height` rows of `width` values each, with unspecified contents.
    pub fn with_planes(
        context: &Context,
        width: usize,
        height: usize,
        depth: usize,
    ) -> Result<PitchedBuffer<T>, Error> {
        let api = context.bind()?;
        let (mut address, mut pitch) = (0, 0);
        let row = width.saturating_mul(size_of::<T>());
        let rows = height.saturating_mul(depth);
        if row > 0 && rows > 0 {
            // The driver accepts element sizes of 4, 8 and 16.
            let element = size_of::<T>().next_power_of_two().clamp(4, 16) as u32;
            // SAFETY: writes an address and a number.
            unsafe { api.cuMemAllocPitch_v2(&mut address, &mut pitch, row, rows, element) }?;
        }
        Ok(PitchedBuffer {
            memory: DeviceMemory::adopt(context, address, pitch.saturating_mul(rows)),
            width,
            height,
            depth,
            pitch,
            values: PhantomData,
        })
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of a plane.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Planes.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Bytes from one row to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The device address of the first row.
    pub fn address(&self) -> CUdeviceptr {
        self.memory.address()
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    /// Writes all rows (`cuMemcpy2D_v2`, `cuMemcpy3D_v2`).
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        length::check_equal("write to a pitched buffer", values.len(), self.len())?;
        let (width, extent) = (self.width, self.extent());
        if values.is_empty() {
            return Ok(());
        }
        let from = Rows::of_slice(values, width)?.planes(self.height)?;
        self.rows_mut().copy_from(from, extent)
    }

    /// Reads all rows (`cuMemcpy2D_v2`, `cuMemcpy3D_v2`).
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        length::check_equal("read of a pitched buffer", values.len(), self.len())?;
        if values.is_empty() {
            return Ok(());
        }
        let to = RowsMut::of_slice(values, self.width)?.planes(self.height)?;
        to.copy_from(self.rows(), self.extent())
    }

    /// All rows as one vector.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len());
        self.read(&mut values)?;
        Ok(values)
    }

    /// Sets every value, but not the padding between rows ([`RowsMut::fill`]). Values have
    /// 1, 2 or 4 bytes.
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        let extent = self.extent();
        self.rows_mut().fill(value, extent)
    }

    /// Its rows and planes, for copies of rectangles and boxes.
    pub fn rows(&self) -> Rows<'_, T> {
        Rows::of(self.endpoint())
    }

    /// The same to write.
    pub fn rows_mut(&mut self) -> RowsMut<'_, T> {
        RowsMut::of(self.endpoint())
    }

    fn endpoint(&self) -> PitchedEndpoint<'_> {
        PitchedEndpoint {
            memory: Some(self.allocation()),
            on_host: false,
            address: self.address(),
            pitch: self.pitch(),
            aligned: true,
            capacity: [self.width(), self.height(), self.depth()],
            origin: [0; 3],
        }
    }

    fn extent(&self) -> [usize; 3] {
        [self.width, self.height, self.depth]
    }

    fn len(&self) -> usize {
        self.width
            .saturating_mul(self.height)
            .saturating_mul(self.depth)
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        self.memory.allocation()
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        Use::whole(self.allocation(), effect)
    }
}
