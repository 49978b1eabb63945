//! What each of several devices may access.
//!
//! Several CPU devices share one arena. So that a kernel finds the memory of
//! another device only after peer access was enabled, as on GPUs, each device
//! then has a shadow of its own. What no device owns is open to all: pinned and
//! managed memory, and what a launch needs for itself.

use memmap2::MmapRaw;

use super::book::Live;
use super::{DeviceMemory, MemoryError};

/// Whose an allocation is.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    device: usize,
    /// Peers reach it where they may reach the device's memory. They never
    /// reach the variables of a module: NVIDIA's driver does not map them.
    peers: bool,
}

/// Which devices' memory one device may access, one bit each.
#[derive(Default)]
pub(super) struct Reach(Vec<u32>);

impl Reach {
    /// Each of `count` devices reaches its own memory.
    pub(super) fn of(count: usize) -> Reach {
        Reach((0..count).map(|device| 1 << device).collect())
    }

    fn allows(&self, device: usize, owner: Option<Owner>) -> bool {
        match (self.0.get(device), owner) {
            (Some(_), Some(owner)) if !owner.peers => owner.device == device,
            (Some(reached), Some(owner)) => reached & (1 << owner.device) != 0,
            _ => true,
        }
    }
}

impl DeviceMemory {
    /// The shadow that the kernels of a device are held to.
    pub fn shadow_of(&self, device: usize) -> *const u16 {
        let shadow = self.views.get(device).unwrap_or(&self.shadow);
        shadow.as_ptr().cast()
    }

    /// Makes the allocation at `start` a device's own, and its peers' where they
    /// may access its memory.
    pub fn restrict(&self, start: u64, device: usize) {
        self.own(
            start,
            Owner {
                device,
                peers: true,
            },
        );
    }

    /// Makes the variable at `start` a device's own.
    pub fn restrict_variable(&self, start: u64, device: usize) {
        self.own(
            start,
            Owner {
                device,
                peers: false,
            },
        );
    }

    fn own(&self, start: u64, owner: Owner) {
        let mut book = self.book();
        let Some(live) = book.live.get_mut(&start) else {
            return;
        };
        live.owner = Some(owner);
        let live = *live;
        for (viewer, view) in self.views.iter().enumerate() {
            if !book.reach.allows(viewer, live.owner) {
                self.clear_in(view, start, &live);
            }
        }
    }

    /// Lets kernels of `device` access what `owner` owns, or not any more.
    pub fn set_access(&self, device: usize, owner: usize, allowed: bool) {
        let mut book = self.book();
        let (Some(view), Some(reached)) = (self.views.get(device), book.reach.0.get_mut(device))
        else {
            return;
        };
        match allowed || device == owner {
            true => *reached |= 1 << owner,
            false => *reached &= !(1 << owner),
        }
        for (&start, live) in &book.live {
            if live.owner.is_some_and(|own| own.device == owner) {
                match book.reach.allows(device, live.owner) {
                    true => self.mark_in(view, start, live.size),
                    false => self.clear_in(view, start, live),
                }
            }
        }
    }

    /// [`check`](Self::check) as a kernel of a device is held to it.
    pub fn check_from(&self, device: usize, address: u64, bytes: u64) -> Result<(), MemoryError> {
        self.check(address, bytes)?;
        if self.hides(device, address).is_some() {
            return Err(MemoryError::OutOfBounds {
                address,
                bytes,
                what: self.describe_to(device, address),
            });
        }
        Ok(())
    }

    /// [`describe`](Self::describe) for a kernel of a device: also why memory
    /// that is there was out of its reach.
    pub fn describe_to(&self, device: usize, address: u64) -> String {
        let what = self.describe(address);
        match self.hides(device, address) {
            Some(Owner { peers: true, .. }) => {
                format!("{what}, which is another device's: peer access to it is not enabled")
            }
            Some(_) => format!("{what}, a variable of another device, which peers do not reach"),
            None => what,
        }
    }

    /// Whose the memory is that a device may not access.
    fn hides(&self, device: usize, address: u64) -> Option<Owner> {
        let book = self.book();
        let owner = book.owner(address);
        owner.filter(|_| !book.reach.allows(device, owner))
    }

    fn clear_in(&self, view: &MmapRaw, start: u64, live: &Live) {
        self.fill(view, start, live.size.div_ceil(super::GRANULE), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    #[test]
    fn each_device_sees_its_own_memory_and_what_it_was_let_to() {
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
