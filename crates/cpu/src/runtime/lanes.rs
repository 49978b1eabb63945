//! Functions that vector code calls for some lanes, through a stub that preserves all registers.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::async_copy::copy_lane;
use crate::abi::{BlockContext, FaultKind, KernelFn, Request};
use crate::access;
use crate::math::approximate;

/// What code and the functions exchange, on the stack of the code.
#[repr(C, align(64))]
pub(crate) struct Lanes {
    /// The lanes, a bit each.
    mask: u32,
    _unused: u32,
    /// The index of the group's first thread.
    thread: u64,
    request: [u64; 2],
    _rest: [u64; 4],
    vectors: [[u64; 8]; 6],
}

/// Kinds of requests to [`each_lane`].
pub(crate) const FUNCTION: u64 = 0;
pub(crate) const DIVIDE: u64 = 1;
pub(crate) const MULTIPLY_HIGH: u64 = 2;

impl Lanes {
    fn active(&self) -> impl Iterator<Item = usize> + use<> {
        let mut mask = self.mask & 0xFFFF;
        std::iter::from_fn(move || {
            let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
            mask &= mask.wrapping_sub(1);
            lane
        })
    }

    fn address(&self, lane: usize) -> u64 {
        self.vectors[lane / 8][lane % 8]
    }

    /// A lane of 32 bits of a vector.
    fn word(&self, vector: usize, lane: usize) -> u32 {
        (self.vectors[vector][lane / 2] >> (32 * (lane % 2))) as u32
    }

    fn set_word(&mut self, vector: usize, lane: usize, word: u32) {
        let place = &mut self.vectors[vector][lane / 2];
        let by = 32 * (lane % 2);
        *place = *place & !(0xFFFF_FFFF << by) | u64::from(word) << by;
    }
}

/// Checks the accesses of some lanes, which an inline check did not allow. Returns 0 if they are all
/// valid, otherwise 1 after recording the fault of the first that is not.
pub(crate) unsafe extern "C" fn check_lanes(context: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &*lanes };
    let (line, access) = ((lanes.request[0] >> 32) as u32, lanes.request[0] as u32);
    for lane in lanes.active() {
        let thread = lanes.thread as u32 + lanes.request[1] as u32 + lane as u32;
        // SAFETY: the code passes the context of its own block.
        let host =
            unsafe { access::host_address(context, thread, lanes.address(lane), access, line) };
        if host.is_none() {
            return 1;
        }
    }
    0
}

/// Runs threads in the scalar function of the kernel.
pub(crate) unsafe extern "C" fn run_scalar(context: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let (first, count) = unsafe { ((*lanes).thread as u32, (*lanes).request[0] as u32) };
    // SAFETY: the context has the address of the kernel's scalar function.
    let function = unsafe { std::mem::transmute::<usize, KernelFn>((*context).scalar) };
    // SAFETY: the threads are those of the caller, and have not exited.
    unsafe { function(context, first, first + count) }
}

/// The request of a lane's thread.
unsafe fn request_of<'a>(
    context: *mut BlockContext,
    lanes: &Lanes,
    lane: usize,
) -> &'a mut Request {
    let thread = lanes.thread as u32 as usize + lanes.request[1] as usize + lane;
    // SAFETY: a kernel with sync points has a request for each thread.
    unsafe { &mut *(*context).requests.add(thread) }
}

/// Stores an operand of a sync point in the requests of some lanes.
pub(crate) unsafe extern "C" fn store_operands(
    context: *mut BlockContext,
    lanes: *mut Lanes,
) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &*lanes };
    for lane in lanes.active() {
        // SAFETY: the lanes are threads of the block.
        let request = unsafe { request_of(context, lanes, lane) };
        request.operands[lanes.request[0] as usize & 3] = lanes.address(lane);
    }
    0
}

/// Loads a result of a sync point of all lanes.
pub(crate) unsafe extern "C" fn load_results(context: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &mut *lanes };
    for lane in 0..16 {
        // SAFETY: the lanes are threads of the block.
        let request = unsafe { request_of(context, lanes, lane) };
        lanes.vectors[lane / 8][lane % 8] = request.results[lanes.request[0] as usize & 1];
    }
    0
}

/// Records a fault of the first of some lanes, if there is one.
pub(crate) unsafe extern "C" fn fault_lanes(context: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &*lanes };
    let Some(lane) = lanes.active().next() else {
        return 0;
    };
    let thread = lanes.thread as u32 + lanes.request[1] as u32 + lane as u32;
    let (line, kind) = ((lanes.request[0] >> 32) as u32, lanes.request[0] as u32);
    let kind = FaultKind::from_number(kind).unwrap_or(FaultKind::Trap);
    // SAFETY: the code passes the context of its own block.
    let context = unsafe { access::context(&context) };
    access::record(context, kind, thread, 0, 0, line)
}

/// Stores bytes or halves at addresses that are checked.
pub(crate) unsafe extern "C" fn store_lanes(_: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &*lanes };
    for lane in lanes.active() {
        let (address, value) = (lanes.address(lane), lanes.word(2, lane));
        // SAFETY: the code has checked the address, which may be that of other threads' data, too.
        unsafe {
            match lanes.request[0] {
                1 => AtomicU8::from_ptr(address as *mut u8).store(value as u8, Ordering::Relaxed),
                _ => {
                    AtomicU16::from_ptr(address as *mut u16).store(value as u16, Ordering::Relaxed);
                }
            }
        }
    }
    0
}

/// Copies to shared memory for some lanes. Returns 0, or 1 after recording a fault.
pub(crate) unsafe extern "C" fn copy_lanes_async(
    context: *mut BlockContext,
    lanes: *mut Lanes,
) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &*lanes };
    for lane in lanes.active() {
        let thread = lanes.thread as u32 + lanes.request[1] as u32 + lane as u32;
        let (from, to) = (lanes.address(lane), lanes.word(2, lane).into());
        let count = lanes.word(3, lane);
        // SAFETY: the code passes the context of its own block.
        if unsafe { copy_lane(context, thread, lanes.request[0], [to, from], count) } != 0 {
            return 1;
        }
    }
    0
}

/// Computes results of all lanes, in place of the first operands.
pub(crate) unsafe extern "C" fn each_lane(_: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &mut *lanes };
    let request = lanes.request[0];
    match request & 0xFF {
        FUNCTION => functions(lanes, (request >> 8) as u8),
        DIVIDE => {
            let (signed, remainder) = (request >> 8 & 1 != 0, request >> 9 & 1 != 0);
            let [a, b] = [lanes.vectors[0], lanes.vectors[1]];
            for (lane, (a, b)) in a.into_iter().zip(b).enumerate() {
                lanes.vectors[0][lane] = quotient(a, b, signed, remainder);
            }
        }
        _ => {
            let signed = request >> 8 & 1 != 0;
            let [a, b] = [lanes.vectors[0], lanes.vectors[1]];
            for (lane, (a, b)) in a.into_iter().zip(b).enumerate() {
                let product = if signed {
                    (i128::from(a.cast_signed()) * i128::from(b.cast_signed())) as u128
                } else {
                    u128::from(a) * u128::from(b)
                };
                lanes.vectors[0][lane] = (product >> 64) as u64;
            }
        }
    }
    0
}

/// As on NVIDIA's GPUs, quotient and remainder of a division by zero are all ones.
fn quotient(a: u64, b: u64, signed: bool, remainder: bool) -> u64 {
    if b == 0 {
        return u64::MAX;
    }
    let (x, y) = (a.cast_signed(), b.cast_signed());
    match (signed, remainder) {
        (true, false) => x.wrapping_div(y).cast_unsigned(),
        (true, true) => x.wrapping_rem(y).cast_unsigned(),
        (false, false) => a / b,
        (false, true) => a % b,
    }
}

/// A function of one number.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    RsqrtF32,
    SinF32,
    CosF32,
    Lg2F32,
    Ex2F32,
    TanhF32,
    ReciprocalF64,
    RsqrtF64,
    RsqrtFlushedF64,
}

fn functions(lanes: &mut Lanes, number: u8) {
    type Single = unsafe extern "C" fn(f32) -> f32;
    type Double = unsafe extern "C" fn(f64) -> f64;
    let singles: [(Function, Single); 5] = [
        (Function::RsqrtF32, approximate::rsqrt_f32),
        (Function::SinF32, approximate::sin_f32),
        (Function::CosF32, approximate::cos_f32),
        (Function::Lg2F32, approximate::lg2_f32),
        (Function::TanhF32, approximate::tanh_f32),
    ];
    let doubles: [(Function, Double); 3] = [
        (Function::ReciprocalF64, approximate::rcp_approx_f64),
        (Function::RsqrtF64, approximate::rsqrt_f64),
        (Function::RsqrtFlushedF64, approximate::rsqrt_approx_f64),
    ];
    let is_it = |known: Function| known as u8 == number;
    if is_it(Function::Ex2F32) {
        // SAFETY: a vector has 16 of them.
        unsafe { approximate::ex2_lanes(lanes.vectors[0].as_mut_ptr().cast(), 16) };
    } else if let Some((_, function)) = singles.iter().find(|(known, _)| is_it(*known)) {
        for lane in 0..16 {
            let value = f32::from_bits(lanes.word(0, lane));
            // SAFETY: these functions compute.
            let result = unsafe { function(value) };
            lanes.set_word(0, lane, result.to_bits());
        }
    } else if let Some((_, function)) = doubles.iter().find(|(known, _)| is_it(*known)) {
        for value in &mut lanes.vectors[0] {
            // SAFETY: these functions compute.
            *value = unsafe { function(f64::from_bits(*value)) }.to_bits();
        }
    }
}

/// What an atomic operation does with a value.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

impl Update {
    const ALL: [Update; 10] = [
        Update::Add,
        Update::Min,
        Update::Max,
        Update::And,
        Update::Or,
        Update::Xor,
        Update::Exchange,
        Update::CompareAndSwap,
        Update::Increment,
        Update::Decrement,
    ];
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicOperation {
    pub update: Update,
    /// It is of 64 bits, otherwise of 32.
    pub is_wide: bool,
    pub is_signed: bool,
    pub is_float: bool,
    /// Subnormals are zeros.
    pub flushes: bool,
    /// No other host thread accesses the memory.
    pub is_alone: bool,
}

impl AtomicOperation {
    /// The operation as the request of a call.
    pub(crate) fn encoded(self) -> u64 {
        let flags = [
            self.is_wide,
            self.is_signed,
            self.is_float,
            self.flushes,
            self.is_alone,
        ];
        let flags = (0..).zip(flags).map(|(n, flag)| u64::from(flag) << n);
        flags.sum::<u64>() << 8 | self.update as u64
    }

    fn decoded(request: u64) -> Option<AtomicOperation> {
        let flag = |n: u32| request >> (8 + n) & 1 != 0;
        Some(AtomicOperation {
            update: *Update::ALL.get((request & 0xFF) as usize)?,
            is_wide: flag(0),
            is_signed: flag(1),
            is_float: flag(2),
            flushes: flag(3),
            is_alone: flag(4),
        })
    }

    /// The new value.
    #[inline(always)]
    fn apply(self, old: u64, value: u64, new: u64) -> u64 {
        let signed = |x: u64| {
            if self.is_wide {
                x.cast_signed()
            } else {
                (x as u32).cast_signed().into()
            }
        };
        let is_less = |a: u64, b: u64| {
            if self.is_signed {
                signed(a) < signed(b)
            } else {
                a < b
            }
        };
        let chosen = |first: bool| if first { value } else { old };
        match self.update {
            Update::Add if self.is_float && self.is_wide => {
                (f64::from_bits(old) + f64::from_bits(value)).to_bits()
            }
            Update::Add if self.is_float => {
                let flushed = |bits: u32| match bits & 0x7F80_0000 {
                    0 if self.flushes => f32::from_bits(bits & 1 << 31),
                    _ => f32::from_bits(bits),
                };
                let sum = flushed(old as u32) + flushed(value as u32);
                let sum = flushed(sum.to_bits());
                if sum.is_nan() {
                    // Programs can observe the NaN in memory: it is NVIDIA's canonical one.
                    0x7FFF_FFFF
                } else {
                    sum.to_bits().into()
                }
            }
            Update::Add => old.wrapping_add(value),
            Update::Min => chosen(is_less(value, old)),
            Update::Max => chosen(is_less(old, value)),
            Update::And => old & value,
            Update::Or => old | value,
            Update::Xor => old ^ value,
            Update::Exchange => value,
            Update::CompareAndSwap if old == value => new,
            Update::CompareAndSwap => old,
            Update::Increment if old >= value => 0,
            Update::Increment => old + 1,
            Update::Decrement if old == 0 || old > value => value,
            Update::Decrement => old - 1,
        }
    }
}

/// Atomic operations of some lanes, in their order. The addresses are checked; results replace the
/// operands.
pub(crate) unsafe extern "C" fn atomic_lanes(_: *mut BlockContext, lanes: *mut Lanes) -> u32 {
    // SAFETY: the caller passes its own memory.
    let lanes = unsafe { &mut *lanes };
    if let Some(operation) = AtomicOperation::decoded(lanes.request[0]) {
        update_lanes(lanes, operation);
    }
    0
}

fn update_lanes(lanes: &mut Lanes, operation: AtomicOperation) {
    // A loop of its own for each operation.
    macro_rules! for_each_update {
        ($($update:ident)*) => {
            match operation.update {
                $(Update::$update => {
                    let update = Update::$update;
                    let operation = AtomicOperation { update, ..operation };
                    if operation.is_wide {
                        update_longs(lanes, AtomicOperation { is_wide: true, ..operation });
                    } else {
                        update_words(lanes, AtomicOperation { is_wide: false, ..operation });
                    }
                })*
            }
        };
    }
    for_each_update!(Add Min Max And Or Xor Exchange CompareAndSwap Increment Decrement);
}

#[inline(always)]
fn update_longs(lanes: &mut Lanes, operation: AtomicOperation) {
    for lane in lanes.active() {
        let value = lanes.vectors[2 + lane / 8][lane % 8];
        let new = lanes.vectors[4 + lane / 8][lane % 8];
        // SAFETY: the code has checked the address and its alignment.
        let place = unsafe { AtomicU64::from_ptr(lanes.address(lane) as *mut u64) };
        let change = |old| operation.apply(old, value, new);
        let old = if operation.is_alone {
            let old = place.load(Ordering::Relaxed);
            place.store(change(old), Ordering::Relaxed);
            old
        } else {
            shared_update_of_64_bits(place, operation, value, change)
        };
        lanes.vectors[2 + lane / 8][lane % 8] = old;
    }
}

#[inline(always)]
fn update_words(lanes: &mut Lanes, operation: AtomicOperation) {
    for lane in lanes.active() {
        let (value, new) = (lanes.word(2, lane), lanes.word(4, lane));
        // SAFETY: as above.
        let place = unsafe { AtomicU32::from_ptr(lanes.address(lane) as *mut u32) };
        let change = |old: u32| operation.apply(old.into(), value.into(), new.into()) as u32;
        let old = if operation.is_alone {
            let old = place.load(Ordering::Relaxed);
            place.store(change(old), Ordering::Relaxed);
            old
        } else {
            shared_update_of_32_bits(place, operation, value, change)
        };
        lanes.set_word(2, lane, old);
    }
}

macro_rules! shared_update {
    ($name:ident, $atomic:ty, $int:ty) => {
        /// Updates memory that other host threads may update, too. Returns what it held.
        #[inline(always)]
        fn $name(
            place: &$atomic,
            operation: AtomicOperation,
            value: $int,
            change: impl Fn($int) -> $int,
        ) -> $int {
            const ORDER: Ordering = Ordering::SeqCst;
            match operation.update {
                Update::Add if !operation.is_float => return place.fetch_add(value, ORDER),
                Update::And => return place.fetch_and(value, ORDER),
                Update::Or => return place.fetch_or(value, ORDER),
                Update::Xor => return place.fetch_xor(value, ORDER),
                Update::Exchange => return place.swap(value, ORDER),
                _ => {}
            }
            let mut old = place.load(ORDER);
            loop {
                let new = change(old);
                // Nothing has to be written where nothing changes.
                if new == old {
                    return old;
                }
                match place.compare_exchange_weak(old, new, ORDER, ORDER) {
                    Ok(_) => return old,
                    Err(found) => old = found,
                }
            }
        }
    };
}

shared_update!(shared_update_of_32_bits, AtomicU32, u32);
shared_update!(shared_update_of_64_bits, AtomicU64, u64);
