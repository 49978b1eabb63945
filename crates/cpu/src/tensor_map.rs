//! Tensor maps: what copies of boxes know of a tensor in global memory.
//!
//! The 128 bytes are opaque to programs. On this device they are those of [`TensorMap`]. All
//! zeros are a map, which `tensormap.replace` fills field by field.

use std::mem::offset_of;

/// Bytes of a map.
pub(crate) const BYTES: usize = 128;
/// The most dimensions.
pub(crate) const RANK: usize = 5;

/// A tensor map. Dimension 0 is the one whose elements are contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorMap {
    /// The generic address of the first element.
    pub address: u64,
    /// Bytes from an element to the next along dimensions 1 to 4.
    pub strides: [u64; RANK - 1],
    /// Elements of the tensor.
    pub dims: [u64; RANK],
    /// Elements of a box. Those between are counted that an element stride leaves out. Of columns
    /// the channels of a pixel, the pixels, and for each dimension of an image a corner.
    pub boxes: [u32; RANK],
    /// Every how many elements one is copied; that of dimension 0 does not count.
    pub element_strides: [u32; RANK],
    /// The number of dimensions less 1.
    pub rank: u8,
    /// As `tensormap.replace` numbers them.
    pub element: u8,
    pub interleave: u8,
    pub swizzle: u8,
    /// 1: what lies outside of the tensor is NaN, not 0.
    pub fill: u8,
    /// What is copied: 0 for boxes, else columns of pixels ([`Along`]).
    pub mode: u8,
    pub unused: [u8; 2],
}

const _: () = assert!(size_of::<TensorMap>() == BYTES);

/// Where the pixels of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    /// In all dimensions of an image: `.im2col`.
    Image = 1,
    /// In a row of it: `.im2col::w`.
    Width,
    /// The same, 128 of them: `.im2col::w::128`.
    Width128,
}

impl Along {
    /// 0 is none.
    pub fn from_number(number: u8) -> Option<Along> {
        [Along::Image, Along::Width, Along::Width128]
            .into_iter()
            .find(|&along| along as u8 == number)
    }
}

/// The pixels of a column of [`Along::Width128`].
pub(crate) const PIXELS_OF_128: u32 = 128;

/// A copy that this device does not have, as its documentation leaves open what it copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFault {
    /// So many pixels of a halo after each 32 of 128.
    HaloOf128(u32),
    /// A halo that goes past the last pixel of its row.
    HaloBeyond,
}

impl CopyFault {
    /// For a [`FaultRecord`](crate::abi::FaultRecord).
    pub fn number(self) -> u64 {
        match self {
            CopyFault::HaloBeyond => 0,
            CopyFault::HaloOf128(pixels) => pixels.into(),
        }
    }

    /// What the fault with this number is.
    pub fn describe(number: u64) -> String {
        match number {
            0 => "the halo of `.im2col::w` goes past the last pixel of its row: which pixels \
                  it has from there on is not documented"
                .to_owned(),
            pixels => format!(
                "`.im2col::w::128` with a halo of {pixels} after each 32 pixels: its place in \
                 shared memory is not documented, only copies without (wHalo = 0) are possible"
            ),
        }
    }
}

/// What columns copy of an image (im2col), whose dimensions are channels, width, height and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub along: Along,
    /// The first and the last pixel of a filter's base, from the first and the last of the image.
    pub corners: [(i32, i32); 3],
    pub channels: u32,
    pub pixels: u32,
}

/// The first bit of the upper corner behind the lower one, in the widest of a map.
const UPPER: u32 = 16;

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub(crate) enum Element {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F32Ftz,
    F64,
    Bf16,
    Tf32,
    Tf32Ftz,
}

/// In the order of `tensormap.replace`, with bytes and the number of the driver API.
const ELEMENTS: [(Element, u32, u32); 13] = [
    (Element::U8, 1, 0),
    (Element::U16, 2, 1),
    (Element::U32, 4, 2),
    (Element::S32, 4, 3),
    (Element::U64, 8, 4),
    (Element::S64, 8, 5),
    (Element::F16, 2, 6),
    (Element::F32, 4, 7),
    (Element::F32Ftz, 4, 10),
    (Element::F64, 8, 8),
    (Element::Bf16, 2, 9),
    (Element::Tf32, 4, 11),
    (Element::Tf32Ftz, 4, 12),
];

impl Element {
    pub fn bytes(self) -> u32 {
        ELEMENTS[self as usize].1
    }

    fn is_float(self) -> bool {
        use Element::*;
        matches!(self, F16 | F32 | F32Ftz | F64 | Bf16 | Tf32 | Tf32Ftz)
    }

    /// A NaN, and 0 for integers.
    pub fn nan(self) -> u64 {
        match self.bytes() {
            _ if !self.is_float() => 0,
            2 => 0x7FFF,
            4 => 0x7FFF_FFFF,
            _ => u64::MAX >> 1,
        }
    }
}

/// The fields that `tensormap.replace` writes: their offset, and their bytes.
pub(crate) fn field(name: &str, ordinal: usize) -> Option<(usize, usize)> {
    let indexed = |start: usize, size: usize, count: usize| {
        (ordinal < count).then_some((start + size * ordinal, size))
    };
    match name {
        "global_address" => Some((offset_of!(TensorMap, address), 8)),
        "rank" => Some((offset_of!(TensorMap, rank), 1)),
        "elemtype" => Some((offset_of!(TensorMap, element), 1)),
        "interleave_layout" => Some((offset_of!(TensorMap, interleave), 1)),
        "swizzle_mode" => Some((offset_of!(TensorMap, swizzle), 1)),
        "fill_mode" => Some((offset_of!(TensorMap, fill), 1)),
        "global_stride" => indexed(offset_of!(TensorMap, strides), 8, RANK - 1),
        "global_dim" => indexed(offset_of!(TensorMap, dims), 8, RANK),
        "box_dim" => indexed(offset_of!(TensorMap, boxes), 4, RANK),
        "element_stride" => indexed(offset_of!(TensorMap, element_strides), 4, RANK),
        _ => None,
    }
}

/// Why there is no such map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapError {
    Invalid(String),
    /// It exists, but this device does not have it.
    Unsupported(&'static str),
}

impl TensorMap {
    /// The map of a tensor whose elements have this number in the driver API.
    pub fn tiled(
        number: u32,
        map: TensorMap,
        rank: u32,
        l2_promotion: u32,
    ) -> Result<TensorMap, MapError> {
        let used = rank as usize;
        for (n, size) in map.boxes.iter().enumerate().take(used) {
            if !(1..=256).contains(size) {
                return Err(MapError::Invalid(format!(
                    "the box has {size} elements along {n}, not 1 to 256"
                )));
            }
        }
        map.checked(number, rank, l2_promotion)
    }

    /// The map of columns of a tensor, likewise.
    pub fn columns(
        number: u32,
        mut map: TensorMap,
        rank: u32,
        columns: Columns,
        l2_promotion: u32,
    ) -> Result<TensorMap, MapError> {
        let invalid = |what: String| Err(MapError::Invalid(what));
        if !(3..=RANK as u32).contains(&rank) {
            return invalid(format!(
                "a tensor of images has 3 to 5 dimensions, not {rank}"
            ));
        }
        let Columns {
            along,
            corners,
            channels,
            pixels,
        } = columns;
        let pixels = match along {
            Along::Width128 => PIXELS_OF_128,
            _ => pixels,
        };
        let spatial = match along {
            Along::Image => rank as usize - 2,
            Along::Width | Along::Width128 => 1,
        };
        if along != Along::Image && !(2..=3).contains(&map.swizzle) {
            return invalid("columns along the width are swizzled by 64 or 128 bytes".to_owned());
        }
        let most = [0x7FFF, 0x7F, 0xF][spatial - 1];
        for (n, (lower, upper)) in corners.into_iter().enumerate().take(spatial) {
            for corner in [lower, upper] {
                if !(-most - 1..=most).contains(&corner) {
                    return invalid(format!(
                        "the corner {corner} along dimension {} is not from {} to {most}",
                        n + 1,
                        -most - 1
                    ));
                }
            }
            let dim = i64::try_from(map.dims[n + 1]).unwrap_or(i64::MAX);
            if dim.saturating_add(upper.into()) <= lower.into() {
                return invalid(format!(
                    "there is no pixel between the corners along dimension {}",
                    n + 1
                ));
            }
            map.boxes[2 + n] = lower as u32 & 0xFFFF | (upper as u32) << UPPER;
        }
        if !(1..=256).contains(&channels) || !(1..=1024).contains(&pixels) {
            return invalid(format!(
                "{channels} channels and {pixels} pixels, not 1 to 256 and 1 to 1024"
            ));
        }
        map.boxes[..2].copy_from_slice(&[channels, pixels]);
        map.mode = along as u8;
        map.checked(number, rank, l2_promotion)
    }

    /// With the type of its elements and its dimensions, if these and the others exist.
    fn checked(self, number: u32, rank: u32, l2_promotion: u32) -> Result<TensorMap, MapError> {
        let map = self;
        let invalid = |what: String| Err(MapError::Invalid(what));
        let Some(index) = ELEMENTS.iter().position(|row| row.2 == number) else {
            return match number {
                13..16 => Err(MapError::Unsupported("tensors of elements below 8 bits")),
                _ => invalid(format!("no type of elements has the number {number}")),
            };
        };
        let (element, bytes, _) = ELEMENTS[index];
        if !(1..=RANK as u32).contains(&rank) {
            return invalid(format!("a tensor has 1 to 5 dimensions, not {rank}"));
        }
        let used = rank as usize;
        if !map.address.is_multiple_of(16) {
            return invalid(format!("address {:#x} is no multiple of 16", map.address));
        }
        for (n, dim) in map.dims[..used].iter().enumerate() {
            if !(1..=1 << 32).contains(dim) {
                return invalid(format!("dimension {n} has {dim} elements, not 1 to 2^32"));
            }
        }
        for (n, stride) in (1..used).zip(map.strides) {
            if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                let limit = "a multiple of 16 below 2^40";
                return invalid(format!(
                    "the stride of dimension {n} is {stride}, not {limit}"
                ));
            }
        }
        for (n, stride) in map.element_strides[..used].iter().enumerate() {
            if !(1..=8).contains(stride) {
                return invalid(format!(
                    "the element stride along {n} is {stride}, not 1 to 8"
                ));
            }
        }
        if map.interleave != 0 {
            return match map.interleave {
                1 | 2 => Err(MapError::Unsupported("interleaved tensors")),
                number => invalid(format!("no layout has the number {number}")),
            };
        }
        let row = map.count(0) * bytes;
        if !row.is_multiple_of(16) {
            return invalid(format!(
                "a row of the box has {row} bytes, no multiple of 16"
            ));
        }
        match map.swizzle {
            0 => {}
            1..=3 if row <= 16 << map.swizzle => {}
            1..=3 => {
                return invalid(format!(
                    "a row of the box has {row} bytes, too many to swizzle"
                ));
            }
            4..7 => return Err(MapError::Unsupported("swizzling of other than 16 bytes")),
            number => return invalid(format!("no swizzling has the number {number}")),
        }
        if map.fill > 1 || map.fill == 1 && !element.is_float() {
            return invalid("only floats are filled with NaN".to_owned());
        }
        if l2_promotion > 3 {
            return invalid(format!("no promotion has the number {l2_promotion}"));
        }
        Ok(TensorMap {
            rank: (rank - 1) as u8,
            element: index as u8,
            ..map
        })
    }

    /// The same tensor at another address, which is a multiple of 16.
    pub fn at(self, address: u64) -> Option<TensorMap> {
        address
            .is_multiple_of(16)
            .then_some(TensorMap { address, ..self })
    }

    /// The map in these words.
    pub fn from_words(words: [u64; BYTES / 8]) -> TensorMap {
        // SAFETY: it consists of integers, as many bytes as the words have.
        unsafe { std::mem::transmute(words) }
    }

    /// The words of the map.
    pub fn words(self) -> [u64; BYTES / 8] {
        // SAFETY: it consists of integers without gaps, as many bytes as the words have.
        unsafe { std::mem::transmute(self) }
    }

    /// `None` for a number that this device does not have.
    pub fn element(&self) -> Option<Element> {
        ELEMENTS.get(usize::from(self.element)).map(|row| row.0)
    }

    /// Whether copies take these columns of it, or boxes.
    pub fn is_for(&self, columns: Option<Along>) -> bool {
        self.mode == columns.map_or(0, |along| along as u8)
    }

    /// The first and the last place of a filter's base along a dimension of an image.
    pub fn corners(&self, dimension: usize) -> (i64, i64) {
        let corner = self.boxes.get(dimension + 1).copied().unwrap_or_default();
        let [lower, upper] = [corner as u16, (corner >> UPPER) as u16].map(u16::cast_signed);
        let last = i64::try_from(self.dims[dimension]).unwrap_or(i64::MAX) - 1;
        (lower.into(), last.saturating_add(upper.into()))
    }

    /// Elements of a box that are copied along a dimension.
    pub fn count(&self, dimension: usize) -> u32 {
        match dimension {
            0 => self.boxes[0],
            _ => self.boxes[dimension].div_ceil(self.element_strides[dimension].max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            address: 0x1000,
            strides: [256, 0, 0, 0],
            dims: [100, 20, 0, 0, 0],
            boxes: [32, 8, 0, 0, 0],
            element_strides: [1; RANK],
            ..TensorMap::default()
        }
    }

    #[test]
    fn words_are_the_map() {
        let made = TensorMap::tiled(9, map(), 2, 0).unwrap();
        assert_eq!(TensorMap::from_words(made.words()), made);
        assert_eq!(made.element(), Some(Element::Bf16));
        assert_eq!((made.rank, made.count(0), made.count(1)), (1, 32, 8));
        let (at, bytes) = field("global_stride", 0).unwrap();
        assert_eq!((made.words()[at / 8], bytes), (256, 8));
        assert_eq!(field("global_stride", 4), None);
        assert_eq!(field("global_dim", 4), Some((72, 8)));
    }

    #[test]
    fn a_map_has_columns() {
        let images = TensorMap {
            strides: [64, 1024, 0, 0],
            dims: [16, 12, 10, 0, 0],
            ..map()
        };
        let columns = Columns {
            along: Along::Image,
            corners: [(-3, 5), (0, 0), (0, 0)],
            channels: 16,
            pixels: 1000,
        };
        let made = TensorMap::columns(7, images, 3, columns, 0).unwrap();
        assert!(made.is_for(Some(Along::Image)) && !made.is_for(None));
        assert_eq!(made.boxes[..2], [16, 1000]);
        assert_eq!(made.corners(1), (-3, 16));
        let with = |change: fn(&mut Columns)| {
            let mut columns = columns;
            change(&mut columns);
            TensorMap::columns(7, images, 3, columns, 0)
        };
        assert!(with(|columns| columns.pixels = 1025).is_err());
        assert!(with(|columns| columns.channels = 0).is_err());
        assert!(with(|columns| columns.corners[0] = (-0x8001, 0)).is_err());
        assert!(with(|columns| columns.corners[0] = (0, -12)).is_err());
        assert!(TensorMap::columns(7, images, 2, columns, 0).is_err());

        // Whatever the height and the depth are.
        let wide = Columns {
            along: Along::Width,
            corners: [(-3, 5), (-0x9000, 0), (0, -0x9000)],
            ..columns
        };
        assert!(
            TensorMap::columns(7, images, 3, wide, 0).is_err(),
            "without swizzling"
        );
        let images = TensorMap {
            swizzle: 2,
            ..images
        };
        let made = TensorMap::columns(7, images, 3, wide, 0).unwrap();
        assert!(made.is_for(Some(Along::Width)));
        assert!(!made.is_for(Some(Along::Image)) && !made.is_for(None));
        assert_eq!((made.mode, made.corners(1)), (2, (-3, 16)));
    }

    #[test]
    fn what_no_map_has_is_refused() {
        type Change = fn(&mut TensorMap);
        let changes: [Change; 8] = [
            |map| map.address += 8,
            |map| map.strides[0] = 24,
            |map| map.dims[1] = 0,
            |map| map.boxes[0] = 257,
            |map| map.boxes[0] = 4,
            |map| map.element_strides[1] = 9,
            |map| map.swizzle = 1,
            |map| map.swizzle = 9,
        ];
        for change in changes {
            let mut map = map();
            change(&mut map);
            let error = TensorMap::tiled(6, map, 2, 0).unwrap_err();
            assert!(matches!(error, MapError::Invalid(_)), "{error:?}");
        }
        assert!(TensorMap::tiled(6, map(), 6, 0).is_err());
        let filled = TensorMap { fill: 1, ..map() };
        assert!(TensorMap::tiled(2, filled, 2, 0).is_err());
        assert!(TensorMap::tiled(7, filled, 2, 0).is_ok());
        let interleaved = TensorMap {
            interleave: 1,
            ..map()
        };
        let error = TensorMap::tiled(6, interleaved, 2, 0).unwrap_err();
        assert!(matches!(error, MapError::Unsupported(_)));
    }
}
