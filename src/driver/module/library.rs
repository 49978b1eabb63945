//! Libraries: code loaded once for all contexts.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::device::Device;
use crate::driver::device::context::Context;
use crate::driver::device::settings::CacheConfig;
use crate::driver::error::Error;
use crate::driver::log::JitOptionList;
use crate::driver::module::bindings::Bindings;
use crate::driver::module::global::Global;
use crate::driver::module::image_bounds::{self, CheckedImage};
use crate::driver::module::kernel::{Kernel, KernelAttribute};
use crate::driver::module::layout::KernelLayout;
use crate::driver::module::library_handle::LibraryHandle;
use crate::driver::module::{Module, jit_error};
use api::CudaError;
use api::{Api, CUdeviceptr, CUkernel, CUlibrary};

/// Code that is independent of contexts (`cuLibraryLoadData`, from CUDA 12.0). It is loaded
/// into a context when one of its kernels is requested there.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, Library, LaunchConfig, Stream};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let library = Library::load(&context, b".version 8.0 .target sm_80 .address_size 64
///     .visible .entry nothing() { ret; }")?;
/// assert_eq!(library.kernel_names()?, ["nothing"]);
/// let nothing = library.kernel(&context, "nothing")?;
/// // SAFETY: the kernel does nothing.
/// unsafe { nothing.launch(LaunchConfig::default(), &Stream::new(&context)?, ()) }?;
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Library {
    handle: Arc<LibraryHandle>,
}

impl Library {
    /// Loads PTX, as [`Module::load`] does. It is compiled for the device of
    /// `context`.
    pub fn load(context: &Context, ptx: &[u8]) -> Result<Library, Error> {
        match image_bounds::check(ptx)? {
            ptx @ CheckedImage::Ptx(_) => Library::load_checked(context, ptx),
            CheckedImage::Binary(_) => Err(Error::Binary),
        }
    }

    /// Loads PTX, a cubin, a fatbin, or a binary of the CPU device, as
    /// [`Module::load_image`] does.
    ///
    /// # Safety
    /// As for [`Module::load_image`].
    pub unsafe fn load_image(context: &Context, image: &[u8]) -> Result<Library, Error> {
        Library::load_checked(context, image_bounds::check(image)?)
    }

    fn load_checked(context: &Context, image: CheckedImage<'_>) -> Result<Library, Error> {
        let api = context.bind()?;
        let mut handle = null_mut();
        match image {
            CheckedImage::Ptx(text) => {
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
            CheckedImage::Binary(image) => {
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

    /// Loads a file with PTX, as [`load`](Library::load) does its bytes.
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

    /// A variable in a context (`cuLibraryGetGlobal`); each context has its own instance.
    pub fn global(&self, context: &Context, name: &str) -> Result<Global, Error> {
        self.variable(context, name, |api, address, bytes, library, name| {
            // SAFETY: as `variable` says.
            unsafe { Ok(api.cuLibraryGetGlobal(address, bytes, library, name)?) }
        })
    }

    /// A managed variable, shared by all contexts and accessible by the host
    /// (`cuLibraryGetManaged`). The CPU device has one per context.
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

    /// The parameters of a kernel, in any context (`cuKernelGetParamInfo`, from CUDA 12.4).
    pub fn layout(&self, name: &str) -> Result<KernelLayout, Error> {
        let (api, kernel) = (self.api(), self.find(name)?);
        KernelLayout::from_param_info(|index, offset, size| {
            // SAFETY: the kernel is the library's; writes two integers.
            unsafe { Ok(api.cuKernelGetParamInfo(kernel, index, offset, size)?) }
        })
    }

    /// Sets a kernel's cache preference in all contexts of a device
    /// (`cuKernelSetCacheConfig`).
    pub fn set_cache_config(
        &self,
        name: &str,
        config: CacheConfig,
        device: &Device,
    ) -> Result<(), Error> {
        self.handle.driver.check_device(device)?;
        let kernel = self.find(name)?;
        // SAFETY: the kernel is the library's.
        unsafe {
            Ok(self
                .api()
                .cuKernelSetCacheConfig(kernel, config as u32, device.raw())?)
        }
    }

    /// The names of its kernels, sorted (`cuLibraryEnumerateKernels`, from CUDA 12.4).
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

    /// An attribute of a kernel on a device, in any context (`cuKernelGetAttribute`).
    pub fn attribute(
        &self,
        name: &str,
        attribute: KernelAttribute,
        device: &Device,
    ) -> Result<u32, Error> {
        self.handle.driver.check_device(device)?;
        let kernel = self.find(name)?;
        let mut value = 0;
        // SAFETY: the kernel is the library's; writes one integer.
        unsafe {
            self.api()
                .cuKernelGetAttribute(&mut value, attribute.0, kernel, device.raw())
        }?;
        Ok(value.max(0).cast_unsigned())
    }

    /// Sets an attribute for all contexts of a device (`cuKernelSetAttribute`).
    pub fn set_attribute(
        &self,
        name: &str,
        attribute: KernelAttribute,
        value: u32,
        device: &Device,
    ) -> Result<(), Error> {
        self.handle.driver.check_device(device)?;
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
