//! Launching a kernel: the checks, then one call through the table.

pub(crate) mod argument;
pub(crate) mod config;
pub(crate) mod occupancy;
pub(crate) mod options;
pub(crate) mod params;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Arguments};
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::options::LaunchOptions;
use crate::driver::launch::params::ParamBuffer;
use crate::driver::memory::allocation::{self, Allocation, Held};
use crate::driver::module::kernel::Kernel;
use crate::driver::stream::Stream;
use crate::driver::stream::keep::{Kept, Object};

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

impl Parameters {
    fn pointers(pointers: *mut *mut c_void) -> Parameters {
        Parameters {
            pointers,
            extra: std::ptr::null_mut(),
        }
    }
}

impl Kernel {
    /// Launches the kernel with one pointer an argument (`cuLaunchKernel`).
    /// Returns when it is queued; its own errors show when the stream or the
    /// context is synchronised, or with the launch itself in
    /// [check mode](crate::driver::Context::set_check_mode).
    ///
    /// Number, sizes and alignment of the arguments are checked where the layout
    /// is known, grid and block against the device, the block against the
    /// kernel. Shared memory above the default of 48 KB is opted into.
    ///
    /// A kernel is code: what it does with addresses is not checked on a GPU.
    /// Memory that a device can write is never behind a Rust reference in this
    /// module's safe API, so a wrong kernel spoils data, not references, but on
    /// devices that reach all of the host's memory
    /// ([`PAGEABLE_MEMORY_ACCESS`](crate::driver::Attribute::PAGEABLE_MEMORY_ACCESS)): there it is to be
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

    /// Nearly every launch passes numbers and addresses, and nobody else is to
    /// hear of it: then the checks are a few comparisons, and nothing is written
    /// but the pointers.
    #[inline]
    fn launch_how(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        how: How<'_>,
    ) -> Result<(), Error> {
        let captures = stream.captures();
        let mut noted = self.is_noted(captures);
        let launched = arguments.with(|args| {
            noted = noted || !self.only_passes(stream, args);
            if noted {
                return Ok(());
            }
            // SAFETY: as many pointers as the driver told parameters, each to a value of its
            // size that lives through the call, which copies it.
            with_pointers(args, |pointers| unsafe {
                self.call(&config, stream, how, Parameters::pointers(pointers))
            })?;
            if stream.captures() != captures {
                self.lose(args.iter().filter_map(Arg::memory));
            }
            Ok(())
        });
        match noted {
            false => launched.and_then(|()| self.after_launch(&config, stream)),
            // Asked for anew: no other function sees those above, so they stay in registers.
            true => arguments.with(|args| self.launch_noted(&config, stream, args, how)),
        }
    }

    /// Whether memory or a graph is to hear of a launch, whatever its arguments are.
    #[inline]
    fn is_noted(&self, captures: Option<u32>) -> bool {
        captures.is_none() || !self.module().resolved().is_empty()
    }

    /// A capture began while a launch was queued: whether the launch is in a graph,
    /// which would have to keep what it uses, nobody can tell. So all of it stays
    /// for ever.
    #[cold]
    fn lose<'a>(&self, memory: impl Iterator<Item = &'a Arc<Allocation>>) {
        std::mem::forget(self.clone());
        for memory in memory {
            std::mem::forget(Arc::clone(memory));
        }
    }

    /// Whether the arguments are the kernel's, and a launch has nothing to do
    /// for them but to pass them.
    #[inline]
    fn only_passes(&self, stream: &Stream, args: &[Arg<'_>]) -> bool {
        let Some(layout) = self.layout().filter(|_| self.layout_is_certain()) else {
            return false;
        };
        layout.params.len() == args.len()
            && layout.params[..args.len()]
                .iter()
                .zip(args)
                .all(|(param, arg)| arg.fits(param) && arg.is_only_passed(stream))
    }

    /// Every other launch: tells what is wrong with the arguments, or notes who
    /// uses what.
    #[inline(never)]
    fn launch_noted(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        args: &[Arg<'_>],
        how: How<'_>,
    ) -> Result<(), Error> {
        if !self.layout_is_certain() {
            return self.launch_packed(config, stream, args, how);
        }
        self.check_stream(stream)?;
        self.check_args(args)?;
        let memory = args.iter().filter_map(|arg| arg.memory());
        let held = allocation::hold(Some(stream), memory.chain(self.module().resolved()))?;
        with_pointers(args, |pointers| {
            // SAFETY: as above.
            unsafe { self.call(config, stream, how, Parameters::pointers(pointers)) }
        })?;
        let objects = args.iter().filter_map(Arg::object);
        self.keep_in(stream, held, objects.map(Object::kept));
        self.after_launch(config, stream)
    }

    /// Checks everything but the parameters, and launches.
    ///
    /// # Safety
    /// The parameters are the kernel's, and live through the call.
    unsafe fn call(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        how: How<'_>,
        Parameters { pointers, extra }: Parameters,
    ) -> Result<(), Error> {
        self.check_config(config)?;
        self.check_stream(stream)?;
        let api = self.context().bind()?;
        let LaunchConfig {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            shared_bytes: shared,
        } = *config;
        let (function, queue) = (self.raw(), stream.raw());
        // SAFETY: kernel and stream are live and of one context; the caller answers for the
        // parameters; the attributes live through the call.
        unsafe {
            match how {
                How::Plain => Ok(api.cuLaunchKernel(
                    function, gx, gy, gz, bx, by, bz, shared, queue, pointers, extra,
                )?),
                How::Cooperative => Ok(api.cuLaunchCooperativeKernel(
                    function, gx, gy, gz, bx, by, bz, shared, queue, pointers,
                )?),
                How::With(options) => {
                    let mut attributes = options.attributes();
                    let config = attributes.config(*config, queue);
                    Ok(api.cuLaunchKernelEx(&config, function, pointers, extra)?)
                }
            }
        }
    }

    /// A driver that cannot tell the parameters gets the arguments as one block
    /// with a length, which it does not read beyond.
    #[cold]
    fn launch_packed(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        args: &[Arg<'_>],
        how: How<'_>,
    ) -> Result<(), Error> {
        if matches!(how, How::Cooperative) {
            // `cuLaunchCooperativeKernel` takes pointers only.
            return Err(self
                .context()
                .api()
                .missing("cuFuncGetParamInfo", 12_040)
                .into());
        }
        let mut params = ParamBuffer::new();
        for &arg in args {
            params.push(arg);
        }
        self.launch_params(config, stream, &params, how)
    }

    /// Launches the kernel with its parameters as one block
    /// (`cuLaunchKernel` with `CU_LAUNCH_PARAM_BUFFER_POINTER`).
    pub fn launch_buffer(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &ParamBuffer<'_>,
    ) -> Result<(), Error> {
        let captures = stream.captures();
        if self.is_noted(captures) || !self.only_passes_block(stream, params) {
            return self.launch_params(&config, stream, params, How::Plain);
        }
        self.launch_block(&config, stream, params.bytes(), How::Plain)?;
        if stream.captures() != captures {
            let pieces = params.pieces().iter();
            self.lose(pieces.filter_map(|piece| piece.memory.as_ref()));
        }
        self.after_launch(&config, stream)
    }

    /// As [`only_passes`](Kernel::only_passes); the layout may be the PTX's.
    fn only_passes_block(&self, stream: &Stream, params: &ParamBuffer<'_>) -> bool {
        let pieces = params.pieces();
        self.layout().is_some_and(|layout| {
            layout.params.len() == pieces.len()
                && pieces
                    .iter()
                    .zip(&layout.params)
                    .all(|(piece, param)| piece.is_at(param) && piece.is_only_passed(stream))
        })
    }

    /// Every other launch of a block.
    fn launch_params(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        params: &ParamBuffer<'_>,
        how: How<'_>,
    ) -> Result<(), Error> {
        self.check_stream(stream)?;
        self.check_reach(params)?;
        self.check_places(params)?;
        let pieces = params.pieces().iter();
        let memory = pieces.filter_map(|piece| piece.memory.as_ref());
        let held = allocation::hold(Some(stream), memory.chain(self.module().resolved()))?;
        self.launch_block(config, stream, params.bytes(), how)?;
        let pieces = params.pieces().iter();
        let objects = pieces.filter_map(|piece| piece.object.as_ref());
        self.keep_in(stream, held, objects.map(|(_, kept)| kept.clone()));
        self.after_launch(config, stream)
    }

    /// Whether the kernel's context reaches what the arguments stand for.
    fn check_reach(&self, params: &ParamBuffer<'_>) -> Result<(), Error> {
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
        Ok(())
    }

    /// Whether the arguments lie where the parameters do, if that is known.
    fn check_places(&self, params: &ParamBuffer<'_>) -> Result<(), Error> {
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
                return Err(self.wrong_offset(index, given.offset));
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
        self.check_stream(stream)?;
        let held = allocation::hold(Some(stream), self.module().resolved())?;
        self.launch_block(&config, stream, params, How::Plain)?;
        self.keep_in(stream, held, []);
        self.after_launch(&config, stream)
    }

    fn launch_block(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        params: &[u8],
        how: How<'_>,
    ) -> Result<(), Error> {
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
    fn keep_in(&self, stream: &Stream, held: Held<'_>, objects: impl IntoIterator<Item = Kept>) {
        let capture = held.capture();
        if let Some(capture) = capture {
            capture.add(self.kept());
        }
        for object in objects {
            match capture {
                Some(capture) => capture.add(object),
                // Objects note the stream, and take no locks.
                None => drop(object.launching(stream)),
            }
        }
    }

    /// In check mode, waits for the kernel and tells what became of it.
    #[inline]
    fn after_launch(&self, config: &LaunchConfig, stream: &Stream) -> Result<(), Error> {
        if self.context().check_mode() {
            return stream.wait_for_check(|| format!("kernel `{}`, {config}", self.name()));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<(), Error> {
        let LaunchConfig { grid, block, .. } = config;
        let limits = self.context().limits();
        let [x, y, z] = block.map(u64::from);
        if (x * y).saturating_mul(z) > u64::from(self.max_threads()) {
            return Err(self.block_too_large(block));
        }
        if let Some(required) = self.layout().and_then(|layout| layout.required_block)
            && required != *block
        {
            return Err(self.other_block(required, block));
        }
        // Less one: 0 is then out of range too.
        let is_within = |given: &[u32; 3], limit: &[u32; 3]| {
            let mut axes = given.iter().zip(limit);
            axes.all(|(&given, &limit)| given.wrapping_sub(1) < limit)
        };
        if !is_within(grid, &limits.grid) {
            return Err(self.out_of_range("grid", grid, &limits.grid));
        }
        if !is_within(block, &limits.block) {
            return Err(self.out_of_range("block", block, &limits.block));
        }
        if config.shared_bytes > self.dynamic_shared().load(Ordering::Relaxed) {
            self.opt_in_shared(config.shared_bytes)?;
        }
        Ok(())
    }

    #[cold]
    fn block_too_large(&self, &block: &[u32; 3]) -> Error {
        Error::BlockTooLarge {
            kernel: self.name().to_owned(),
            block,
            limit: self.max_threads(),
        }
    }

    #[cold]
    fn other_block(&self, required: [u32; 3], &given: &[u32; 3]) -> Error {
        Error::RequiredBlock {
            kernel: self.name().to_owned(),
            required,
            given,
        }
    }

    /// The first axis that is out of range.
    #[cold]
    fn out_of_range(&self, what: &'static str, given: &[u32; 3], limit: &[u32; 3]) -> Error {
        let is_wrong = |&axis: &usize| given[axis] == 0 || given[axis] > limit[axis];
        let axis = (0..3).find(is_wrong).unwrap_or_default();
        Error::Dimension {
            kernel: self.name().to_owned(),
            what,
            axis,
            given: given[axis],
            limit: limit[axis],
        }
    }

    #[inline]
    fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        match stream.context() == self.context() {
            true => Ok(()),
            false => Err(Error::DifferentContexts {
                what: "kernel and stream",
            }),
        }
    }

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

    #[cold]
    fn wrong_offset(&self, index: usize, given: usize) -> Error {
        let expected = self.layout().and_then(|layout| layout.params.get(index));
        Error::ArgumentOffset {
            kernel: self.name().to_owned(),
            index,
            expected: expected.map_or(0, |param| param.offset),
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
    let mut few = [const { MaybeUninit::uninit() }; ARGUMENTS_ON_STACK];
    let mut many;
    let pointers = match args.len() {
        count @ ..=ARGUMENTS_ON_STACK => &mut few[..count],
        count => {
            many = vec![MaybeUninit::uninit(); count];
            &mut many[..]
        }
    };
    // Padding is nothing that anybody may read: such values are copied without it.
    let mut padded = Vec::new();
    for (pointer, arg) in pointers.iter_mut().zip(args) {
        pointer.write(match arg.has_padding() {
            true => arg.without_padding(&mut padded),
            false => arg.pointer(),
        });
    }
    call(pointers.as_mut_ptr().cast())
}
