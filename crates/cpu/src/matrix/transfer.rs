//! Matrices between memory and registers: `ldmatrix`, `stmatrix`, `wmma.load` and
//! `wmma.store`; and `movmatrix`.

use super::element::Element;
use super::fragment::{self, Place};
use super::operation::{Code, Operation};
use super::registers::Registers;
use super::transpose::transposed;
use crate::abi::{self, BlockContext, Request, WARP_SIZE};
use crate::access::host_address;

/// The memory that an operation accesses. Its operands are in the requests of its threads:
/// the address, and for `wmma` the elements from a row or column to the next.
pub(super) struct Access {
    pub context: *mut BlockContext,
    /// The first thread of the warp.
    pub first: u32,
    /// The lanes that take part.
    pub lanes: u32,
    pub line: u32,
    pub shared: bool,
}

impl Access {
    /// # Safety
    /// The context is that of a block with this lane.
    unsafe fn request(&self, lane: u32) -> Request {
        // SAFETY: the caller's contract.
        unsafe { *(*self.context).requests.add((self.first + lane) as usize) }
    }

    /// The host address of `size` bytes that a lane accesses; `None` after recording a
    /// fault.
    ///
    /// # Safety
    /// The context is that of a block with this lane.
    unsafe fn host(&self, lane: u32, address: u64, size: u32, store: bool) -> Option<*mut u8> {
        let access = size
            | if store { abi::Access::WRITE } else { 0 }
            | if self.shared { abi::Access::SHARED } else { 0 };
        // SAFETY: the caller's contract.
        unsafe { host_address(self.context, self.first + lane, address, access, self.line) }
    }
}

/// Executes a transfer; `None` after recording a fault.
///
/// # Safety
/// See [`Operation::execute`].
pub(super) unsafe fn transfer(
    operation: &Operation,
    registers: &mut Registers<'_>,
    access: &Access,
) -> Option<()> {
    // SAFETY: the caller's contract.
    unsafe {
        match operation.code {
            Code::LoadMatrix => load_matrices(operation, registers, access),
            Code::StoreMatrix => store_matrices(operation, registers, access),
            _ => move_fragment(operation, registers, access),
        }
    }
}

/// Bytes of a row of a matrix of `ldmatrix`.
const ROW: u32 = 16;

/// The host address of each row of matrix `number`, which a lane has: `None` for the row of
/// a lane that does not take part.
///
/// # Safety
/// See [`Operation::execute`].
unsafe fn rows(access: &Access, number: u32, store: bool) -> Option<[Option<*mut u8>; 8]> {
    let mut rows = [None; 8];
    for (row, lane) in rows.iter_mut().zip(8 * number..) {
        if access.lanes >> lane & 1 != 0 {
            // SAFETY: the caller's contract.
            let address = unsafe { access.request(lane) }.operands[0];
            // SAFETY: the same.
            *row = Some(unsafe { access.host(lane, address, ROW, store) }?);
        }
    }
    Some(rows)
}

/// The shared memory, if all rows are in it and all their lanes take part: one check instead of
/// one for each row.
///
/// # Safety
/// See [`Operation::execute`].
#[inline]
unsafe fn shared_rows(access: &Access, rows: u32) -> Option<*const u8> {
    // SAFETY: the caller's contract.
    let block = unsafe { &*access.context };
    let lanes = u32::MAX >> (WARP_SIZE - rows.clamp(1, WARP_SIZE));
    if !access.shared || access.lanes & lanes != lanes {
        return None;
    }
    let (mut last, mut bits) = (0, 0);
    for lane in 0..rows {
        // SAFETY: the caller's contract.
        let offset = unsafe { access.request(lane).operands[0] };
        last = last.max(offset);
        bits |= offset;
    }
    let end = last.checked_add(ROW.into())?;
    let is_aligned = bits.is_multiple_of(ROW.into());
    (is_aligned && end <= block.shared_size).then_some(block.shared as *const u8)
}

unsafe fn load_matrices(
    operation: &Operation,
    registers: &mut Registers<'_>,
    access: &Access,
) -> Option<()> {
    let transposes = operation.has(Operation::TRANSPOSED);
    let matrices = operation.shape[2].min(4);
    // SAFETY: the caller's contract.
    if let Some(shared) = unsafe { shared_rows(access, 8 * matrices) } {
        for number in 0..matrices {
            let Some(register) = registers.words_mut(number as usize) else {
                continue;
            };
            for (row, words) in (0..).zip(register.as_chunks_mut::<4>().0) {
                // SAFETY: `shared_rows` has checked the 16 bytes and their alignment.
                *words = unsafe {
                    let offset = access.request(8 * number + row).operands[0];
                    shared.add(offset as usize).cast::<[u32; 4]>().read()
                };
            }
            if transposes {
                *register = transposed(register);
            }
        }
        return Some(());
    }
    for number in 0..matrices {
        let mut words = [0; 32];
        // SAFETY: the caller's contract.
        let rows = unsafe { rows(access, number, false) }?;
        for (row, words) in rows.into_iter().zip(words.as_chunks_mut::<4>().0) {
            if let Some(row) = row {
                // SAFETY: `rows` has checked the 16 bytes and their alignment.
                *words = unsafe { row.cast::<[u32; 4]>().read() };
            }
        }
        if transposes {
            words = transposed(&words);
        }
        registers.set_words(number as usize, &words);
    }
    Some(())
}

unsafe fn store_matrices(
    operation: &Operation,
    registers: &mut Registers<'_>,
    access: &Access,
) -> Option<()> {
    for number in 0..operation.shape[2] {
        let mut words = *registers.words(number as usize);
        if operation.has(Operation::TRANSPOSED) {
            words = transposed(&words);
        }
        // SAFETY: the caller's contract.
        let rows = unsafe { rows(access, number, true) }?;
        for (row, words) in rows.into_iter().zip(words.as_chunks::<4>().0) {
            if let Some(row) = row {
                // SAFETY: `rows` has checked the 16 bytes and their alignment.
                unsafe { row.cast::<[u32; 4]>().write(*words) };
            }
        }
    }
    Some(())
}

/// `movmatrix`
pub(super) fn transpose(registers: &mut Registers<'_>) {
    let words = transposed(registers.words(1));
    registers.set_words(0, &words);
}

/// `wmma.load` and `wmma.store`: each lane accesses the elements of its registers.
unsafe fn move_fragment(
    operation: &Operation,
    registers: &mut Registers<'_>,
    access: &Access,
) -> Option<()> {
    let element = operation.elements[0];
    let store = operation.code == Code::StoreD;
    let columns = operation.has(Operation::A_COLUMNS);
    // Elements of less than a byte are moved together.
    let bytes = (element.bits() / 8).clamp(1, 8);
    let elements = match element.bits() {
        64 => 1,
        bits => 32 / bits.max(8),
    };
    for register in 0..registers.len() {
        let mut values = match element {
            Element::F64 => registers.doubles(register),
            _ => registers.words(register).map(u64::from),
        };
        for lane in 0..WARP_SIZE {
            if access.lanes >> lane & 1 == 0 {
                continue;
            }
            // SAFETY: the caller's contract.
            let [base, stride, ..] = unsafe { access.request(lane) }.operands;
            let Place {
                row,
                column,
                along_row,
            } = fragment::place(operation, register as u32, lane);
            let mut value = if store { values[lane as usize] } else { 0 };
            for n in 0..elements {
                let (row, column) = if along_row {
                    // The elements of a byte are side by side.
                    (row, column + n * (8 / element.bits()).max(1))
                } else {
                    (row + n * (8 / element.bits()).max(1), column)
                };
                let (line, at) = if columns {
                    (column, row)
                } else {
                    (row, column)
                };
                let at = stride
                    .wrapping_mul(line.into())
                    .wrapping_add(at.into())
                    .wrapping_mul(element.bits().into())
                    / 8;
                let address = base.wrapping_add(at);
                // SAFETY: the caller's contract.
                let place = unsafe { access.host(lane, address, bytes, store) }?;
                let shift = 8 * bytes * n;
                for byte in 0..bytes as usize {
                    let shift = shift + 8 * byte as u32;
                    // SAFETY: `host` has checked these bytes.
                    unsafe {
                        if store {
                            place.add(byte).write((value >> shift) as u8)
                        } else {
                            value |= u64::from(place.add(byte).read()) << shift
                        }
                    }
                }
            }
            values[lane as usize] = value;
        }
        if store {
            continue;
        }
        match element {
            Element::F64 => registers.set_doubles(register, &values),
            _ => registers.set_words(register, &values.map(|value| value as u32)),
        }
    }
    Some(())
}
