//! A block of threads for which conditions are worked out, and sets of its threads.

use analysis::dependence::{Shape, WARP};
use ptx::ast::{Function, FunctionKind};
use ptx::names::SpecialRegister;

/// A block of the largest size that a kernel may be launched with.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its size in each direction.
    pub size: [u32; 3],
    /// `.reqntid` says it; otherwise blocks may be smaller.
    pub required: bool,
}

/// No device has larger blocks.
const MOST: u32 = 1024;

impl Block {
    /// The block that `.reqntid` says, or else one as large as `.maxntid` allows, in
    /// the directions that the function looks at: of others it is 1.
    ///
    /// `names` tells whether the function names a special register.
    pub fn of(function: &Function<'_>, names: impl Fn(SpecialRegister) -> bool) -> Block {
        let bound = |name: &str| {
            let directives = &mut function.directives.iter();
            let directive = directives.find(|directive| directive.name == name)?;
            let at = |place: usize| directive.values.get(place).copied().unwrap_or(1).max(1);
            Some([at(0), at(1), at(2)])
        };
        let kernel = function.kind == FunctionKind::Entry;
        let product = |size: [u32; 3]| size.iter().try_fold(1, |all: u32, n| all.checked_mul(*n));
        let fits = |size: &[u32; 3]| product(*size).is_some_and(|all| all <= MOST);
        if let Some(size) = bound("reqntid").filter(fits).filter(|_| kernel) {
            return Block {
                size,
                required: true,
            };
        }
        let most = bound("maxntid").filter(|_| kernel).and_then(product);
        let most = most.map_or(MOST, |most| most.min(MOST));
        let looks = |at: [SpecialRegister; 2]| at.into_iter().any(&names);
        let rows = looks([SpecialRegister::TidY, SpecialRegister::NtidY]);
        let planes = looks([SpecialRegister::TidZ, SpecialRegister::NtidZ]);
        let deep = if planes && most >= 4 * WARP { 4 } else { 1 };
        let wide = if rows || planes { most.min(WARP) } else { most };
        let high = if rows { most / wide / deep } else { 1 };
        Block {
            size: [wide, high.max(1), deep],
            required: false,
        }
    }

    /// For the dependence of values.
    pub fn shape(&self) -> Shape {
        let [x, y, z] = self.size;
        Shape::of(x, y, z)
    }

    /// The number of threads.
    pub fn count(&self) -> u32 {
        self.size.iter().product::<u32>().min(MOST)
    }

    /// Each thread as `%tid`, in the order of lanes and warps.
    pub fn threads(&self) -> impl Iterator<Item = [u32; 3]> + use<> {
        coordinates(self.size, self.count())
    }
}

/// The first threads of a block of this size as `%tid`, in the order of lanes and warps.
pub(super) fn coordinates(size: [u32; 3], count: u32) -> impl Iterator<Item = [u32; 3]> {
    let [x, y, _] = size;
    // Counted on: divisions take longer.
    let mut next = [0; 3];
    (0..count).map(move |_| {
        let thread = next;
        next[0] += 1;
        if next[0] == x {
            next = [0, next[1] + 1, next[2]];
        }
        if next[1] == y {
            next = [next[0], 0, next[2] + 1];
        }
        thread
    })
}

const WORDS: usize = (MOST / WARP) as usize;

/// A set of the threads of a block: a word a warp, a bit a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSet([u32; WORDS]);

impl ThreadSet {
    /// No thread.
    pub const EMPTY: ThreadSet = ThreadSet([0; WORDS]);

    /// Those threads of which `is_in` is true, and the others.
    pub fn split(block: &Block, mut is_in: impl FnMut([u32; 3]) -> bool) -> [ThreadSet; 2] {
        let mut sets = [ThreadSet::EMPTY; 2];
        for (at, thread) in block.threads().enumerate() {
            let set = &mut sets[usize::from(!is_in(thread))];
            set.0[at / WARP as usize] |= 1 << (at as u32 % WARP);
        }
        sets
    }

    /// All threads of a block.
    pub fn all(block: &Block) -> ThreadSet {
        let mut all = ThreadSet::EMPTY;
        let count = block.count();
        for (warp, lanes) in (0..).zip(&mut all.0) {
            let here = count.saturating_sub(warp * WARP).min(WARP);
            *lanes = u32::MAX.checked_shr(WARP - here).unwrap_or(0);
        }
        all
    }

    /// The first lane of each warp.
    pub fn leaders(block: &Block) -> [ThreadSet; 2] {
        let mut at = 0;
        ThreadSet::split(block, |_| {
            at += 1;
            (at - 1) % WARP == 0
        })
    }

    fn zip(self, other: ThreadSet, each: impl Fn(u32, u32) -> u32) -> ThreadSet {
        let mut result = self;
        for (word, other) in result.0.iter_mut().zip(other.0) {
            *word = each(*word, other);
        }
        result
    }

    /// Those of either.
    #[must_use]
    pub fn or(self, other: ThreadSet) -> ThreadSet {
        self.zip(other, |a, b| a | b)
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: ThreadSet) -> ThreadSet {
        self.zip(other, |a, b| a & b)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(self, other: ThreadSet) -> ThreadSet {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether it has no thread.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// How many threads it has.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|lanes| lanes.count_ones()).sum()
    }

    /// Whether the thread with this number is in it.
    pub fn contains(&self, thread: usize) -> bool {
        let word = self.0.get(thread / WARP as usize);
        word.is_some_and(|word| word >> (thread as u32 % WARP) & 1 != 0)
    }

    /// The number of the first thread.
    pub fn first(&self) -> Option<u32> {
        let (warp, lanes) = (0..).zip(self.0).find(|(_, lanes)| *lanes != 0)?;
        Some(warp * WARP + lanes.trailing_zeros())
    }

    /// Whether it has threads, and `other` has lanes of `mask` in one of their warps.
    pub fn shares_warp(&self, other: &ThreadSet, mask: u32) -> bool {
        let mut warps = self.0.iter().zip(other.0);
        warps.any(|(own, other)| *own != 0 && other & mask != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::ast::{Item, Operand};

    fn block(text: &str) -> Block {
        let source = format!(".version 9.0\n.target sm_90\n.address_size 64\n{text}");
        let reading = ptx::read(&source);
        let function = reading.module.items.iter().find_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        });
        let function = function.expect("a function");
        let operands = &function.body.as_ref().expect("its body").operands;
        Block::of(function, |named| {
            let mut operands = operands.iter();
            operands.any(|one| matches!(one, Operand::Special(register, _) if *register == named))
        })
    }

    #[test]
    fn the_block_has_the_directions_that_the_kernel_looks_at() {
        let rows = "{ .reg .b32 a; mov.u32 a, %tid.y; ret; }";
        let planes = "{ .reg .b32 a; mov.u32 a, %tid.z; mov.u32 a, %ntid.y; ret; }";
        assert_eq!(block(".entry k() { ret; }").size, [1024, 1, 1]);
        assert_eq!(block(&format!(".entry k() {rows}")).size, [32, 32, 1]);
        assert_eq!(block(&format!(".entry k() {planes}")).size, [32, 8, 4]);
        let bound = block(&format!(".entry k() .maxntid 128 {rows}"));
        assert_eq!((bound.size, bound.required), ([32, 4, 1], false));
        let said = block(&format!(".entry k() .reqntid 16, 8 {rows}"));
        assert_eq!((said.size, said.required), ([16, 8, 1], true));
        assert_eq!(
            block(".entry k() .maxntid 4294967295, 9 { ret; }").size,
            [1024, 1, 1]
        );
    }

    #[test]
    fn sets_are_by_warp() {
        let block = Block {
            size: [48, 2, 1],
            required: true,
        };
        let [low, rest] = ThreadSet::split(&block, |[x, y, _]| x < 40 && y == 0);
        assert_eq!(low.or(rest), ThreadSet::all(&block));
        assert!(low.and(rest).is_empty());
        assert_eq!((low.first(), rest.first()), (Some(0), Some(40)));
        // Both have lanes of the second warp: 32 to 39, and 40 to 63.
        assert!(low.shares_warp(&rest, u32::MAX) && !low.shares_warp(&rest, 0xff));
        assert!(rest.contains(95) && !rest.contains(96));
        let [leaders, others] = ThreadSet::leaders(&block);
        assert_eq!((leaders.first(), others.first()), (Some(0), Some(1)));
        assert!(leaders.contains(64) && others.contains(65));
    }

    #[test]
    fn threads_are_counted_by_rows_and_planes() {
        for [x, y, z] in [[1, 1, 1], [32, 1, 1], [3, 5, 2], [1, 4, 4], [16, 16, 1]] {
            let all: Vec<_> = coordinates([x, y, z], x * y * z).collect();
            let expected = (0..x * y * z).map(|at| [at % x, at / x % y, at / x / y]);
            assert_eq!(all, expected.collect::<Vec<_>>(), "{x} {y} {z}");
        }
    }
}
