//! Virtual memory management: reserved addresses, and physical memory mapped to them.
//!
//! A reservation is an allocation without access. Physical memory is an anonymous file
//! that is mapped over pages of the arena. It can be mapped at several addresses, and
//! keeps its contents while it is not mapped.

use super::allocation::Purpose;
use super::allocator::GRANULE;
use super::arena::DeviceMemory;
use super::error::MemoryError;
use super::physical::Physical;

impl DeviceMemory {
    /// Reserves addresses without access, aligned to `align`. [`free`](Self::free) releases
    /// them.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64, MemoryError> {
        let start = self.allocate(bytes, align, Purpose::Reserved)?;
        self.clear(start, bytes);
        Ok(start)
    }

    /// Enables or disables a device's access to a mapped part of a reservation. Address and
    /// size are multiples of a granule.
    pub fn open(&self, device: usize, address: u64, bytes: u64, allowed: bool) {
        let mut allocator = self.allocator();
        let shadow = self.device_shadows.get(device);
        match (allowed, shadow) {
            (true, Some(shadow)) => {
                self.mark_in(shadow, address, bytes);
                self.mark_in(&self.shadow, address, bytes);
            }
            (true, None) => self.mark_in(&self.shadow, address, bytes),
            (false, Some(shadow)) => self.set_valid_bytes(shadow, address, bytes / GRANULE, 0),
            (false, None) => self.clear(address, bytes),
        }
        if allowed {
            allocator.open.insert(address, bytes);
        } else if shadow.is_none() {
            allocator.open.remove(&address);
        }
    }

    /// Disables all access to a part that was opened as a whole.
    pub fn close(&self, address: u64, bytes: u64) {
        let mut allocator = self.allocator();
        self.clear(address, bytes);
        allocator.open.remove(&address);
    }

    /// Maps physical memory to reserved addresses, or unmaps it. Address and size are
    /// multiples of the host's page size.
    #[cfg(target_os = "linux")]
    pub fn map(&self, address: u64, bytes: u64, memory: Option<&Physical>) -> std::io::Result<()> {
        use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

        let offset = address.wrapping_sub(self.base);
        let available = self.size.checked_sub(offset);
        let fits = available.is_some_and(|available| bytes <= available)
            && memory.is_none_or(|memory| bytes <= memory.bytes());
        if !fits {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let target = self.arena.as_mut_ptr().wrapping_add(offset as usize).cast();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the pages are in the arena, which is never unmapped, and in a reservation, so
        // that no other memory of the process is replaced. They stay readable and writable.
        unsafe {
            match memory {
                Some(memory) => {
                    let flags = MapFlags::SHARED | MapFlags::FIXED;
                    mmap(target, bytes as usize, access, flags, memory.file(), 0)
                }
                None => {
                    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
                    mmap_anonymous(target, bytes as usize, access, flags)
                }
            }
        }?;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    pub fn map(&self, _: u64, _: u64, _: Option<&Physical>) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const PAGE: u64 = 64 << 10;

    #[test]
    fn memory_keeps_its_bytes_wherever_it_is() {
        let memory = DeviceMemory::with_size(1 << 20).unwrap();
        let start = memory.reserve(3 * PAGE, PAGE).unwrap();
        assert_eq!(start % PAGE, 0);
        assert!(memory.check(start, 1).is_err());
        let physical = Physical::new(PAGE).unwrap();
        let at = |address: u64| address as *mut u32;
        memory.map(start, PAGE, Some(&physical)).unwrap();
        memory.open(0, start, PAGE, true);
        memory.map(start + PAGE, PAGE, Some(&physical)).unwrap();
        memory.open(0, start + PAGE, PAGE, true);
        assert!(memory.check(start + 4, 2 * PAGE - 4).is_ok());
        assert!(memory.check(start + 4, 2 * PAGE).is_err());
        // SAFETY: both are mapped.
        unsafe {
            at(start).write(77);
            assert_eq!(at(start + PAGE).read(), 77);
        }
        memory.close(start, PAGE);
        memory.map(start, PAGE, None).unwrap();
        assert!(memory.check(start, 4).is_err());
        memory.map(start + 2 * PAGE, PAGE, Some(&physical)).unwrap();
        // SAFETY: mapped, and the arena's own page.
        unsafe {
            assert_eq!(at(start + 2 * PAGE).read(), 77);
            assert_eq!(at(start).read(), 0);
        }
        assert!(memory.map(start, 2 * PAGE, Some(&physical)).is_err());
        assert!(memory.map(memory.base() - PAGE, PAGE, None).is_err());
    }
}
