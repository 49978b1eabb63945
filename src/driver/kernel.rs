//! A kernel of a module.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::api::CUfunction;
use super::context::Context;
use super::error::Error;
use super::layout::KernelLayout;
use super::module::Module;
use crate::ptx::signature::KernelSignature;

/// A kernel. Clones share it and keep its module loaded.
///
/// [`launch`](Kernel::launch) runs it.
#[derive(Clone, Debug)]
pub struct Kernel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    module: Module,
    handle: CUfunction,
    name: String,
    layout: Option<KernelLayout>,
    layout_is_certain: bool,
    max_threads: u32,
    static_shared: u32,
    /// Bytes of dynamic shared memory that a launch may ask for as things stand.
    dynamic_shared: AtomicU32,
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
    /// Bytes of dynamic shared memory that a launch may ask for.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: KernelAttribute = KernelAttribute(8);
    /// Percent of the on-chip memory preferred as shared memory.
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: KernelAttribute = KernelAttribute(9);
}

/// Dynamic shared memory of a driver that does not tell the attribute.
const DEFAULT_SHARED: u32 = 48 * 1024;

impl Kernel {
    pub(crate) fn new(
        module: Module,
        handle: CUfunction,
        name: &str,
        known: Option<&KernelSignature>,
    ) -> Result<Kernel, Error> {
        let told = KernelLayout::of(module.context(), handle)?;
        let layout_is_certain = told.is_some();
        let layout = match (told, known.map(KernelLayout::from)) {
            (Some(told), Some(known)) => Some(told.named_after(known)),
            (told, known) => told.or(known),
        };
        let mut inner = Inner {
            module,
            handle,
            name: name.to_owned(),
            layout,
            layout_is_certain,
            max_threads: 0,
            static_shared: 0,
            dynamic_shared: AtomicU32::new(0),
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

    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The module it is of.
    pub fn module(&self) -> &Module {
        &self.inner.module
    }

    /// The context it lives in.
    #[inline]
    pub fn context(&self) -> &Context {
        self.inner.module.context()
    }

    /// The raw handle, for calls that the safe layer does not have.
    #[inline]
    pub fn raw(&self) -> CUfunction {
        self.inner.handle
    }

    /// Its parameters; `None` where neither the driver nor its PTX told them.
    #[inline]
    pub fn layout(&self) -> Option<&KernelLayout> {
        self.inner.layout.as_ref()
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

    #[inline]
    pub(crate) fn dynamic_shared(&self) -> &AtomicU32 {
        &self.inner.dynamic_shared
    }

    /// A number about it (`cuFuncGetAttribute`).
    pub fn attribute(&self, attribute: KernelAttribute) -> Result<u32, Error> {
        self.inner.attribute(attribute)
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

    /// Blocks of `threads` that one multiprocessor can hold at once
    /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
    pub fn max_active_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        let api = self.context().bind()?;
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        // SAFETY: writes one integer.
        unsafe {
            api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.raw(),
                threads,
                shared_bytes as usize,
            )
        }?;
        Ok(blocks.max(0) as u32)
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
        let api = self.module.context().bind()?;
        let mut value = 0;
        // SAFETY: the function is live; writes one integer.
        unsafe { api.cuFuncGetAttribute(&mut value, attribute.0, self.handle) }?;
        Ok(value.max(0) as u32)
    }
}
