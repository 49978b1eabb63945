//! Peer access between devices, and copies between contexts.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::Device;
use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::length;
use crate::driver::memory::order::Effect;
use crate::driver::memory::pitched::PitchedBuffer;
use crate::driver::memory::uses::lock_memory;
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use api::CUDA_MEMCPY3D_PEER;
use api::CudaError;

/// The link between two devices (`cuDeviceGetP2PAttribute`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerLink {
    /// Performance rank among the links of the machine: 0 is the fastest.
    pub performance_rank: u32,
    /// Kernels can access the other's memory, once that is
    /// [enabled](Context::enable_peer).
    pub access: bool,
    /// Atomic operations on the other's memory are native.
    pub native_atomics: bool,
    /// Kernels can access the other's arrays.
    pub arrays: bool,
}

impl Device {
    /// Whether kernels of this device can access the memory of `peer`
    /// (`cuDeviceCanAccessPeer`). A device is no peer of itself.
    pub fn can_access(&self, peer: &Device) -> Result<bool, Error> {
        self.check_same_driver(peer)?;
        let mut can = 0;
        // SAFETY: writes one integer.
        unsafe {
            self.api()
                .cuDeviceCanAccessPeer(&mut can, self.raw(), peer.raw())
        }?;
        Ok(can != 0)
    }

    /// The link to another device (`cuDeviceGetP2PAttribute`).
    pub fn link_to(&self, peer: &Device) -> Result<PeerLink, Error> {
        self.check_same_driver(peer)?;
        let get = |number| {
            let mut value = 0;
            // SAFETY: writes one integer.
            unsafe {
                self.api()
                    .cuDeviceGetP2PAttribute(&mut value, number, self.raw(), peer.raw())
            }?;
            Ok::<i32, Error>(value)
        };
        Ok(PeerLink {
            performance_rank: get(1)?.max(0).cast_unsigned(),
            access: get(2)? != 0,
            native_atomics: get(3)? != 0,
            arrays: get(4)? != 0,
        })
    }

    /// Fails for devices of different drivers, whose handles cannot be mixed.
    fn check_same_driver(&self, peer: &Device) -> Result<(), Error> {
        self.driver().check_device(peer)
    }
}

/// Driver, context, and peer context.
type PeerKey = [usize; 3];

struct AccessCount {
    count: usize,
    /// Whether this crate enabled it, and not another library.
    enabled_here: bool,
}

static ENABLED: LazyLock<Mutex<HashMap<PeerKey, AccessCount>>> = LazyLock::new(Mutex::default);

fn enabled() -> MutexGuard<'static, HashMap<PeerKey, AccessCount>> {
    ENABLED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn peer_key(context: &Context, peer: &Context) -> PeerKey {
    [
        std::ptr::from_ref(context.api()).addr(),
        context.raw().addr(),
        peer.raw().addr(),
    ]
}

/// Peer access of one context to the memory of another, until this is dropped; see
/// [`Context::enable_peer`].
#[derive(Debug)]
pub struct PeerAccess {
    context: Context,
    peer: Context,
}

impl Context {
    /// Lets kernels of this context access memory allocated in `peer`, a context
    /// on another device, until the value returned is dropped
    /// (`cuCtxEnablePeerAccess`, `cuCtxDisablePeerAccess`). It is one way: the
    /// other direction is enabled by `peer`.
    ///
    /// Enabled several times, it ends with the last of the values; where another
    /// library enabled it, that one ends it. Devices without a link give
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED`, contexts of one device
    /// `CUDA_ERROR_INVALID_DEVICE`. Without access a launch refuses the buffers
    /// of other contexts ([`Error::ArgumentContext`]), and a kernel that is given
    /// an address of theirs ends with `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub fn enable_peer(&self, peer: &Context) -> Result<PeerAccess, Error> {
        self.device().check_same_driver(peer.device())?;
        let api = self.bind()?;
        let mut pairs = enabled();
        match pairs.get_mut(&peer_key(self, peer)) {
            Some(access) => access.count += 1,
            None => {
                // SAFETY: both contexts are live; the flags must be 0.
                let enabled_here = match unsafe { api.cuCtxEnablePeerAccess(peer.raw(), 0) } {
                    Ok(()) => true,
                    Err(error) if error.code() == Some(CudaError::PEER_ACCESS_ALREADY_ENABLED) => {
                        false
                    }
                    Err(error) => return Err(error.into()),
                };
                pairs.insert(
                    peer_key(self, peer),
                    AccessCount {
                        count: 1,
                        enabled_here,
                    },
                );
            }
        }
        Ok(PeerAccess {
            context: self.clone(),
            peer: peer.clone(),
        })
    }

    /// Whether its kernels can access memory of another context.
    #[cold]
    pub(crate) fn reaches(&self, other: &Context) -> bool {
        enabled().contains_key(&peer_key(self, other))
    }
}

impl PeerAccess {
    /// The context whose kernels have access.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The context whose memory they access.
    pub fn peer(&self) -> &Context {
        &self.peer
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        let mut pairs = enabled();
        let key = peer_key(&self.context, &self.peer);
        let Some(access) = pairs.get_mut(&key) else {
            return;
        };
        access.count -= 1;
        if access.count > 0 {
            return;
        }
        let enabled_here = access.enabled_here;
        pairs.remove(&key);
        if enabled_here {
            // Queued kernels may still use the access.
            let ended = self.context.synchronize().and_then(|()| {
                let api = self.context.bind()?;
                // SAFETY: both contexts are live.
                unsafe { Ok(api.cuCtxDisablePeerAccess(self.peer.raw())?) }
            });
            report_drop(ended);
        }
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// Copies all of a buffer of the same length from another context, mostly of
    /// another device (`cuMemcpyPeer`). Peer access is not needed, and makes it
    /// faster. It is ordered like work of the default streams of both contexts.
    pub fn copy_from_peer(&mut self, source: &DeviceBuffer<T>) -> Result<(), Error> {
        self.check_peer(source)?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let api = self.context().bind()?;
        let _guard = lock_memory(None, [self.used(Effect::Write), source.used(Effect::Read)])?;
        // SAFETY: both buffers have that many bytes and are of the contexts given.
        unsafe {
            Ok(api.cuMemcpyPeer(
                self.address(),
                self.context().raw(),
                source.address(),
                source.context().raw(),
                self.bytes(),
            )?)
        }
    }

    /// The same in stream order (`cuMemcpyPeerAsync`). The stream is of either
    /// context.
    pub fn copy_from_peer_async(
        &mut self,
        source: &DeviceBuffer<T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.check_peer(source)?;
        check_stream(stream, self.context(), source.context())?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let api = stream.context().bind()?;
        let memory = [self.used(Effect::Write), source.used(Effect::Read)];
        for used in &memory {
            used.memory.record_peer(stream.context());
        }
        let guard = lock_memory(Some(stream), memory)?;
        // SAFETY: as above; freeing either waits for the stream's context.
        unsafe {
            api.cuMemcpyPeerAsync(
                self.address(),
                self.context().raw(),
                source.address(),
                source.context().raw(),
                self.bytes(),
                stream.raw(),
            )
        }?;
        drop(guard);
        if stream.context().check_mode() {
            stream.wait_for_check(|| format!("copy from a peer, {} bytes", self.bytes()))
        } else {
            Ok(())
        }
    }

    fn check_peer(&self, source: &DeviceBuffer<T>) -> Result<(), Error> {
        let devices = [self, source].map(|buffer| buffer.context().device());
        devices[0].check_same_driver(devices[1])?;
        length::check_equal("copy from a peer", source.len(), self.len())?;
        Ok(())
    }
}

impl<T: Pod> PitchedBuffer<T> {
    /// Copies all rows of a buffer of the same width and height from another
    /// context, whatever the pitches are (`cuMemcpy3DPeer`).
    pub fn copy_from_peer(&mut self, source: &PitchedBuffer<T>) -> Result<(), Error> {
        let Some(copy) = self.peer_box(source)? else {
            return Ok(());
        };
        let api = self.context().bind()?;
        // SAFETY: both ends have the rows, and are of the contexts named.
        unsafe { Ok(api.cuMemcpy3DPeer(&copy)?) }
    }

    /// The same in stream order (`cuMemcpy3DPeerAsync`). The stream is of either
    /// context.
    pub fn copy_from_peer_async(
        &mut self,
        source: &PitchedBuffer<T>,
        stream: &Stream,
    ) -> Result<(), Error> {
        check_stream(stream, self.context(), source.context())?;
        let Some(copy) = self.peer_box(source)? else {
            return Ok(());
        };
        let api = stream.context().bind()?;
        let memory = [self.used(Effect::Write), source.used(Effect::Read)];
        for used in &memory {
            used.memory.record_peer(stream.context());
        }
        let guard = lock_memory(Some(stream), memory)?;
        // SAFETY: as above; freeing either waits for the stream's context.
        unsafe { api.cuMemcpy3DPeerAsync(&copy, stream.raw()) }?;
        drop(guard);
        if stream.context().check_mode() {
            stream.wait_for_check(|| format!("copy of {} rows from a peer", self.height()))
        } else {
            Ok(())
        }
    }

    /// The copy parameters, unless there is nothing to copy.
    fn peer_box(&self, source: &PitchedBuffer<T>) -> Result<Option<CUDA_MEMCPY3D_PEER>, Error> {
        let devices = [self, source].map(|buffer| buffer.context().device());
        devices[0].check_same_driver(devices[1])?;
        let shape = |buffer: &PitchedBuffer<T>| [buffer.width(), buffer.height(), buffer.depth()];
        if shape(self) != shape(source) {
            return Err(Error::Length {
                what: "copy of rows from a peer",
                given: source.width().saturating_mul(source.height()),
                capacity: self.width().saturating_mul(self.height()),
            });
        }
        let bytes = self.width() * size_of::<T>(); // the rows are in memory
        if bytes == 0 || self.height() == 0 || self.depth() == 0 {
            return Ok(None);
        }
        Ok(Some(CUDA_MEMCPY3D_PEER {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: source.address(),
            srcArray: std::ptr::null_mut(),
            srcContext: source.context().raw(),
            srcPitch: source.pitch(),
            srcHeight: source.height(),
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.address(),
            dstArray: std::ptr::null_mut(),
            dstContext: self.context().raw(),
            dstPitch: self.pitch(),
            dstHeight: self.height(),
            WidthInBytes: bytes,
            Height: self.height(),
            Depth: self.depth(),
        }))
    }
}

fn check_stream(stream: &Stream, to: &Context, from: &Context) -> Result<(), Error> {
    if stream.context() != to && stream.context() != from {
        return Err(Error::DifferentContexts {
            what: "the buffers of a copy between peers and its stream",
        });
    }
    Ok(())
}
