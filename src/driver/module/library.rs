//! Libraries: code that is loaded once for all contexts.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::device::Device;
use crate::driver::device::context::{Context, report_drop};
use crate::driver::device::open::Driver;
use crate::driver::device::settings::CacheConfig;
use crate::driver::error::Error;
use crate::driver::log::JitOptionList;
use crate::driver::module::extent::{self, Checked};
use crate::driver::module::global::Global;
use crate::driver::module::kernel::{Kernel, KernelAttribute};
use crate::driver::module::layout::KernelLayout;
use crate::driver::module::{Module, jit_error};
use crate::driver::texture::reference::Bindings;
use api::CudaError;
use api::{Api, CUdeviceptr, CUkernel, CUlibrary};

/// Code that no context owns (`cuLibraryLoadData`, from CUDA 12.0): it comes
/// into a context when a kernel is asked for there.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, Library, LaunchConfig, Stream};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let library = Library::load(&context, b".version 8.0 .target sm_80 .address_size 64
///     .visible .entry nothing() { ret; }")?;
/// assert_eq!(library.kernel_names()?, ["nothing"]);
/// let nothing = library.kernel(&context, "nothing")?;
/// nothing.launch(LaunchConfig::default(), &Stream::new(&context)?, ())?;
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Library {
    handle: Arc<LibraryHandle>,
}

/// Unloaded when the last module, kernel and clone is gone.
#[derive(Debug)]
pub(crate) struct LibraryHandle {
    driver: Driver,
    handle: CUlibrary,
    /// What references are bound to: [`Library::module`] gives a module of its own
    /// to each caller.
    bound: Bindings,
}

impl LibraryHandle {
    pub fn bound(&self) -> &Bindings {
        &self.bound
    }
}

// SAFETY: a library's handle may be used from any thread; the driver locks by itself.
unsafe impl Send for LibraryHandle {}
// SAFETY: as above.
unsafe impl Sync for LibraryHandle {}

impl Library {
    /// Loads PTX, a cubin, a fatbin, or a binary of the CPU device, as
    /// [`Module::load`] takes them. PTX is compiled for the device of `context`.
    pub fn load(context: &Context, image: &[u8]) -> Result<Library, Error> {
        let api = context.bind()?;
        let mut handle = null_mut();
        match extent::check(image)? {
            Checked::Ptx(text) => {
                let mut options = JitOptionList::new();
                let (count, none) = (options.count(), null_mut());
                // SAFETY: the text ends in NUL; options and values have the count given, and
                // the log buffers they point to outlive the call.
                unsafe {
                    api.cuLibraryLoadData(
                        &mut handle,
                        text.as_ptr().cast(),
                        options.options(),
                        options.values(),
                        count,
                        none,
                        null_mut(),
                        0,
                    )
                }
                .map_err(|error| jit_error(error.into(), &options))?;
            }
            Checked::Binary(image) => {
                let (none, no) = (null_mut(), null_mut());
                // SAFETY: the image's headers stay within it; writes one handle.
                unsafe {
                    api.cuLibraryLoadData(
                        &mut handle,
                        image.as_ptr().cast(),
                        none,
                        no,
                        0,
                        null_mut(),
                        null_mut(),
                        0,
                    )
                }?;
            }
        }
        Ok(Library {
            handle: Arc::new(LibraryHandle {
                driver: context.device().driver(),
                handle,
                bound: Bindings::default(),
            }),
        })
    }

    /// Loads a file, as [`load`](Library::load) does its bytes.
    /// `cuLibraryLoadFromFile` is not called, as `cuModuleLoad` is not by
    /// [`Module::load_file`].
    pub fn load_file(context: &Context, path: impl AsRef<Path>) -> Result<Library, Error> {
        Library::load(context, &Error::read(path.as_ref())?)
    }

    fn api(&self) -> &'static Api {
        self.handle.driver.api()
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUlibrary {
        self.handle.handle
    }

    /// The library as a module of a context (`cuLibraryGetModule`): its
    /// variables there, and its kernels by [`Module::kernel`].
    pub fn module(&self, context: &Context) -> Result<Module, Error> {
        if !std::ptr::eq(context.api(), self.api()) {
            return Err(Error::DifferentContexts {
                what: "a library and the context that asks for it",
            });
        }
        let mut module = null_mut();
        // SAFETY: the library is loaded; writes one handle.
        unsafe { context.bind()?.cuLibraryGetModule(&mut module, self.raw()) }?;
        Ok(Module::of_library(context, module, self.handle.clone()))
    }

    /// A kernel in a context, ready to be launched (`cuLibraryGetKernel`,
    /// `cuKernelGetFunction`).
    pub fn kernel(&self, context: &Context, name: &str) -> Result<Kernel, Error> {
        let module = self.module(context)?;
        let kernel = self.find(name)?;
        let mut function = null_mut();
        // SAFETY: the kernel is the library's; writes one handle.
        unsafe { context.bind()?.cuKernelGetFunction(&mut function, kernel) }?;
        Kernel::new(module, function, name, None)
    }

    /// A variable in a context (`cuLibraryGetGlobal`): each context has its own.
    pub fn global(&self, context: &Context, name: &str) -> Result<Global, Error> {
        self.variable(context, name, |api, address, bytes, library, name| {
            // SAFETY: as `variable` says.
            unsafe { Ok(api.cuLibraryGetGlobal(address, bytes, library, name)?) }
        })
    }

    /// A managed variable, which all contexts share and the host reaches by its
    /// address too (`cuLibraryGetManaged`). The CPU device has one a context.
    pub fn managed(&self, context: &Context, name: &str) -> Result<Global, Error> {
        self.variable(context, name, |api, address, bytes, library, name| {
            // SAFETY: as `variable` says.
            unsafe { Ok(api.cuLibraryGetManaged(address, bytes, library, name)?) }
        })
    }

    /// Asks an entry for a variable: the name ends in NUL, the library is
    /// loaded, and address and bytes are written.
    fn variable(
        &self,
        context: &Context,
        name: &str,
        entry: impl FnOnce(
            &'static Api,
            *mut CUdeviceptr,
            *mut usize,
            CUlibrary,
            *const c_char,
        ) -> Result<(), Error>,
    ) -> Result<Global, Error> {
        let unknown = || Error::UnknownGlobal {
            name: name.to_owned(),
        };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        let module = self.module(context)?;
        let (mut address, mut bytes) = (0, 0);
        let api = context.bind()?;
        match entry(api, &mut address, &mut bytes, self.raw(), symbol.as_ptr()) {
            Ok(()) => Ok(Global::of(module, address, bytes)),
            Err(error) if error.code() == Some(CudaError::NOT_FOUND) => Err(unknown()),
            Err(error) => Err(error),
        }
    }

    /// The parameters of a kernel, in whatever context (`cuKernelGetParamInfo`,
    /// from CUDA 12.4).
    pub fn layout(&self, name: &str) -> Result<KernelLayout, Error> {
        let (api, kernel) = (self.api(), self.find(name)?);
        KernelLayout::told_by(|index, offset, size| {
            // SAFETY: the kernel is the library's; writes two integers.
            unsafe { Ok(api.cuKernelGetParamInfo(kernel, index, offset, size)?) }
        })
    }

    /// What the blocks of a kernel prefer of the on-chip memory, in all contexts
    /// of a device (`cuKernelSetCacheConfig`).
    pub fn set_cache_config(
        &self,
        name: &str,
        config: CacheConfig,
        device: &Device,
    ) -> Result<(), Error> {
        self.handle.driver.knows(device)?;
        let kernel = self.find(name)?;
        // SAFETY: the kernel is the library's.
        unsafe {
            Ok(self
                .api()
                .cuKernelSetCacheConfig(kernel, config as u32, device.raw())?)
        }
    }

    /// The kernels there are (`cuLibraryEnumerateKernels`, from CUDA 12.4); sorted.
    pub fn kernel_names(&self) -> Result<Vec<String>, Error> {
        let api = self.api();
        let mut count = 0;
        // SAFETY: the library is loaded; writes one integer.
        unsafe { api.cuLibraryGetKernelCount(&mut count, self.raw()) }?;
        let mut kernels = vec![null_mut(); count as usize];
        // SAFETY: the array has room for `count` handles.
        unsafe { api.cuLibraryEnumerateKernels(kernels.as_mut_ptr(), count, self.raw()) }?;
        let mut names = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            let mut name = std::ptr::null();
            // SAFETY: the kernel is the library's; writes one pointer.
            unsafe { api.cuKernelGetName(&mut name, kernel) }?;
            if !name.is_null() {
                // SAFETY: a NUL-terminated string that lives as long as the library.
                let name = unsafe { CStr::from_ptr(name) };
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A number about a kernel on a device, in whatever context
    /// (`cuKernelGetAttribute`).
    pub fn attribute(
        &self,
        name: &str,
        attribute: KernelAttribute,
        device: &Device,
    ) -> Result<u32, Error> {
        self.handle.driver.knows(device)?;
        let kernel = self.find(name)?;
        let mut value = 0;
        // SAFETY: the kernel is the library's; writes one integer.
        unsafe {
            self.api()
                .cuKernelGetAttribute(&mut value, attribute.0, kernel, device.raw())
        }?;
        Ok(value.max(0).cast_unsigned())
    }

    /// Sets a number for all contexts of a device (`cuKernelSetAttribute`).
    pub fn set_attribute(
        &self,
        name: &str,
        attribute: KernelAttribute,
        value: u32,
        device: &Device,
    ) -> Result<(), Error> {
        self.handle.driver.knows(device)?;
        let kernel = self.find(name)?;
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        // SAFETY: the kernel is the library's.
        unsafe {
            Ok(self
                .api()
                .cuKernelSetAttribute(attribute.0, value, kernel, device.raw())?)
        }
    }

    fn find(&self, name: &str) -> Result<CUkernel, Error> {
        let unknown = || Error::UnknownKernel {
            name: name.to_owned(),
            known: self.kernel_names().unwrap_or_default(),
        };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        let mut kernel = null_mut();
        // SAFETY: the name ends in NUL; the library is loaded.
        match unsafe {
            self.api()
                .cuLibraryGetKernel(&mut kernel, self.raw(), symbol.as_ptr())
        } {
            Ok(()) => Ok(kernel),
            Err(error) if error.code() == Some(CudaError::NOT_FOUND) => Err(unknown()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        // Code that a kernel may still run is better lost than given to others.
        if !self.bound.are_unused() {
            return self.bound.lose();
        }
        // SAFETY: loaded once, unloaded once; modules hold the library.
        report_drop(unsafe { self.driver.api().cuLibraryUnload(self.handle) });
    }
}
