//! Copies of boxes of tensors, and of columns of their pixels.

use std::ops::Range;

use super::bulk_copy::{Copier, PIECE, Place, in_blocks};
use super::mbarrier::AddressSpace;
use super::reduction::{Number, Reduction};
use crate::abi::BlockContext;
use crate::access::context;
use crate::tensor_map::{Along, BYTES, CopyFault, Element, PIXELS_OF_128, RANK, TensorMap};

/// Where the words of an encoded copy begin. The line is from bit 32 on.
pub(crate) struct TensorShifts {
    /// The space of the address in shared memory.
    pub space: u32,
    /// Whether it goes to global memory.
    pub stores: u32,
    /// Whether a mask of the cluster's blocks is behind the coordinates.
    pub multicast: u32,
    /// Whether the coordinates are a column and four rows.
    pub rows: u32,
    /// The number of dimensions less 1.
    pub rank: u32,
    pub reduction: u32,
    /// Where pixels are that are copied in columns ([`Along`]), or 0. The offsets of a filter are
    /// behind the mask, or a halo and one offset.
    pub along: u32,
}

impl TensorShifts {
    pub const ALL: TensorShifts = TensorShifts {
        space: 0,
        stores: 8,
        multicast: 9,
        rows: 10,
        rank: 12,
        reduction: 16,
        along: 20,
    };
}

/// The most elements of a box along a dimension, and the largest element stride.
const MOST_ELEMENTS: u32 = 256;
const MOST_STRIDE: u32 = 8;

/// The most pixels of a column.
const MOST_PIXELS: u32 = 1024;
/// Where the offsets of a filter are behind the fifth coordinate, which have 16 bits together.
pub(crate) const OFFSETS: u32 = 48;

/// Where the offset is behind the halo of a column along the width.
pub(crate) const OFFSET_BEHIND_HALO: u32 = 58;
/// One more than the largest halo of each width, and than the largest offset.
pub(crate) const HALOS: u32 = 512;
pub(crate) const HALOS_OF_128: u32 = 32;
pub(crate) const OFFSETS_BEHIND_HALO: u32 = 32;

/// The bits of each offset, of so many dimensions of an image.
pub(crate) fn offset_bits(spatial: usize) -> u32 {
    16 / spatial.max(1) as u32
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
        if unsafe { self::context(&context) }.fault.kind == 0 {
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
        let along = Along::from_number((encoded >> shifts.along) as u8 & 3);
        let columns = along.is_some();
        let is_wide = columns && along != Some(Along::Image);
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
            || !tensor.is_for(along)
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
            if self.is_set(shifts.multicast) {
                in_blocks(at.1, mask).collect()
            } else {
                vec![at]
            }
        };
        let boxes = places((space, shared));
        if boxes.is_empty() {
            return Some(());
        }
        let reduction = Reduction::from_number((encoded >> shifts.reduction) as u8 & 0xF);
        let rows = match by_rows {
            true => 4,
            false if along == Some(Along::Width128) => PIXELS_OF_128.into(),
            false if columns => tensor.boxes[1].into(),
            false => {
                (1..=rank).try_fold(1_u64, |rows, n| rows.checked_mul(tensor.count(n).into()))?
            }
        };
        let mut pixels = along.map(|along| self.pixels(along, rank, high));
        let halo = match &pixels {
            Some(pixels) => self.halo(pixels, map, high)?,
            None => 0,
        };
        let mut bytes = vec![0; row as usize];
        for number in 0..rows + halo {
            let coordinates = match &mut pixels {
                Some(pixels) if number >= rows && pixels.is_first => {
                    return copier.refuse_copy(CopyFault::HaloBeyond);
                }
                Some(pixels) => pixels.next(),
                None => self.row(rank, by_rows, number),
            };
            let at = number * row;
            if self.is_set(shifts.stores) {
                // Of a column along the width nothing behind the tensor is looked at.
                if is_wide && self.inside(&coordinates).is_none() {
                    break;
                }
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
                copier.count(barrier, (rows + halo) * row)?;
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

    /// The pixels of a column. `high`: see [`BoxCopy::run`].
    fn pixels(&self, along: Along, rank: usize, high: u64) -> Pixels {
        let mut offsets = [0; RANK];
        if along == Along::Image {
            let (all, bits) = (high >> OFFSETS, offset_bits(rank - 1));
            for (n, offset) in (0_u32..).zip(offsets.iter_mut().take(rank).skip(1)) {
                *offset = (all >> (bits * n) & ((1 << bits) - 1)).cast_signed();
            }
        } else {
            // It moves the corners with the pixels, so that they need not move.
            offsets[1] = (high >> OFFSET_BEHIND_HALO).cast_signed();
        }
        Pixels {
            along,
            rank,
            tensor: self.tensor,
            offsets,
            base: self.coordinates,
            is_first: false,
        }
    }

    /// The pixels of a halo behind a column; `None` after a fault, as the column does not exist.
    fn halo(&self, pixels: &Pixels, map: u64, high: u64) -> Option<u64> {
        let copier = self.copier;
        let Pixels { along, rank, .. } = *pixels;
        let halo = high >> OFFSETS & ((1 << (OFFSET_BEHIND_HALO - OFFSETS)) - 1);
        let most = match along {
            Along::Image => return Some(0),
            Along::Width => HALOS,
            Along::Width128 => HALOS_OF_128,
        };
        let (first, last) = self.tensor.corners(1);
        let width = i64::try_from(self.tensor.dims[1]).unwrap_or(i64::MAX);
        let stores = self.is_set(TensorShifts::ALL.stores);
        if halo >= most.into()
            || pixels.offsets[1] >= OFFSETS_BEHIND_HALO.into()
            // A column begins in a row or before it.
            || self.coordinates[1] > last
            // What is stored lies in the tensor.
            || stores && (first < 0 || last >= width)
            || stores && self.coordinates[..=rank].iter().any(|&at| at < 0)
            || self.tensor.swizzle == 0
        {
            return copier.refuse(map);
        }
        if along == Along::Width128 && halo > 0 {
            return copier.refuse_copy(CopyFault::HaloOf128(halo as u32));
        }
        Some(halo)
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

/// The pixels of a column in turn.
struct Pixels {
    along: Along,
    /// The dimension of the images, the last.
    rank: usize,
    tensor: TensorMap,
    offsets: [i64; RANK],
    /// The base of a filter, without its offsets.
    base: [i64; RANK],
    /// The pixel before was the last of its row.
    is_first: bool,
}

impl Pixels {
    /// The coordinates of the pixel, those of the base and its offsets. The base goes on to the
    /// next: along the width, then the height and the depth, then to the next image; or along
    /// the width alone, then to the same row of the next image.
    fn next(&mut self) -> [i64; RANK] {
        let coordinates = std::array::from_fn(|n| self.base[n] + self.offsets[n]);
        self.is_first = false;
        for n in 1..=self.rank {
            if self.along != Along::Image && (2..self.rank).contains(&n) {
                continue;
            }
            let step = match self.along {
                Along::Width | Along::Width128 if n > 1 => 1,
                _ => self.tensor.element_strides[n].max(1),
            };
            self.base[n] += i64::from(step);
            let (first, last) = self.tensor.corners(n);
            if n == self.rank || self.base[n] <= last {
                break;
            }
            self.base[n] = first;
            self.is_first = true;
        }
        coordinates
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
