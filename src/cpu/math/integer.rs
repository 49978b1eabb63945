//! Integer instructions without a cheap form in Cranelift.

/// How `prmt` chooses its bytes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrmtMode {
    /// Each byte by its nibble of `c`.
    Index = 0,
    /// `.f4e`
    F4e = 1,
    /// `.b4e`
    B4e = 2,
    /// `.rc8`
    Rc8 = 3,
    /// `.ecl`
    Ecl = 4,
    /// `.ecr`
    Ecr = 5,
    /// `.rc16`
    Rc16 = 6,
}

pub(super) extern "C" fn prmt(_a: u32, _b: u32, _c: u32, _mode: u32) -> u32 {
    0
}

pub(super) extern "C" fn fns(_mask: u32, _base: u32, _offset: i32) -> u32 {
    0
}

pub(super) extern "C" fn dp4a(_a: u32, _b: u32, _c: u32, _signs: u32) -> u32 {
    0
}

pub(super) extern "C" fn dp2a(_a: u32, _b: u32, _c: u32, _signs: u32) -> u32 {
    0
}

pub(super) extern "C" fn bfe_u64(_a: u64, _start: u32, _length: u32) -> u64 {
    0
}

pub(super) extern "C" fn bfe_s64(_a: i64, _start: u32, _length: u32, _bits: u32) -> i64 {
    0
}

pub(super) extern "C" fn bfi(_a: u64, _b: u64, _start: u32, _length: u32, _bits: u32) -> u64 {
    0
}

pub(super) extern "C" fn bfind(_a: u64, _bits: u32, _signed: u32, _shift_amount: u32) -> u32 {
    0
}
