//! Numbers to compute with: the edges of every type, and others that are the
//! same in every run.

/// 16 bits: of integers, f16 and bf16.
const EDGES_16: [u16; 26] = [
    0, 1, 2, 3, 7, 15, 16, 31, 0x7F, 0x80, 0xFF, 0x100, 0x03FF, 0x0400, 0x3C00, 0x3F80, 0x7BFF,
    0x7C00, 0x7C01, 0x7E00, 0x7F80, 0x7FC0, 0x7FFF, 0x8000, 0x8001, 0xFFFF,
];

/// The same of 32 bits.
const EDGES_32: [u32; 40] = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    16,
    31,
    32,
    33,
    63,
    64,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x0001_0001,
    0x007F_FFFF,
    0x0080_0000,
    0x0080_0001,
    0x00FF_FFFF,
    0x3300_0000,
    0x337F_FFFF,
    0x3F00_0000,
    0x3F7F_FFFF,
    0x3F80_0000,
    0x3F80_0001,
    0x3FC0_0000,
    0x4000_0000,
    0x4040_0000,
    0x42FE_0000,
    0x4300_0000,
    0x4F00_0000,
    0x7F00_0000,
    0x7F7F_FFFF,
    0x7F80_0000,
    0x7F80_0001,
    0x7FC0_0000,
    0x7FFF_FFFF,
    0x4B00_0001,
];

/// And of 64 bits.
const EDGES_64: [u64; 32] = [
    0,
    1,
    2,
    3,
    31,
    32,
    63,
    64,
    65,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0x000F_FFFF_FFFF_FFFF,
    0x0010_0000_0000_0000,
    0x0010_0000_0000_0001,
    0x36A0_0000_0000_0000,
    0x3810_0000_0000_0000,
    0x3E60_0000_0000_0000,
    0x3FDF_FFFF_FFFF_FFFF,
    0x3FE0_0000_0000_0000,
    0x3FF0_0000_0000_0000,
    0x3FF0_0000_0000_0001,
    0x3FF8_0000_0000_0000,
    0x4000_0000_0000_0000,
    0x41E0_0000_0000_0000,
    0x43E0_0000_0000_0000,
    0x47EF_FFFF_F000_0000,
    0x7FEF_FFFF_FFFF_FFFF,
    0x7FF0_0000_0000_0000,
    0x7FF0_0000_0000_0001,
    0x7FFF_FFFF_FFFF_FFFF,
];

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The low bits of the plain sequence are weak.
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).rotate_left(32)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What an input is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Half,
    Word,
    Single,
    Double,
    Long,
}

impl View {
    /// How a body reads its input of this number.
    fn of(body: &str, number: usize) -> View {
        [
            ('f', View::Single),
            ('g', View::Double),
            ('h', View::Half),
            ('a', View::Long),
        ]
        .into_iter()
        .find(|(letter, _)| body.contains(&format!("%{letter}{number}")))
        .map_or(View::Word, |(_, view)| view)
    }

    fn edges(self) -> Vec<u64> {
        match self {
            View::Half => EDGES_16.map(u64::from).to_vec(),
            View::Word | View::Single => EDGES_32
                .iter()
                .flat_map(|&n| [n, n | 1 << 31])
                .map(u64::from)
                .collect(),
            View::Double | View::Long => EDGES_64.iter().flat_map(|&n| [n, n | 1 << 63]).collect(),
        }
    }

    fn number(self, random: &mut Random, edges: &[u64]) -> u64 {
        let bits = random.next();
        match (random.below(4), self) {
            (0, _) => random.pick(edges),
            // Floats around 1, so that sums do not just give one of the two.
            (1, View::Single) => u64::from(((bits >> 40) as f32 / 65_536.0 - 128.0).to_bits()),
            (1, View::Double) => ((bits >> 11) as f64 / (1_u64 << 45) as f64 - 128.0).to_bits(),
            // Small integers and amounts of a shift.
            (1, View::Word | View::Half) => bits & 0x3F,
            (2, View::Word) => {
                u64::from(random.pick(&EDGES_16)) << 16 | u64::from(random.pick(&EDGES_16))
            }
            // Subnormals and their neighbours.
            (2, View::Single) => bits & 0x80FF_FFFF,
            _ => bits,
        }
    }
}

/// Inputs for a body: each edge of the first, then pairs of edges to the half,
/// then a mixture.
pub fn inputs(body: &str, count: usize) -> Vec<[u64; 4]> {
    let views: [View; 4] = std::array::from_fn(|n| View::of(body, n));
    let edges = views.map(View::edges);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    (0..count)
        .map(|at| {
            let mut input = std::array::from_fn(|n| views[n].number(&mut random, &edges[n]));
            if let Some(&edge) = edges[0].get(at) {
                input[0] = edge;
            } else if at < count / 2 {
                input[0] = random.pick(&edges[0]);
                input[1] = random.pick(&edges[1]);
            }
            input
        })
        .collect()
}
