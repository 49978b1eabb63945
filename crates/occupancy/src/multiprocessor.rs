//! The limits of a multiprocessor, one row a target.
//!
//! Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
//! and the paragraphs on shared memory of each architecture. Targets that have left the
//! newest edition are in older ones.

const K: u32 = 1024;

/// The limits of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Multiprocessor {
    /// Compute capability times ten, the number of the target: 90 is `sm_90`.
    pub number: u16,
    /// Warps that can be resident at once.
    pub warps: u32,
    /// Blocks that can be resident at once.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// 32-bit registers that one block can have.
    pub registers_of_block: u32,
    /// The parts of the register file. A warp has its registers in one of them.
    pub partitions: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Bytes of shared memory that one block can have, if its kernel opts in to more than 48 KiB.
    pub shared_of_block: u32,
    /// Bytes of shared memory that the system takes for itself in each block.
    pub reserved: u32,
    /// The allocation unit of shared memory in bytes.
    pub shared_unit: u32,
    /// The sizes in KiB that a carveout of the L1 cache can give to shared memory, ascending.
    /// Empty where shared memory is a memory of its own.
    pub carveouts: &'static [u32],
    /// Barriers of all resident blocks, of which each has at most 16. `None` where the driver
    /// does not count them, before sm_90.
    pub barriers: Option<u32>,
}

/// Shared memory beside the L1 cache.
const APART: &[u32] = &[];
const VOLTA: &[u32] = &[0, 8, 16, 32, 64, 96];
const TURING: &[u32] = &[32, 64];
const UP_TO_100: &[u32] = &[0, 8, 16, 32, 64, 100];
const UP_TO_164: &[u32] = &[0, 8, 16, 32, 64, 100, 132, 164];
const UP_TO_228: &[u32] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

/// Those whose limits are published. Of sm_82 and sm_107 they are not.
#[rustfmt::skip]
const TABLE: &[Multiprocessor] = &[
    //  warps blocks shared  carveouts  barriers
    row(50,  64, 32,  64, APART,     None),
    row(52,  64, 32,  96, APART,     None),
    Multiprocessor { registers_of_block: 32 * K, ..row(53, 64, 32, 64, APART, None) },
    Multiprocessor { partitions: 2, ..row(60, 64, 32, 64, APART, None) },
    row(61,  64, 32,  96, APART,     None),
    Multiprocessor { registers_of_block: 32 * K, ..row(62, 64, 32, 64, APART, None) },
    row(70,  64, 32,  96, VOLTA,     None),
    row(72,  64, 32,  96, VOLTA,     None),
    row(75,  32, 16,  64, TURING,    None),
    row(80,  64, 32, 164, UP_TO_164, None),
    row(86,  48, 16, 100, UP_TO_100, None),
    row(87,  48, 16, 164, UP_TO_164, None),
    row(88,  48, 16, 100, UP_TO_100, None),
    row(89,  48, 24, 100, UP_TO_100, None),
    row(90,  64, 32, 228, UP_TO_228, Some(64)),
    row(100, 64, 32, 228, UP_TO_228, Some(64)),
    row(101, 48, 24, 228, UP_TO_228, Some(24)),
    row(103, 64, 32, 228, UP_TO_228, Some(32)),
    row(110, 48, 24, 228, UP_TO_228, Some(24)),
    row(120, 48, 24, 100, UP_TO_100, Some(24)),
    row(121, 48, 24, 100, UP_TO_100, Some(24)),
];

const fn row(
    number: u16,
    warps: u32,
    blocks: u32,
    shared: u32,
    carveouts: &'static [u32],
    barriers: Option<u32>,
) -> Multiprocessor {
    let shared = shared * K;
    let reserved = if number >= 80 { K } else { 0 };
    Multiprocessor {
        number,
        warps,
        blocks,
        registers: 64 * K,
        registers_of_block: 64 * K,
        partitions: 4,
        shared,
        shared_of_block: if carveouts.is_empty() {
            48 * K
        } else {
            shared - reserved
        },
        reserved,
        shared_unit: if number >= 80 { 128 } else { 256 },
        carveouts,
        barriers,
    }
}

impl Multiprocessor {
    /// The limits of a target by its number; `None` if they are not published.
    ///
    /// ```
    /// use ptxkit_occupancy::Multiprocessor;
    ///
    /// let hopper = Multiprocessor::of(90).unwrap();
    /// assert_eq!((hopper.warps, hopper.shared), (64, 228 * 1024));
    /// assert!(Multiprocessor::of(91).is_none());
    /// ```
    pub const fn of(number: u16) -> Option<&'static Multiprocessor> {
        let mut at = 0;
        while at < TABLE.len() {
            if TABLE[at].number == number {
                return Some(&TABLE[at]);
            }
            at += 1;
        }
        None
    }

    /// All targets whose limits are published, by number.
    pub fn all() -> impl Iterator<Item = &'static Multiprocessor> {
        TABLE.iter()
    }

    /// The bytes that shared memory has of the on-chip memory where a kernel prefers
    /// `carveout` percent, and its blocks need `needed` bytes each: the smallest size that
    /// is enough for both. All of it without a preference.
    pub(crate) fn carved(&self, carveout: Option<u32>, needed: u32) -> u32 {
        let Some(percent) = carveout.filter(|_| !self.carveouts.is_empty()) else {
            return self.shared;
        };
        let up = |bytes: u32| {
            let mut sizes = self.carveouts.iter().map(|size| size * K);
            sizes.find(|size| *size >= bytes).unwrap_or(self.shared)
        };
        let preferred = up(percent.min(100) * self.shared / 100);
        if preferred >= needed {
            preferred
        } else {
            up(needed)
        }
    }
}
