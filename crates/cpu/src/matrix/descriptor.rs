//! Descriptors of matrices in shared memory, which `wgmma` and `tcgen05` read.
//!
//! A matrix lies in units of 16 bytes. Without a transposition its lines (rows of A, columns
//! of B) run along `k`, and a unit holds neighbours of a line; eight lines are a group.
//! Transposed, a unit holds the elements of neighbouring lines at one place along `k`.
//! Swizzling exchanges units: the place of one in its row of 128 bytes (64, 32) is the
//! exclusive or of what it would be and of the number of that row.

/// What the bits of a descriptor say. Distances are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The offset in shared memory.
    start: u64,
    /// From one group of units to the next along the dimension that is contiguous.
    leading: u64,
    /// From one group of eight lines, or of eight places along `k`, to the next.
    stride: u64,
    /// By how many rows of 128 bytes the pattern is shifted.
    base: u64,
    /// Units in a row of the pattern: 1, 2, 4 or 8.
    width: u64,
    /// Pairs of units are exchanged, of rows of 8 units.
    pairs: bool,
}

impl Descriptor {
    pub(super) fn from_bits(bits: u64) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3FFF) << 4;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: bits >> 49 & 7,
            width: match bits >> 62 {
                0 => 1,
                1 => 8,
                2 => 4,
                _ => 2,
            },
            pairs: false,
        }
    }

    /// That of an instruction `tcgen05`; `None` for a mode that does not exist or that only
    /// sm_103a has.
    pub(super) fn of_fifth_generation(bits: u64) -> Option<Descriptor> {
        let mut descriptor = Descriptor::from_bits(bits);
        match bits >> 61 {
            0 | 2 | 4 | 6 => {}
            1 => (descriptor.width, descriptor.pairs) = (8, true),
            _ => return None,
        }
        let absolute = bits >> 52 & 1 != 0;
        (!absolute).then_some(descriptor)
    }

    /// The offset of unit `unit` along `k` of a line.
    pub(super) fn along(&self, line: u64, unit: u64) -> u64 {
        let (group, line) = (line / 8, line % 8);
        let step = if self.width == 1 { self.leading } else { 16 };
        let offset = group * self.stride + line * 16 * self.width + unit * step;
        self.swizzled(self.start + offset)
    }

    /// The offset of unit `lines` of those that hold lines, at place `at` along `k`.
    pub(super) fn across(&self, lines: u64, at: u64) -> u64 {
        let places = if self.pairs { 4 } else { 8 };
        let (group, at) = (at / places, at % places);
        let offset = match self.width {
            1 => lines * self.stride + at * 16 + group * self.leading,
            width => {
                lines % width * 16
                    + lines / width * self.leading
                    + at * 16 * width
                    + group * self.stride
            }
        };
        self.swizzled(self.start + offset)
    }

    fn swizzled(&self, offset: u64) -> u64 {
        let row = (offset >> 7).wrapping_sub(self.base);
        if self.pairs {
            return offset ^ (row & 3) << 5;
        }
        // Of a narrower pattern, a row of 128 bytes holds several of its rows.
        offset ^ (row & (self.width - 1)) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, mode: u64) -> Descriptor {
        Descriptor::from_bits(start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62)
    }

    #[test]
    fn lines_without_swizzling_are_groups_of_128_bytes() {
        let plain = descriptor(0x400, 256, 512, 0);
        assert_eq!(plain.along(0, 0), 0x400);
        assert_eq!(plain.along(3, 0), 0x430);
        assert_eq!(plain.along(3, 1), 0x530);
        assert_eq!(plain.along(11, 1), 0x730);
        assert_eq!(plain.across(0, 9), 0x400 + 16 + 256);
        assert_eq!(plain.across(3, 0), 0x400 + 3 * 512);
    }

    /// Every unit of a pattern has a place of its own, in the row where it would be anyway.
    #[test]
    fn swizzling_exchanges_units_of_a_row() {
        for (mode, width) in [(1, 8), (2, 4), (3, 2)] {
            let matrix = descriptor(0x800, 4096, 1024, mode);
            let mut seen = Vec::new();
            for line in 0..8 {
                for unit in 0..width {
                    let at = matrix.along(line, unit);
                    let row = 0x800 + line * 16 * width;
                    assert!((row..row + 16 * width).contains(&at));
                    let number = (at - row) / 16;
                    assert_eq!(number, unit ^ (line * width / 8 % width), "{mode}");
                    seen.push(at);
                }
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() as u64, 8 * width);
        }
        // What `k` advances by is added to the start, not to the swizzled place.
        let second = descriptor(0x820, 0, 1024, 1);
        let whole = descriptor(0x800, 0, 1024, 1);
        for line in 0..64 {
            assert_eq!(second.along(line, 1), whole.along(line, 3));
        }
    }

    #[test]
    fn a_base_offset_shifts_the_pattern() {
        let bits = 0x480 >> 4 | 1024 >> 4 << 32 | 1 << 62;
        let shifted = Descriptor::from_bits(bits | 1 << 49);
        let aligned = descriptor(0x400, 0, 1024, 1);
        for line in 0..7 {
            assert_eq!(shifted.along(line, 1), aligned.along(line, 1) + 128);
        }
    }

    #[test]
    fn pairs_of_units_are_exchanged() {
        let bits = 1024 >> 4 << 16 | 512 >> 4 << 32 | 1 << 61;
        let pairs = Descriptor::of_fifth_generation(bits).unwrap();
        // The second place along `k` is the next row, whose pairs are exchanged.
        assert_eq!(pairs.across(0, 1), 128 + 32);
        assert_eq!(pairs.across(3, 1), 128 + 16);
        assert_eq!(pairs.across(2, 2), 256 + 3 * 32);
        // Four places are a group, eight units of lines a row.
        assert_eq!(pairs.across(0, 4), 512);
        assert_eq!(pairs.across(8, 0), 1024);
        assert_eq!(Descriptor::of_fifth_generation(3 << 61), None);
        assert_eq!(Descriptor::of_fifth_generation(1 << 52), None);
    }

    #[test]
    fn transposed_units_hold_lines() {
        let matrix = descriptor(0, 0x2000, 0x400, 1);
        // The row of eight units along the lines, then the next along k.
        assert_eq!(matrix.across(5, 0), 5 * 16);
        assert_eq!(matrix.across(0, 1), 128 + 16);
        assert_eq!(matrix.across(8, 0), 0x2000);
        assert_eq!(matrix.across(0, 8), 0x400);
    }
}
