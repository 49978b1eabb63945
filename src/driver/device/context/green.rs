//! Green contexts: contexts with a part of a device's multiprocessors.

use crate::driver::device::Device;
use crate::driver::device::context::{Context, Ownership, report_drop};
use crate::driver::error::Error;
use api::{CUgreenCtx, DeviceResource};

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: u32 = 1;

/// Multiprocessors of a device (`CUdevResource`), for contexts that have these alone
/// ([`Context::green`]).
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, SmSplit, Stream};
/// let device = Driver::cpu()?.device(0)?;
/// let all = device.sm_resource()?;
/// // Groups of at least so many, and what is left.
/// let (groups, _rest) = all.split(1, all.count(), SmSplit::Default)?;
/// let context = Context::green(&groups[..1])?;
/// let stream = Stream::of_green(&context, 0)?; // its kernels run there
/// assert_eq!(context.sm_resource()?.count(), groups[0].count());
/// # drop(stream);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SmResource {
    device: Device,
    raw: DeviceResource,
}

// SAFETY: a plain value of the driver's, which names no thread.
unsafe impl Send for SmResource {}
// SAFETY: as above.
unsafe impl Sync for SmResource {}

/// How multiprocessors are divided (`CUdevSmResourceSplitByCount_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SmSplit {
    /// So that clusters of the usual size fit into each group.
    #[default]
    Default = 0,
    /// In finer steps, without regard to clusters.
    IgnoreCoscheduling = 1,
    /// So that the largest clusters fit (compute capability 9.0).
    LargestClusters = 2,
}

impl SmResource {
    /// How many multiprocessors they are.
    pub fn count(&self) -> u32 {
        self.raw.count
    }

    /// The fewest that a group can have; 0 from drivers before CUDA 13.0, which do not say.
    pub fn least(&self) -> u32 {
        self.raw.least
    }

    /// The number of which a group has a multiple; 0 from drivers before CUDA 13.0.
    pub fn alignment(&self) -> u32 {
        self.raw.alignment
    }

    /// Divides what a device or context has into at most `groups` groups of the same size, of at
    /// least `least` multiprocessors, and the rest (`cuDevSmResourceSplitByCount`, from CUDA
    /// 12.4). The driver may give fewer groups, and larger ones. Groups are not divided again.
    pub fn split(
        &self,
        groups: u32,
        least: u32,
        how: SmSplit,
    ) -> Result<(Vec<SmResource>, SmResource), Error> {
        // There are no more groups than multiprocessors.
        let room = groups.min(self.count());
        let mut parts = vec![DeviceResource::EMPTY; room as usize];
        let (mut count, mut rest) = (room, DeviceResource::EMPTY);
        // SAFETY: room for as many groups as said; reads one resource and writes another.
        unsafe {
            self.device.api().cuDevSmResourceSplitByCount(
                parts.as_mut_ptr(),
                &mut count,
                &self.raw,
                &mut rest,
                how as u32,
                least,
            )
        }?;
        parts.truncate(count as usize);
        let of = |raw| SmResource {
            device: self.device,
            raw,
        };
        Ok((parts.into_iter().map(of).collect(), of(rest)))
    }
}

impl Device {
    /// Its multiprocessors, to be divided (`cuDeviceGetDevResource`, from CUDA 12.4). Those of
    /// the CPU device are its worker threads, which are one group.
    pub fn sm_resource(&self) -> Result<SmResource, Error> {
        let mut raw = DeviceResource::EMPTY;
        let api = self.api();
        // SAFETY: writes one resource.
        unsafe { api.cuDeviceGetDevResource(self.raw(), &mut raw, MULTIPROCESSORS) }?;
        Ok(SmResource { device: *self, raw })
    }
}

impl Context {
    /// A context whose kernels run on these multiprocessors alone, which are groups of one
    /// [split](SmResource::split) (`cuDevResourceGenerateDesc`, `cuGreenCtxCreate`,
    /// `cuCtxFromGreenCtx`, from CUDA 12.4; `cuGreenCtxDestroy` when it is dropped).
    ///
    /// It begins where the device's primary context is: it is cheap where that is in use. What is
    /// made in it is its own: buffers and modules of another context are not taken.
    ///
    /// # Errors
    /// [`Error::DifferentDevices`] for resources of several devices; those of several splits are
    /// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION`.
    pub fn green(resources: &[SmResource]) -> Result<Context, Error> {
        let Some(first) = resources.first() else {
            return Err(Error::Length {
                what: "resources of a green context",
                given: 0,
                capacity: 1,
            });
        };
        let device = first.device;
        if resources.iter().any(|resource| resource.device != device) {
            return Err(Error::DifferentDevices {
                what: "the multiprocessors of a green context",
            });
        }
        let api = device.api();
        let mut raw: Vec<_> = resources.iter().map(|resource| resource.raw).collect();
        let count = u32::try_from(raw.len()).unwrap_or(u32::MAX);
        let mut description = std::ptr::null_mut();
        let mut green: CUgreenCtx = std::ptr::null_mut();
        let mut handle = std::ptr::null_mut();
        // SAFETY: as many resources as said; writes one handle, which is good for ever.
        unsafe { api.cuDevResourceGenerateDesc(&mut description, raw.as_mut_ptr(), count) }?;
        // SAFETY: a description of this device's; writes one handle. The flag asks for a default
        // stream.
        unsafe { api.cuGreenCtxCreate(&mut green, description, device.raw(), 1) }?;
        // SAFETY: the green context is live; writes one handle.
        if let Err(error) = unsafe { api.cuCtxFromGreenCtx(&mut handle, green) } {
            // SAFETY: created above, and nobody else has it.
            report_drop(unsafe { api.cuGreenCtxDestroy(green) });
            return Err(error.into());
        }
        Context::own(&device, handle, Ownership::Green(green))
    }

    /// The handle of a green context; `None` for other contexts.
    pub fn raw_green(&self) -> Option<CUgreenCtx> {
        match self.inner.ownership {
            Ownership::Green(green) => Some(green),
            _ => None,
        }
    }

    /// The multiprocessors that its kernels run on (`cuCtxGetDevResource`, from CUDA 12.4).
    pub fn sm_resource(&self) -> Result<SmResource, Error> {
        let mut raw = DeviceResource::EMPTY;
        let api = self.bind()?;
        // SAFETY: the context is live; writes one resource.
        unsafe {
            match self.raw_green() {
                Some(green) => api.cuGreenCtxGetDevResource(green, &mut raw, MULTIPROCESSORS),
                None => api.cuCtxGetDevResource(self.raw(), &mut raw, MULTIPROCESSORS),
            }
        }?;
        Ok(SmResource {
            device: *self.device(),
            raw,
        })
    }
}
