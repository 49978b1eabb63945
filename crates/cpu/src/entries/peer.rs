//! Several devices: who may access whose memory, and copies between contexts.
//!
//! The devices share one memory, so copies are like any other; what kernels may
//! access, the memory keeps for each device.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::{self, Context};
use super::copy::{Side, When, copy, default_stream};
use super::device::check;
use super::entry::{Given, entries};
use super::memory::arena;
use super::region;
use super::status::{Answer, Status};
use super::stream;
use api::{CUDA_MEMCPY3D_PEER, CUcontext, CUdevice, CUdeviceptr, CUstream};

/// Contexts that access another's memory, and that other one: device and
/// `Context::id` of each.
static ENABLED: Mutex<BTreeSet<[(CUdevice, usize); 2]>> = Mutex::new(BTreeSet::new());

fn enabled() -> MutexGuard<'static, BTreeSet<[(CUdevice, usize); 2]>> {
    ENABLED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pair(context: &Context, peer: &Context) -> [(CUdevice, usize); 2] {
    [context, peer].map(|context| (context.device(), context.id()))
}

/// Opens or closes a device's memory to another, as the contexts of both ask.
fn open(pairs: &BTreeSet<[(CUdevice, usize); 2]>, device: CUdevice, owner: CUdevice) -> Answer {
    let is_open = pairs
        .iter()
        .any(|[(from, _), (to, _)]| (*from, *to) == (device, owner));
    // Numbers of devices are not negative.
    arena()?.set_access(device as usize, owner as usize, is_open);
    Ok(())
}

/// Ends what a context that is destroyed had enabled, and others for it.
pub(super) fn forget(context: &Context) {
    let mut pairs = enabled();
    let id = context.id();
    let gone: Vec<_> = pairs
        .extract_if(.., |[from, to]| from.1 == id || to.1 == id)
        .collect();
    for [(device, _), (owner, _)] in gone {
        let _ = open(&pairs, device, owner); // there was memory to open it
    }
}

/// `CU_DEVICE_P2P_ATTRIBUTE_…`: the devices share one memory.
fn attribute(number: c_uint) -> Option<c_int> {
    match number {
        1 => Some(0),     // PERFORMANCE_RANK
        2 | 3 => Some(1), // ACCESS_SUPPORTED, NATIVE_ATOMIC_SUPPORTED
        4 | 5 => Some(0), // CUDA_ARRAY_ACCESS_SUPPORTED, ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED
        _ => None,
    }
}

/// The contexts of the two ends of a copy must be alive.
fn check_ends(
    to: Given<cudarc::driver::sys::CUctx_st>,
    from: Given<cudarc::driver::sys::CUctx_st>,
) -> Answer {
    context::find(to)?.check()?;
    context::find(from)?.check()
}

fn check_cuboid(described: Given<CUDA_MEMCPY3D_PEER>) -> Answer {
    use super::entry::Argument;

    let ends = described.get()?;
    // SAFETY: fields of the caller's structure, for which its promise holds as well.
    let (to, from) = unsafe { (ends.dstContext.seen(), ends.srcContext.seen()) };
    check_ends(to, from)
}

entries! {
    fn cuDeviceGetP2PAttribute(
        value: *mut c_int,
        number: c_uint,
        source: CUdevice,
        destination: CUdevice,
    ) {
        check(source)?;
        check(destination)?;
        if source == destination {
            return Err(Status::INVALID_DEVICE.into());
        }
        value.put(attribute(number).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) {
        check(device)?;
        check(peer)?;
        can.put(c_int::from(device != peer))
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) {
        let (context, peer) = (context::working()?, context::find(peer)?);
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of peer access must be 0"));
        }
        if context.device() == peer.device() {
            return Err(Status::INVALID_DEVICE.because("a device is no peer of itself"));
        }
        let mut pairs = enabled();
        if !pairs.insert(pair(&context, &peer)) {
            return Err(Status::PEER_ACCESS_ALREADY_ENABLED.into());
        }
        open(&pairs, context.device(), peer.device())
    }

    /// Waits first for the kernels that may use it.
    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        let (context, peer) = (context::working()?, context::find(peer)?);
        context.wait();
        let mut pairs = enabled();
        if !pairs.remove(&pair(&context, &peer)) {
            return Err(Status::PEER_ACCESS_NOT_ENABLED.into());
        }
        open(&pairs, context.device(), peer.device())
    }

    fn cuMemcpyPeer(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
    ) {
        check_ends(to_context, from_context)?;
        // In order with the default streams of both.
        let (current, stream) = default_stream()?;
        for other in [context::find(to_context)?, context::find(from_context)?] {
            if !Arc::ptr_eq(&other, &current) {
                other.wait();
            }
        }
        copy(
            &(current, stream),
            When::Now,
            Side::device(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) {
        check_ends(to_context, from_context)?;
        copy(
            &stream::find(stream)?,
            When::InOrder,
            Side::device(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    /// The contexts stand where a copy within one has nothing.
    fn cuMemcpy3DPeer(described: *const CUDA_MEMCPY3D_PEER) {
        check_cuboid(described)?;
        region::cuboid(&default_stream()?, When::Now, described.cast())
    }

    fn cuMemcpy3DPeerAsync(described: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        check_cuboid(described)?;
        region::cuboid(&stream::find(stream)?, When::InOrder, described.cast())
    }
}
