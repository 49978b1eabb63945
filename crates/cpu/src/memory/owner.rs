//! The owners of allocations, and the devices that may access their memory.

/// The owner of an allocation.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) device: usize,
    /// Peers may access it. They may not access the variables of a module, which NVIDIA's
    /// driver does not map for them.
    pub(super) peers: bool,
}

/// By device: a bit mask of the devices whose memory it may access.
#[derive(Default)]
pub(super) struct PeerAccess(pub(super) Vec<u32>);

impl PeerAccess {
    /// Each of `count` devices may access its own memory.
    pub(super) fn of(count: usize) -> PeerAccess {
        PeerAccess((0..count).map(|device| 1 << device).collect())
    }

    pub(super) fn allows(&self, device: usize, owner: Option<Owner>) -> bool {
        match (self.0.get(device), owner) {
            (Some(_), Some(owner)) if !owner.peers => owner.device == device,
            (Some(reached), Some(owner)) => reached & (1 << owner.device) != 0,
            _ => true,
        }
    }
}
