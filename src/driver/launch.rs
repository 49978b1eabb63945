//! Launching a kernel: the checks, then one call through the table.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::argument::{Arg, Arguments};
use super::error::Error;
use super::kernel::Kernel;
use super::params::ParamBuffer;
use super::stream::Stream;

/// Blocks of a grid and threads of a block, in x, y, z, and the bytes of dynamic
/// shared memory each block gets.
///
/// ```
/// use ptxkit::driver::LaunchConfig;
/// let config = LaunchConfig::for_elements(1000, 256);
/// assert_eq!((config.grid, config.block), ([4, 1, 1], [256, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of each block.
    pub shared_bytes: u32,
}

impl Default for LaunchConfig {
    /// One thread.
    fn default() -> LaunchConfig {
        LaunchConfig::new([1; 3], [1; 3])
    }
}

impl LaunchConfig {
    /// Without dynamic shared memory.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> LaunchConfig {
        LaunchConfig {
            grid,
            block,
            shared_bytes: 0,
        }
    }

    /// Enough blocks of `block` threads in a row for `elements`; at least one.
    pub const fn for_elements(elements: u32, block: u32) -> LaunchConfig {
        let block = if block == 0 { 1 } else { block };
        let blocks = elements.div_ceil(block);
        let blocks = if blocks == 0 { 1 } else { blocks };
        LaunchConfig::new([blocks, 1, 1], [block, 1, 1])
    }

    /// The same with dynamic shared memory.
    pub const fn with_shared(self, shared_bytes: u32) -> LaunchConfig {
        LaunchConfig {
            shared_bytes,
            ..self
        }
    }
}

/// Launches up to this many arguments allocate nothing.
const ARGUMENTS_ON_STACK: usize = 32;

/// `CU_LAUNCH_PARAM_*`
const PARAM_END: *mut c_void = std::ptr::null_mut();
const PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

impl Kernel {
    /// Launches the kernel with one pointer an argument (`cuLaunchKernel`).
    /// Returns when it is queued; its own errors show when the stream or the
    /// context is synchronised.
    ///
    /// Number and sizes of the arguments are checked where the layout is known,
    /// grid and block against the device, the block against the kernel. Shared
    /// memory above the default of 48 KB is opted into.
    ///
    /// A kernel is code: what it does with addresses is not checked on a GPU.
    /// Memory that a device can write is never behind a Rust reference in this
    /// module's safe API, so a wrong kernel spoils data, not references.
    pub fn launch(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_pointers(config, stream, arguments, false)
    }

    /// The same for kernels whose blocks wait for one another: all blocks must
    /// fit on the device at once (`cuLaunchCooperativeKernel`).
    pub fn launch_cooperative(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_pointers(config, stream, arguments, true)
    }

    fn launch_pointers(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        cooperative: bool,
    ) -> Result<(), Error> {
        if !self.layout_is_certain() {
            return self.launch_packed(config, stream, arguments, cooperative);
        }
        self.check_config(config, stream)?;
        arguments.with(|args| {
            self.check_args(args)?;
            let mut few = [std::ptr::null_mut(); ARGUMENTS_ON_STACK];
            let mut many;
            let pointers = match args.len() {
                count @ ..=ARGUMENTS_ON_STACK => &mut few[..count],
                count => {
                    many = vec![std::ptr::null_mut(); count];
                    &mut many[..]
                }
            };
            for (pointer, arg) in pointers.iter_mut().zip(args) {
                *pointer = arg.pointer();
            }
            let api = self.context().bind()?;
            let LaunchConfig {
                grid: [gx, gy, gz],
                block: [bx, by, bz],
                shared_bytes: shared,
            } = config;
            let (function, stream, params) = (self.raw(), stream.raw(), pointers.as_mut_ptr());
            // SAFETY: kernel and stream are live and of one context; there is a pointer for each
            // parameter the driver told, to a value of its size that lives through the call,
            // which copies it.
            unsafe {
                if cooperative {
                    api.cuLaunchCooperativeKernel(
                        function, gx, gy, gz, bx, by, bz, shared, stream, params,
                    )
                } else {
                    let extra = std::ptr::null_mut();
                    api.cuLaunchKernel(
                        function, gx, gy, gz, bx, by, bz, shared, stream, params, extra,
                    )
                }
            }
        })
    }

    /// A driver that cannot tell the parameters gets the arguments as one block
    /// with a length, which it does not read beyond.
    #[cold]
    fn launch_packed(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        cooperative: bool,
    ) -> Result<(), Error> {
        if cooperative {
            // `cuLaunchCooperativeKernel` takes pointers only.
            return Err(self.context().api().missing("cuFuncGetParamInfo", 12_040));
        }
        arguments.with(|args| {
            let mut params = ParamBuffer::new();
            for &arg in args {
                params.push(arg);
            }
            self.launch_buffer(config, stream, &params)
        })
    }

    /// Launches the kernel with its parameters as one block
    /// (`cuLaunchKernel` with `CU_LAUNCH_PARAM_BUFFER_POINTER`).
    pub fn launch_buffer(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &ParamBuffer<'_>,
    ) -> Result<(), Error> {
        for (index, piece) in params.pieces().iter().enumerate() {
            if piece.context.as_ref().is_some_and(|c| c != self.context()) {
                return Err(self.foreign_argument(index));
            }
        }
        if let Some(layout) = self.layout() {
            let (expected, given) = (&layout.params, params.pieces());
            self.check_count(expected.len(), given.len())?;
            for (index, (expected, given)) in expected.iter().zip(given).enumerate() {
                if expected.size != given.size {
                    return Err(self.wrong_size(index, given.size));
                }
                if expected.offset != given.offset {
                    return Err(Error::ArgumentOffset {
                        kernel: self.name().to_owned(),
                        index,
                        expected: expected.offset,
                        given: given.offset,
                        declaration: expected.declaration.clone(),
                    });
                }
            }
        }
        self.launch_bytes(config, stream, params.bytes())
    }

    /// Launches the kernel with a block of parameters that the caller laid out.
    pub fn launch_bytes(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &[u8],
    ) -> Result<(), Error> {
        self.check_config(config, stream)?;
        if let Some(expected) = self.layout().map(|layout| layout.bytes())
            && expected != params.len()
        {
            return Err(Error::ParameterBytes {
                kernel: self.name().to_owned(),
                expected,
                given: params.len(),
            });
        }
        let mut size = params.len();
        let mut extra = [
            PARAM_BUFFER_POINTER,
            params.as_ptr().cast_mut().cast(),
            PARAM_BUFFER_SIZE,
            std::ptr::from_mut(&mut size).cast(),
            PARAM_END,
        ];
        let extra = match params.is_empty() {
            true => std::ptr::null_mut(),
            false => extra.as_mut_ptr(),
        };
        let api = self.context().bind()?;
        let LaunchConfig {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            shared_bytes: shared,
        } = config;
        let none = std::ptr::null_mut();
        // SAFETY: kernel and stream are live and of one context; the block has the length
        // given and lives through the call, which copies it.
        unsafe {
            api.cuLaunchKernel(
                self.raw(),
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                stream.raw(),
                none,
                extra,
            )
        }
    }

    #[inline]
    fn check_config(&self, config: LaunchConfig, stream: &Stream) -> Result<(), Error> {
        let threads = config
            .block
            .iter()
            .fold(1_u64, |all, &n| all.saturating_mul(u64::from(n)));
        if threads > u64::from(self.max_threads()) {
            return Err(Error::BlockTooLarge {
                kernel: self.name().to_owned(),
                block: config.block,
                limit: self.max_threads(),
            });
        }
        if let Some(required) = self.layout().and_then(|layout| layout.required_block)
            && required != config.block
        {
            return Err(Error::RequiredBlock {
                kernel: self.name().to_owned(),
                required,
                given: config.block,
            });
        }
        let limits = self.context().limits();
        for (what, given, limit) in [
            ("grid", config.grid, limits.grid),
            ("block", config.block, limits.block),
        ] {
            for axis in 0..3 {
                if given[axis] == 0 || given[axis] > limit[axis] {
                    return Err(Error::Dimension {
                        kernel: self.name().to_owned(),
                        what,
                        axis,
                        given: given[axis],
                        limit: limit[axis],
                    });
                }
            }
        }
        if config.shared_bytes > self.dynamic_shared().load(Ordering::Relaxed) {
            self.opt_in_shared(config.shared_bytes)?;
        }
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "kernel and stream",
            });
        }
        Ok(())
    }

    #[inline]
    fn check_args(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        if let Some(layout) = self.layout() {
            self.check_count(layout.params.len(), args.len())?;
            for (index, (expected, given)) in layout.params.iter().zip(args).enumerate() {
                if expected.size != given.size() {
                    return Err(self.wrong_size(index, given.size()));
                }
            }
        }
        for (index, arg) in args.iter().enumerate() {
            if arg
                .context()
                .is_some_and(|context| context != self.context())
            {
                return Err(self.foreign_argument(index));
            }
        }
        Ok(())
    }

    fn check_count(&self, expected: usize, given: usize) -> Result<(), Error> {
        if expected != given {
            return Err(Error::ArgumentCount {
                kernel: self.name().to_owned(),
                expected,
                given,
            });
        }
        Ok(())
    }

    #[cold]
    fn wrong_size(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentSize {
            kernel: self.name().to_owned(),
            index,
            expected: expected.map_or(0, |param| param.size),
            given,
            declaration: expected.and_then(|param| param.declaration.clone()),
        }
    }

    #[cold]
    fn foreign_argument(&self, index: usize) -> Error {
        Error::ArgumentContext {
            kernel: self.name().to_owned(),
            index,
        }
    }
}
