//! The arena and its allocations.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

use super::allocation::{Allocation, Purpose};
use super::allocator::{Allocator, GRANULE, GRANULE_SHIFT, LiveAllocation, NULL_PAGE};
use super::error::MemoryError;
use super::near::Near;
use super::owner::PeerAccess;
use super::size::{SIZE_VARIABLE, host_memory, page_size};
use crate::sanitizer::fresh;

/// From this size on, an allocation uses huge pages, and returns its pages to the system
/// when it is freed.
const LARGE: u64 = 4 << 20;

/// The smallest memory of a device, where the system grants no more.
const LEAST: u64 = 64 << 20;

/// The memory of the CPU devices. All methods may be called from any thread.
pub struct DeviceMemory {
    pub(super) arena: MmapRaw,
    pub(super) shadow: MmapRaw,
    /// The shadow of each device, if there are several.
    pub(super) device_shadows: Vec<MmapRaw>,
    pub(super) base: u64,
    pub(super) size: u64,
    allocator: Mutex<Allocator>,
}

impl DeviceMemory {
    /// Memory of [`SIZE_VARIABLE`] bytes, or else of the size of the host's memory, for several
    /// devices.
    pub fn from_environment(devices: usize) -> Result<DeviceMemory, MemoryError> {
        if let Ok(value) = std::env::var(SIZE_VARIABLE) {
            let bytes = value
                .trim()
                .parse()
                .ok()
                .filter(|&bytes: &u64| bytes >= 1 << 20)
                .ok_or(MemoryError::Setting { value })?;
            return DeviceMemory::for_devices(bytes, devices);
        }
        // A system that counts reservations as memory may grant less than there is.
        let mut bytes = host_memory();
        loop {
            match DeviceMemory::for_devices(bytes, devices) {
                Err(MemoryError::Reserve { .. }) if bytes > LEAST => bytes = (bytes / 2).max(LEAST),
                outcome => return outcome,
            }
        }
    }

    /// Memory for one device, of `bytes` rounded up to pages of 64 KiB.
    #[cfg(test)]
    pub fn with_size(bytes: u64) -> Result<DeviceMemory, MemoryError> {
        DeviceMemory::for_devices(bytes, 1)
    }

    /// The same for several devices, at most 32. All may access an allocation until
    /// [`restrict`](Self::restrict) sets its owner.
    pub fn for_devices(bytes: u64, devices: usize) -> Result<DeviceMemory, MemoryError> {
        const PAGE: u64 = 64 << 10;
        let error = |why: String| MemoryError::Reserve { bytes, why };
        let size = bytes
            .max(PAGE)
            .checked_next_multiple_of(PAGE)
            .ok_or_else(|| error("too large".into()))?;
        let reserve = |bytes: u64| {
            let bytes = usize::try_from(bytes).map_err(|source| error(source.to_string()))?;
            MmapOptions::new()
                .len(bytes)
                .no_reserve_swap()
                .map_anon()
                .map(MmapRaw::from)
                .map_err(|source| error(source.to_string()))
        };
        let arena = reserve(size)?;
        // A vector load of numbers takes the one behind each, too.
        let shadow_bytes = ((size >> GRANULE_SHIFT) + 1) * size_of::<u16>() as u64;
        let shadow = reserve(shadow_bytes)?;
        let devices = devices.min(32);
        let count = if devices > 1 { devices } else { 0 };
        let device_shadows = (0..count)
            .map(|_| reserve(shadow_bytes))
            .collect::<Result<_, _>>()?;
        let base = arena.as_ptr() as u64;

        let mut allocator = Allocator::new(PeerAccess::of(count));
        // A guard granule at either end.
        allocator.free(base + GRANULE, size - 2 * GRANULE);
        Ok(DeviceMemory {
            arena,
            shadow,
            device_shadows,
            base,
            size,
            allocator: Mutex::new(allocator),
        })
    }

    /// First address of the arena.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the arena: the device's total memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Free bytes in total.
    pub fn free_bytes(&self) -> u64 {
        self.allocator().free_bytes
    }

    /// The shadow memory: one number for each granule.
    #[cfg(test)]
    pub fn shadow(&self) -> *const u16 {
        self.shadow.as_ptr().cast()
    }

    /// Allocates `bytes` bytes, aligned to 256 and to `align`, a power of two. Their contents
    /// are undefined.
    pub fn allocate(&self, bytes: u64, align: u64, purpose: Purpose) -> Result<u64, MemoryError> {
        let bad = MemoryError::Size { bytes, align };
        if bytes == 0 || !align.is_power_of_two() {
            return Err(bad);
        }
        let slack = align.max(GRANULE) - GRANULE;
        let reserved = bytes
            .checked_next_multiple_of(GRANULE)
            .and_then(|b| b.checked_add(GRANULE));
        let Some(reserved) = reserved.filter(|r| r.checked_add(slack).is_some()) else {
            return Err(bad);
        };

        let align = align.max(GRANULE);
        // What is aligned to pages has them alone.
        let reserved = if align >= page_size() {
            reserved.checked_next_multiple_of(page_size()).ok_or(bad)?
        } else {
            reserved
        };

        let mut allocator = self.allocator();
        let found = match purpose {
            Purpose::Shared | Purpose::Local if align == GRANULE => {
                allocator.allocate_at_end(reserved)
            }
            _ => allocator.allocate(reserved, align),
        };
        let start = found.ok_or_else(|| MemoryError::OutOfMemory {
            bytes,
            free: allocator.free_bytes,
            largest: allocator
                .free_by_length
                .last()
                .map_or(0, |&(length, _)| length),
        })?;
        allocator.live.insert(
            start,
            LiveAllocation {
                size: bytes,
                reserved,
                purpose,
                owner: None,
            },
        );
        self.mark(start, bytes);
        fresh::forget(start, reserved);
        if bytes >= LARGE {
            self.prefer_huge_pages(start, bytes);
        }
        Ok(start)
    }

    /// Frees the allocation that starts at `address`.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut allocator = self.allocator();
        let Some(live) = allocator.live.remove(&address) else {
            return Err(MemoryError::NotAllocated {
                address,
                what: allocator.describe_address(address),
            });
        };
        self.clear(address, live.size);
        fresh::forget(address, live.reserved);
        let shared = allocator.shared.remove(&address);
        if shared.is_some() || live.purpose == Purpose::Imported {
            // Another process still has the pages. Where they cannot be replaced, nobody
            // gets the addresses again.
            let pages = live.size.next_multiple_of(page_size());
            if self.map(address, pages, None).is_err() {
                return Ok(());
            }
        } else if live.size >= LARGE {
            self.release(&self.arena, address - self.base, live.size);
        }
        allocator.free(address, live.reserved);
        // The memory of launches would crowd out all other records.
        if !matches!(live.purpose, Purpose::Shared | Purpose::Local) {
            allocator.record_freed(address, live.size);
        }
        Ok(())
    }

    /// First address and size of the allocation of the host's that contains `address`, if a
    /// kernel of the device may access it.
    pub fn extent(&self, device: usize, address: u64) -> Option<(u64, u64)> {
        if address.wrapping_sub(self.base) >= self.size {
            return None;
        }
        let allocator = self.allocator();
        let (&start, live) = allocator.live.range(..=address).next_back()?;
        let is_whole = matches!(
            live.purpose,
            Purpose::Device | Purpose::Host | Purpose::Managed
        );
        let is_known = is_whole
            && address - start < live.size
            && allocator.peer_access.allows(device, live.owner);
        is_known.then_some((start, live.size))
    }

    /// The allocation that contains `address`.
    pub fn range_of(&self, address: u64) -> Option<Allocation> {
        let allocator = self.allocator();
        allocator
            .last_before(address)
            .filter(|a| address - a.start < a.size)
    }

    /// All live allocations, by address.
    #[cfg(test)]
    pub fn allocations(&self) -> Vec<Allocation> {
        let allocator = self.allocator();
        allocator
            .live
            .iter()
            .map(|(&start, live)| Allocation {
                start,
                size: live.size,
                purpose: live.purpose,
            })
            .collect()
    }

    /// Checks that all of these bytes are in one allocation, or in one registered range of
    /// host memory.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let allocator = self.allocator();
        let inside = |start: u64, size: u64| {
            let offset = address.wrapping_sub(start);
            offset <= size && bytes <= size - offset
        };
        if allocator
            .last_before(address)
            .is_some_and(|a| inside(a.start, a.size) && allocator.allows(&a, address, bytes))
            || allocator
                .registered_before(address)
                .is_some_and(|(start, size)| inside(start, size))
        {
            return Ok(());
        }
        Err(MemoryError::OutOfBounds {
            address,
            bytes,
            what: allocator.describe_address(address),
        })
    }

    /// Makes host memory accessible to kernels (`cuMemHostRegister`).
    ///
    /// # Safety
    /// The memory must stay valid until [`unregister`](Self::unregister), and the host must not
    /// use it while a kernel does.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let end = address.checked_add(bytes).filter(|_| bytes > 0);
        let end = end.ok_or(MemoryError::Size { bytes, align: 1 })?;
        let mut allocator = self.allocator();
        if allocator
            .registered
            .range(..end)
            .next_back()
            .is_some_and(|(&s, &n)| s + n > address)
        {
            return Err(MemoryError::Registration {
                address,
                state: "already",
            });
        }
        allocator.registered.insert(address, bytes);
        Ok(())
    }

    /// Ends a registration that began at `address`.
    pub fn unregister(&self, address: u64) -> Result<(), MemoryError> {
        match self.allocator().registered.remove(&address) {
            Some(_) => Ok(()),
            None => Err(MemoryError::Registration {
                address,
                state: "not",
            }),
        }
    }

    /// First address and size of the registered range that contains `address`.
    pub fn registered(&self, address: u64) -> Option<(u64, u64)> {
        self.allocator()
            .registered_before(address)
            .filter(|&(start, size)| address - start < size)
    }

    /// Whether an access ends in the last granule of an allocation, or in the guard granule behind
    /// it. Both belong to that allocation alone.
    pub(crate) fn is_just_past(&self, device: usize, address: u64, size: u64) -> bool {
        let Some(found) = self.allocator().last_before(address) else {
            return false;
        };
        // Pages behind other kinds of memory may be mapped to something else.
        let has_guard = matches!(
            found.purpose,
            Purpose::Device | Purpose::Host | Purpose::Managed | Purpose::Variable
        );
        let end_of_guard = found.size.next_multiple_of(GRANULE) + GRANULE;
        let end = (address - found.start).checked_add(size);
        has_guard
            && found.size > 0
            && end.is_some_and(|end| end <= end_of_guard)
            && self.check_from(device, found.start, 1).is_ok()
    }

    /// Describes an address for a message: `4 bytes past the end of the 1024-byte allocation
    /// at 0x7f…`.
    pub fn describe(&self, address: u64) -> String {
        self.allocator().describe_address(address)
    }

    /// The allocation that [`describe`](Self::describe) names; `None` for a null pointer, or
    /// where there is no allocation.
    pub(crate) fn near(&self, address: u64) -> Option<Near> {
        let near = self.allocator().near(address);
        near.filter(|_| address >= NULL_PAGE)
    }

    pub(super) fn allocator(&self) -> MutexGuard<'_, Allocator> {
        // No code panics between two changes that belong together, so that an allocator
        // whose lock is poisoned is consistent.
        self.allocator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whole pages to the system. They read as zero afterwards.
    #[cfg(target_os = "linux")]
    fn release(&self, map: &MmapRaw, offset: u64, bytes: u64) {
        let start = offset.next_multiple_of(PAGE);
        let end = (offset + bytes) & !(PAGE - 1);
        if start < end {
            // SAFETY: the pages belong to an allocation that is being freed, so that nothing
            // refers to their contents. On failure they stay committed.
            let _ = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    start as usize,
                    (end - start) as usize,
                )
            };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn release(&self, _: &MmapRaw, _: u64, _: u64) {}

    #[cfg(target_os = "linux")]
    fn prefer_huge_pages(&self, start: u64, bytes: u64) {
        let offset = (start - self.base).next_multiple_of(PAGE);
        let length = (start - self.base + bytes).saturating_sub(offset) & !(PAGE - 1);
        // It fails on hosts without huge pages, which is harmless.
        let _ =
            self.arena
                .advise_range(memmap2::Advice::HugePage, offset as usize, length as usize);
    }

    #[cfg(not(target_os = "linux"))]
    fn prefer_huge_pages(&self, _: u64, _: u64) {}
}

/// The largest page size of a host, apart from huge pages.
#[cfg(target_os = "linux")]
const PAGE: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> DeviceMemory {
        DeviceMemory::with_size(1 << 20).expect("1 MiB can be reserved")
    }

    fn shadow(memory: &DeviceMemory, address: u64) -> u16 {
        let index = (address - memory.base()) >> GRANULE_SHIFT;
        // SAFETY: the tests ask for addresses in the arena only.
        unsafe { *memory.shadow().add(index as usize) }
    }

    #[test]
    fn the_shadow_follows_allocations() {
        let memory = memory();
        let a = memory.allocate(600, 256, Purpose::Device).unwrap();
        assert_eq!(a % 256, 0);
        assert_eq!(
            [0, 256, 512, 768].map(|o| shadow(&memory, a + o)),
            [256, 256, 88, 0]
        );
        assert_eq!(shadow(&memory, a - 256), 0);
        memory.free(a).unwrap();
        assert_eq!([0, 256, 512].map(|o| shadow(&memory, a + o)), [0, 0, 0]);
    }

    #[test]
    fn neighbours_are_a_granule_apart() {
        let memory = memory();
        let a = memory.allocate(256, 1, Purpose::Device).unwrap();
        let b = memory.allocate(256, 1, Purpose::Device).unwrap();
        assert!(a.abs_diff(b) >= 512);
    }

    #[test]
    fn freed_pieces_join_again() {
        let memory = memory();
        let all = memory.free_bytes();
        let pieces: Vec<u64> = (1..200)
            .map(|n| memory.allocate(n * 13, 256, Purpose::Device).unwrap())
            .collect();
        assert!(memory.free_bytes() < all);
        for &piece in pieces
            .iter()
            .step_by(2)
            .chain(pieces.iter().skip(1).step_by(2))
        {
            memory.free(piece).unwrap();
        }
        assert_eq!(memory.free_bytes(), all);
        let largest = memory.allocate(all - 256, 256, Purpose::Device).unwrap();
        assert_eq!(
            memory.allocate(1, 256, Purpose::Device),
            Err(MemoryError::OutOfMemory {
                bytes: 1,
                free: 0,
                largest: 0
            })
        );
        memory.free(largest).unwrap();
    }

    #[test]
    fn alignment_is_kept_and_bad_sizes_are_errors() {
        let memory = memory();
        memory.allocate(1, 256, Purpose::Device).unwrap();
        let a = memory.allocate(10, 1 << 14, Purpose::Device).unwrap();
        assert_eq!(a % (1 << 14), 0);
        for (bytes, align) in [
            (0, 256),
            (1, 3),
            (1, 0),
            (u64::MAX, 1),
            (u64::MAX - 100, 256),
        ] {
            let error = memory.allocate(bytes, align, Purpose::Device);
            assert_eq!(
                error,
                Err(MemoryError::Size { bytes, align }),
                "{bytes} {align}"
            );
        }
        assert!(matches!(
            memory.allocate(2 << 20, 256, Purpose::Device),
            Err(MemoryError::OutOfMemory { .. })
        ));
    }

    #[test]
    fn random_work_keeps_allocations_apart() {
        let memory = memory();
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut random = 12345_u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let pick = random >> 33;
            if pick.is_multiple_of(3) && !live.is_empty() {
                let (address, _) = live.swap_remove(pick as usize % live.len());
                memory.free(address).unwrap();
            } else if let Ok(a) =
                memory.allocate(1 + pick % 9000, 1 << (pick % 12), Purpose::Device)
            {
                live.push((a, 1 + pick % 9000));
            }
        }
        live.sort_unstable();
        for pair in live.windows(2) {
            assert!(pair[0].0 + pair[0].1 < pair[1].0);
        }
        for (address, _) in live {
            memory.free(address).unwrap();
        }
        assert_eq!(memory.free_bytes(), memory.size() - 2 * GRANULE);
    }

    #[test]
    fn checks_name_what_lies_there() {
        let memory = memory();
        let a = memory.allocate(1024, 256, Purpose::Device).unwrap();
        assert!(memory.check(a, 1024).is_ok());
        assert!(memory.check(a + 1024, 0).is_ok());
        assert!(memory.check(a, u64::MAX).is_err());
        assert_eq!(
            memory.describe(a + 1028),
            format!("4 bytes past the end of the 1024-byte allocation at {a:#x}")
        );
        assert_eq!(
            memory.describe(a + 1024),
            format!("just past the end of the 1024-byte allocation at {a:#x}")
        );
        assert_eq!(
            memory.describe(a - 1),
            format!("1 byte before the 1024-byte allocation at {a:#x}")
        );
        assert_eq!(memory.describe(0), "a null pointer");
        memory.free(a).unwrap();
        assert_eq!(
            memory.describe(a + 8),
            format!("8 bytes into a freed 1024-byte allocation at {a:#x}")
        );
        assert!(matches!(
            memory.free(a),
            Err(MemoryError::NotAllocated { .. })
        ));
    }

    #[test]
    fn registered_host_memory_is_accessible() {
        let memory = memory();
        let host = [0_u8; 100];
        let at = host.as_ptr() as u64;
        assert!(memory.check(at, 100).is_err());
        // SAFETY: no kernel is run.
        let register = |address, bytes| unsafe { memory.register(address, bytes) };
        register(at, 100).unwrap();
        assert!(memory.check(at + 50, 50).is_ok());
        assert!(memory.check(at + 50, 51).is_err());
        assert!(register(at + 99, 10).is_err());
        assert!(register(at - 1, 2).is_err());
        memory.unregister(at).unwrap();
        assert!(memory.unregister(at).is_err());
        assert!(memory.check(at, 1).is_err());
    }

    #[test]
    fn large_memory_comes_back_zeroed() {
        let memory = DeviceMemory::with_size(16 << 20).unwrap();
        let a = memory.allocate(8 << 20, 256, Purpose::Device).unwrap();
        let middle = (a + (4 << 20)) as *mut u8;
        // SAFETY: the address lies in the allocation made above.
        unsafe { middle.write(7) };
        memory.free(a).unwrap();
        let b = memory.allocate(8 << 20, 256, Purpose::Device).unwrap();
        assert_eq!(a, b);
        if cfg!(target_os = "linux") {
            // SAFETY: as above.
            assert_eq!(unsafe { middle.read() }, 0);
        }
    }
}
