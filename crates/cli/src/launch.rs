//! Runs a sample on a device: allocates memory, launches, reads results.

use super::element::Element;
use super::sample::{ArgKind, Buffer, Outcome, Sample};
use ptxkit::driver::{
    Arg, Context, DeviceBuffer, Error, Event, Global, Kernel, LaunchConfig, PitchedBuffer, Stream,
    TensorElement, TensorMap, TensorView,
};
use ptxkit::loader::{LoadError, SlicedModule};

/// The result of the launches.
pub struct Launched {
    pub outcome: Outcome,
    /// The time of one launch, by events of the device; `None` if one failed.
    pub milliseconds: Option<f64>,
    /// The error of the launches.
    pub error: Option<Error>,
}

/// An argument during the launch.
enum LaunchArgument {
    /// The bytes of the parameter.
    Bytes {
        bytes: Vec<u8>,
        align: usize,
    },
    Linear(DeviceBuffer<u8>),
    Tensor(Box<TensorMap>, DeviceBuffer<u8>),
    Pitched(PitchedBuffer<u8>),
}

/// Where a buffer lies on the device.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub address: u64,
    /// The bytes of a row, and the bytes from one to the next. A linear buffer is one row.
    pub row: usize,
    pub pitch: usize,
}

impl Placed {
    /// The address of a byte of the contents, counted without padding.
    pub fn address_of(&self, byte: usize) -> u64 {
        let row = self.row.max(1);
        self.address + (byte / row * self.pitch + byte % row) as u64
    }
}

/// Runs `sample` on a `kernel` of `module`. Errors of the kernel are part of the outcome. This returns
/// an error if the kernel cannot be launched.
pub fn launch(
    sample: &Sample,
    module: &SlicedModule,
    kernel: &Kernel,
) -> Result<Launched, LoadError> {
    launch_prepared(sample, module, kernel, |_| true)
}

/// The same. `prepare` is told where the arguments lie that are buffers, before the launch, which
/// does not happen if it returns `false`.
pub fn launch_prepared(
    sample: &Sample,
    module: &SlicedModule,
    kernel: &Kernel,
    prepare: impl FnOnce(&[Option<Placed>]) -> bool,
) -> Result<Launched, LoadError> {
    let context = kernel.context();
    let passed = Passed::new(sample, module, kernel)?;
    let launches = if prepare(&passed.placed()) {
        sample.launches
    } else {
        0
    };
    let stream = Stream::new(context)?;
    let (start, end) = (Event::new(context)?, Event::new(context)?);
    let run = || {
        start.record(&stream)?;
        for _ in 0..launches {
            passed.launch(kernel, &stream)?;
        }
        end.record(&stream)?;
        stream.synchronize()?;
        // Synchronizing the context flushes the printed text.
        context.synchronize()?;
        end.elapsed_ms_since(&start)
    };
    let elapsed = match run() {
        Ok(elapsed) => elapsed,
        // An error of the kernel, which a sample may expect.
        Err(error @ Error::Driver(_)) => {
            let code = error.code();
            let outcome = Outcome {
                error: code.map(|code| {
                    code.name()
                        .map_or_else(|| code.0.to_string(), str::to_owned)
                }),
                ..Outcome::default()
            };
            return Ok(Launched {
                outcome,
                milliseconds: None,
                error: Some(error),
            });
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Launched {
        outcome: Outcome {
            args: passed.read_back()?,
            globals: read_globals(sample, module, kernel)?,
            ..Outcome::default()
        },
        milliseconds: Some(f64::from(elapsed) / f64::from(sample.launches)),
        error: None,
    })
}

/// The arguments of a sample on a device.
pub struct Passed {
    arguments: Vec<LaunchArgument>,
    config: LaunchConfig,
}

impl Passed {
    /// Allocates and fills what the sample passes, and its variables of the module.
    pub fn new(
        sample: &Sample,
        module: &SlicedModule,
        kernel: &Kernel,
    ) -> Result<Passed, LoadError> {
        for global in &sample.globals {
            if let Some(initial) = &global.initial {
                variable(module, kernel, &global.name)?.write(initial)?;
            }
        }
        Ok(Passed {
            arguments: pass(sample, kernel.context())?,
            config: LaunchConfig::new(sample.grid, sample.block).with_shared(sample.shared),
        })
    }

    /// Launches the kernel once.
    #[allow(unsafe_code, reason = "the user names the code to be run")]
    pub fn launch(&self, kernel: &Kernel, stream: &Stream) -> Result<(), Error> {
        let arguments: Vec<Arg<'_>> = self
            .arguments
            .iter()
            .map(|passed| match passed {
                LaunchArgument::Bytes { bytes, align } => Arg::bytes(bytes, *align),
                LaunchArgument::Linear(buffer) => buffer.arg(),
                LaunchArgument::Tensor(map, _) => map.arg(),
                LaunchArgument::Pitched(buffer) => buffer.arg(),
            })
            .collect();
        // SAFETY: the user vouches for the kernel, as for any program.
        unsafe { kernel.launch(self.config, stream, &arguments) }
    }

    fn placed(&self) -> Vec<Option<Placed>> {
        self.arguments.iter().map(placed).collect()
    }

    fn read_back(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.arguments.iter().map(read_back).collect()
    }
}

fn pass(sample: &Sample, context: &Context) -> Result<Vec<LaunchArgument>, Error> {
    let mut passed = Vec::with_capacity(sample.args.len());
    for arg in &sample.args {
        passed.push(match &arg.kind {
            ArgKind::Scalar { element, bytes } => LaunchArgument::Bytes {
                // In PTX, vectors are aligned to their size.
                align: bytes.len().max(element.size()).next_power_of_two(),
                bytes: bytes.clone(),
            },
            ArgKind::Struct { bytes, align } => LaunchArgument::Bytes {
                bytes: bytes.clone(),
                align: *align,
            },
            ArgKind::Buffer(buffer) => allocate(buffer, context)?,
            ArgKind::PitchOf { element, .. } => LaunchArgument::Bytes {
                bytes: vec![0; element.size()],
                align: element.size(),
            },
        });
    }
    // Pitches are resolved last, as one may precede its buffer.
    for (index, arg) in sample.args.iter().enumerate() {
        if let ArgKind::PitchOf { buffer, element } = &arg.kind {
            let pitch = match &passed[*buffer] {
                LaunchArgument::Pitched(buffer) => buffer.pitch(),
                _ => 0,
            };
            passed[index] = LaunchArgument::Bytes {
                bytes: (pitch as u64).to_le_bytes()[..element.size()].to_vec(),
                align: element.size(),
            };
        }
    }
    Ok(passed)
}

fn allocate(buffer: &Buffer, context: &Context) -> Result<LaunchArgument, Error> {
    match buffer.row_bytes() {
        Some(row) if buffer.pitched && row > 0 => {
            let rows = buffer.initial.len() / row;
            let mut pitched = PitchedBuffer::new(context, row, rows)?;
            pitched.write(&buffer.initial)?;
            Ok(LaunchArgument::Pitched(pitched))
        }
        _ => {
            let memory = DeviceBuffer::from_slice(context, &buffer.initial)?;
            let Some(tensor) = &buffer.tensor else {
                return Ok(LaunchArgument::Linear(memory));
            };
            let map = TensorView::new(&memory.all(), &tensor.sizes)
                .element(tensor_element(buffer.element))
                .swizzle(tensor.swizzle)
                .tiles(&tensor.elements)?;
            Ok(LaunchArgument::Tensor(Box::new(map), memory))
        }
    }
}

fn tensor_element(element: Element) -> TensorElement {
    match element {
        Element::U8 | Element::S8 => TensorElement::U8,
        Element::U16 | Element::S16 => TensorElement::U16,
        Element::U32 => TensorElement::U32,
        Element::S32 => TensorElement::S32,
        Element::U64 => TensorElement::U64,
        Element::S64 => TensorElement::S64,
        Element::F16 => TensorElement::F16,
        Element::Bf16 => TensorElement::Bf16,
        Element::F32 => TensorElement::F32,
        Element::F64 => TensorElement::F64,
    }
}

fn placed(passed: &LaunchArgument) -> Option<Placed> {
    match passed {
        LaunchArgument::Bytes { .. } => None,
        LaunchArgument::Linear(buffer) | LaunchArgument::Tensor(_, buffer) => Some(Placed {
            address: buffer.address(),
            row: buffer.len(),
            pitch: buffer.len(),
        }),
        LaunchArgument::Pitched(buffer) => Some(Placed {
            address: buffer.address(),
            row: buffer.width(),
            pitch: buffer.pitch(),
        }),
    }
}

fn read_back(passed: &LaunchArgument) -> Result<Vec<u8>, Error> {
    match passed {
        LaunchArgument::Bytes { .. } => Ok(Vec::new()),
        LaunchArgument::Linear(buffer) | LaunchArgument::Tensor(_, buffer) => buffer.to_vec(),
        LaunchArgument::Pitched(buffer) => buffer.to_vec(),
    }
}

fn read_globals(
    sample: &Sample,
    module: &SlicedModule,
    kernel: &Kernel,
) -> Result<Vec<Vec<u8>>, LoadError> {
    let read = |global: &super::sample::Global| match &global.expected {
        Some(expected) => Ok(variable(module, kernel, &global.name)?.read(expected.bytes.len())?),
        None => Ok(Vec::new()),
    };
    sample.globals.iter().map(read).collect()
}

/// A variable as the kernel accesses it; one that it does not access lies in another slice.
fn variable(module: &SlicedModule, kernel: &Kernel, name: &str) -> Result<Global, LoadError> {
    match kernel.module().global(name) {
        Err(Error::UnknownGlobal { .. }) => module.global(name),
        found => Ok(found?),
    }
}
