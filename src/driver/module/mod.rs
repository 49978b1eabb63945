//! Loaded code.

pub(crate) mod bindings;
pub(crate) mod global;
pub(crate) mod image_bounds;
pub(crate) mod kernel;
pub(crate) mod layout;
pub(crate) mod library;
pub(crate) mod library_handle;
pub(crate) mod link;
pub mod nvjitlink;

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::error::{Error, JitError};
use crate::driver::log::{JitOptionList, option, read_log};
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::module::bindings::Bindings;
use crate::driver::module::image_bounds::CheckedImage;
use crate::driver::module::layout::{KernelInfo, kernels_of_binary, kernels_of_ptx};
use crate::driver::module::library_handle::LibraryHandle;
use crate::driver::pod::Pod;
use crate::driver::stream::retained::RetainedRef;
use api::CudaError;
use api::{Api, CUdeviceptr, CUmodule, DriverKind};
use ptx::signature::KernelSignature;

/// A module in a context. Clones share it; its kernels and variables keep it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, Module};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let module = Module::load(&context, b".version 8.0 .target sm_80 .address_size 64
///     .visible .entry nothing() { ret; }")?;
/// assert_eq!(module.kernel("nothing")?.name(), "nothing");
/// assert!(module.kernel("something").is_err());
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    handle: CUmodule,
    /// What the PTX, or the cubin, says of its kernels, where the driver does not.
    kernels: Vec<KernelInfo>,
    owner: Ownership,
    /// Memory that its variables stand for.
    #[allow(dead_code, reason = "held, not read")]
    memory: Vec<Arc<Allocation>>,
    /// What its texture and surface references are bound to, unless it is one of
    /// several modules of a library.
    bound: Bindings,
}

/// Who unloads a module.
enum Ownership {
    Here,
    /// Another library, which keeps it loaded through this.
    By(#[allow(dead_code, reason = "held, not read")] Owner),
    /// A library of the driver's, whose module it is.
    Library(#[allow(dead_code, reason = "held, not read")] Arc<LibraryHandle>),
}

impl std::fmt::Debug for Ownership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ownership::Here => "Here",
            Ownership::By(_) => "By",
            Ownership::Library(_) => "Library",
        })
    }
}

/// A module that may be unloaded meanwhile; see [`Module::downgrade`].
#[derive(Clone, Debug, Default)]
pub struct WeakModule {
    inner: Weak<Inner>,
}

impl WeakModule {
    /// The module, if anything still keeps it loaded.
    pub fn upgrade(&self) -> Option<Module> {
        let inner = self.inner.upgrade()?;
        Some(Module { inner })
    }

    /// Whether anything keeps it loaded.
    pub fn is_loaded(&self) -> bool {
        self.inner.strong_count() > 0
    }
}

// SAFETY: a module handle may be used from any thread with its context current.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Module {
    /// Loads PTX (`cuModuleLoadDataEx`), which needs no NUL at its end. PTX that
    /// does not compile is an [`Error::Jit`] with the compiler's log, a binary an
    /// [`Error::Binary`].
    ///
    /// Loading PTX runs none of it. Its kernels are run by launches, which are
    /// `unsafe`, or of a [typed](crate::driver::Kernel::typed) kernel.
    pub fn load(context: &Context, ptx: &[u8]) -> Result<Module, Error> {
        match image_bounds::check(ptx)? {
            ptx @ CheckedImage::Ptx(_) => Module::load_checked(context, ptx, Vec::new()),
            CheckedImage::Binary(_) => Err(Error::Binary),
        }
    }

    /// Loads PTX, a cubin, a fatbin, or a binary of the CPU device
    /// (`cuModuleLoadDataEx`, `cuModuleLoadData`). The headers of a binary are
    /// checked to keep to its bytes.
    ///
    /// # Safety
    /// A binary must come from a compiler, unchanged. A binary of the CPU device is
    /// machine code of this process; a cubin is machine code of the device, which
    /// the driver takes apart on the host and does not verify.
    pub unsafe fn load_image(context: &Context, image: &[u8]) -> Result<Module, Error> {
        Module::load_checked(context, image_bounds::check(image)?, Vec::new())
    }

    /// The same, for a binary whose PTX is known: `kernels` are what
    /// [`signatures`](ptx::signature::signatures) read there. Wrong
    /// arguments are then reported with name and type. Drivers before CUDA 12.4
    /// cannot tell a kernel's parameters: there PTX and cubins are read for them.
    ///
    /// # Safety
    /// As for [`load_image`](Module::load_image).
    pub unsafe fn load_with(
        context: &Context,
        image: &[u8],
        kernels: Vec<KernelSignature>,
    ) -> Result<Module, Error> {
        Module::load_checked(context, image_bounds::check(image)?, kernels)
    }

    fn load_checked(
        context: &Context,
        image: CheckedImage<'_>,
        kernels: Vec<KernelSignature>,
    ) -> Result<Module, Error> {
        let mut inner = Inner {
            context: context.clone(),
            handle: std::ptr::null_mut(),
            kernels: kernels.iter().map(KernelInfo::from).collect(),
            owner: Ownership::Here,
            memory: Vec::new(),
            bound: Bindings::default(),
        };
        let api = context.bind()?;
        let is_asked = inner.kernels.is_empty() && api.cuFuncGetParamInfo.is_none();
        match image {
            CheckedImage::Ptx(text) => {
                inner.handle = load_image(api, &text, JitOptionList::new())?;
                if is_asked {
                    inner.kernels = kernels_of_ptx(&text);
                }
            }
            CheckedImage::Binary(image) => {
                // SAFETY: the image's headers stay within it; writes one handle.
                unsafe { api.cuModuleLoadData(&mut inner.handle, image.as_ptr().cast()) }?;
                if is_asked {
                    inner.kernels = kernels_of_binary(image);
                }
            }
        }
        Ok(Module {
            inner: Arc::new(inner),
        })
    }

    /// The same for code with variables declared `.extern` which nobody defines:
    /// each of `symbols` says which buffer one of them is
    /// (`CU_JIT_GLOBAL_SYMBOL_NAMES`, `CU_JIT_GLOBAL_SYMBOL_ADDRESSES`). The
    /// module keeps the buffers' memory.
    ///
    /// NVIDIA's driver resolves symbols when it loads and not when it compiles:
    /// it takes relocatable device code, which `nvcc -dc -cubin` or `ptxas -c`
    /// makes, and refuses PTX ([`Error::SymbolsInPtx`]). It loads code whose
    /// variables stay undefined, which lie nowhere. The CPU device takes PTX, and
    /// an undefined variable is an error of the load.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, Driver, LaunchConfig, Module, PinnedBuffer, Stream, Symbol};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let counter = PinnedBuffer::from_slice(&context, &[41_u32])?;
    /// let ptx = b".version 8.0 .target sm_80 .address_size 64
    ///     .extern .global .u32 counter;
    ///     .visible .entry count() { .reg .b32 %r; ld.global.u32 %r, [counter];
    ///         add.u32 %r, %r, 1; st.global.u32 [counter], %r; ret; }";
    /// // SAFETY: it is PTX, and `counter` is one number there too.
    /// let module = unsafe {
    ///     Module::load_resolving(&context, ptx, &[Symbol::new("counter", &counter)])
    /// }?;
    /// let stream = Stream::new(&context)?;
    /// // SAFETY: the kernel accesses the counter alone.
    /// unsafe { module.kernel("count")?.launch(LaunchConfig::default(), &stream, ()) }?;
    /// stream.synchronize()?;
    /// assert_eq!(counter.to_vec()?, [42]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    ///
    /// # Safety
    /// As for [`load_image`](Module::load_image), and each buffer must be as large
    /// as the code declares its variable.
    pub unsafe fn load_resolving(
        context: &Context,
        image: &[u8],
        symbols: &[Symbol<'_>],
    ) -> Result<Module, Error> {
        if symbols
            .iter()
            .any(|symbol| !symbol.memory.is_reached_from(context))
        {
            return Err(Error::DifferentContexts {
                what: "a module and the memory of its variables",
            });
        }
        let names: Vec<CString> = symbols
            .iter()
            .map(|symbol| {
                let name = CString::new(symbol.name);
                name.map_err(|_| Error::UnknownGlobal {
                    name: symbol.name.to_owned(),
                })
            })
            .collect::<Result<_, _>>()?;
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let addresses: Vec<CUdeviceptr> = symbols.iter().map(|symbol| symbol.address).collect();
        let mut options = JitOptionList::new();
        options.set_array(option::GLOBAL_SYMBOL_NAMES, &names);
        options.set_array(option::GLOBAL_SYMBOL_ADDRESSES, &addresses);
        options.set(option::GLOBAL_SYMBOL_COUNT, names.len() as u32);
        let api = context.bind()?;
        let (handle, kernels) = match image_bounds::check(image)? {
            CheckedImage::Ptx(text) => match load_image(api, &text, options) {
                Err(error)
                    if context.device().driver().kind() == DriverKind::Nvidia
                        && error.code() == Some(CudaError::INVALID_VALUE) =>
                {
                    return Err(Error::SymbolsInPtx);
                }
                loaded => (loaded?, kernels_of_ptx(&text)),
            },
            CheckedImage::Binary(image) => {
                (load_image(api, image, options)?, kernels_of_binary(image))
            }
        };
        Ok(Module {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle,
                kernels,
                owner: Ownership::Here,
                memory: symbols.iter().map(|symbol| symbol.memory.clone()).collect(),
                bound: Bindings::default(),
            }),
        })
    }

    /// Loads a file with PTX, as [`load`](Module::load) does its bytes. For a
    /// binary, read the file and call [`load_image`](Module::load_image).
    ///
    /// `cuModuleLoad` is not called: it reads the file itself, takes binaries, and
    /// keeps no log.
    pub fn load_file(context: &Context, path: impl AsRef<Path>) -> Result<Module, Error> {
        Module::load(context, &Error::read(path.as_ref())?)
    }

    /// A module that another library loaded and keeps loaded as long as `owner`
    /// lives.
    ///
    /// # Safety
    /// `handle` must be a module loaded in `context`, and stay loaded as long as
    /// `owner` lives.
    pub unsafe fn from_shared(
        context: &Context,
        handle: CUmodule,
        owner: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Module {
        Module::with(context, handle, Ownership::By(owner))
    }

    /// The module that a library is in a context.
    pub(crate) fn of_library(
        context: &Context,
        handle: CUmodule,
        library: Arc<LibraryHandle>,
    ) -> Module {
        Module::with(context, handle, Ownership::Library(library))
    }

    fn with(context: &Context, handle: CUmodule, owner: Ownership) -> Module {
        Module {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle,
                kernels: Vec::new(),
                owner,
                memory: Vec::new(),
                bound: Bindings::default(),
            }),
        }
    }

    /// Whether kernels are loaded with their module or when they are first
    /// asked for, as `CUDA_MODULE_LOADING` says (`cuModuleGetLoadingMode`, from
    /// CUDA 11.7).
    pub fn loading(context: &Context) -> Result<Loading, Error> {
        let mut mode = 0;
        // SAFETY: writes one integer.
        unsafe { context.bind()?.cuModuleGetLoadingMode(&mut mode) }?;
        Ok(match mode {
            1 => Loading::Eager,
            _ => Loading::Lazy,
        })
    }

    /// Has faults on the CPU device name lines of the text from which its PTX was cut.
    #[cfg(feature = "cache")]
    pub(crate) fn set_original_lines(
        &self,
        original: impl Fn(u32) -> Option<u32> + Send + Sync + 'static,
    ) {
        #[cfg(feature = "cpu")]
        if self.context().device().driver().kind() == DriverKind::Cpu {
            cpu::set_original_lines(self.inner.handle, original);
        }
        #[cfg(not(feature = "cpu"))]
        drop(original);
    }

    /// Has the optimized code of its hot kernels kept in what `store` returns, on the CPU
    /// device.
    ///
    /// # Safety
    /// As for [`cpu::set_code_store`].
    #[cfg(all(feature = "cache", feature = "cpu"))]
    pub(crate) unsafe fn set_code_store(&self, store: impl FnOnce() -> Box<dyn cpu::CodeStore>) {
        if self.context().device().driver().kind() == DriverKind::Cpu {
            // SAFETY: the caller's.
            unsafe { cpu::set_code_store(self.inner.handle, store) };
        }
    }

    /// A reference that does not keep it loaded.
    pub fn downgrade(&self) -> WeakModule {
        WeakModule {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUmodule {
        self.inner.handle
    }

    /// The kernels there are, as far as the driver says (from CUDA 12.4), else
    /// as far as PTX or cubin do; sorted.
    pub fn kernel_names(&self) -> Vec<String> {
        let mut names = match self.names_of_driver() {
            Ok(names) => names,
            Err(_) => self
                .inner
                .kernels
                .iter()
                .map(|kernel| kernel.name.clone())
                .collect(),
        };
        names.sort_unstable();
        names
    }

    fn names_of_driver(&self) -> Result<Vec<String>, Error> {
        let api = self.context().bind()?;
        let mut count = 0;
        // SAFETY: writes one integer.
        unsafe { api.cuModuleGetFunctionCount(&mut count, self.raw()) }?;
        let mut functions = vec![std::ptr::null_mut(); count as usize];
        // SAFETY: the array has room for `count` handles.
        unsafe { api.cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, self.raw()) }?;
        functions
            .into_iter()
            .map(|function| {
                let mut name = std::ptr::null();
                // SAFETY: the function is live; writes one pointer.
                unsafe { api.cuFuncGetName(&mut name, function) }?;
                if name.is_null() {
                    return Ok(String::new());
                }
                // SAFETY: a NUL-terminated string that lives as long as the module.
                let name = unsafe { CStr::from_ptr(name) };
                Ok(name.to_string_lossy().into_owned())
            })
            .collect()
    }

    /// The memory of variables that the caller gave, which all kernels may use.
    #[inline]
    pub(crate) fn resolved(&self) -> &[Arc<Allocation>] {
        &self.inner.memory
    }

    /// Binds a reference by calls of the driver, and keeps what it is bound to.
    pub(crate) fn bind_reference(
        &self,
        reference: &CStr,
        retained: RetainedRef,
        calls: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bindings = self.bindings();
        bindings.bind(self.context(), reference, retained, calls)
    }

    /// Keeps the code until the work of another context is done, which runs its kernels.
    pub(crate) fn record_peer(&self, peer: &Context) {
        self.bindings().record_peer(peer);
    }

    fn bindings(&self) -> &Bindings {
        match &self.inner.owner {
            Ownership::Library(library) => &library.bound,
            Ownership::Here | Ownership::By(_) => &self.inner.bound,
        }
    }
}

/// Loads text that ends in NUL, or a binary that keeps to its bytes, with a log,
/// which is the only way to learn why PTX failed.
fn load_image(
    api: &'static Api,
    image: &[u8],
    mut options: JitOptionList,
) -> Result<CUmodule, Error> {
    let mut handle = std::ptr::null_mut();
    if api.cuModuleLoadDataEx.is_none() {
        // SAFETY: the image keeps to its bytes.
        unsafe { api.cuModuleLoadData(&mut handle, image.as_ptr().cast()) }?;
        return Ok(handle);
    }
    // SAFETY: the image keeps to its bytes; options and values have the count given, and what they
    // point to outlives the call.
    let loaded = unsafe {
        api.cuModuleLoadDataEx(
            &mut handle,
            image.as_ptr().cast(),
            options.count(),
            options.options(),
            options.values(),
        )
    };
    loaded.map_err(|error| jit_error(error.into(), &options))?;
    tracing::debug!(log = options.info_log(), "loaded");
    Ok(handle)
}

/// An error of a compiling entry, with the log it left.
pub(super) fn jit_error(error: Error, options: &JitOptionList) -> Error {
    let Error::Driver(error) = error else {
        return error;
    };
    let mut log = options.error_log();
    if log.is_empty() {
        // The CPU device's detail says as much as a log.
        log = error.detail.clone().unwrap_or_default();
    }
    // Out of memory, a lost context and so on are not the PTX's fault.
    if log.is_empty() && !matches!(error.code.0, 200 | 209 | 218 | 221..=223) {
        return Error::Driver(error);
    }
    Error::Jit(JitError {
        entry: error.entry,
        code: error.code,
        diagnostics: read_log(&log),
        log,
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.owner {
            // The library waits for what its references are bound to.
            Ownership::Library(_) => {}
            // The other library still reads what they are bound to.
            Ownership::By(_) => self.bound.leak(),
            Ownership::Here if self.handle.is_null() => {}
            // Code that a kernel may still run is better lost than given to others.
            Ownership::Here if !self.bound.wait_until_unused() => self.bound.leak(),
            Ownership::Here => {
                let unloaded = self.context.bind().and_then(|api| {
                    // SAFETY: loaded once, unloaded once; kernels and variables hold the module.
                    unsafe { Ok(api.cuModuleUnload(self.handle)?) }
                });
                report_drop(unloaded);
            }
        }
    }
}

/// Which memory a variable is that PTX declares `.extern`; see
/// [`Module::load_resolving`].
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'a> {
    name: &'a str,
    address: CUdeviceptr,
    memory: &'a Arc<Allocation>,
}

impl<'a> Symbol<'a> {
    /// The variable `name` is this pinned buffer. Reading it waits for the
    /// kernels of the module.
    pub fn new<T: Pod>(name: &'a str, buffer: &'a PinnedBuffer<T>) -> Symbol<'a> {
        Symbol {
            name,
            address: buffer.pointer().expose_provenance() as CUdeviceptr,
            memory: buffer.allocation(),
        }
    }

    /// The variable `name` is this buffer. CUDA speaks of addresses of the host:
    /// not every driver takes one of a device.
    pub fn device<T: Pod>(name: &'a str, buffer: &'a DeviceBuffer<T>) -> Symbol<'a> {
        Symbol {
            name,
            address: buffer.address(),
            memory: buffer.allocation(),
        }
    }
}

/// When a module's kernels are loaded (`CUmoduleLoadingMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loading {
    /// With the module.
    Eager,
    /// When they are first asked for.
    Lazy,
}
