//! How many blocks of a kernel a device holds at once.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::driver::error::Error;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::options::LaunchOptions;
use crate::driver::module::kernel::Kernel;

/// The block with the best occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestedBlock {
    /// Threads of a block.
    pub threads: u32,
    /// The fewest blocks that keep the whole device busy.
    pub blocks: u32,
}

thread_local! {
    /// What `cuOccupancyMaxPotentialBlockSize` asks for each block size: its
    /// function gets no data of the caller's.
    static SHARED_BYTES_OF: Cell<Option<*const dyn Fn(u32) -> u32>> = const { Cell::new(None) };
}

unsafe extern "C" fn shared_of(threads: c_int) -> usize {
    match SHARED_BYTES_OF.get() {
        // SAFETY: set by `suggested_block_with` on this thread for as long as the entry runs.
        Some(function) => unsafe { (*function)(threads.max(0).cast_unsigned()) as usize },
        None => 0,
    }
}

impl Kernel {
    /// Blocks of `threads` that one multiprocessor can hold at once
    /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
    pub fn max_active_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        let api = self.context().bind()?;
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        // SAFETY: writes one integer.
        unsafe {
            api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.raw(),
                threads,
                shared_bytes as usize,
            )
        }?;
        Ok(blocks.max(0) as u32)
    }

    /// The block size with which most threads run at once, and how many blocks
    /// of it fill the device (`cuOccupancyMaxPotentialBlockSize`). `limit` is
    /// the most threads that a block may have, if there is such a limit.
    pub fn suggested_block(
        &self,
        shared_bytes: u32,
        limit: Option<u32>,
    ) -> Result<SuggestedBlock, Error> {
        let (mut blocks, mut threads) = (0, 0);
        let limit = limit.map_or(0, |limit| c_int::try_from(limit).unwrap_or(c_int::MAX));
        let api = self.context().bind()?;
        // SAFETY: the function is live; writes two integers.
        unsafe {
            api.cuOccupancyMaxPotentialBlockSize(
                &mut blocks,
                &mut threads,
                self.raw(),
                None,
                shared_bytes as usize,
                limit,
            )
        }?;
        Ok(suggested(blocks, threads))
    }

    /// The same where the bytes of dynamic shared memory depend on the threads
    /// of the block: `shared_bytes` says how. A panic in it goes on when the driver has returned.
    pub fn suggested_block_with(
        &self,
        shared_bytes: impl Fn(u32) -> u32,
        limit: Option<u32>,
    ) -> Result<SuggestedBlock, Error> {
        /// Restores the former value, for nested calls.
        struct Restore(Option<*const dyn Fn(u32) -> u32>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SHARED_BYTES_OF.set(self.0);
            }
        }

        let (mut blocks, mut threads) = (0, 0);
        let limit = limit.map_or(0, |limit| c_int::try_from(limit).unwrap_or(c_int::MAX));
        let api = self.context().bind()?;
        // A panic must not unwind into the driver.
        let panicked = OnceCell::new();
        let caught = |threads| {
            if panicked.get().is_some() {
                return 0;
            }
            catch_unwind(AssertUnwindSafe(|| shared_bytes(threads))).unwrap_or_else(|payload| {
                let _ = panicked.set(payload); // it is empty
                0
            })
        };
        let function: *const (dyn Fn(u32) -> u32 + '_) = &caught;
        // SAFETY: only the lifetime changes; the pointer is taken away before it ends.
        let function = unsafe {
            std::mem::transmute::<*const (dyn Fn(u32) -> u32 + '_), *const dyn Fn(u32) -> u32>(
                function,
            )
        };
        let _restore = Restore(SHARED_BYTES_OF.replace(Some(function)));
        // SAFETY: the function is live; writes two integers; `shared_of` is called on this
        // thread during the call only.
        let suggestion = unsafe {
            api.cuOccupancyMaxPotentialBlockSize(
                &mut blocks,
                &mut threads,
                self.raw(),
                Some(shared_of),
                0,
                limit,
            )
        };
        if let Some(payload) = panicked.into_inner() {
            resume_unwind(payload);
        }
        suggestion?;
        Ok(suggested(blocks, threads))
    }

    /// Bytes of dynamic shared memory that each of `blocks` blocks of `threads`
    /// can have if all are to run on one multiprocessor
    /// (`cuOccupancyAvailableDynamicSMemPerBlock`).
    pub fn available_shared(&self, blocks: u32, threads: u32) -> Result<usize, Error> {
        let integer = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        let mut bytes = 0;
        let api = self.context().bind()?;
        // SAFETY: the function is live; writes one integer.
        unsafe {
            api.cuOccupancyAvailableDynamicSMemPerBlock(
                &mut bytes,
                self.raw(),
                integer(blocks),
                integer(threads),
            )
        }?;
        Ok(bytes)
    }

    /// Clusters of the kernel that the device can hold at once
    /// (`cuOccupancyMaxActiveClusters`, from CUDA 11.7). The cluster is that of
    /// the options, or of the kernel.
    pub fn max_active_clusters(
        &self,
        config: LaunchConfig,
        options: &LaunchOptions<'_>,
    ) -> Result<u32, Error> {
        options.check_events(self.context(), "event and kernel")?;
        let mut clusters = 0;
        let mut attributes = options.attributes();
        let config = attributes.config(config, std::ptr::null_mut());
        let api = self.context().bind()?;
        // SAFETY: the function is live, the attributes outlive the call; writes one integer.
        unsafe { api.cuOccupancyMaxActiveClusters(&mut clusters, self.raw(), &config) }?;
        Ok(clusters.max(0).cast_unsigned())
    }

    /// The most blocks that a cluster of the kernel can have
    /// (`cuOccupancyMaxPotentialClusterSize`, from CUDA 11.7).
    pub fn max_cluster_size(&self, config: LaunchConfig) -> Result<u32, Error> {
        let mut blocks = 0;
        let mut attributes = LaunchOptions::new().attributes();
        let config = attributes.config(config, std::ptr::null_mut());
        let api = self.context().bind()?;
        // SAFETY: as above.
        unsafe { api.cuOccupancyMaxPotentialClusterSize(&mut blocks, self.raw(), &config) }?;
        Ok(blocks.max(0).cast_unsigned())
    }
}

fn suggested(blocks: c_int, threads: c_int) -> SuggestedBlock {
    SuggestedBlock {
        threads: threads.max(0).cast_unsigned(),
        blocks: blocks.max(0).cast_unsigned(),
    }
}
