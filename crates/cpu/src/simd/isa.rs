//! The vector instructions that code is made for.

use crate::processor;

/// A set of vector instructions, the one with the fewer first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// 256 bits, no masks.
    Avx2,
    /// 512 bits, as Ice Lake and Zen 4 have them.
    Avx512,
}

impl Isa {
    /// The best one that this processor has.
    pub fn of_processor() -> Option<Isa> {
        let known = [Isa::Avx512, Isa::Avx2];
        known.into_iter().find(|isa| processor::has(isa.feature()))
    }

    /// What the processor must have.
    pub fn feature(self) -> &'static str {
        match self {
            Isa::Avx2 => processor::AVX2_LANES,
            Isa::Avx512 => processor::AVX_512_LANES,
        }
    }
}
