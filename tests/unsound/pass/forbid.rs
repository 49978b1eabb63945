//! All that a program without `unsafe` needs but the declaration of its kernels.
#![forbid(unsafe_code)]

use ptxkit::driver::Float2;
use ptxkit::driver::{Count, DeviceBuffer, Error, LaunchConfig, ParamBuffer, Stream, TypedKernel};
use ptxkit::{DeviceRepr, device_param};

device_param! {
    /// With a gap of four bytes.
    pub struct Step { pub count: u32, pub width: f64 }
}

/// An element of buffers.
#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
pub struct Cell {
    pub position: Float2,
    pub weight: f64,
    pub neighbours: [u32; 3],
    pub _padding: [u8; 4],
}

pub fn cells(stream: &Stream) -> Result<DeviceBuffer<Cell>, Error> {
    DeviceBuffer::zeroed(stream.context(), 16)
}

pub type Advance = TypedKernel<(
    &'static [f32],
    &'static mut [f32],
    *mut f32,
    Count<u32>,
    Step,
)>;

pub fn advance(kernel: &Advance, stream: &Stream, from: &DeviceBuffer<f32>) -> Result<(), Error> {
    let step = Step {
        count: 1,
        width: 0.5,
    };
    let mut to = DeviceBuffer::zeroed(stream.context(), from.len())?;
    let mut sum = DeviceBuffer::zeroed(stream.context(), 1)?;
    let config = LaunchConfig::for_elements(from.len() as u32, 64);
    kernel.launch(config, stream, (from, &mut to, &mut sum, 1, step))?;
    kernel.launch(
        config,
        stream,
        (
            &from.slice(1..)?,
            &mut to.slice_mut(..4)?,
            &mut sum,
            1,
            step,
        ),
    )
}

fn main() {
    let step = Step {
        count: 1,
        width: 0.5,
    };
    assert_eq!(ParamBuffer::new().push(step).bytes()[4..8], [0; 4]);
}
