//! Runs the kernels of a row on a device.

use ptxkit::driver::{
    Context, DeviceBuffer, Error, Kernel, LaunchConfig, Module, PinnedBuffer, Selection, Stream,
    select,
};

use crate::compare::Real;
use crate::row::Row;
use crate::source;

/// Inputs of a launch that makes them: a part of 256 of all `f32`.
pub const PART: usize = 1 << 24;
/// Inputs of a launch that reads them.
pub const BATCH: usize = 1 << 22;
const BLOCK: u32 = 256;

/// Memory of launches of one type.
pub struct Arrays<T: ptxkit::driver::Pod> {
    inputs: [DeviceBuffer<T>; 3],
    out: DeviceBuffer<T>,
    pub results: PinnedBuffer<T>,
}

impl<T: Real> Arrays<T> {
    fn new(context: &Context, results: usize) -> Result<Arrays<T>, Error> {
        let inputs = || DeviceBuffer::zeroed(context, BATCH);
        Ok(Arrays {
            inputs: [inputs()?, inputs()?, inputs()?],
            out: DeviceBuffer::zeroed(context, results)?,
            results: PinnedBuffer::zeroed(context, results)?,
        })
    }

    /// Queues the kernel for a part of all inputs, which it makes.
    pub fn part(&mut self, kernel: &Kernel, part: u32, stream: &Stream) -> Result<(), Error> {
        let config = LaunchConfig::for_elements(PART as u32, BLOCK);
        // SAFETY: the kernel writes one result for each of PART threads.
        unsafe { kernel.launch(config, stream, (&mut self.out, part)) }?;
        self.out.read_async(&mut self.results, stream)
    }

    /// Queues the kernel for these inputs.
    pub fn batch(
        &mut self,
        kernel: &Kernel,
        inputs: &[Vec<T>],
        stream: &Stream,
    ) -> Result<(), Error> {
        for (inputs, on_device) in inputs.iter().zip(&mut self.inputs) {
            on_device.write(inputs)?;
        }
        let config = LaunchConfig::for_elements(BATCH as u32, BLOCK);
        let [a, b, c] = &self.inputs;
        // SAFETY: the kernel reads one value of each array for each of BATCH threads, and writes one.
        unsafe { kernel.launch(config, stream, (&mut self.out, a, b, c)) }?;
        self.out.read_async(&mut self.results, stream)
    }
}

/// A device with memory for the launches, and the functions of CUDA's library.
pub struct Bench {
    pub name: String,
    pub stream: Stream,
    context: Context,
    library: Option<Module>,
    pub floats: Arrays<f32>,
    pub doubles: Arrays<f64>,
}

impl Bench {
    pub fn new(
        selection: Selection,
        library: Option<&[u8]>,
    ) -> Result<Bench, Box<dyn std::error::Error>> {
        let device = select(selection)?.device;
        let context = Context::primary(&device)?;
        Ok(Bench {
            name: device.name()?,
            stream: Stream::new(&context)?,
            library: library
                .map(|text| Module::load(&context, text))
                .transpose()?,
            floats: Arrays::new(&context, PART)?,
            doubles: Arrays::new(&context, BATCH)?,
            context,
        })
    }

    /// The kernel of a row. An instruction has a module of its own, as not every device has each.
    pub fn kernel(&self, row: &Row) -> Result<Kernel, Error> {
        match (&self.library, source::ptx(row)) {
            (_, Some(text)) => Module::load(&self.context, text.as_bytes())?.kernel(&row.symbol()),
            (Some(library), None) => library.kernel(&row.symbol()),
            (None, None) => unreachable!("rows of the library are left out"),
        }
    }
}
