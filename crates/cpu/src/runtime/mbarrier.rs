//! Barriers in shared memory that count arrivals and bytes (`mbarrier`).
//!
//! Copies are complete when the instruction ends, so that they only count their bytes. All
//! threads that share a barrier run on one host thread: it is read and written as an
//! ordinary word.

use super::cluster;
use crate::abi::{Access, BlockContext, FaultKind};
use crate::access::{self, host_address, record};

/// What an instruction does with a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum BarrierOperation {
    /// The operand is the number of arrivals.
    Init = 0,
    Inval = 1,
    /// The operand is the number of arrivals. Returns the state before.
    Arrive = 2,
    /// The same, and later phases wait for fewer.
    ArriveDrop = 3,
    /// The operand is the bytes that the phase waits for.
    ExpectTx = 4,
    /// The operand is the bytes that have come.
    CompleteTx = 5,
    /// The operand is a state. Returns whether its phase is complete.
    TestState = 6,
    /// The operand is the parity of a phase. Returns whether it is complete.
    TestParity = 7,
    /// [`ExpectTx`](Self::ExpectTx), then an arrival.
    ArriveExpectTx = 8,
    /// The same with [`ArriveDrop`](Self::ArriveDrop).
    ArriveDropExpectTx = 9,
}

impl BarrierOperation {
    fn from_number(number: u32) -> Option<BarrierOperation> {
        use BarrierOperation::*;
        [
            Init,
            Inval,
            Arrive,
            ArriveDrop,
            ExpectTx,
            CompleteTx,
            TestState,
            TestParity,
            ArriveExpectTx,
            ArriveDropExpectTx,
        ]
        .into_iter()
        .find(|&operation| operation as u32 == number)
    }
}

/// The state space of an address that a helper takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum AddressSpace {
    Generic = 0,
    Shared = 1,
    Cluster = 2,
}

impl AddressSpace {
    pub(super) fn from_number(number: u32) -> AddressSpace {
        match number {
            1 => AddressSpace::Shared,
            2 => AddressSpace::Cluster,
            _ => AddressSpace::Generic,
        }
    }
}

/// Bytes of a barrier.
const BYTES: u32 = 8;

/// The arrivals that a phase waits for: pending ones in the lowest bits, above them those
/// of each phase, above them the bytes that have yet to come, which may be negative for a
/// while, and the parity of the phase as the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Barrier {
    pending: u64,
    expected: u64,
    bytes: i64,
    parity: u64,
}

/// Bits of a number of arrivals.
const COUNT_BITS: u32 = 20;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Bits of the number of bytes.
const BYTES_BITS: u32 = 63 - 2 * COUNT_BITS;

impl Barrier {
    fn from_word(word: u64) -> Barrier {
        Barrier {
            pending: word & COUNT,
            expected: word >> COUNT_BITS & COUNT,
            bytes: (word << 1).cast_signed() >> (64 - BYTES_BITS),
            parity: word >> 63,
        }
    }

    fn word(self) -> u64 {
        let bytes = self.bytes.cast_unsigned() & ((1 << BYTES_BITS) - 1);
        self.pending | self.expected << COUNT_BITS | bytes << (2 * COUNT_BITS) | self.parity << 63
    }

    /// Arrives so many times; `None` if fewer arrivals are pending.
    fn arrive(&mut self, count: u64, drop: bool) -> Option<()> {
        self.pending = self.pending.checked_sub(count)?;
        if drop {
            self.expected = self.expected.checked_sub(count)?;
        }
        Some(())
    }

    /// Adds to the bytes that the phase waits for; `None` out of range.
    fn expect(&mut self, bytes: i64) -> Option<()> {
        self.bytes = self.bytes.checked_add(bytes)?;
        (self.bytes.unsigned_abs() < 1 << (BYTES_BITS - 1)).then_some(())
    }

    /// Begins the next phase if nothing is pending.
    fn advance(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.pending = self.expected;
            self.parity ^= 1;
        }
    }

    /// Returns the result; `None` for an operand that no barrier takes.
    fn operate(&mut self, operation: BarrierOperation, operand: u64) -> Option<u64> {
        use BarrierOperation::*;
        let before = self.word();
        let bytes = i64::try_from(operand);
        match operation {
            Init => {
                if !(1..=COUNT).contains(&operand) {
                    return None;
                }
                *self = Barrier {
                    pending: operand,
                    expected: operand,
                    bytes: 0,
                    parity: 0,
                };
                return Some(0);
            }
            Inval => {
                *self = Barrier::from_word(0);
                return Some(0);
            }
            TestState => return Some(u64::from(operand >> 63 != self.parity)),
            TestParity => return Some(u64::from(operand & 1 != self.parity)),
            Arrive | ArriveDrop => self.arrive(operand, operation == ArriveDrop)?,
            ExpectTx => return self.expect(bytes.ok()?).map(|()| before),
            CompleteTx => self.expect(-bytes.ok()?)?,
            ArriveExpectTx | ArriveDropExpectTx => {
                self.expect(bytes.ok()?)?;
                self.arrive(1, operation == ArriveDropExpectTx)?;
            }
        }
        self.advance();
        Some(before)
    }
}

/// The host address of an access in any space; `None` after recording a fault.
///
/// # Safety
/// See [`host_address`].
pub(super) unsafe fn place(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    (space, address): (AddressSpace, u64),
    encoded: u32,
) -> Option<*mut u8> {
    // Addresses of shared memory have 32 bits.
    let low = address & u64::from(u32::MAX);
    let (address, encoded) = match space {
        AddressSpace::Generic => (address, encoded),
        AddressSpace::Shared => (low, encoded | Access::SHARED),
        // SAFETY: the caller's contract.
        AddressSpace::Cluster => (
            unsafe { cluster::cluster_to_generic(context, low) },
            encoded,
        ),
    };
    // SAFETY: the caller's contract.
    unsafe { host_address(context, thread, address, encoded, line) }
}

/// `encoded`: the operation in bits 0 to 7, the space in 8 to 15, the line from bit 32 on.
pub(super) unsafe extern "C" fn mbarrier(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    address: u64,
    operand: u64,
) -> u64 {
    let line = (encoded >> 32) as u32;
    let space = AddressSpace::from_number(encoded as u32 >> 8 & 0xFF);
    let access = BYTES | Access::WRITE;
    // SAFETY: see `device`.
    let Some(place) = (unsafe { place(context, thread, line, (space, address), access) }) else {
        return 0;
    };
    // SAFETY: see `device`.
    access::synchronize(unsafe { access::context(&context) }, thread);
    let place = place.cast::<u64>();
    // SAFETY: `place` has checked 8 bytes and their alignment. No other host thread accesses
    // the shared memory of this cluster.
    let mut barrier = Barrier::from_word(unsafe { place.read() });
    let operation = BarrierOperation::from_number(encoded as u32 & 0xFF);
    let result = operation.and_then(|operation| barrier.operate(operation, operand));
    let Some(result) = result else {
        // SAFETY: see `device`.
        let context = unsafe { access::context(&context) };
        record(
            context,
            FaultKind::IllegalInstruction,
            thread,
            address,
            access,
            line,
        );
        return 0;
    };
    // SAFETY: as above.
    unsafe { place.write(barrier.word()) };
    result
}

#[cfg(test)]
mod tests {
    use super::BarrierOperation::*;
    use super::*;

    fn init(count: u64) -> Barrier {
        let mut barrier = Barrier::from_word(!0);
        barrier.operate(Init, count).unwrap();
        barrier
    }

    #[test]
    fn a_phase_ends_with_its_last_arrival() {
        let mut barrier = init(3);
        let state = barrier.operate(Arrive, 1).unwrap();
        assert_eq!(state & COUNT, 3);
        assert_eq!(barrier.operate(TestState, state), Some(0));
        assert_eq!(barrier.operate(TestParity, 1), Some(1));
        barrier.operate(Arrive, 2).unwrap();
        assert_eq!(barrier.operate(TestState, state), Some(1));
        assert_eq!(barrier.operate(TestParity, 0), Some(1));
        assert_eq!(barrier.operate(TestParity, 1), Some(0));
        // More than are pending.
        assert_eq!(barrier.operate(Arrive, 4), None);
        assert_eq!(init(1).operate(Init, 0), None);
        assert_eq!(init(1).operate(Init, 1 << 20), None);
    }

    #[test]
    fn a_phase_waits_for_its_bytes() {
        let mut barrier = init(1);
        barrier.operate(CompleteTx, 100).unwrap();
        barrier.operate(ArriveExpectTx, 356).unwrap();
        assert_eq!(barrier.operate(TestParity, 0), Some(0));
        barrier.operate(CompleteTx, 256).unwrap();
        assert_eq!(barrier.operate(TestParity, 0), Some(1));
        assert_eq!(
            barrier,
            Barrier {
                pending: 1,
                expected: 1,
                bytes: 0,
                parity: 1
            }
        );
    }

    #[test]
    fn who_drops_out_is_not_expected_again() {
        let mut barrier = init(2);
        barrier.operate(ArriveDrop, 1).unwrap();
        barrier.operate(Arrive, 1).unwrap();
        assert_eq!((barrier.pending, barrier.expected), (1, 1));
    }

    #[test]
    fn a_word_holds_all_of_it() {
        for bytes in [-(1 << 20), -1, 0, 1, 1 << 20] {
            let barrier = Barrier {
                pending: COUNT,
                expected: 1,
                bytes,
                parity: 1,
            };
            assert_eq!(Barrier::from_word(barrier.word()), barrier);
        }
    }
}
