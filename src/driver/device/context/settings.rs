//! What a context is set to: limits of the driver's, check mode, order of work.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;

use crate::driver::device::context::{Context, report_drop};
use crate::driver::device::settings::{CacheConfig, ContextFlags, Limit, SharedBanks};
use crate::driver::error::Error;

impl Context {
    /// A limit (`cuCtxGetLimit`), in bytes.
    pub fn limit(&self, limit: Limit) -> Result<usize, Error> {
        let mut value = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetLimit(&mut value, limit.0) }?;
        Ok(value)
    }

    /// Sets a limit (`cuCtxSetLimit`), in bytes; the driver may round it up.
    pub fn set_limit(&self, limit: Limit, value: usize) -> Result<(), Error> {
        // SAFETY: plain numbers.
        unsafe { Ok(self.bind()?.cuCtxSetLimit(limit.0, value)?) }
    }

    /// Free and total bytes of device memory (`cuMemGetInfo_v2`).
    pub fn memory_info(&self) -> Result<(usize, usize), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers.
        unsafe { self.bind()?.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok((free, total))
    }

    /// The flags it was made with (`cuCtxGetFlags`).
    pub fn flags(&self) -> Result<ContextFlags, Error> {
        let mut flags: c_uint = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetFlags(&mut flags) }?;
        Ok(ContextFlags(flags))
    }

    /// Sets them, as far as a live context can change (`cuCtxSetFlags`, from CUDA 12.1).
    pub fn set_flags(&self, flags: impl Into<ContextFlags>) -> Result<(), Error> {
        let ContextFlags(flags) = flags.into();
        // SAFETY: a plain number.
        unsafe { Ok(self.bind()?.cuCtxSetFlags(flags)?) }
    }

    /// The API version it was made with, as 3020 (`cuCtxGetApiVersion`).
    pub fn api_version(&self) -> Result<u32, Error> {
        let mut version = 0;
        // SAFETY: the context is live; writes one integer.
        unsafe { self.bind()?.cuCtxGetApiVersion(self.raw(), &mut version) }?;
        Ok(version)
    }

    /// A number that no other context of the process has or had (`cuCtxGetId`,
    /// from CUDA 12.0).
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        // SAFETY: the context is live; writes one integer.
        unsafe { self.bind()?.cuCtxGetId(self.raw(), &mut id) }?;
        Ok(id)
    }

    /// The default split of on-chip memory between L1 and shared memory
    /// (`cuCtxGetCacheConfig`); `None` for a value without a name.
    pub fn cache_config(&self) -> Result<Option<CacheConfig>, Error> {
        use CacheConfig::{PreferEqual, PreferL1, PreferNone, PreferShared};
        let mut config = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetCacheConfig(&mut config) }?;
        let all = [PreferNone, PreferShared, PreferL1, PreferEqual];
        Ok(all.get(config as usize).copied())
    }

    /// Sets it (`cuCtxSetCacheConfig`).
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<(), Error> {
        // SAFETY: a plain number.
        unsafe { Ok(self.bind()?.cuCtxSetCacheConfig(config as u32)?) }
    }

    /// Width of the banks of shared memory (`cuCtxGetSharedMemConfig`,
    /// deprecated by CUDA); `None` for a number without a name.
    pub fn shared_banks(&self) -> Result<Option<SharedBanks>, Error> {
        use SharedBanks::{Default, EightBytes, FourBytes};
        let mut config = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetSharedMemConfig(&mut config) }?;
        Ok([Default, FourBytes, EightBytes]
            .get(config as usize)
            .copied())
    }

    /// Sets it (`cuCtxSetSharedMemConfig`, deprecated by CUDA).
    pub fn set_shared_banks(&self, banks: SharedBanks) -> Result<(), Error> {
        // SAFETY: a plain number.
        unsafe { Ok(self.bind()?.cuCtxSetSharedMemConfig(banks as u32)?) }
    }

    /// Resets persisting lines of L2 to normal (`cuCtxResetPersistingL2Cache`).
    pub fn reset_persisting_l2(&self) -> Result<(), Error> {
        // SAFETY: no arguments.
        unsafe { Ok(self.bind()?.cuCtxResetPersistingL2Cache()?) }
    }

    /// Starts collection by an attached profiler, until the returned value is dropped
    /// (`cuProfilerStart`, `cuProfilerStop`); for `nsys profile -c cudaProfilerApi` and
    /// `ncu --profile-from-start off`.
    pub fn profile(&self) -> Result<Profiling<'_>, Error> {
        // SAFETY: no arguments.
        unsafe { self.bind()?.cuProfilerStart() }?;
        Ok(Profiling { context: self })
    }

    /// Sets check mode: every launch and copy in a stream is waited for, so that the call
    /// that queued the work returns its error, as [`Error::Checked`] with the kernel's
    /// name. This is for debugging, as nothing overlaps any more. The environment variable
    /// `PTXKIT_CHECK=1` turns it on in new contexts.
    ///
    /// A stream that waits for what the calling thread does only later, in a
    /// host function or for a value, then never ends: such a program turns
    /// check mode off for its context.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, Driver, Error, LaunchConfig, Module, Stream};
    /// # let ptx = b".version 8.0 .target sm_80 .address_size 64
    /// # .visible .entry bad() { trap; }";
    /// let context = Context::create(&Driver::cpu()?.device(0)?, 0)?;
    /// context.set_check_mode(true);
    /// let bad = Module::load(&context, ptx)?.kernel("bad")?;
    /// // SAFETY: the kernel stops, and accesses nothing.
    /// let launched = unsafe { bad.launch(LaunchConfig::default(), &Stream::new(&context)?, ()) };
    /// let error = launched.unwrap_err();
    /// assert!(matches!(&error, Error::Checked { what, .. } if what.starts_with("kernel `bad`")));
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn set_check_mode(&self, on: bool) {
        self.inner.check_mode.store(on, Ordering::Relaxed);
    }

    /// Whether check mode is on.
    #[inline]
    pub fn check_mode(&self) -> bool {
        self.inner.check_mode.load(Ordering::Relaxed)
    }

    /// Turns on that work is ordered by the memory that it uses, as it is in a new context: what
    /// writes a buffer waits for what other streams do with it, and what reads it for what
    /// writes it. Work that was queued while it was off is not waited for.
    ///
    /// It holds for copies, fills, launches and graphs, and for buffers of this value and its
    /// clones; not for arrays and textures, nor between the streams of one capture. An event is
    /// recorded when work of another stream uses the memory, not before: it stands for all that
    /// was queued in the first stream until then. A launch by raw arguments writes all of its
    /// buffers, but those passed as [`Arg::read_only`](crate::driver::Arg::read_only); a graph
    /// writes all of its buffers.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let [first, second] = [Stream::non_blocking(&context)?, Stream::non_blocking(&context)?];
    /// let mut numbers = DeviceBuffer::<u32>::new(&context, 1000)?;
    /// let mut copy = DeviceBuffer::<u32>::new(&context, 1000)?;
    /// numbers.fill_async(7, &first)?;
    /// copy.copy_from_async(&numbers, &second)?; // after the fill
    /// assert_eq!(copy.to_vec()?, [7; 1000]); // after the copy
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn enable_event_tracking(&self) {
        self.inner.event_tracking.store(true, Ordering::Relaxed);
    }

    /// Turns it off, for programs that order their streams by events of their own. With it, a
    /// kernel that waits for a value which another stream is to write, in memory that both use,
    /// may wait for ever.
    pub fn disable_event_tracking(&self) {
        self.inner.event_tracking.store(false, Ordering::Relaxed);
    }

    /// Whether work is ordered by the memory that it uses.
    #[inline]
    pub fn is_event_tracking(&self) -> bool {
        self.inner.event_tracking.load(Ordering::Relaxed)
    }
}

/// A range that a profiler collects; see [`Context::profile`].
#[derive(Debug)]
pub struct Profiling<'a> {
    context: &'a Context,
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        // Launches that are queued belong to the range.
        let stopped = self.context.synchronize().and_then(|()| {
            let api = self.context.bind()?;
            // SAFETY: no arguments.
            unsafe { Ok(api.cuProfilerStop()?) }
        });
        report_drop(stopped);
    }
}
