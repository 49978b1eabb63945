//! Copies of many bytes, and of boxes of tensors.

use std::ops::Range;

use super::cluster::OFFSET_BITS;
use super::mbarrier::{AddressSpace, BarrierOperation, mbarrier, place};
use super::reduction::{Number, Reduction, reduce};
use crate::abi::{Access, BlockContext, FaultKind};
use crate::access::{context, record};
use crate::tensor_map::{BYTES, Element, RANK, TensorMap};

/// Where the words of an encoded copy begin. The line is from bit 32 on.
pub(crate) struct Shifts {
    /// The spaces of the destination, of the source and of the barrier.
    pub to: u32,
    pub from: u32,
    pub barrier: u32,
    /// Whether the barrier counts the bytes.
    pub counted: u32,
    /// Whether a mask of the cluster's blocks is in the number of bytes, from bit 32 on.
    pub multicast: u32,
    /// A [`Reduction`], or 0, and its [`Number`].
    pub reduction: u32,
    pub number: u32,
}

pub(crate) const SHIFTS: Shifts = Shifts {
    to: 0,
    from: 4,
    barrier: 8,
    counted: 12,
    multicast: 13,
    reduction: 16,
    number: 24,
};

/// The same of a copy of a box.
pub(crate) struct TensorShifts {
    /// The space of the address in shared memory.
    pub space: u32,
    /// Whether it goes to global memory.
    pub stores: u32,
    /// Whether a mask of the cluster's blocks is behind the coordinates.
    pub multicast: u32,
    /// Whether the coordinates are a column and four rows.
    pub rows: u32,
    /// Whether pixels are copied in columns; offsets of a filter are behind the mask.
    pub columns: u32,
    /// The number of dimensions less 1.
    pub rank: u32,
    pub reduction: u32,
}

impl TensorShifts {
    pub const ALL: TensorShifts = TensorShifts {
        space: 0,
        stores: 8,
        multicast: 9,
        rows: 10,
        columns: 11,
        rank: 12,
        reduction: 16,
    };
}

/// The most elements of a box along a dimension, and the largest element stride.
const MOST_ELEMENTS: u32 = 256;
const MOST_STRIDE: u32 = 8;

/// The most pixels of a column.
const MOST_PIXELS: u32 = 1024;
/// Where the offsets of a filter are behind the fifth coordinate, which have 16 bits together.
pub(crate) const OFFSETS: u32 = 48;

/// The bits of each offset, of so many dimensions of an image.
pub(crate) fn offset_bits(spatial: usize) -> u32 {
    16 / spatial.max(1) as u32
}

/// Bytes that addresses and sizes are multiples of.
const PIECE: u64 = 16;

/// An address and its state space.
type Place = (AddressSpace, u64);

/// The thread that copies, and the line of its instruction.
#[derive(Clone, Copy)]
struct Copier {
    context: *mut BlockContext,
    thread: u32,
    line: u32,
}

impl Copier {
    /// The host address of `size` bytes; `None` after recording a fault.
    fn host(self, at: Place, size: u32, access: u32) -> Option<*mut u8> {
        let Copier {
            context,
            thread,
            line,
        } = self;
        // SAFETY: see `device`: the context is that of the calling code.
        unsafe { place(context, thread, line, at, size | access) }
    }

    /// Records an operand that no copy has.
    fn refuse<T>(self, address: u64) -> Option<T> {
        // SAFETY: see `device`.
        let context = unsafe { context(self.context) };
        let kind = FaultKind::IllegalInstruction;
        record(context, kind, self.thread, address, 0, self.line);
        None
    }

    fn read(self, from: Place, bytes: &mut [u8]) -> Option<()> {
        for_pieces(from, bytes.len(), |at, range| {
            let host = self.host(at, range.len() as u32, 0)?;
            // SAFETY: `host` has checked these bytes.
            unsafe { host.copy_to_nonoverlapping(bytes[range.clone()].as_mut_ptr(), range.len()) };
            Some(())
        })
    }

    fn write(self, to: Place, bytes: &[u8]) -> Option<()> {
        for_pieces(to, bytes.len(), |at, range| {
            let host = self.host(at, range.len() as u32, Access::WRITE)?;
            // SAFETY: `host` has checked these bytes.
            unsafe { host.copy_from_nonoverlapping(bytes[range.clone()].as_ptr(), range.len()) };
            Some(())
        })
    }

    /// Combines elements with those in memory.
    fn reduce(self, to: Place, bytes: &[u8], reduction: Reduction, number: Number) -> Option<()> {
        let size = number.bytes();
        for (at, element) in (0..).step_by(size).zip(bytes.chunks_exact(size)) {
            let place = (to.0, to.1.wrapping_add(at));
            let access = Access::WRITE | Access::ATOMIC;
            let host = self.host(place, size as u32, access)?;
            let mut value = [0; 8];
            value[..size].copy_from_slice(element);
            let value = u64::from_le_bytes(value);
            // SAFETY: `host` has checked it and its alignment.
            if unsafe { reduce(reduction, number, host, value) }.is_none() {
                return self.refuse(place.1);
            }
        }
        Some(())
    }

    /// Counts bytes that have come at a barrier.
    fn count(self, (space, barrier): Place, bytes: u64) -> Option<()> {
        let encoded =
            BarrierOperation::CompleteTx as u64 | (space as u64) << 8 | u64::from(self.line) << 32;
        // SAFETY: see `device`.
        unsafe { mbarrier(self.context, self.thread, encoded, barrier, bytes) };
        // SAFETY: see `device`.
        (unsafe { context(self.context) }.fault.kind == 0).then_some(())
    }
}

/// Calls `each` with pieces of at most 16 bytes that are aligned to their size, a power of 2.
fn for_pieces(
    (space, start): Place,
    length: usize,
    mut each: impl FnMut(Place, Range<usize>) -> Option<()>,
) -> Option<()> {
    let mut done = 0;
    while done < length {
        let at = start.wrapping_add(done as u64);
        let aligned = 1 << at.trailing_zeros().min(PIECE.trailing_zeros());
        let rest = length - done;
        let mut size: usize = aligned;
        while size > rest {
            size /= 2;
        }
        each((space, at), done..done + size)?;
        done += size;
    }
    Some(())
}

/// The same place in the memory of each block of a mask.
fn in_blocks(address: u64, mask: u64) -> impl Iterator<Item = Place> {
    let offset = address & ((1 << OFFSET_BITS) - 1);
    let blocks = (0..16_u64).filter(move |rank| mask >> rank & 1 != 0);
    blocks.map(move |rank| (AddressSpace::Cluster, (rank + 1) << OFFSET_BITS | offset))
}

/// `encoded` has the words of [`SHIFTS`].
pub(super) unsafe extern "C" fn copy_bulk(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to: u64,
    from: u64,
    bytes: u64,
    barrier: u64,
) -> u32 {
    let copier = Copier {
        context,
        thread,
        line: (encoded >> 32) as u32,
    };
    let (mask, bytes) = (bytes >> 32, bytes & u64::from(u32::MAX));
    let copied = bulk(copier, encoded as u32, to, from, (bytes, mask), barrier);
    u32::from(copied.is_none())
}

fn bulk(
    copier: Copier,
    encoded: u32,
    to: u64,
    from: u64,
    (bytes, mask): (u64, u64),
    barrier: u64,
) -> Option<()> {
    let space = |shift: u32| AddressSpace::from_number(encoded >> shift & 0xF);
    let is_set = |shift: u32| encoded >> shift & 1 != 0;
    if !bytes.is_multiple_of(PIECE) {
        return copier.refuse(to);
    }
    let reduction = Reduction::from_number((encoded >> SHIFTS.reduction) as u8 & 0xF);
    let number = Number::from_number((encoded >> SHIFTS.number) as u8 & 0xF)?;
    let multicast = is_set(SHIFTS.multicast);
    let places = |at: Place| -> Vec<Place> {
        match multicast {
            true => in_blocks(at.1, mask).collect(),
            false => vec![at],
        }
    };
    let targets = places((space(SHIFTS.to), to));
    for at in (0..bytes).step_by(PIECE as usize) {
        let mut piece = [0; PIECE as usize];
        let source = (space(SHIFTS.from), from.wrapping_add(at));
        // Pieces are aligned.
        let host = copier.host(source, PIECE as u32, 0)?;
        // SAFETY: `host` has checked these bytes.
        unsafe { host.copy_to_nonoverlapping(piece.as_mut_ptr(), piece.len()) };
        for &(space, start) in &targets {
            let target = (space, start.wrapping_add(at));
            match reduction {
                Some(reduction) => copier.reduce(target, &piece, reduction, number)?,
                None => {
                    let host = copier.host(target, PIECE as u32, Access::WRITE)?;
                    // SAFETY: as above.
                    unsafe { host.copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
                }
            }
        }
    }
    if is_set(SHIFTS.counted) {
        for barrier in places((space(SHIFTS.barrier), barrier)) {
            copier.count(barrier, bytes)?;
        }
    }
    Some(())
}

/// `encoded` has the words of [`TensorShifts`]. The coordinates are in pairs, those of the
/// lower dimension first, and behind the fifth is a mask of blocks.
#[allow(
    clippy::too_many_arguments,
    reason = "compiled code passes them in registers"
)]
pub(super) unsafe extern "C" fn copy_tensor(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    shared: u64,
    map: u64,
    low: u64,
    middle: u64,
    high: u64,
    barrier: u64,
) -> u32 {
    let copier = Copier {
        context,
        thread,
        line: (encoded >> 32) as u32,
    };
    let coordinates = [low, low >> 32, middle, middle >> 32, high];
    let coordinates = coordinates.map(|value| i64::from((value as u32).cast_signed()));
    let encoded = encoded as u32;
    let copied = read_map(copier, map).and_then(|tensor| {
        let copy = BoxCopy {
            copier,
            encoded,
            tensor,
            element: tensor.element()?,
            coordinates,
        };
        copy.run(shared, map, high, barrier)
    });
    if copied.is_none() {
        // SAFETY: see `device`.
        if unsafe { self::context(context) }.fault.kind == 0 {
            copier.refuse::<()>(map);
        }
        return 1;
    }
    0
}

fn read_map(copier: Copier, address: u64) -> Option<TensorMap> {
    let mut bytes = [0; BYTES];
    copier.read((AddressSpace::Generic, address), &mut bytes)?;
    let mut words = [0; BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(TensorMap::from_words(words))
}

/// A copy of a box.
struct BoxCopy {
    copier: Copier,
    encoded: u32,
    tensor: TensorMap,
    element: Element,
    /// Of the box's first element, or a column and four rows.
    coordinates: [i64; RANK],
}

impl BoxCopy {
    fn is_set(&self, shift: u32) -> bool {
        self.encoded >> shift & 1 != 0
    }

    /// `high`: behind the fifth coordinate, a mask of blocks and the offsets of a filter.
    fn run(&self, shared: u64, map: u64, high: u64, barrier: u64) -> Option<()> {
        let mask = high >> 32;
        let shifts = TensorShifts::ALL;
        let BoxCopy {
            copier,
            encoded,
            tensor,
            element,
            ..
        } = *self;
        let rank = encoded >> shifts.rank & 7;
        let rank = rank as usize;
        let by_rows = self.is_set(shifts.rows);
        let size = u64::from(element.bytes());
        let row = u64::from(tensor.count(0)) * size;
        let columns = self.is_set(shifts.columns);
        let in_limits = |n: usize| {
            let most = match n {
                1 if columns => MOST_PIXELS,
                // The corners of images.
                2.. if columns => u32::MAX,
                _ => MOST_ELEMENTS,
            };
            (u32::from(!columns || n < 2)..=most).contains(&tensor.boxes[n])
                && tensor.element_strides[n] <= MOST_STRIDE
        };
        if usize::from(tensor.rank) != rank
            || rank >= RANK
            || !tensor.is_for(columns)
            || columns && rank < 2
            || !(0..=rank).all(in_limits)
            || !row.is_multiple_of(PIECE)
            // These two as on an H100.
            || self.coordinates[0] * size as i64 % PIECE as i64 != 0
            || self.is_set(shifts.stores)
                && !columns
                && self.coordinates[..=rank].iter().any(|&at| at < 0)
            || tensor.interleave != 0
            || tensor.swizzle > 3
        {
            return copier.refuse(map);
        }
        let space = AddressSpace::from_number(encoded >> shifts.space & 0xFF);
        let places = |at: Place| -> Vec<Place> {
            match self.is_set(shifts.multicast) {
                true => in_blocks(at.1, mask).collect(),
                false => vec![at],
            }
        };
        let boxes = places((space, shared));
        let reduction = Reduction::from_number((encoded >> shifts.reduction) as u8 & 0xF);
        let rows = match by_rows {
            true => 4,
            false if columns => tensor.boxes[1].into(),
            false => {
                (1..=rank).try_fold(1_u64, |rows, n| rows.checked_mul(tensor.count(n).into()))?
            }
        };
        let mut base = self.coordinates;
        let mut bytes = vec![0; row as usize];
        for number in 0..rows {
            let coordinates = match columns {
                true => self.pixel(rank, &mut base, high >> OFFSETS),
                false => self.row(rank, by_rows, number),
            };
            let at = number * row;
            if self.is_set(shifts.stores) {
                for unit in (0..row).step_by(PIECE as usize) {
                    let from = (space, self.swizzled(shared.wrapping_add(at + unit)));
                    copier.read(from, &mut bytes[unit as usize..][..PIECE as usize])?;
                }
                self.store(&coordinates, &bytes, reduction)?;
                continue;
            }
            self.load(&coordinates, &mut bytes)?;
            for &(space, start) in &boxes {
                for unit in (0..row).step_by(PIECE as usize) {
                    let to = (space, self.swizzled(start.wrapping_add(at + unit)));
                    copier.write(to, &bytes[unit as usize..][..PIECE as usize])?;
                }
            }
        }
        if !self.is_set(shifts.stores) {
            for barrier in places((space, barrier)) {
                copier.count(barrier, rows * row)?;
            }
        }
        Some(())
    }

    /// The coordinates of the first element of a row of the box.
    fn row(&self, rank: usize, by_rows: bool, number: u64) -> [i64; RANK] {
        let mut coordinates = self.coordinates;
        if by_rows {
            coordinates[1] = self.coordinates[1 + number as usize % 4];
            return coordinates;
        }
        let mut rest = number;
        for (n, at) in coordinates.iter_mut().enumerate().take(rank + 1).skip(1) {
            let count = u64::from(self.tensor.count(n)).max(1);
            let stride = u64::from(self.tensor.element_strides[n].max(1));
            *at += (rest % count * stride).cast_signed();
            rest /= count;
        }
        coordinates
    }

    /// The coordinates of a pixel, that of a filter's base and its offsets. The base goes on to the
    /// next: along the width, then the height and the depth, then to the next image.
    fn pixel(&self, rank: usize, base: &mut [i64; RANK], offsets: u64) -> [i64; RANK] {
        let mut coordinates = *base;
        let bits = offset_bits(rank - 1);
        for (n, at) in (0_u32..).zip(coordinates.iter_mut().take(rank).skip(1)) {
            let offset = offsets >> (bits * n) & ((1 << bits) - 1);
            *at += offset.cast_signed();
        }
        for (n, at) in base.iter_mut().enumerate().take(rank + 1).skip(1) {
            *at += i64::from(self.tensor.element_strides[n].max(1));
            let (first, last) = self.tensor.corners(n);
            if n == rank || *at <= last {
                break;
            }
            *at = first;
        }
        coordinates
    }

    /// What a unit of 16 bytes in shared memory is exchanged with.
    fn swizzled(&self, address: u64) -> u64 {
        let pattern = (1 << self.tensor.swizzle) - 1;
        address ^ (address >> 7 & pattern) << 4
    }

    /// The elements of a row that lie in the tensor: their numbers in the box, and the address
    /// of the first. `None`: no element does.
    fn inside(&self, coordinates: &[i64; RANK]) -> Option<(Range<usize>, u64)> {
        let TensorMap {
            rank,
            dims,
            strides,
            address,
            ..
        } = self.tensor;
        let mut start = address;
        let lines = coordinates[1..].iter().zip(&dims[1..]).zip(&strides);
        for ((at, dim), stride) in lines.take(rank.into()) {
            let at = u64::try_from(*at).ok().filter(|at| at < dim)?;
            start = start.wrapping_add(at.wrapping_mul(*stride));
        }
        let first = coordinates[0];
        let count = i64::from(self.tensor.count(0));
        let end = i64::try_from(dims[0]).unwrap_or(i64::MAX);
        let (from, to) = ((-first).max(0), end.saturating_sub(first).min(count));
        let offset = (first + from).wrapping_mul(self.element.bytes().into());
        (from < to).then(|| {
            (
                from as usize..to as usize,
                start.wrapping_add_signed(offset),
            )
        })
    }

    fn load(&self, coordinates: &[i64; RANK], row: &mut [u8]) -> Option<()> {
        let size = self.element.bytes() as usize;
        let fill = match self.tensor.fill {
            0 => 0,
            _ => self.element.nan(),
        };
        for element in row.chunks_exact_mut(size) {
            element.copy_from_slice(&fill.to_le_bytes()[..size]);
        }
        let Some((numbers, address)) = self.inside(coordinates) else {
            return Some(());
        };
        let part = &mut row[numbers.start * size..numbers.end * size];
        self.copier.read((AddressSpace::Generic, address), part)
    }

    fn store(
        &self,
        coordinates: &[i64; RANK],
        row: &[u8],
        reduction: Option<Reduction>,
    ) -> Option<()> {
        let size = self.element.bytes() as usize;
        let Some((numbers, address)) = self.inside(coordinates) else {
            return Some(());
        };
        let part = &row[numbers.start * size..numbers.end * size];
        let to = (AddressSpace::Generic, address);
        match reduction {
            None => self.copier.write(to, part),
            Some(reduction) => {
                let number = number(self.element)?;
                self.copier.reduce(to, part, reduction, number)
            }
        }
    }
}

/// The type of a reduction of such elements, if there is one.
fn number(element: Element) -> Option<Number> {
    Some(match element {
        Element::U32 => Number::U32,
        Element::S32 => Number::S32,
        Element::U64 => Number::U64,
        Element::S64 => Number::S64,
        Element::F16 => Number::F16,
        Element::Bf16 => Number::Bf16,
        Element::F32 | Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz => Number::F32,
        Element::F64 => Number::F64,
        Element::U8 | Element::U16 => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_cover_all() {
        for start in 0..40 {
            for length in 0..70 {
                let mut next = 0;
                for_pieces((AddressSpace::Generic, start), length, |(_, at), range| {
                    let size = range.len() as u64;
                    assert!(size.is_power_of_two() && size <= 16 && at.is_multiple_of(size));
                    assert_eq!((range.start, at), (next, start + next as u64));
                    next = range.end;
                    Some(())
                })
                .unwrap();
                assert_eq!(next, length);
            }
        }
    }

    #[test]
    fn blocks_of_a_mask_have_the_same_offset() {
        let places: Vec<Place> = in_blocks(5 << OFFSET_BITS | 0x40, 0b1010).collect();
        let place = |rank: u64| (AddressSpace::Cluster, (rank + 1) << OFFSET_BITS | 0x40);
        assert_eq!(places, [place(1), place(3)]);
    }
}
