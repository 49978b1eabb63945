//! Peer access: the memory that each of several devices may access.
//!
//! Several CPU devices share one arena. As on GPUs, a kernel may access the memory of
//! another device only if peer access is enabled, so each device has its own shadow.
//! Memory without an owner is accessible to all devices: pinned and managed memory, and
//! the memory of launches.

use memmap2::MmapRaw;

use super::allocator::{GRANULE, LiveAllocation};
use super::arena::DeviceMemory;
use super::error::MemoryError;
use super::owner::{OpenTo, Owner};

impl DeviceMemory {
    /// The shadow memory for the kernels of a device.
    pub fn shadow_of(&self, device: usize) -> *const u16 {
        let shadow = self.device_shadows.get(device).unwrap_or(&self.shadow);
        shadow.as_ptr().cast()
    }

    /// Sets the owner of the allocation at `start`. Its peers may access it if peer access
    /// is enabled.
    pub fn restrict(&self, start: u64, device: usize) {
        self.set_owner(start, device, OpenTo::Peers);
    }

    /// Sets the owner of the allocation at `start`, and which others may access it: a bit mask
    /// of devices. Peer access does not matter.
    pub fn restrict_to(&self, start: u64, device: usize, others: u32) {
        self.set_owner(start, device, OpenTo::Devices(others));
    }

    /// Sets the owner of the module variable at `start`, which peers may not access.
    pub fn restrict_variable(&self, start: u64, device: usize) {
        self.set_owner(start, device, OpenTo::Nobody);
    }

    fn set_owner(&self, start: u64, device: usize, open_to: OpenTo) {
        let mut allocator = self.allocator();
        let Some(live) = allocator.live.get_mut(&start) else {
            return;
        };
        let former = live.owner.replace(Owner { device, open_to });
        let live = *live;
        for (viewer, shadow) in self.device_shadows.iter().enumerate() {
            let allows = |owner| allocator.peer_access.allows(viewer, owner);
            match (allows(former), allows(live.owner)) {
                (true, false) => self.clear_in(shadow, start, &live),
                (false, true) => self.mark_in(shadow, start, live.size),
                _ => {}
            }
        }
    }

    /// The device whose memory is at an address: none of memory that all devices share.
    pub fn device_of(&self, address: u64) -> Option<usize> {
        self.allocator().owner(address).map(|owner| owner.device)
    }

    /// Enables or disables access of `device` to the memory of `owner`.
    pub fn set_access(&self, device: usize, owner: usize, allowed: bool) {
        let mut allocator = self.allocator();
        let (Some(shadow), Some(reached)) = (
            self.device_shadows.get(device),
            allocator.peer_access.0.get_mut(device),
        ) else {
            return;
        };
        if allowed || device == owner {
            *reached |= 1 << owner
        } else {
            *reached &= !(1 << owner)
        }
        for (&start, live) in &allocator.live {
            if live.owner.is_some_and(|owned_by| owned_by.device == owner) {
                if allocator.peer_access.allows(device, live.owner) {
                    self.mark_in(shadow, start, live.size)
                } else {
                    self.clear_in(shadow, start, live)
                }
            }
        }
    }

    /// [`check`](Self::check) for a kernel of a device.
    pub fn check_from(&self, device: usize, address: u64, bytes: u64) -> Result<(), MemoryError> {
        self.check(address, bytes)?;
        if self.denied_owner(device, address).is_some() {
            return Err(MemoryError::OutOfBounds {
                address,
                bytes,
                what: self.describe_to(device, address),
            });
        }
        Ok(())
    }

    /// [`describe`](Self::describe) for a kernel of a device, with the reason if it may not
    /// access the memory.
    pub fn describe_to(&self, device: usize, address: u64) -> String {
        let what = self.describe(address);
        let Some(owner) = self.denied_owner(device, address) else {
            return what;
        };
        what + match owner.open_to {
            OpenTo::Peers => ", which another device owns: peer access is not enabled",
            OpenTo::Devices(_) => ", of a pool that is not open to this device",
            OpenTo::Nobody => ", a variable of another device, which peers cannot access",
        }
    }

    /// The owner of the memory at an address, if the device may not access it.
    fn denied_owner(&self, device: usize, address: u64) -> Option<Owner> {
        let allocator = self.allocator();
        let owner = allocator.owner(address);
        owner.filter(|_| !allocator.peer_access.allows(device, owner))
    }

    fn clear_in(&self, shadow: &MmapRaw, start: u64, live: &LiveAllocation) {
        self.set_valid_bytes(shadow, start, live.size.div_ceil(GRANULE), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocation::Purpose;
    use super::*;

    #[test]
    fn each_device_accesses_its_own_memory_and_that_of_its_peers() {
        let memory = DeviceMemory::for_devices(1 << 20, 2).unwrap();
        let sees = |device: usize, address: u64| {
            let granule = (address - memory.base()) as usize / 256;
            // SAFETY: the shadow has a number for each granule of the arena.
            let shadow = unsafe { *memory.shadow_of(device).add(granule) };
            let checked = memory.check_from(device, address, 1).is_ok();
            assert_eq!(shadow > 0, checked, "{device} at {address:#x}");
            checked
        };
        let [first, second] = [0, 1].map(|device| {
            let start = memory.allocate(600, 256, Purpose::Device).unwrap();
            memory.restrict(start, device);
            start
        });
        let pinned = memory.allocate(600, 256, Purpose::Host).unwrap();
        assert!(sees(0, first) && sees(1, second) && sees(0, pinned) && sees(1, pinned));
        assert!(!sees(0, second) && !sees(1, first));
        assert!(memory.describe_to(1, first).contains("peer access"));

        memory.set_access(1, 0, true);
        assert!(sees(1, first) && !sees(0, second));
        let later = memory.allocate(10, 256, Purpose::Device).unwrap();
        memory.restrict(later, 0);
        assert!(sees(1, later), "access is to what comes later too");
        memory.set_access(1, 0, false);
        assert!(!sees(1, first) && !sees(1, later) && sees(1, second));

        let variable = memory.allocate(10, 256, Purpose::Device).unwrap();
        memory.restrict_variable(variable, 0);
        memory.set_access(1, 0, true);
        assert!(sees(0, variable) && !sees(1, variable));
        assert!(memory.describe_to(1, variable).contains("a variable"));

        let of_pool = memory.allocate(600, 256, Purpose::Device).unwrap();
        memory.restrict_to(of_pool, 0, 0);
        assert!(
            sees(0, of_pool) && !sees(1, of_pool),
            "peer access is not a pool's"
        );
        assert!(memory.describe_to(1, of_pool).contains("a pool"));
        memory.restrict_to(of_pool, 0, 0b10);
        memory.set_access(1, 0, false);
        assert!(sees(0, of_pool) && sees(1, of_pool) && !sees(1, first));
        memory.restrict_to(of_pool, 0, 0);
        assert!(sees(0, of_pool) && !sees(1, of_pool));

        memory.free(first).unwrap();
        memory.free(second).unwrap();
        assert!(!sees(0, first) && !sees(1, second));
    }

    #[test]
    fn one_device_has_one_shadow() {
        let memory = DeviceMemory::with_size(1 << 20).unwrap();
        assert_eq!(memory.shadow_of(0), memory.shadow());
        let start = memory.allocate(1, 256, Purpose::Device).unwrap();
        memory.restrict(start, 0);
        assert!(memory.check_from(0, start, 1).is_ok());
    }
}
