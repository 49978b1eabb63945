//! Clusters: how many a device holds at once.

use super::{BlockResources, Multiprocessor};

/// The most blocks of a cluster.
pub const MAX_CLUSTER: u32 = 16;
/// The most blocks of a cluster that every device with clusters can run; a kernel opts in to more
/// (`CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`).
pub const PORTABLE_CLUSTER: u32 = 8;
/// The most blocks of a multiprocessor that are in clusters. No manual has it: the driver for an
/// H100 counts so.
pub const BLOCKS_IN_CLUSTERS: u32 = 8;
/// More than any device has: what [`gpcs`] takes for an answer.
const MULTIPROCESSORS: u32 = 1 << 16;
/// The first target with clusters.
const FIRST: u16 = 90;

impl Multiprocessor {
    /// How many clusters of `size` such blocks a device holds at once
    /// (`cuOccupancyMaxActiveClusters`), whose GPCs have `gpcs` multiprocessors each. `None` before
    /// sm_90, and for a size that no cluster has.
    ///
    /// A cluster is in one GPC, which has at least as many multiprocessors as the cluster has
    /// blocks; several of these may be on one multiprocessor. How many multiprocessors the GPCs
    /// have differs from chip to chip of one product: [`gpcs`] finds it out.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Multiprocessor};
    ///
    /// let hopper = Multiprocessor::of(90).unwrap();
    /// let block = BlockResources { threads: 512, registers: 64, ..BlockResources::default() };
    /// // Two blocks a multiprocessor: 32 in a GPC of 16, 36 in one of 18.
    /// assert_eq!(hopper.clusters(&block, 3, &[16, 18]), Some(10 + 12));
    /// assert_eq!(Multiprocessor::of(89).unwrap().clusters(&block, 3, &[12]), None);
    /// ```
    pub fn clusters(&self, block: &BlockResources, size: u32, gpcs: &[u32]) -> Option<u32> {
        if self.number < FIRST || !(1..=MAX_CLUSTER).contains(&size) {
            return None;
        }
        let blocks = self.occupancy(block).blocks.min(BLOCKS_IN_CLUSTERS);
        let of_gpc = |multiprocessors: &u32| {
            if *multiprocessors >= size {
                multiprocessors.saturating_mul(blocks) / size
            } else {
                0
            }
        };
        Some(gpcs.iter().map(of_gpc).fold(0, u32::saturating_add))
    }
}

/// The multiprocessors of each GPC of a device, the most first, from how many clusters of 1, 2, 3 …
/// blocks it holds of a kernel of which one block fits a multiprocessor. The last answer is 0:
/// that is, of clusters that are larger than any GPC. `None` where no GPCs give these answers.
///
/// Parts of a GPC that take only clusters of up to two blocks are GPCs of their own here, as
/// they are for the driver.
///
/// ```
/// // One GPC of 4 multiprocessors and two of 2.
/// assert_eq!(ptxkit_occupancy::gpcs(&[8, 4, 1, 1, 0]), Some(vec![4, 2, 2]));
/// assert_eq!(ptxkit_occupancy::gpcs(&[8, 5, 0]), None);
/// ```
pub fn gpcs(answers: &[u32]) -> Option<Vec<u32>> {
    let mut left = *answers.first()?;
    if left > MULTIPROCESSORS {
        return None;
    }
    let mut found: Vec<u32> = Vec::new();
    for (index, answer) in answers.iter().enumerate().rev() {
        let size = index as u32 + 1;
        let known: u32 = found.iter().map(|larger| larger / size).sum();
        let count = answer.checked_sub(known)?;
        left = left.checked_sub(count.checked_mul(size)?)?;
        found.extend(std::iter::repeat_n(size, count as usize));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the driver answered for an H100 SXM with 132 multiprocessors: clusters of 1, 2, 3 …
    /// blocks, by the blocks that fit a multiprocessor.
    #[rustfmt::skip]
    const H100: [(u32, [u32; 16]); 5] = [
        (1, [132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7]),
        (2, [264, 132, 79, 62, 47, 39, 32, 30, 23, 21, 16, 16, 14, 14, 14, 14]),
        (3, [396, 198, 124, 92, 69, 62, 47, 45, 37, 30, 28, 28, 23, 21, 21, 21]),
        (7, [924, 462, 287, 216, 171, 141, 124, 107, 88, 79, 72, 65, 58, 58, 51, 49]),
        (32, [1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58]),
    ];

    #[test]
    fn clusters_of_an_h100_are_those_of_its_driver() {
        // Of 17 blocks, and of 18: no launch has them, but the driver answers.
        let answers: Vec<u32> = H100[0].1.into_iter().chain([2, 2, 0]).collect();
        let gpcs = gpcs(&answers).unwrap();
        assert_eq!(gpcs, [18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2]);
        let hopper = Multiprocessor::of(90).unwrap();
        for (blocks, answers) in H100 {
            let block = BlockResources {
                threads: 32,
                shared: (hopper.shared / blocks - hopper.reserved) / hopper.shared_unit
                    * hopper.shared_unit,
                ..BlockResources::default()
            };
            assert_eq!(hopper.occupancy(&block).blocks, blocks);
            for (size, answer) in (1..).zip(answers) {
                let clusters = hopper.clusters(&block, size, &gpcs);
                assert_eq!(
                    clusters,
                    Some(answer),
                    "{blocks} blocks, clusters of {size}"
                );
            }
        }
    }

    #[test]
    fn there_are_no_clusters_of_other_sizes() {
        let (block, gpcs) = (BlockResources::default(), [18]);
        let of = |target: u16, size| {
            Multiprocessor::of(target)
                .unwrap()
                .clusters(&block, size, &gpcs)
        };
        assert_eq!(of(90, 16), Some(9));
        assert_eq!([of(90, 0), of(90, 17), of(89, 1)], [None; 3]);
    }
}
