//! The configuration and the parameters of a launch: a grid that is checked once, and
//! parameters that are copied once. Both can be used for any number of launches.

use smallvec::SmallVec;

/// The configuration of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Blocks of a cluster in x, y and z. The grid is a multiple of it.
    pub cluster: [u32; 3],
}

impl LaunchConfig {
    /// Blocks of a cluster.
    pub(crate) fn cluster_blocks(&self) -> u32 {
        let [x, y, z] = self.cluster;
        x.saturating_mul(y).saturating_mul(z)
    }

    /// `%cluster_ctaid` of a rank.
    pub(super) fn position_in_cluster(&self, rank: u32) -> [u32; 3] {
        let [x, y, _] = self.cluster;
        [rank % x, rank / x % y, rank / x / y]
    }

    /// `%ctaid` of the block of a rank in a cluster, by the cluster's number.
    ///
    /// In memory, the three words would be copied in larger units than they are written in: such a
    /// load waits for all stores before it, those of the last block too.
    #[inline(always)]
    pub(super) fn position(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let place = |[x, y, _]: [u32; 3]| {
            let (columns, rows) = (u64::from(x), u64::from(y));
            let row = cluster / columns;
            // Each is less than a dimension of the grid, which has 32 bits.
            let column = (cluster - row * columns) as u32;
            if row < rows {
                [column, row as u32, 0]
            } else {
                [column, (row % rows) as u32, (row / rows) as u32]
            }
        };
        // Blocks start often, and few of them in clusters.
        if self.cluster == [1; 3] {
            return place(self.grid);
        }
        let inside = self.position_in_cluster(rank);
        let first = place([0, 1, 2].map(|axis| self.grid[axis] / self.cluster[axis]));
        [0, 1, 2].map(|axis| first[axis] * self.cluster[axis] + inside[axis])
    }

    /// The number of a block in the grid.
    #[inline(always)]
    pub(super) fn index(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [columns, rows] = [self.grid[0], self.grid[1]].map(u64::from);
        u64::from(x) + columns * (u64::from(y) + rows * u64::from(z))
    }
}

/// Threads that a block can have, in all and in each dimension.
pub(crate) const MAX_THREADS: u32 = 1024;
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Blocks that a grid can have in each dimension.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Blocks that a cluster can have.
pub(crate) const MAX_CLUSTER: u32 = 16;

/// A grid that the device can run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(super) config: LaunchConfig,
    /// Of a block.
    pub(super) threads: u32,
    pub(super) blocks: u64,
}

impl Grid {
    /// Fails with the reason for a configuration beyond the limits of the device.
    pub(crate) fn new(config: LaunchConfig) -> Result<Grid, String> {
        for (what, dimensions, max) in [
            ("grid", config.grid, MAX_GRID),
            ("block", config.block, MAX_BLOCK),
        ] {
            let in_range = |(size, max): (&u32, u32)| (1..=max).contains(size);
            if !dimensions.iter().zip(max).all(in_range) {
                return Err(format!(
                    "a {what} of {dimensions:?}: each dimension must be at least 1 and at most {max:?}"
                ));
            }
        }
        let multiple = |(size, cluster): (u32, u32)| cluster > 0 && size.is_multiple_of(cluster);
        if config.cluster_blocks() > MAX_CLUSTER
            || !config.grid.into_iter().zip(config.cluster).all(multiple)
        {
            let (cluster, grid) = (config.cluster, config.grid);
            return Err(format!(
                "a cluster of {cluster:?} blocks: at most {MAX_CLUSTER} are possible, and the grid of {grid:?} must be a multiple"
            ));
        }
        // The limits above keep both products in range.
        let threads = config.block.iter().product();
        if threads > MAX_THREADS {
            return Err(format!(
                "a block of {threads} threads: at most {MAX_THREADS} are possible"
            ));
        }
        Ok(Grid {
            config,
            threads,
            blocks: config.grid.iter().map(|size| u64::from(*size)).product(),
        })
    }

    pub(crate) fn config(&self) -> &LaunchConfig {
        &self.config
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }
}

/// The parameters of a kernel, laid out as it declares them.
pub(crate) struct ParamBlock {
    /// Parameters are accessed with their natural alignment, 16 at most. Those of most kernels are
    /// copied sooner than memory for them is allocated on one thread and freed on another.
    words: SmallVec<[u128; 8]>,
    size: usize,
}

impl ParamBlock {
    /// `size` bytes of 0.
    pub(crate) fn zeroed(size: usize) -> ParamBlock {
        ParamBlock {
            words: SmallVec::from_elem(0, size.div_ceil(size_of::<u128>())),
            size,
        }
    }

    /// A copy of `bytes`, with zeros up to `min_size`.
    pub(crate) fn new(bytes: &[u8], min_size: usize) -> ParamBlock {
        let mut block = ParamBlock::zeroed(bytes.len().max(min_size));
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        block
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words have at least `size` bytes, and any bytes are a valid `u128`.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size) }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    /// The first 8 bytes, the next 8, and so on.
    pub(super) fn words(&self) -> &[u64] {
        // SAFETY: a `u128` has the bytes of two `u64` and a larger alignment.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), 2 * self.words.len()) }
    }

    /// Bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(grid: [u32; 3], block: [u32; 3]) -> LaunchConfig {
        LaunchConfig {
            grid,
            block,
            shared_bytes: 0,
            cluster: [1; 3],
        }
    }

    #[test]
    fn the_largest_grid_is_counted_and_larger_ones_are_refused() {
        let grid = Grid::new(config(MAX_GRID, [16, 1, 64])).unwrap();
        assert_eq!(
            (grid.threads, grid.blocks),
            (1024, 0x7fff_ffff * 0xfffe_0001)
        );
        for (grid, block) in [
            ([1, 65536, 1], [1; 3]),
            ([1, 0, 1], [1; 3]),
            ([1; 3], [0, 1, 1]),
            ([1; 3], [u32::MAX; 3]),
            ([u32::MAX; 3], [1; 3]),
            ([1; 3], [1025, 1, 1]),
            ([1; 3], [1, 1, 65]),
            ([1; 3], [1024, 2, 1]),
            ([1; 3], [1024, 1024, 64]),
        ] {
            assert!(
                Grid::new(config(grid, block)).is_err(),
                "{grid:?} {block:?}"
            );
        }
    }

    #[test]
    fn clusters_cover_the_grid_once() {
        let config = LaunchConfig {
            cluster: [2, 3, 1],
            ..config([4, 6, 5], [1; 3])
        };
        assert_eq!(Grid::new(config).unwrap().blocks, 120);
        let mut blocks: Vec<u64> = (0..20)
            .flat_map(|cluster| (0..6).map(move |rank| (cluster, rank)))
            .map(|(cluster, rank)| config.index(config.position(cluster, rank)))
            .collect();
        assert_eq!(config.position(3, 5), [3, 5, 0]);
        blocks.sort_unstable();
        assert!(blocks.into_iter().eq(0..120));
        for cluster in [[3, 1, 1], [1, 4, 1], [4, 6, 1], [0, 1, 1]] {
            let config = LaunchConfig { cluster, ..config };
            assert!(Grid::new(config).is_err(), "{cluster:?}");
        }
    }

    #[test]
    fn parameters_are_aligned_and_padded_with_zeros() {
        let mut block = ParamBlock::new(&[1, 2, 3], 5);
        assert_eq!(block.bytes_mut(), [1, 2, 3, 0, 0]);
        assert_eq!(block.as_ptr().addr() % 16, 0);
        assert_eq!(ParamBlock::new(&[7; 20], 5).bytes_mut(), [7; 20]);
        let mut large = ParamBlock::new(&[7; 4000], 4096);
        assert_eq!(large.as_ptr().addr() % 16, 0);
        assert_eq!((large.bytes_mut()[3999], large.bytes_mut()[4095]), (7, 0));
        assert!(ParamBlock::new(&[], 0).bytes_mut().is_empty());
    }
}
