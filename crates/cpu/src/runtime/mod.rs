//! The runtime library of compiled code: the helpers that it calls for operations without a
//! Cranelift instruction, for textures, and for access to the device.
//!
//! [`Helper`] lists them all. Compiled code loads the address of a helper from the array
//! at `BlockContext::helpers`, at index `Helper::x as usize`, and calls it with the C calling
//! convention and the types of [`Helper::signature`].

mod async_copy;
mod bulk_copy;
mod cluster;
mod device;
mod lanes;
mod mbarrier;
mod reduction;
mod tensor;
mod tensor_copy;
pub(crate) mod texture;

pub(crate) use bulk_copy::SHIFTS;
pub(crate) use cluster::OFFSET_BITS;
pub(crate) use lanes::{AtomicOperation, DIVIDE, FUNCTION, Function, MULTIPLY_HIGH, Update};
pub(crate) use mbarrier::{AddressSpace, BarrierOperation};
pub(crate) use reduction::{Number, Reduction};
pub(crate) use tensor_copy::{
    HALOS, OFFSET_BEHIND_HALO, OFFSETS, OFFSETS_BEHIND_HALO, TensorShifts, offset_bits,
};

use crate::abi::BlockContext;
use crate::math::{approximate, convert, half, integer, round, stochastic, video};

/// A type in the signature of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// 32-bit integer.
    I32,
    /// 64-bit integer or pointer.
    I64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

trait AbiType {
    const SCALAR: Scalar;
}

macro_rules! abi {
    ($($type:ty => $scalar:ident,)*) => { $(impl AbiType for $type { const SCALAR: Scalar = Scalar::$scalar; })* };
}

abi! {
    u32 => I32,
    i32 => I32,
    u64 => I64,
    i64 => I64,
    f32 => F32,
    f64 => F64,
    *const u32 => I64,
    *mut lanes::Lanes => I64,
    *mut f32 => I64,
    *mut BlockContext => I64,
    *mut texture::TextureAccess => I64,
}

macro_rules! helpers {
    ($($(#[$doc:meta])* $module:ident::$name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// A function that compiled code can call. The number is its index in the table.
        #[allow(non_camel_case_types, reason = "named like the functions")]
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Helper { $($(#[$doc])* $name,)* }

        impl Helper {
            /// All of them, in the order of the table.
            pub const ALL: &[Helper] = &[$(Helper::$name,)*];

            /// The function's name.
            pub fn name(self) -> &'static str {
                match self { $(Helper::$name => stringify!($name),)* }
            }

            /// The types of the arguments, and of the result.
            pub fn signature(self) -> (&'static [Scalar], Scalar) {
                match self {
                    $(Helper::$name => (&[$(<$type as AbiType>::SCALAR),*], <$result as AbiType>::SCALAR),)*
                }
            }
        }

        /// The functions' addresses, in the order of [`Helper`].
        pub fn table() -> [usize; Helper::ALL.len()] {
            [$({
                // The full type checks the row against the function.
                let function: unsafe extern "C" fn($($type),*) -> $result = $module::$name;
                function as usize
            },)*]
        }
    };
}

helpers! {
    /// `add`; `sub` is the sum with the negated operand.
    round::add_f32(a: f32, b: f32, rounding: u32) -> f32;
    /// `mul`.
    round::mul_f32(a: f32, b: f32, rounding: u32) -> f32;
    /// `fma`, `mad`: one rounding, also without FMA hardware.
    round::fma_f32(a: f32, b: f32, c: f32, rounding: u32) -> f32;
    /// `div`; `rcp` is the quotient of 1.
    round::div_f32(a: f32, b: f32, rounding: u32) -> f32;
    /// `sqrt`.
    round::sqrt_f32(a: f32, rounding: u32) -> f32;
    /// `add`; `sub` is the sum with the negated operand.
    round::add_f64(a: f64, b: f64, rounding: u32) -> f64;
    /// `mul`.
    round::mul_f64(a: f64, b: f64, rounding: u32) -> f64;
    /// `fma`, `mad`: one rounding, also without FMA hardware.
    round::fma_f64(a: f64, b: f64, c: f64, rounding: u32) -> f64;
    /// `div`; `rcp` is the quotient of 1.
    round::div_f64(a: f64, b: f64, rounding: u32) -> f64;
    /// `sqrt`.
    round::sqrt_f64(a: f64, rounding: u32) -> f64;

    /// `cvt.f32.f64`.
    convert::f64_to_f32(a: f64, rounding: u32) -> f32;
    /// `cvt.f32.s64`, and of the narrower signed types.
    convert::i64_to_f32(a: i64, rounding: u32) -> f32;
    /// `cvt.f32.u64`, and of the narrower unsigned types.
    convert::u64_to_f32(a: u64, rounding: u32) -> f32;
    /// `cvt.f64.s64`.
    convert::i64_to_f64(a: i64, rounding: u32) -> f64;
    /// `cvt.f64.u64`.
    convert::u64_to_f64(a: u64, rounding: u32) -> f64;
    /// `cvt.r.f32.f32`: to an integral value (`.rni .rzi .rmi .rpi`).
    convert::integral_f32(a: f32, rounding: u32) -> f32;
    /// `cvt.r.f64.f64`: to an integral value.
    convert::integral_f64(a: f64, rounding: u32) -> f64;
    /// `cvt.s64.f64` and, with `bits` 8, 16 or 32, to the narrower signed types:
    /// clamped. NaN is converted to 0, or to the least value if `bits` is 64. The result is
    /// sign-extended.
    convert::f64_to_int(a: f64, bits: u32, rounding: u32) -> i64;
    /// The same for unsigned types. NaN is converted to 2^63 if `bits` is 64.
    convert::f64_to_uint(a: f64, bits: u32, rounding: u32) -> u64;
    /// `cvt.tf32.f32`.
    convert::f32_to_tf32(a: f32, rounding: u32) -> f32;
    /// `cvt.f32.f16`, exact.
    convert::f16_to_f32(a: u32) -> f32;
    /// `cvt.f32.bf16`, exact.
    convert::bf16_to_f32(a: u32) -> f32;
    /// `cvt.f16.f32`.
    convert::f32_to_f16(a: f32, rounding: u32) -> u32;
    /// `cvt.bf16.f32`.
    convert::f32_to_bf16(a: f32, rounding: u32) -> u32;
    /// `cvt.f16.f64`.
    convert::f64_to_f16(a: f64, rounding: u32) -> u32;
    /// `cvt.bf16.f64`.
    convert::f64_to_bf16(a: f64, rounding: u32) -> u32;
    /// `cvt.f16.s64`, and of the narrower signed types.
    convert::i64_to_f16(a: i64, rounding: u32) -> u32;
    /// `cvt.f16.u64`, and of the narrower unsigned types.
    convert::u64_to_f16(a: u64, rounding: u32) -> u32;
    /// `cvt.bf16.s64`, and of the narrower signed types.
    convert::i64_to_bf16(a: i64, rounding: u32) -> u32;
    /// `cvt.bf16.u64`, and of the narrower unsigned types.
    convert::u64_to_bf16(a: u64, rounding: u32) -> u32;
    /// `cvt.e4m3x2.f32` of one half, saturating: 8 bits.
    convert::f32_to_e4m3(a: f32) -> u32;
    /// `cvt.e5m2x2.f32` of one half, saturating: 8 bits.
    convert::f32_to_e5m2(a: f32) -> u32;
    /// `cvt.e2m3x2.f32` of one half, saturating: 6 bits.
    convert::f32_to_e2m3(a: f32) -> u32;
    /// `cvt.e3m2x2.f32` of one half, saturating: 6 bits.
    convert::f32_to_e3m2(a: f32) -> u32;
    /// `cvt.e2m1x2.f32` of one half, saturating: 4 bits.
    convert::f32_to_e2m1(a: f32) -> u32;
    /// `cvt.rs` of one number: a number of a [`Target`](stochastic::Target), or above its largest.
    stochastic::round_stochastic(a: f32, random: u32, target: u32) -> f32;
    /// `cvt.ue8m0x2.f32` of one half: 8 bits.
    convert::f32_to_ue8m0(a: f32, rounding: u32) -> u32;
    /// `cvt.bf16x2.ue8m0x2` of one half: a bf16, exact.
    convert::ue8m0_to_bf16(a: u32) -> u32;
    /// `cvt.f16x2.e2m3x2` of one half: an f16, exact.
    convert::e2m3_to_f16(a: u32) -> u32;
    /// `cvt.f16x2.e3m2x2` of one half: an f16, exact.
    convert::e3m2_to_f16(a: u32) -> u32;
    /// `cvt.f16x2.e2m1x2` of one half: an f16, exact.
    convert::e2m1_to_f16(a: u32) -> u32;
    /// `cvt.f16x2.e4m3x2` of one half: an f16, exact.
    convert::e4m3_to_f16(a: u32) -> u32;
    /// `cvt.f16x2.e5m2x2` of one half: an f16, exact.
    convert::e5m2_to_f16(a: u32) -> u32;

    /// `add.f16`, rounded once.
    half::add_f16(a: u32, b: u32) -> u32;
    /// `mul.f16`.
    half::mul_f16(a: u32, b: u32) -> u32;
    /// `fma.f16`: one rounding.
    half::fma_f16(a: u32, b: u32, c: u32) -> u32;
    /// `add.bf16`.
    half::add_bf16(a: u32, b: u32) -> u32;
    /// `mul.bf16`.
    half::mul_bf16(a: u32, b: u32) -> u32;
    /// `fma.bf16`: one rounding.
    half::fma_bf16(a: u32, b: u32, c: u32) -> u32;
    /// `ex2.approx.f16`.
    half::ex2_f16(a: u32) -> u32;
    /// `ex2.approx.ftz.bf16`.
    half::ex2_bf16(a: u32) -> u32;
    /// `tanh.approx.f16`.
    half::tanh_f16(a: u32) -> u32;
    /// `tanh.approx.bf16`.
    half::tanh_bf16(a: u32) -> u32;

    /// `ex2.approx.f32`.
    approximate::ex2_f32(a: f32) -> f32;
    /// The same of `count` values in memory. Returns 0.
    approximate::ex2_lanes(values: *mut f32, count: u32) -> u32;
    /// `lg2.approx.f32`.
    approximate::lg2_f32(a: f32) -> f32;
    /// `sin.approx.f32`.
    approximate::sin_f32(a: f32) -> f32;
    /// `cos.approx.f32`.
    approximate::cos_f32(a: f32) -> f32;
    /// `tanh.approx.f32`.
    approximate::tanh_f32(a: f32) -> f32;
    /// `rsqrt.approx.f32`.
    approximate::rsqrt_f32(a: f32) -> f32;
    /// `rcp.approx.f32`.
    approximate::rcp_f32(a: f32) -> f32;
    /// `sqrt.approx.f32`.
    approximate::sqrt_approx_f32(a: f32) -> f32;
    /// `div.approx.f32` and `div.full.f32`.
    approximate::div_approx_f32(a: f32, b: f32) -> f32;
    /// `rcp.approx.ftz.f64`: of the upper 32 bits, the lower ones are 0.
    approximate::rcp_approx_f64(a: f64) -> f64;
    /// `rsqrt.approx.f64`.
    approximate::rsqrt_f64(a: f64) -> f64;
    /// `rsqrt.approx.ftz.f64`: of the upper 32 bits, the lower ones are 0.
    approximate::rsqrt_approx_f64(a: f64) -> f64;

    /// `prmt.b32` in a mode of [`integer::PrmtMode`].
    integer::prmt(a: u32, b: u32, c: u32, mode: u32) -> u32;
    /// `fns.b32`.
    integer::fns(mask: u32, base: u32, offset: i32) -> u32;
    /// `clmad`: `upper`: `.hi`.
    integer::clmad(a: u64, b: u64, c: u64, upper: u32) -> u64;
    /// `dp4a`: `signs` bit 0: `a` is signed, bit 1: `b` is signed.
    integer::dp4a(a: u32, b: u32, c: u32, signs: u32) -> u32;
    /// `dp2a`: `signs` like `dp4a`, bit 2: `.hi`.
    integer::dp2a(a: u32, b: u32, c: u32, signs: u32) -> u32;
    /// `bfe.u64` (and `.u32`, zero-extended).
    integer::bfe_u64(a: u64, start: u32, length: u32, bits: u32) -> u64;
    /// `bfe.s64`; with `bits` 32 `bfe.s32` of a sign-extended value.
    integer::bfe_s64(a: i64, start: u32, length: u32, bits: u32) -> i64;
    /// `bfi.b64`; with `bits` 32 `bfi.b32`: inserts `a` into `b`.
    integer::bfi(a: u64, b: u64, start: u32, length: u32, bits: u32) -> u64;
    /// `bfind` of a zero- or sign-extended value, `signed` 0 or 1, `shift_amount`
    /// 0 or 1.
    integer::bfind(a: u64, bits: u32, signed: u32, shift_amount: u32) -> u32;

    /// Scalar video instructions (`vadd` to `vset`, `vmad`); `mode` is a
    /// [`video::VideoMode`] as a number.
    video::video(mode: u64, a: u32, b: u32, c: u32) -> u32;
    /// SIMD video instructions (`vadd2` to `vset4`).
    video::video_simd(mode: u64, a: u32, b: u32, c: u32) -> u32;

    /// `%clock64`; `%clock` is its lower half.
    device::clock() -> u64;
    /// `%globaltimer`: nanoseconds since the Unix epoch.
    device::global_timer() -> u64;
    /// `%envreg1` and `%envreg2`: the address of the grid's workspace.
    device::grid_workspace(context: *mut BlockContext) -> u64;
    /// The slow path of an access that the shadow memory does not allow. Returns 0 if the
    /// access is valid (registered host memory), otherwise 1 after recording the fault.
    /// `encoded`: an [`abi::Access`](crate::abi::Access) in bits 0 to 31, the line in 32 to 63.
    device::check_access(context: *mut BlockContext, thread: u32, address: u64, encoded: u64) -> u32;
    /// Tells the sanitizer of an access to an address of the host, or, of no bytes, of a fence.
    /// `encoded` as for `check_access`. Returns 0, or 1 after recording a fault.
    device::observe(context: *mut BlockContext, thread: u32, address: u64, encoded: u64) -> u32;
    /// Records a fault of a kind ([`abi::FaultKind`](crate::abi::FaultKind)), and returns 1.
    device::fault(context: *mut BlockContext, kind: u32, thread: u32, address: u64, access: u32, line: u32) -> u32;
    /// `vprintf(format, arguments)` with generic addresses. Returns the result of `vprintf`.
    device::vprintf(context: *mut BlockContext, format: u64, arguments: u64) -> i32;
    /// `__assertfail(message, file, line, function, char size)`: records the
    /// fault and returns 1.
    device::assertfail(context: *mut BlockContext, thread: u32, ptx_line: u32, message: u64, file: u64, line: u32, function: u64) -> u32;
    /// `malloc(bytes)`: a generic address, or 0.
    device::malloc(context: *mut BlockContext, thread: u32, line: u32, bytes: u64) -> u64;
    /// `free(address)`: 0, or 1 with the fault recorded.
    device::free(context: *mut BlockContext, thread: u32, line: u32, address: u64) -> u32;

    /// `mbarrier` ([`mbarrier::BarrierOperation`]): the state before it, or whether a phase is
    /// complete. It may record a fault.
    mbarrier::mbarrier(context: *mut BlockContext, thread: u32, encoded: u64, address: u64, operand: u64) -> u64;
    /// `cp.async` of some bytes, and zeros for the others. Returns 0, or 1 after recording a fault.
    async_copy::copy_partial(context: *mut BlockContext, thread: u32, encoded: u64, to: u64, from: u64, count: u32) -> u32;
    /// `cp.async.bulk` and `cp.reduce.async.bulk`. Returns 0, or 1 after recording a fault.
    bulk_copy::copy_bulk(context: *mut BlockContext, thread: u32, encoded: u64, to: u64, from: u64, bytes: u64, barrier: u64) -> u32;
    /// `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`, likewise.
    tensor_copy::copy_tensor(context: *mut BlockContext, thread: u32, encoded: u64, shared: u64, map: u64, low: u64, middle: u64, high: u64, barrier: u64) -> u32;
    /// `tcgen05.alloc` by the first lane of a warp. Returns 0, or 1 after recording a fault.
    tensor::tensor_allocate(context: *mut BlockContext, thread: u32, encoded: u64, address: u64, columns: u32) -> u32;
    /// `tcgen05.dealloc`, likewise.
    tensor::tensor_free(context: *mut BlockContext, thread: u32, line: u32, address: u32, columns: u32) -> u32;
    /// `tcgen05.mma`. Returns 0, or 1 after recording a fault.
    tensor::tensor_multiply(context: *mut BlockContext, thread: u32, encoded: u64, d: u32, a: u64, b: u64, instruction: u32, adds: u32, low: u64, high: u64) -> u32;
    /// `tcgen05.cp`, likewise.
    tensor::tensor_copy(context: *mut BlockContext, thread: u32, encoded: u64, to: u32, from: u64) -> u32;
    /// The generic address of one in `.shared::cluster`.
    cluster::cluster_to_generic(context: *mut BlockContext, address: u64) -> u64;
    /// The address in `.shared::cluster` of a generic one.
    cluster::generic_to_cluster(context: *mut BlockContext, generic: u64) -> u64;
    /// `mapa` of a generic address.
    cluster::map_generic(context: *mut BlockContext, generic: u64, rank: u32) -> u64;
    /// `getctarank` of a generic address.
    cluster::rank_of(context: *mut BlockContext, generic: u64) -> u32;

    /// The slow path of accesses by lanes of vector code.
    lanes::check_lanes(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Threads of a group of vector code, in the scalar function.
    lanes::run_scalar(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Operands of sync points of lanes of vector code.
    lanes::store_operands(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Their results.
    lanes::load_results(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// A fault of lanes of vector code.
    lanes::fault_lanes(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Stores of bytes and halves by lanes of vector code.
    lanes::store_lanes(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// `cp.async` by lanes of vector code.
    lanes::copy_lanes_async(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Results of all lanes of vector code.
    lanes::each_lane(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Atomic operations by lanes of vector code.
    lanes::atomic_lanes(context: *mut BlockContext, values: *mut lanes::Lanes) -> u32;
    /// Texture and surface instructions. `access` points to operands and results. Returns 0,
    /// or 1 after recording a fault.
    texture::texture(context: *mut BlockContext, thread: u32, line: u32, mode: u64, access: *mut texture::TextureAccess) -> u32;
}
