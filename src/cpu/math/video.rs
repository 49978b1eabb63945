//! The video instructions, scalar (`vadd` to `vset`) and SIMD (`vadd2` to
//! `vset4`): PTX ISA, "Video Instructions".

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

/// What becomes of the result and the operand `c`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoThen {
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

/// All that a video instruction's modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoMode {
    /// The operation.
    pub op: VideoOp,
    /// The comparison of `vset`.
    pub compare: VideoCompare,
    /// What becomes of the result.
    pub then: VideoThen,
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
    /// Scalar, [`VideoThen::Merge`]: the part of `c` that is replaced.
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
pub(super) extern "C" fn video(_mode: u64, _a: u32, _b: u32, _c: u32) -> u32 {
    0
}

pub(super) extern "C" fn video_simd(_mode: u64, _a: u32, _b: u32, _c: u32) -> u32 {
    0
}

impl VideoMode {
    /// The mode as the helpers take it.
    pub fn number(self) -> u64 {
        0
    }
}
