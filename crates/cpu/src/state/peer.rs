//! Peer access: which contexts access the memory of another device. The arena stores
//! for each device what its kernels may access.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::device::arena;
use super::status::{Result, Status};
use api::CUdevice;

/// Contexts that access another's memory, and that other context: device and
/// `Context::id` of each.
static ENABLED: Mutex<BTreeSet<[(CUdevice, usize); 2]>> = Mutex::new(BTreeSet::new());

fn enabled() -> MutexGuard<'static, BTreeSet<[(CUdevice, usize); 2]>> {
    ENABLED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pair(context: &Context, peer: &Context) -> [(CUdevice, usize); 2] {
    [context, peer].map(|context| (context.device(), context.id()))
}

/// Opens or closes a device's memory to another, as their contexts have enabled it.
fn open(pairs: &BTreeSet<[(CUdevice, usize); 2]>, device: CUdevice, owner: CUdevice) -> Result {
    let is_open = pairs
        .iter()
        .any(|[(from, _), (to, _)]| (*from, *to) == (device, owner));
    // Numbers of devices are not negative.
    arena()?.set_access(device as usize, owner as usize, is_open);
    Ok(())
}

/// Disables what a context that is destroyed has enabled, and others for it.
pub(crate) fn disable_all(context: &Context) {
    let mut pairs = enabled();
    let id = context.id();
    let gone: Vec<_> = pairs
        .extract_if(.., |[from, to]| from.1 == id || to.1 == id)
        .collect();
    for [(device, _), (owner, _)] in gone {
        let _ = open(&pairs, device, owner); // the arena exists, as it was open
    }
}

/// Lets kernels of `context` access the memory of the device of `peer`.
pub(crate) fn enable(context: &Context, peer: &Context) -> Result {
    if context.device() == peer.device() {
        return Err(Status::PEER_ACCESS_UNSUPPORTED.because("both contexts are of one device"));
    }
    let mut pairs = enabled();
    if !pairs.insert(pair(context, peer)) {
        return Err(Status::PEER_ACCESS_ALREADY_ENABLED.into());
    }
    open(&pairs, context.device(), peer.device())
}

/// Disables the access after the kernels that may use it.
pub(crate) fn disable(context: &Context, peer: &Context) -> Result {
    context.wait();
    let mut pairs = enabled();
    if !pairs.remove(&pair(context, peer)) {
        return Err(Status::PEER_ACCESS_NOT_ENABLED.into());
    }
    open(&pairs, context.device(), peer.device())
}
