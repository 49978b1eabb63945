//! Launching a kernel: the checks, then one call through the table.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::allocation::{self, Allocation};
use super::argument::{Arg, Arguments};
use super::context::Context;
use super::error::Error;
use super::keep::{Kept, Object};
use super::kernel::Kernel;
use super::launch_config::LaunchConfig;
use super::options::LaunchOptions;
use super::params::ParamBuffer;
use super::stream::Stream;

/// Launches up to this many arguments allocate nothing.
const ARGUMENTS_ON_STACK: usize = 32;

/// `CU_LAUNCH_PARAM_*`
const PARAM_END: *mut c_void = std::ptr::null_mut();
const PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// Which entry launches.
#[derive(Clone, Copy)]
enum How<'a> {
    Plain,
    Cooperative,
    With(&'a LaunchOptions<'a>),
}

/// The last two arguments of `cuLaunchKernel`: one of them is null.
#[derive(Clone, Copy)]
struct Parameters {
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl Kernel {
    /// Launches the kernel with one pointer an argument (`cuLaunchKernel`).
    /// Returns when it is queued; its own errors show when the stream or the
    /// context is synchronised, or with the launch itself in
    /// [check mode](super::Context::set_check_mode).
    ///
    /// Number, sizes and alignment of the arguments are checked where the layout
    /// is known, grid and block against the device, the block against the
    /// kernel. Shared memory above the default of 48 KB is opted into.
    ///
    /// A kernel is code: what it does with addresses is not checked on a GPU.
    /// Memory that a device can write is never behind a Rust reference in this
    /// module's safe API, so a wrong kernel spoils data, not references, but on
    /// devices that reach all of the host's memory
    /// ([`PAGEABLE_MEMORY_ACCESS`](super::Attribute::PAGEABLE_MEMORY_ACCESS)): there it is to be
    /// trusted like any other native code.
    pub fn launch(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_how(config, stream, arguments, How::Plain)
    }

    /// The same for kernels whose blocks wait for one another: all blocks must
    /// fit on the device at once (`cuLaunchCooperativeKernel`).
    pub fn launch_cooperative(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_how(config, stream, arguments, How::Cooperative)
    }

    /// The same with clusters, programmatic launch and the other
    /// [options](LaunchOptions) (`cuLaunchKernelEx`, from CUDA 11.6).
    pub fn launch_with(
        &self,
        config: LaunchConfig,
        options: &LaunchOptions<'_>,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        options.check(self, config, stream)?;
        self.launch_how(config, stream, arguments, How::With(options))?;
        options.launched_in(stream);
        Ok(())
    }

    #[inline]
    fn launch_how(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        how: How<'_>,
    ) -> Result<(), Error> {
        if !self.layout_is_certain() {
            return self.launch_packed(config, stream, arguments, how);
        }
        self.check_config(config)?;
        self.check_stream(stream)?;
        arguments.with(|args| {
            self.check_args(args)?;
            let memory = args.iter().filter_map(|arg| arg.memory());
            let held = allocation::hold(Some(stream), memory.chain(self.module().resolved()))?;
            with_pointers(args, |pointers| {
                let parameters = Parameters {
                    pointers,
                    extra: std::ptr::null_mut(),
                };
                // SAFETY: there is a pointer for each parameter the driver told, to a value of
                // its size that lives through the call, which copies it.
                unsafe { self.call(config, stream, how, parameters) }
            })?;
            drop(held);
            let objects = args.iter().filter_map(Arg::object);
            self.keep_in(stream, objects.map(Object::kept));
            self.after_launch(config, stream)
        })
    }

    /// # Safety
    /// The parameters are the kernel's, and live through the call.
    #[inline]
    unsafe fn call(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        how: How<'_>,
        Parameters { pointers, extra }: Parameters,
    ) -> Result<(), Error> {
        let api = self.context().bind()?;
        let LaunchConfig {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            shared_bytes: shared,
        } = config;
        let (function, queue) = (self.raw(), stream.raw());
        // SAFETY: kernel and stream are live and of one context; the caller answers for the
        // parameters; the attributes live through the call.
        unsafe {
            match how {
                How::Plain => api.cuLaunchKernel(
                    function, gx, gy, gz, bx, by, bz, shared, queue, pointers, extra,
                ),
                How::Cooperative => api.cuLaunchCooperativeKernel(
                    function, gx, gy, gz, bx, by, bz, shared, queue, pointers,
                ),
                How::With(options) => {
                    let mut attributes = options.attributes();
                    let config = attributes.config(config, queue);
                    api.cuLaunchKernelEx(&config, function, pointers, extra)
                }
            }
        }
    }

    /// A driver that cannot tell the parameters gets the arguments as one block
    /// with a length, which it does not read beyond.
    #[cold]
    fn launch_packed(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        how: How<'_>,
    ) -> Result<(), Error> {
        if matches!(how, How::Cooperative) {
            // `cuLaunchCooperativeKernel` takes pointers only.
            return Err(self.context().api().missing("cuFuncGetParamInfo", 12_040));
        }
        arguments.with(|args| {
            let mut params = ParamBuffer::new();
            for &arg in args {
                params.push(arg);
            }
            self.check_params(&params)?;
            let memory = args.iter().filter_map(|arg| arg.memory());
            let held = allocation::hold(Some(stream), memory.chain(self.module().resolved()))?;
            self.launch_block(config, stream, params.bytes(), how)?;
            drop(held);
            let objects = args.iter().filter_map(Arg::object);
            self.keep_in(stream, objects.map(Object::kept));
            self.after_launch(config, stream)
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
        self.check_params(params)?;
        let pieces = params.pieces().iter();
        let memory = pieces.filter_map(|piece| piece.memory.as_ref());
        let held = allocation::hold(Some(stream), memory.chain(self.module().resolved()))?;
        self.launch_block(config, stream, params.bytes(), How::Plain)?;
        drop(held);
        let objects = params
            .pieces()
            .iter()
            .filter_map(|piece| piece.object.as_ref());
        self.keep_in(stream, objects.map(|(_, kept)| kept.clone()));
        self.after_launch(config, stream)
    }

    fn check_params(&self, params: &ParamBuffer<'_>) -> Result<(), Error> {
        for (index, piece) in params.pieces().iter().enumerate() {
            if let Some(memory) = piece.memory.as_ref()
                && !memory.is_reached_from(self.context())
            {
                self.foreign_argument(index, memory)?;
            }
            if let Some((context, _)) = &piece.object {
                self.check_object(index, context)?;
            }
        }
        let Some(layout) = self.layout() else {
            return Ok(());
        };
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
        Ok(())
    }

    /// Launches the kernel with a block of parameters that the caller laid out.
    pub fn launch_bytes(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &[u8],
    ) -> Result<(), Error> {
        self.launch_block(config, stream, params, How::Plain)?;
        self.keep_in(stream, []);
        self.after_launch(config, stream)
    }

    fn launch_block(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &[u8],
        how: How<'_>,
    ) -> Result<(), Error> {
        self.check_config(config)?;
        self.check_stream(stream)?;
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
        let parameters = Parameters {
            pointers: std::ptr::null_mut(),
            extra: match params.is_empty() {
                true => std::ptr::null_mut(),
                false => extra.as_mut_ptr(),
            },
        };
        // SAFETY: the block has the length given and lives through the call, which copies it.
        unsafe { self.call(config, stream, how, parameters) }
    }

    /// If the stream captures, its graph keeps the kernel, its textures and
    /// surfaces; else those wait for the stream before they are destroyed.
    #[inline]
    fn keep_in(&self, stream: &Stream, objects: impl IntoIterator<Item = Kept>) {
        let capture = stream.capture();
        if let Some(capture) = &capture {
            capture.add(self.kept());
        }
        for object in objects {
            match &capture {
                Some(capture) => capture.add(object),
                // Objects note the stream, and take no locks.
                None => drop(object.launching(stream)),
            }
        }
    }

    /// In check mode, waits for the kernel and tells what became of it.
    #[inline]
    fn after_launch(&self, config: LaunchConfig, stream: &Stream) -> Result<(), Error> {
        if self.context().check_mode() {
            return stream.wait_for_check(|| format!("kernel `{}`, {config}", self.name()));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_config(&self, config: LaunchConfig) -> Result<(), Error> {
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
        Ok(())
    }

    #[inline]
    fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "kernel and stream",
            });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_args(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        if let Some(layout) = self.layout() {
            self.check_count(layout.params.len(), args.len())?;
            for (index, (expected, given)) in layout.params.iter().zip(args).enumerate() {
                if expected.size != given.size() {
                    return Err(self.wrong_size(index, given.size()));
                }
                // Alignments are powers of two.
                if expected.offset & (given.align() - 1) != 0 {
                    return Err(self.wrong_alignment(index, given.align()));
                }
            }
        }
        for (index, arg) in args.iter().enumerate() {
            if let Some(memory) = arg.memory()
                && !memory.is_reached_from(self.context())
            {
                self.foreign_argument(index, memory)?;
            }
            if let Some(object) = arg.object() {
                self.check_object(index, object.context())?;
            }
        }
        Ok(())
    }

    /// Textures and surfaces are their context's alone.
    fn check_object(&self, index: usize, context: &Context) -> Result<(), Error> {
        if context != self.context() {
            return Err(self.argument_context(index));
        }
        Ok(())
    }

    #[cold]
    fn wrong_alignment(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentAlignment {
            kernel: self.name().to_owned(),
            index,
            offset: expected.map_or(0, |param| param.offset),
            given,
            declaration: expected.and_then(|param| param.declaration.clone()),
        }
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

    /// Memory of another context is good where peer access is enabled.
    #[cold]
    fn foreign_argument(&self, index: usize, memory: &Allocation) -> Result<(), Error> {
        if self.context().reaches(memory.context()) {
            memory.used_by(self.context());
            return Ok(());
        }
        Err(self.argument_context(index))
    }

    #[cold]
    fn argument_context(&self, index: usize) -> Error {
        Error::ArgumentContext {
            kernel: self.name().to_owned(),
            index,
        }
    }
}

/// Hands `call` a pointer for each argument.
#[inline]
pub(crate) fn with_pointers<R>(args: &[Arg<'_>], call: impl FnOnce(*mut *mut c_void) -> R) -> R {
    let mut few = [std::ptr::null_mut(); ARGUMENTS_ON_STACK];
    let mut many;
    let pointers = match args.len() {
        count @ ..=ARGUMENTS_ON_STACK => &mut few[..count],
        count => {
            many = vec![std::ptr::null_mut(); count];
            &mut many[..]
        }
    };
    // Padding is nothing that anybody may read: such values are copied without it.
    let mut padded = Vec::new();
    for (pointer, arg) in pointers.iter_mut().zip(args) {
        *pointer = arg.pointer();
        if arg.has_padding() {
            let mut value = Vec::with_capacity(arg.size());
            arg.append_to(&mut value);
            *pointer = value.as_mut_ptr().cast();
            padded.push(value);
        }
    }
    call(pointers.as_mut_ptr())
}
