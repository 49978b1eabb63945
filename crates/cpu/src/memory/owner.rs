//! The owners of allocations, and the devices that may access their memory.

/// The owner of an allocation.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) device: usize,
    pub(super) open_to: OpenTo,
}

/// Which other devices may access an allocation.
#[derive(Clone, Copy)]
pub(super) enum OpenTo {
    /// Those with peer access.
    Peers,
    /// A bit mask of devices, whatever peer access is enabled: it is a pool's.
    Devices(u32),
    /// None: it is a variable of a module, which NVIDIA's driver does not map for peers.
    Nobody,
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
            (Some(reached), Some(owner)) => {
                let bit = |device: usize| 1 << device;
                let is_open = match owner.open_to {
                    OpenTo::Peers => reached & bit(owner.device) != 0,
                    OpenTo::Devices(devices) => devices & bit(device) != 0,
                    OpenTo::Nobody => false,
                };
                is_open || owner.device == device
            }
            _ => true,
        }
    }
}
