//! A kernel of a module.

use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::driver::device::context::Context;
use crate::driver::device::settings::{CacheConfig, SharedBanks};
use crate::driver::error::Error;
use crate::driver::module::Module;
use crate::driver::module::layout::{KernelLayout, ParamSlot};
use crate::driver::stream::Stream;
use crate::driver::stream::retained::{Retained, RetainedRef};
use crate::driver::stream::users::{Users, Waits};
use api::CUfunction;
use api::CudaError;

/// A kernel. Clones share it and keep its module loaded.
///
/// [`launch`](Kernel::launch) runs it.
#[derive(Clone, Debug)]
pub struct Kernel {
    inner: Arc<Inner>,
}

/// What each launch reads comes first, in one cache line: between two launches the driver's own
/// code leaves little in the processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
struct Inner {
    context: Context,
    handle: CUfunction,
    /// Of the layout, if it is known.
    slots: Option<Box<[ParamSlot]>>,
    max_threads: u32,
    /// Bytes of dynamic shared memory that a launch may ask for as things stand.
    dynamic_shared: AtomicU32,
    required_block: Option<[u32; 3]>,
    layout_is_certain: bool,
    /// Whether variables of the module stand for memory that the caller gave.
    has_resolved: bool,
    module: Module,
    name: String,
    layout: Option<KernelLayout>,
    static_shared: u32,
}

const _: () = assert!(std::mem::offset_of!(Inner, module) <= 64);

impl Retained for Inner {
    fn before_launch(
        &self,
        stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        if stream.context() != &self.context {
            self.module.record_peer(stream.context());
        }
        Ok(None)
    }
}

// SAFETY: a function handle may be used from any thread with its context current.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A number about a kernel (`CUfunction_attribute`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelAttribute(pub u32);

impl KernelAttribute {
    /// The most threads a block of it can have.
    pub const MAX_THREADS_PER_BLOCK: KernelAttribute = KernelAttribute(0);
    /// Bytes of static shared memory.
    pub const SHARED_SIZE_BYTES: KernelAttribute = KernelAttribute(1);
    /// Bytes of `.const` variables of its module.
    pub const CONST_SIZE_BYTES: KernelAttribute = KernelAttribute(2);
    /// Bytes of local memory of a thread.
    pub const LOCAL_SIZE_BYTES: KernelAttribute = KernelAttribute(3);
    /// 32-bit registers of a thread.
    pub const NUM_REGS: KernelAttribute = KernelAttribute(4);
    /// Target of its PTX, 90 for `sm_90`.
    pub const PTX_VERSION: KernelAttribute = KernelAttribute(5);
    /// Architecture of its code, 90 for `sm_90`.
    pub const BINARY_VERSION: KernelAttribute = KernelAttribute(6);
    /// 1 if its code was compiled with global loads cached in L1.
    pub const CACHE_MODE_CA: KernelAttribute = KernelAttribute(7);
    /// Bytes of dynamic shared memory that a launch may ask for.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: KernelAttribute = KernelAttribute(8);
    /// Percent of the on-chip memory preferred as shared memory.
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: KernelAttribute = KernelAttribute(9);
    /// 1 if it is launched with a cluster only.
    pub const CLUSTER_SIZE_MUST_BE_SET: KernelAttribute = KernelAttribute(10);
    /// Blocks of its clusters in x, if its code says.
    pub const REQUIRED_CLUSTER_WIDTH: KernelAttribute = KernelAttribute(11);
    /// The same in y.
    pub const REQUIRED_CLUSTER_HEIGHT: KernelAttribute = KernelAttribute(12);
    /// The same in z.
    pub const REQUIRED_CLUSTER_DEPTH: KernelAttribute = KernelAttribute(13);
    /// 1 if clusters may be larger than every device allows, 8 blocks.
    pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: KernelAttribute = KernelAttribute(14);
    /// How clusters are placed, as [`ClusterScheduling`](crate::driver::ClusterScheduling) numbers it.
    pub const CLUSTER_SCHEDULING_POLICY_PREFERENCE: KernelAttribute = KernelAttribute(15);
}

/// Dynamic shared memory of a driver that does not tell the attribute.
const DEFAULT_SHARED: u32 = 48 * 1024;

impl Module {
    /// A kernel by its name in the PTX (`cuModuleGetFunction`).
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let unknown = || Error::UnknownKernel {
            name: name.to_owned(),
            known: self.kernel_names(),
        };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        let api = self.context().bind()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the name ends in NUL; the module is live.
        match unsafe { api.cuModuleGetFunction(&mut function, self.raw(), symbol.as_ptr()) } {
            Ok(()) => {
                let known = self.inner.kernels.iter().find(|kernel| kernel.name == name);
                let known = known.and_then(|kernel| kernel.layout.as_ref());
                Kernel::new(self.clone(), function, name, known)
            }
            // A kernel that is there and yet not found did not compile when it was asked for.
            Err(error)
                if error.code() == Some(CudaError::NOT_FOUND)
                    && !self.kernel_names().iter().any(|known| known == name) =>
            {
                Err(unknown())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Kernel {
    pub(crate) fn new(
        module: Module,
        handle: CUfunction,
        name: &str,
        known: Option<&KernelLayout>,
    ) -> Result<Kernel, Error> {
        let told = KernelLayout::of(module.context(), handle)?;
        let layout_is_certain = told.is_some();
        let layout = match (told, known.cloned()) {
            (Some(told), Some(known)) => Some(told.with_declarations_of(known)),
            (told, known) => told.or(known),
        };
        let slots = layout.as_ref().and_then(ParamSlot::of);
        let mut inner = Inner {
            context: module.context().clone(),
            handle,
            layout_is_certain: layout_is_certain && slots.is_some(),
            slots,
            max_threads: 0,
            dynamic_shared: AtomicU32::new(0),
            required_block: layout.as_ref().and_then(|layout| layout.required_block),
            has_resolved: !module.resolved().is_empty(),
            module,
            name: name.to_owned(),
            layout,
            static_shared: 0,
        };
        inner.max_threads = inner.attribute(KernelAttribute::MAX_THREADS_PER_BLOCK)?;
        inner.static_shared = inner.attribute(KernelAttribute::SHARED_SIZE_BYTES)?;
        inner.dynamic_shared = AtomicU32::new(
            inner
                .attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES)
                .unwrap_or(DEFAULT_SHARED.saturating_sub(inner.static_shared)),
        );
        Ok(Kernel {
            inner: Arc::new(inner),
        })
    }

    /// A kernel that another library loaded, which keeps it loaded as long as
    /// `owner` lives (`cuFuncGetModule`, `cuFuncGetName`, from CUDA 12.3). The
    /// other kernels of its module are at [`module`](Kernel::module).
    ///
    /// # Safety
    /// `handle` must be a kernel of a module loaded in `context`, and stay loaded
    /// as long as `owner` lives.
    pub unsafe fn from_shared(
        context: &Context,
        handle: CUfunction,
        owner: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Result<Kernel, Error> {
        let api = context.bind()?;
        let (mut module, mut name) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: the function is live; writes a handle and a pointer, to a string that lives
        // as long as the module.
        let name = unsafe {
            api.cuFuncGetModule(&mut module, handle)?;
            api.cuFuncGetName(&mut name, handle)?;
            CStr::from_ptr(name)
        };
        let name = name.to_string_lossy().into_owned();
        // SAFETY: the module is loaded as long as its kernel, for which the caller answers.
        let module = unsafe { Module::from_shared(context, module, owner) };
        Kernel::new(module, handle, &name, None)
    }

    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The module it is of.
    #[inline]
    pub fn module(&self) -> &Module {
        &self.inner.module
    }

    /// The context it lives in.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    #[inline]
    pub fn raw(&self) -> CUfunction {
        self.inner.handle
    }

    /// Its parameters, as the driver tells them (`cuFuncGetParamInfo`, from CUDA
    /// 12.4); `None` where neither it nor the PTX or the cubin does.
    #[inline]
    pub fn layout(&self) -> Option<&KernelLayout> {
        self.inner.layout.as_ref()
    }

    /// The same as launches compare it.
    #[inline]
    pub(crate) fn slots(&self) -> Option<&[ParamSlot]> {
        self.inner.slots.as_deref()
    }

    /// The only block that it is launched with.
    #[inline]
    pub(crate) fn required_block(&self) -> Option<[u32; 3]> {
        self.inner.required_block
    }

    /// Whether variables of its module stand for memory that the caller gave.
    #[inline]
    pub(crate) fn has_resolved(&self) -> bool {
        self.inner.has_resolved
    }

    /// Whether the driver itself told the layout. Only then may it be given a
    /// pointer for each argument: it reads as many bytes as the kernel takes.
    #[inline]
    pub(crate) fn layout_is_certain(&self) -> bool {
        self.inner.layout_is_certain
    }

    /// The most threads a block of it can have, for the registers it uses and
    /// `.maxntid`.
    #[inline]
    pub fn max_threads(&self) -> u32 {
        self.inner.max_threads
    }

    /// The same with what a declaration knows of its PTX: the only block that it is launched
    /// with, as if there was `.reqntid`, and the `.ptr .align` of its parameters.
    #[cfg(feature = "cache")]
    pub(crate) fn with_declaration(
        &self,
        block: Option<[u32; 3]>,
        pointer_aligns: &[u32],
    ) -> Kernel {
        let inner = &*self.inner;
        let required_block = block.or(inner.required_block);
        let mut layout = inner.layout.clone();
        if let Some(layout) = &mut layout {
            layout.required_block = required_block;
            for (param, &align) in layout.params.iter_mut().zip(pointer_aligns) {
                param.pointer_align = align;
            }
        }
        let dynamic_shared = inner.dynamic_shared.load(Ordering::Relaxed);
        Kernel {
            inner: Arc::new(Inner {
                context: inner.context.clone(),
                slots: layout.as_ref().and_then(ParamSlot::of),
                dynamic_shared: AtomicU32::new(dynamic_shared),
                required_block,
                module: inner.module.clone(),
                name: inner.name.clone(),
                layout,
                ..*inner
            }),
        }
    }

    /// For a graph that launches it.
    pub(crate) fn retained(&self) -> RetainedRef {
        self.inner.clone()
    }

    #[inline]
    pub(crate) fn dynamic_shared(&self) -> &AtomicU32 {
        &self.inner.dynamic_shared
    }

    /// A number about it (`cuFuncGetAttribute`).
    pub fn attribute(&self, attribute: KernelAttribute) -> Result<u32, Error> {
        self.inner.attribute(attribute)
    }

    /// What its blocks prefer of the on-chip memory (`cuFuncSetCacheConfig`).
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<(), Error> {
        let api = self.context().bind()?;
        // SAFETY: the function is live.
        unsafe { Ok(api.cuFuncSetCacheConfig(self.raw(), config as u32)?) }
    }

    /// Width of the banks of shared memory that it prefers
    /// (`cuFuncSetSharedMemConfig`, deprecated by CUDA).
    pub fn set_shared_banks(&self, banks: SharedBanks) -> Result<(), Error> {
        let api = self.context().bind()?;
        // SAFETY: the function is live.
        unsafe { Ok(api.cuFuncSetSharedMemConfig(self.raw(), banks as u32)?) }
    }

    /// Whether its code is on the device already (`cuFuncIsLoaded`, from CUDA
    /// 12.4): with lazy loading it comes with the first launch.
    pub fn is_loaded(&self) -> Result<bool, Error> {
        const LOADED: u32 = 1;
        let mut state = 0;
        let api = self.context().bind()?;
        // SAFETY: the function is live; writes one integer.
        unsafe { api.cuFuncIsLoaded(&mut state, self.raw()) }?;
        Ok(state == LOADED)
    }

    /// Puts its code on the device now (`cuFuncLoad`, from CUDA 12.4).
    pub fn load(&self) -> Result<(), Error> {
        let api = self.context().bind()?;
        // SAFETY: the function is live.
        unsafe { Ok(api.cuFuncLoad(self.raw())?) }
    }

    /// Sets a number (`cuFuncSetAttribute`).
    pub fn set_attribute(&self, attribute: KernelAttribute, value: u32) -> Result<(), Error> {
        let api = self.context().bind()?;
        let value = c_int::try_from(value).unwrap_or(c_int::MAX);
        // SAFETY: the function is live.
        unsafe { api.cuFuncSetAttribute(self.raw(), attribute.0, value) }?;
        if attribute == KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES {
            self.dynamic_shared()
                .store(value.max(0) as u32, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Lets the kernel have all the dynamic shared memory that the device has,
    /// if that is enough for `dynamic` bytes. The limit is the function's, which
    /// other [`Kernel`]s may stand for too: raised to what a launch needs, it
    /// would be lowered under the feet of theirs.
    #[cold]
    pub(crate) fn opt_in_shared(&self, dynamic: u32) -> Result<(), Error> {
        let limit = self.context().limits().shared_per_block_optin;
        let fixed = self.inner.static_shared;
        if u64::from(dynamic) + u64::from(fixed) > u64::from(limit) {
            return Err(Error::SharedMemory {
                kernel: self.inner.name.clone(),
                fixed,
                dynamic,
                limit,
            });
        }
        let most = limit.saturating_sub(fixed);
        self.set_attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
    }
}

impl Inner {
    fn attribute(&self, attribute: KernelAttribute) -> Result<u32, Error> {
        let api = self.context.bind()?;
        let mut value = 0;
        // SAFETY: the function is live; writes one integer.
        unsafe { api.cuFuncGetAttribute(&mut value, attribute.0, self.handle) }?;
        Ok(value.max(0) as u32)
    }
}
