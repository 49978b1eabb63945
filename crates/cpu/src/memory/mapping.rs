//! Addresses without memory, and memory that is put there.
//!
//! Addresses are reserved as an allocation that nobody may access. Physical
//! memory is an anonymous file, mapped over the arena's own pages: the same file
//! can be at several places, and keeps its bytes while it is nowhere.

use std::fs::File;

use super::{DeviceMemory, MemoryError, Purpose};

/// Physical memory; its bytes are zero at first.
pub struct Physical {
    file: File,
    bytes: u64,
}

impl DeviceMemory {
    /// Takes addresses that nobody may access, aligned to `align`.
    /// [`free`](Self::free) gives them back.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64, MemoryError> {
        let start = self.allocate(bytes, align, Purpose::Reserved)?;
        self.clear(start, bytes);
        Ok(start)
    }

    /// Lets kernels of a device access a mapped part of reserved addresses, or
    /// not any more. Address and size are multiples of a granule.
    pub fn open(&self, device: usize, address: u64, bytes: u64, allowed: bool) {
        let mut book = self.book();
        let view = self.views.get(device);
        match (allowed, view) {
            (true, Some(view)) => {
                self.mark_in(view, address, bytes);
                self.mark_in(&self.shadow, address, bytes);
            }
            (true, None) => self.mark_in(&self.shadow, address, bytes),
            (false, Some(view)) => self.fill(view, address, bytes / super::GRANULE, 0),
            (false, None) => self.clear(address, bytes),
        }
        if allowed {
            book.open.insert(address, bytes);
        } else if view.is_none() {
            book.open.remove(&address);
        }
    }

    /// Ends every access to a part that was opened as a whole.
    pub fn close(&self, address: u64, bytes: u64) {
        let mut book = self.book();
        self.clear(address, bytes);
        book.open.remove(&address);
    }

    /// Puts physical memory at reserved addresses, or takes away what is there.
    /// Both are multiples of the host's pages.
    #[cfg(target_os = "linux")]
    pub fn map(&self, address: u64, bytes: u64, memory: Option<&Physical>) -> std::io::Result<()> {
        use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

        let offset = address.wrapping_sub(self.base);
        let room = self.size.checked_sub(offset);
        let fits = room.is_some_and(|room| bytes <= room)
            && memory.is_none_or(|memory| bytes <= memory.bytes);
        if !fits {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let place = self.arena.as_mut_ptr().wrapping_add(offset as usize).cast();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the pages are within the arena, which is never unmapped, and belong to a
        // reservation: nothing of the process's own is there. They stay readable and writable.
        unsafe {
            match memory {
                Some(memory) => {
                    let flags = MapFlags::SHARED | MapFlags::FIXED;
                    mmap(place, bytes as usize, access, flags, &memory.file, 0)
                }
                None => {
                    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
                    mmap_anonymous(place, bytes as usize, access, flags)
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

impl Physical {
    /// So many bytes, which the system backs as they are touched.
    #[cfg(target_os = "linux")]
    pub fn new(bytes: u64) -> std::io::Result<Physical> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("device memory", flags)?);
        file.set_len(bytes)?;
        Ok(Physical { file, bytes })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new(_: u64) -> std::io::Result<Physical> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Memory that another process exported.
    pub fn of_file(file: File) -> std::io::Result<Physical> {
        let bytes = file.metadata()?.len();
        Ok(Physical { file, bytes })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, once more, for another process.
    pub fn export(&self) -> std::io::Result<File> {
        self.file.try_clone()
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
