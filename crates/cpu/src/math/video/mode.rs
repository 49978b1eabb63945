//! The modifiers of a video instruction, and their encoding as an integer.

/// The operation of a video instruction.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoOp {
    /// `vadd`
    Add = 0,
    /// `vsub`
    Sub = 1,
    /// `vabsdiff`
    AbsDiff = 2,
    /// `vmin`
    Min = 3,
    /// `vmax`
    Max = 4,
    /// `vavrg`, SIMD only
    Average = 5,
    /// `vset`
    Set = 6,
    /// `vshl`, scalar only
    Shl = 7,
    /// `vshr`, scalar only
    Shr = 8,
    /// `vmad`, scalar only
    Mad = 9,
}

/// The secondary operation, which combines the result with operand `c` (`.op2`).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoSecondaryOp {
    /// `d` is the result (SIMD: in the lanes of the mask, `c` in the others).
    Nothing = 0,
    /// Scalar: the result goes into the part `part` of `c`.
    Merge = 1,
    /// `.add`: the result (SIMD: the sum of the masked lanes) plus `c`.
    Add = 2,
    /// `.min`, scalar.
    Min = 3,
    /// `.max`, scalar.
    Max = 4,
}

/// The comparison of `vset`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoCompare {
    /// `.eq`
    Eq = 0,
    /// `.ne`
    Ne = 1,
    /// `.lt`
    Lt = 2,
    /// `.le`
    Le = 3,
    /// `.gt`
    Gt = 4,
    /// `.ge`
    Ge = 5,
}

/// A part of a 32-bit operand of a scalar video instruction.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoPart {
    /// All of it.
    Word = 0,
    /// `.b0`
    B0 = 1,
    /// `.b1`
    B1 = 2,
    /// `.b2`
    B2 = 3,
    /// `.b3`
    B3 = 4,
    /// `.h0`
    H0 = 5,
    /// `.h1`
    H1 = 6,
}

/// The modifiers of a video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoMode {
    /// The operation.
    pub op: VideoOp,
    /// The comparison of `vset`.
    pub compare: VideoCompare,
    /// The secondary operation.
    pub secondary: VideoSecondaryOp,
    /// `dtype` is signed.
    pub d_signed: bool,
    /// `atype` is signed.
    pub a_signed: bool,
    /// `btype` is signed.
    pub b_signed: bool,
    /// `.sat`
    pub sat: bool,
    /// `vshl`, `vshr`: `.wrap` rather than `.clamp`.
    pub wrap: bool,
    /// `vmad`: the product is negated.
    pub negate_product: bool,
    /// `vmad`: `c` is negated.
    pub negate_c: bool,
    /// `vmad.po`: plus one.
    pub plus_one: bool,
    /// `vmad`: shift of the result: 0, 7 or 15.
    pub scale: u8,
    /// Scalar: the part of `a`.
    pub a_part: VideoPart,
    /// Scalar: the part of `b`.
    pub b_part: VideoPart,
    /// Scalar, [`VideoSecondaryOp::Merge`]: the part of `c` that is replaced.
    pub d_part: VideoPart,
    /// SIMD: 2 or 4 lanes.
    pub lanes: u8,
    /// SIMD: which lane (of `a`, then `b`: 0 to 2 × lanes - 1) lane `i` of the first
    /// operand is, lane 0 first: `.b3210` is `[0, 1, 2, 3]`.
    pub a_lanes: [u8; 4],
    /// SIMD: the same of the second operand; the default `.b7654` is
    /// `[4, 5, 6, 7]`, `.h32` is `[2, 3, 0, 0]`.
    pub b_lanes: [u8; 4],
    /// SIMD: the lanes that the operation writes or adds, bit 0 for lane 0.
    pub mask: u8,
}
impl VideoMode {
    /// The encoding as an integer, which the helpers take.
    pub fn number(self) -> u64 {
        let mut number = Packed { bits: 0, at: 0 };
        number.put(self.op as u8, 4);
        number.put(self.compare as u8, 3);
        number.put(self.secondary as u8, 3);
        for flag in [
            self.d_signed,
            self.a_signed,
            self.b_signed,
            self.sat,
            self.wrap,
            self.negate_product,
            self.negate_c,
            self.plus_one,
        ] {
            number.put(flag.into(), 1);
        }
        number.put(self.scale, 4);
        for part in [self.a_part, self.b_part, self.d_part] {
            number.put(part as u8, 3);
        }
        number.put(self.lanes, 3);
        for lane in self.a_lanes.into_iter().chain(self.b_lanes) {
            number.put(lane, 3);
        }
        number.put(self.mask, 4);
        number.bits
    }

    /// Decodes [`number`](Self::number).
    pub(super) fn from_number(bits: u64) -> VideoMode {
        let mut number = Packed { bits, at: 0 };
        VideoMode {
            op: OPS[usize::from(number.get(4)) % OPS.len()],
            compare: COMPARES[usize::from(number.get(3)) % COMPARES.len()],
            secondary: SECONDARY_OPS[usize::from(number.get(3)) % SECONDARY_OPS.len()],
            d_signed: number.get(1) != 0,
            a_signed: number.get(1) != 0,
            b_signed: number.get(1) != 0,
            sat: number.get(1) != 0,
            wrap: number.get(1) != 0,
            negate_product: number.get(1) != 0,
            negate_c: number.get(1) != 0,
            plus_one: number.get(1) != 0,
            scale: number.get(4),
            a_part: number.part(),
            b_part: number.part(),
            d_part: number.part(),
            lanes: number.get(3),
            a_lanes: [(); 4].map(|()| number.get(3)),
            b_lanes: [(); 4].map(|()| number.get(3)),
            mask: number.get(4),
        }
    }
}

/// Bit fields, from the lowest bit on.
struct Packed {
    bits: u64,
    at: u32,
}

impl Packed {
    fn put(&mut self, value: u8, bits: u32) {
        self.bits |= (u64::from(value) & ((1 << bits) - 1)) << self.at;
        self.at += bits;
    }

    fn get(&mut self, bits: u32) -> u8 {
        let value = self.bits >> self.at & ((1 << bits) - 1);
        self.at += bits;
        value as u8
    }

    fn part(&mut self) -> VideoPart {
        PARTS[usize::from(self.get(3)) % PARTS.len()]
    }
}

const OPS: [VideoOp; 10] = [
    VideoOp::Add,
    VideoOp::Sub,
    VideoOp::AbsDiff,
    VideoOp::Min,
    VideoOp::Max,
    VideoOp::Average,
    VideoOp::Set,
    VideoOp::Shl,
    VideoOp::Shr,
    VideoOp::Mad,
];

const COMPARES: [VideoCompare; 6] = [
    VideoCompare::Eq,
    VideoCompare::Ne,
    VideoCompare::Lt,
    VideoCompare::Le,
    VideoCompare::Gt,
    VideoCompare::Ge,
];

const SECONDARY_OPS: [VideoSecondaryOp; 5] = [
    VideoSecondaryOp::Nothing,
    VideoSecondaryOp::Merge,
    VideoSecondaryOp::Add,
    VideoSecondaryOp::Min,
    VideoSecondaryOp::Max,
];

const PARTS: [VideoPart; 7] = [
    VideoPart::Word,
    VideoPart::B0,
    VideoPart::B1,
    VideoPart::B2,
    VideoPart::B3,
    VideoPart::H0,
    VideoPart::H1,
];
