//! Several devices: peer access, and copies between contexts. The devices share one
//! memory, so these copies are like any other.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use super::context::named_or_current;
use super::entry::entries;
use super::region::{contexts_3d, perform_3d};
use crate::state::copy::{CopyMode, Endpoint, copy};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, device, peer, stream};
use api::{CUDA_MEMCPY3D_PEER, CUcontext, CUdevice, CUdeviceptr, CUstream};

/// `CU_DEVICE_P2P_ATTRIBUTE_…`: the devices share one memory.
fn attribute(number: c_uint) -> Option<c_int> {
    match number {
        1 => Some(0),     // PERFORMANCE_RANK
        2 | 3 => Some(1), // ACCESS_SUPPORTED, NATIVE_ATOMIC_SUPPORTED
        4 | 5 => Some(0), // CUDA_ARRAY_ACCESS_SUPPORTED, ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED
        _ => None,
    }
}

/// Fails unless the contexts of both endpoints are live and without a fault.
fn check_contexts(to: usize, from: usize) -> Result {
    named_or_current(to)?.check()?;
    named_or_current(from)?.check()
}

fn check_3d(params: UserPointer<CUDA_MEMCPY3D_PEER>) -> Result {
    let [from, to] = contexts_3d(params)?;
    check_contexts(to, from)
}

entries! {
    fn cuDeviceGetP2PAttribute(
        value: *mut c_int,
        number: c_uint,
        source: CUdevice,
        destination: CUdevice,
    ) {
        device::check(source)?;
        device::check(destination)?;
        if source == destination {
            return Err(Status::INVALID_DEVICE.into());
        }
        value.put(attribute(number).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) {
        device::check(device)?;
        device::check(peer)?;
        can.put(c_int::from(device != peer))
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) {
        let context = context::working()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of peer access must be 0"));
        }
        let peer = context::find(peer.addr())?;
        peer::enable(&context, &peer)
    }

    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        let (context, peer) = (context::working()?, context::find(peer.addr())?);
        peer::disable(&context, &peer)
    }

    fn cuMemcpyPeer(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
    ) {
        check_contexts(to_context.addr(), from_context.addr())?;
        // In order with the default streams of both.
        let (current, stream) = stream::default_stream()?;
        for other in [to_context, from_context] {
            let other = named_or_current(other.addr())?;
            if !Arc::ptr_eq(&other, &current) {
                other.wait();
            }
        }
        copy(
            &(current, stream),
            CopyMode::Synchronous,
            Endpoint::device(to, bytes)?,
            Endpoint::device(from, bytes)?,
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
        check_contexts(to_context.addr(), from_context.addr())?;
        let stream = stream::find(stream.addr())?;
        stream.1.refuse_captured("the stream is capturing, and copies between contexts cannot be captured")?;
        copy(
            &stream,
            CopyMode::Asynchronous,
            Endpoint::device(to, bytes)?,
            Endpoint::device(from, bytes)?,
            bytes,
        )
    }

    /// Its structure has the contexts where that of `cuMemcpy3D` has reserved fields.
    fn cuMemcpy3DPeer(params: *const CUDA_MEMCPY3D_PEER) {
        check_3d(params)?;
        perform_3d(&stream::default_stream()?, CopyMode::Synchronous, params.cast())
    }

    fn cuMemcpy3DPeerAsync(params: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        check_3d(params)?;
        perform_3d(&stream::find(stream.addr())?, CopyMode::Asynchronous, params.cast())
    }
}
