//! The workspace of a grid, where cooperative groups count the blocks that have arrived at
//! `grid.sync()`. `%envreg1` and `%envreg2` hold its address.

use std::sync::OnceLock;

use super::memory::{DeviceMemory, Purpose};

/// Its size, and a word for the barrier.
const BYTES: u64 = 16;

/// Allocated when a thread first asks for its address, freed at the end of the launch.
pub(crate) struct GridWorkspace<'a> {
    memory: &'a DeviceMemory,
    address: OnceLock<u64>,
}

impl<'a> GridWorkspace<'a> {
    pub(crate) fn new(memory: &'a DeviceMemory) -> GridWorkspace<'a> {
        GridWorkspace {
            memory,
            address: OnceLock::new(),
        }
    }

    /// 0 if there is no memory for it, with which cooperative groups end the kernel.
    pub(crate) fn address(&self) -> u64 {
        *self.address.get_or_init(|| {
            let Ok(address) = self.memory.allocate(BYTES, 256, Purpose::Local) else {
                return 0;
            };
            // SAFETY: the allocation made above, which no other thread knows yet.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, BYTES as usize) };
            address
        })
    }
}

impl Drop for GridWorkspace<'_> {
    fn drop(&mut self) {
        if let Some(address) = self.address.get().filter(|address| **address != 0) {
            let _ = self.memory.free(*address); // nobody else frees it
        }
    }
}
