//! Allocations whose pages other processes map.
//!
//! An allocation that begins at a page has its pages alone. When it is shared first, they
//! move to an anonymous file, at the same addresses.

use std::fs::File;
use std::io;

use super::arena::DeviceMemory;
use super::physical::Physical;
use super::size::page_size;

impl DeviceMemory {
    /// The file of the allocation that begins at `start`, which must be aligned to pages. The
    /// file is open as long as the allocation lives.
    ///
    /// # Safety
    /// Nothing may access the allocation during the first call for it.
    #[cfg(unix)]
    pub unsafe fn share<T>(&self, start: u64, with: impl FnOnce(&File) -> T) -> io::Result<T> {
        let mut allocator = self.allocator();
        if let Some(physical) = allocator.shared.get(&start) {
            return Ok(with(physical.file()));
        }
        let live = allocator.live.get(&start);
        let size = live.map_or(0, |live| live.size);
        if size == 0 || !start.is_multiple_of(page_size()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pages = size.next_multiple_of(page_size());
        let physical = Physical::new(pages)?;
        // SAFETY: the allocation is live, its last page is its own, and nothing else
        // accesses them.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, pages as usize) };
        std::os::unix::fs::FileExt::write_all_at(physical.file(), bytes, 0)?;
        self.map(start, pages, Some(&physical))?;
        let result = with(physical.file());
        allocator.shared.insert(start, physical);
        Ok(result)
    }

    #[cfg(not(unix))]
    pub unsafe fn share<T>(&self, _: u64, _: impl FnOnce(&File) -> T) -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::Purpose;
    use super::*;

    #[test]
    fn a_shared_allocation_keeps_its_bytes_and_leaves_fresh_pages_behind() {
        let memory = DeviceMemory::with_size(1 << 20).unwrap();
        let page = page_size();
        let start = memory.allocate(page + 8, page, Purpose::Device).unwrap();
        let next = memory.allocate(8, 256, Purpose::Host).unwrap();
        assert_ne!(next / page, (start + page) / page, "a page has two owners");
        let at = |address: u64| address as *mut u64;
        // SAFETY: both allocations are live.
        unsafe {
            at(start + page).write(77);
            at(next).write(5);
        }
        // SAFETY: nothing else has the address.
        let file = unsafe { memory.share(start, File::try_clone) }
            .unwrap()
            .unwrap();
        let theirs = Physical::of_file(file).unwrap();
        let mapped = memory.allocate(page + 8, page, Purpose::Imported).unwrap();
        memory.map(mapped, 2 * page, Some(&theirs)).unwrap();
        // SAFETY: all are live.
        unsafe {
            assert_eq!(at(mapped + page).read(), 77);
            at(mapped).write(78);
            assert_eq!(at(start).read(), 78);
        }
        memory.free(start).unwrap();
        let again = memory.allocate(page + 8, page, Purpose::Device).unwrap();
        assert_eq!(again, start);
        // SAFETY: all are live.
        unsafe {
            at(again + page).write(1);
            assert_eq!(at(mapped + page).read(), 77);
        }
        memory.free(mapped).unwrap();
        // SAFETY: live; pages of the arena are readable.
        assert_eq!(unsafe { at(next).read() }, 5);
        // SAFETY: nothing else has the address.
        assert!(unsafe { memory.share(next, |_| ()) }.is_err());
    }
}
