//! Launching a kernel: the checks, then one call through the table.

pub(crate) mod argument;
mod check;
pub(crate) mod config;
pub(crate) mod occupancy;
pub(crate) mod options;
pub(crate) mod params;
pub(crate) mod resource_argument;
pub(crate) mod typed;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Arguments, list};
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::options::LaunchOptions;
use crate::driver::launch::params::{PackedArgument, ParamBuffer};
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::uses::{MemoryGuard, Use, lock_memory};
use crate::driver::module::kernel::Kernel;
use crate::driver::module::layout::ParamSlot;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::RetainedRef;
use crate::driver::stream::users::Waits;
use crate::driver::texture::object::Object;

/// Launches up to this many arguments allocate nothing.
const ARGUMENTS_ON_STACK: usize = 32;

/// `CU_LAUNCH_PARAM_*`
const PARAM_END: *mut c_void = std::ptr::null_mut();
const PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// Which entry launches.
#[derive(Clone, Copy)]
enum LaunchMode<'a> {
    Default,
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
    /// [`typed`](Kernel::typed) gives a kernel that is launched without `unsafe`.
    ///
    /// # Safety
    /// With these arguments, grid and block, the kernel must access nothing but
    /// the buffers, textures and surfaces among the arguments, the variables of
    /// its module, and memory of its own. A GPU does not check addresses: where
    /// [`PAGEABLE_MEMORY_ACCESS`](crate::driver::DeviceAttribute::PAGEABLE_MEMORY_ACCESS)
    /// is true, a wrong one reaches all memory of the process.
    ///
    /// Memory whose address is passed as a number, or inside a structure, is not
    /// tracked: it must stay allocated, and the host must not use it, until the
    /// kernel is done.
    ///
    /// If the stream is captured, all of this holds for each launch of the graph.
    pub unsafe fn launch(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.launch_in_mode(config, stream, arguments, LaunchMode::Default) }
    }

    /// The same for kernels whose blocks wait for one another: all blocks must
    /// fit on the device at once (`cuLaunchCooperativeKernel`).
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    pub unsafe fn launch_cooperative(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.launch_in_mode(config, stream, arguments, LaunchMode::Cooperative) }
    }

    /// The same with clusters, programmatic launch and the other
    /// [options](LaunchOptions) (`cuLaunchKernelEx`, from CUDA 11.6).
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    pub unsafe fn launch_with(
        &self,
        config: LaunchConfig,
        options: &LaunchOptions<'_>,
        stream: &Stream,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        options.check(self, config, stream)?;
        // SAFETY: the caller's.
        unsafe { self.launch_in_mode(config, stream, arguments, LaunchMode::With(options)) }?;
        options.record_capture(stream);
        Ok(())
    }

    /// Nearly every launch passes numbers and addresses, and nobody else is to
    /// hear of it: then the checks are a few comparisons, and nothing is written
    /// but the pointers.
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    #[inline(always)]
    unsafe fn launch_in_mode(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl Arguments,
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        let capture_epoch = stream.capture_epoch();
        let mut pointers = [const { MaybeUninit::uninit() }; ARGUMENTS_ON_STACK];
        if self.needs_tracking(capture_epoch)
            || !self.is_untracked(stream, &arguments, &mut pointers)
        {
            // SAFETY: the caller's.
            return unsafe { self.launch_otherwise(&config, stream, &arguments, mode) };
        }
        let pointers = Parameters::pointers(pointers.as_mut_ptr().cast());
        // SAFETY: as many pointers as the driver told parameters, each to a value of its size that
        // lives through the call, which copies it. For the kernel the caller answers.
        unsafe { self.call(&config, stream, mode, pointers) }?;
        if stream.capture_epoch() != capture_epoch {
            self.leak_arguments(&arguments);
        }
        self.after_launch(&config, stream)
    }

    /// # Safety
    /// As for [`launch`](Kernel::launch).
    #[inline(never)]
    unsafe fn launch_otherwise(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        arguments: &impl Arguments,
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.launch_tracked(config, stream, &list(arguments), mode) }
    }

    #[cold]
    fn leak_arguments(&self, arguments: &impl Arguments) {
        self.leak(list(arguments).iter().filter_map(Arg::memory));
    }

    /// Whether memory or a graph is to hear of a launch, whatever its arguments are.
    #[inline]
    fn needs_tracking(&self, capture_epoch: Option<u32>) -> bool {
        capture_epoch.is_none() || self.has_resolved()
    }

    /// A capture began while a launch was queued: whether the launch is in a graph,
    /// which would have to keep what it uses, nobody can tell. So all of it stays
    /// for ever.
    #[cold]
    fn leak<'a>(&self, memory: impl Iterator<Item = &'a Arc<Allocation>>) {
        std::mem::forget(self.clone());
        for memory in memory {
            std::mem::forget(Arc::clone(memory));
        }
    }

    /// Whether the arguments are the kernel's, and a launch has nothing to do for them but to
    /// pass them; then `pointers` begins with theirs.
    #[inline(always)]
    fn is_untracked<'a>(
        &self,
        stream: &Stream,
        arguments: &'a impl Arguments,
        pointers: &mut [MaybeUninit<*mut c_void>; ARGUMENTS_ON_STACK],
    ) -> bool {
        let slots = match self.slots() {
            Some(slots) if self.layout_is_certain() => slots,
            _ => return false,
        };
        let count = arguments.count();
        if slots.len() != count || count > ARGUMENTS_ON_STACK {
            return false;
        }
        let identity = stream.identity();
        // What differs, of all arguments together: one branch, and no list of arguments.
        let (mut at, mut wrong) = (0, 0);
        arguments.each(|arg: Arg<'a>| {
            // Both are there, but for arguments that are more than they said.
            if let (Some(slot), Some(pointer)) = (slots.get(at), pointers.get_mut(at)) {
                wrong |= arg.difference(slot);
                if !arg.needs_no_tracking(stream, identity) {
                    wrong = 1;
                }
                pointer.write(arg.pointer());
            }
            at += 1;
        });
        wrong == 0 && at == count
    }

    /// Every other launch: tells what is wrong with the arguments, or notes who
    /// uses what.
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    #[inline(never)]
    unsafe fn launch_tracked(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        args: &[Arg<'_>],
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        if !self.layout_is_certain() {
            // SAFETY: the caller's.
            return unsafe { self.launch_packed(config, stream, args, mode) };
        }
        self.check_stream(stream)?;
        self.check_args(args)?;
        let memory = args.iter().filter_map(Arg::used).chain(self.resolved());
        let guard = lock_memory(Some(stream), memory)?;
        with_pointers(args, |pointers| {
            // SAFETY: as above.
            unsafe { self.call(config, stream, mode, Parameters::pointers(pointers)) }
        })?;
        let objects = args.iter().filter_map(Arg::object);
        self.retain_for_launch(stream, guard, objects.map(Object::retained));
        self.after_launch(config, stream)
    }

    /// Checks everything but the parameters, and launches.
    ///
    /// # Safety
    /// The parameters are the kernel's, and live through the call; and as for
    /// [`launch`](Kernel::launch).
    #[inline(always)]
    unsafe fn call(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        mode: LaunchMode<'_>,
        parameters: Parameters,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe {
            match mode {
                LaunchMode::Default => self.call_default(config, stream, parameters),
                LaunchMode::Cooperative => self.call_cooperative(config, stream, parameters),
                LaunchMode::With(options) => self.call_with(options, config, stream, parameters),
            }
        }
    }

    /// `cuLaunchKernel`. Kernel and stream say which context they are of, so a launch while
    /// another context is current is refused, or is the same launch. Hence the driver is not
    /// asked before it, which takes a hundredth of a launch, but after a refusal.
    ///
    /// # Safety
    /// As for [`call`](Kernel::call).
    #[inline(never)]
    unsafe fn call_default(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        Parameters { pointers, extra }: Parameters,
    ) -> Result<(), Error> {
        self.check_config(config)?;
        self.check_stream(stream)?;
        let context = self.context();
        let is_assumed = stream.has_context() && context.was_current();
        let mut api = if is_assumed {
            context.api()
        } else {
            context.bind()?
        };
        let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
        let (function, shared, queue) = (self.raw(), config.shared_bytes, stream.raw());
        loop {
            // SAFETY: kernel and stream are live and of one context; the caller answers for the
            // parameters.
            let launched = unsafe {
                api.cuLaunchKernel(
                    function, gx, gy, gz, bx, by, bz, shared, queue, pointers, extra,
                )
            };
            match launched {
                Err(_) if is_assumed && !context.is_current() => api = context.bind()?,
                launched => return Ok(launched?),
            }
        }
    }

    /// `cuLaunchCooperativeKernel`
    ///
    /// # Safety
    /// As for [`call`](Kernel::call).
    unsafe fn call_cooperative(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        Parameters { pointers, .. }: Parameters,
    ) -> Result<(), Error> {
        self.check_config(config)?;
        self.check_stream(stream)?;
        let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
        let (function, shared, queue) = (self.raw(), config.shared_bytes, stream.raw());
        let api = self.context().bind()?;
        // SAFETY: kernel and stream are live and of one context; the caller answers for the
        // parameters.
        unsafe {
            api.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, queue, pointers)
        }?;
        Ok(())
    }

    /// `cuLaunchKernelEx`
    ///
    /// # Safety
    /// As for [`call`](Kernel::call).
    unsafe fn call_with(
        &self,
        options: &LaunchOptions<'_>,
        config: &LaunchConfig,
        stream: &Stream,
        Parameters { pointers, extra }: Parameters,
    ) -> Result<(), Error> {
        self.check_config(config)?;
        self.check_stream(stream)?;
        let mut attributes = options.attributes();
        let config = attributes.config(*config, stream.raw());
        let api = self.context().bind()?;
        // SAFETY: kernel and stream are live and of one context; the caller answers for the
        // parameters; the attributes live through the call.
        unsafe { api.cuLaunchKernelEx(&config, self.raw(), pointers, extra) }?;
        Ok(())
    }

    /// A driver that cannot tell the parameters gets the arguments as one block
    /// with a length, which it does not read beyond.
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    #[cold]
    unsafe fn launch_packed(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        args: &[Arg<'_>],
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        if matches!(mode, LaunchMode::Cooperative) {
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
        // SAFETY: the caller's.
        unsafe { self.launch_params(config, stream, &params, mode) }
    }

    /// Launches the kernel with its parameters as one block
    /// (`cuLaunchKernel` with `CU_LAUNCH_PARAM_BUFFER_POINTER`).
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    pub unsafe fn launch_buffer(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &ParamBuffer<'_>,
    ) -> Result<(), Error> {
        let capture_epoch = stream.capture_epoch();
        if self.needs_tracking(capture_epoch) || !self.is_untracked_block(stream, params) {
            // SAFETY: the caller's.
            return unsafe { self.launch_params(&config, stream, params, LaunchMode::Default) };
        }
        // SAFETY: the caller's.
        unsafe { self.launch_block(&config, stream, params.bytes(), LaunchMode::Default) }?;
        if stream.capture_epoch() != capture_epoch {
            let packed = params.packed().iter();
            self.leak(packed.filter_map(|argument| argument.memory.as_ref()));
        }
        self.after_launch(&config, stream)
    }

    /// As [`is_untracked`](Kernel::is_untracked); the layout may be the PTX's.
    fn is_untracked_block(&self, stream: &Stream, params: &ParamBuffer<'_>) -> bool {
        let (packed, identity) = (params.packed(), stream.identity());
        self.slots().is_some_and(|slots| {
            slots.len() == packed.len()
                && (0..packed.len()).all(|at| {
                    packed[at].is_at(&slots[at]) && packed[at].needs_no_tracking(stream, identity)
                })
        })
    }

    /// Every other launch of a block.
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch).
    unsafe fn launch_params(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        params: &ParamBuffer<'_>,
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        self.check_stream(stream)?;
        self.check_reach(params)?;
        self.check_places(params)?;
        let packed = params.packed().iter();
        let memory = packed
            .filter_map(PackedArgument::used)
            .chain(self.resolved());
        let guard = lock_memory(Some(stream), memory)?;
        // SAFETY: the caller's.
        unsafe { self.launch_block(config, stream, params.bytes(), mode) }?;
        let packed = params.packed().iter();
        let objects = packed.filter_map(|argument| argument.object.as_ref());
        self.retain_for_launch(stream, guard, objects.map(|(_, retained)| retained.clone()));
        self.after_launch(config, stream)
    }

    /// Launches the kernel with a block of parameters that the caller laid out.
    ///
    /// # Safety
    /// As for [`launch`](Kernel::launch); no buffer is tracked.
    pub unsafe fn launch_bytes(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        params: &[u8],
    ) -> Result<(), Error> {
        self.check_stream(stream)?;
        let guard = lock_memory(Some(stream), self.resolved())?;
        // SAFETY: the caller's.
        unsafe { self.launch_block(&config, stream, params, LaunchMode::Default) }?;
        self.retain_for_launch(stream, guard, []);
        self.after_launch(&config, stream)
    }

    /// # Safety
    /// As for [`launch`](Kernel::launch).
    unsafe fn launch_block(
        &self,
        config: &LaunchConfig,
        stream: &Stream,
        params: &[u8],
        mode: LaunchMode<'_>,
    ) -> Result<(), Error> {
        let bytes = |slot: &ParamSlot| slot.offset() + slot.size();
        if let Some(expected) = self.slots().map(|slots| slots.last().map_or(0, bytes))
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
            extra: if params.is_empty() {
                std::ptr::null_mut()
            } else {
                extra.as_mut_ptr()
            },
        };
        // SAFETY: the block has the length given and lives through the call, which copies it. For
        // the kernel the caller answers.
        unsafe { self.call(config, stream, mode, parameters) }
    }

    /// The memory of variables that the caller gave, which the kernel may use.
    fn resolved(&self) -> impl Iterator<Item = Use<'_>> {
        self.module().resolved().iter().map(Use::from)
    }

    /// If the stream captures, its graph keeps the kernel, its textures and
    /// surfaces; else those wait for the stream before they are destroyed.
    fn retain_for_launch(
        &self,
        stream: &Stream,
        guard: MemoryGuard<'_>,
        objects: impl IntoIterator<Item = RetainedRef>,
    ) {
        let capture = guard.capture();
        if let Some(capture) = capture {
            capture.retain(self.retained());
        }
        for object in objects {
            match capture {
                Some(capture) => capture.retain(object),
                // Objects note the stream, and take no locks.
                None => drop(object.before_launch(stream, &mut Waits::default())),
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
}

/// Hands `call` a pointer for each argument.
pub(crate) fn with_pointers<R>(args: &[Arg<'_>], call: impl FnOnce(*mut *mut c_void) -> R) -> R {
    // Padding is nothing that anybody may read: values with it are copied without it.
    let mut copies = Vec::new();
    let pointer = |arg: &Arg<'_>| {
        if arg.is_structure() {
            arg.copied_to(&mut copies)
        } else {
            arg.pointer()
        }
    };
    let mut pointers: Vec<*mut c_void> = args.iter().map(pointer).collect();
    call(pointers.as_mut_ptr())
}
