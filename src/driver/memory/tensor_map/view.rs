//! Tensors in device memory, and the checks of their maps.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::slice::DeviceSlice;
use crate::driver::memory::tensor_map::element::{TensorElement, TensorValue};
use crate::driver::memory::tensor_map::layout::{
    Im2col, Im2colWide, L2Promotion, TensorInterleave, TensorSwizzle,
};
use crate::driver::memory::tensor_map::map::{TensorMap, check_address};
use crate::driver::tensor_map_error::TensorMapError;
use api::{Api, CUdeviceptr};

/// The most dimensions.
const RANK: usize = 5;

/// A tensor in device memory, and how boxes of it are copied: what a [`TensorMap`] is made of.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver, TensorSwizzle, TensorView};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// // 100 rows of 250 numbers, each row padded to 256.
/// let matrix = DeviceBuffer::<f32>::zeroed(&context, 100 * 256)?;
/// let view = TensorView::new(&matrix.all(), &[250, 100])
///     .strides(&[256 * 4])
///     .swizzle(TensorSwizzle::Bytes128);
/// let map = view.tiles(&[32, 64])?; // 64 rows of 32 numbers
///
/// let error = view.tiles(&[64, 64]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "no tensor map: a row of the box has 256 bytes, and this swizzling takes at most 128: make \
///      the box narrower along dimension 0, or swizzle more bytes or none"
/// );
/// # drop(map);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorView<'a> {
    allocation: &'a Arc<Allocation>,
    address: CUdeviceptr,
    capacity: usize,
    element: TensorElement,
    sizes: Vec<u64>,
    strides: Option<Vec<u64>>,
    element_strides: Option<Vec<u32>>,
    interleave: TensorInterleave,
    swizzle: TensorSwizzle,
    l2_promotion: L2Promotion,
    is_nan_outside: bool,
}

/// Arrays as the driver takes them, with room for all dimensions.
struct Encoding {
    rank: usize,
    sizes: [u64; RANK],
    strides: [u64; RANK],
    element_strides: [c_uint; RANK],
    bytes: usize,
    align: u64,
}

impl<'a> TensorView<'a> {
    /// A tensor at the beginning of `memory`, with so many elements along each of its 1 to 5
    /// dimensions, the contiguous one first: a matrix has `[columns, rows]`. Its rows follow one
    /// another.
    pub fn new<T: TensorValue>(memory: &DeviceSlice<'a, T>, sizes: &[u64]) -> TensorView<'a> {
        TensorView {
            allocation: memory.allocation(),
            address: memory.address(),
            capacity: memory.bytes(),
            element: T::ELEMENT,
            sizes: sizes.to_vec(),
            strides: None,
            element_strides: None,
            interleave: TensorInterleave::None,
            swizzle: TensorSwizzle::None,
            l2_promotion: L2Promotion::None,
            is_nan_outside: false,
        }
    }

    /// Bytes from an element to the next along each dimension but the first: multiples of 16
    /// below 2^40.
    pub fn strides(mut self, bytes: &[u64]) -> TensorView<'a> {
        self.strides = Some(bytes.to_vec());
        self
    }

    /// Another type for the same bits, as [`TensorElement::Tf32`].
    pub fn element(mut self, element: TensorElement) -> TensorView<'a> {
        self.element = element;
        self
    }

    /// Every how many elements one is copied, 1 to 8 for each dimension. A box of 8 elements
    /// with stride 2 has 4. That of the first dimension does not count.
    pub fn element_strides(mut self, elements: &[u32]) -> TensorView<'a> {
        self.element_strides = Some(elements.to_vec());
        self
    }

    /// Exchanges pieces of the box in shared memory, which begins there at a multiple of 128
    /// bytes, or with 128 bytes of swizzling at one of 1024 (PTX ISA, "Swizzling modes").
    pub fn swizzle(mut self, swizzle: TensorSwizzle) -> TensorView<'a> {
        self.swizzle = swizzle;
        self
    }

    /// Fetches more than is read into L2.
    pub fn l2_promotion(mut self, promotion: L2Promotion) -> TensorView<'a> {
        self.l2_promotion = promotion;
        self
    }

    /// Floats outside of the tensor are read as NaN, not as 0.
    pub fn nan_outside(mut self) -> TensorView<'a> {
        self.is_nan_outside = true;
        self
    }

    /// Interleaved channels. The CPU device does not have them.
    ///
    /// # Safety
    /// The tensor must lie within the memory: how far it reaches in this layout is not checked.
    pub unsafe fn interleave(mut self, interleave: TensorInterleave) -> TensorView<'a> {
        self.interleave = interleave;
        self
    }

    /// A map for copies of boxes with so many elements, at most 256 along each dimension
    /// (`cuTensorMapEncodeTiled`, from CUDA 12.0). A row of the box has a multiple of 16 bytes.
    ///
    /// # Errors
    /// [`Error::TensorMap`] says which number is wrong, and what is possible.
    pub fn tiles(&self, elements: &[u32]) -> Result<TensorMap, Error> {
        let encoding = self.encoding(1)?;
        count(
            "numbers of elements of a box",
            encoding.rank,
            elements.len(),
        )?;
        let mut boxes = [1; RANK];
        for (n, &size) in elements.iter().enumerate() {
            range("elements of a box", Some(n), size.into(), 1..=256)?;
            boxes[n] = size;
        }
        self.check_row(boxes[0], true)?;
        self.encode(&encoding, |api, map, address| {
            // SAFETY: the arrays have a number for each dimension; writes one map.
            unsafe {
                api.cuTensorMapEncodeTiled(
                    map,
                    self.element as c_uint,
                    encoding.rank as c_uint,
                    address,
                    encoding.sizes.as_ptr(),
                    encoding.strides.as_ptr(),
                    boxes.as_ptr(),
                    encoding.element_strides.as_ptr(),
                    self.interleave as c_uint,
                    self.swizzle as c_uint,
                    self.l2_promotion as c_uint,
                    self.is_nan_outside.into(),
                )
            }
        })
    }

    /// A map for copies of columns of pixels (`cuTensorMapEncodeIm2col`, from CUDA 12.0).
    ///
    /// # Errors
    /// As for [`tiles`](TensorView::tiles).
    pub fn im2col(&self, columns: &Im2col) -> Result<TensorMap, Error> {
        let encoding = self.encoding(3)?;
        let spatial = encoding.rank - 2;
        let most = [0x7FFF, 0x7F, 0xF][spatial - 1];
        let mut corners = [[0; RANK]; 2];
        let given = [
            ("offsets of the lower corner", &columns.lower),
            ("offsets of the upper corner", &columns.upper),
        ];
        for (corner, (what, offsets)) in corners.iter_mut().zip(given) {
            count(what, spatial, offsets.len())?;
            for (n, &offset) in offsets.iter().enumerate() {
                range(what, Some(n + 1), offset.into(), -most - 1..=most)?;
                corner[n] = offset as c_int;
            }
        }
        let pairs = corners[0].iter().zip(&corners[1]).take(spatial);
        for (n, (&lower, &upper)) in pairs.enumerate() {
            check_corners(&encoding, n, lower, upper)?;
        }
        self.check_columns(columns.channels, columns.pixels)?;
        self.encode(&encoding, |api, map, address| {
            // SAFETY: the arrays have a number for each dimension; writes one map.
            unsafe {
                api.cuTensorMapEncodeIm2col(
                    map,
                    self.element as c_uint,
                    encoding.rank as c_uint,
                    address,
                    encoding.sizes.as_ptr(),
                    encoding.strides.as_ptr(),
                    corners[0].as_ptr(),
                    corners[1].as_ptr(),
                    columns.channels,
                    columns.pixels,
                    encoding.element_strides.as_ptr(),
                    self.interleave as c_uint,
                    self.swizzle as c_uint,
                    self.l2_promotion as c_uint,
                    self.is_nan_outside.into(),
                )
            }
        })
    }

    /// A map for copies of columns along the width alone (`cuTensorMapEncodeIm2colWide`, from
    /// CUDA 12.8), for sm_100 and later. The CPU device copies them by the documentation of PTX,
    /// but for halos that it leaves open.
    ///
    /// # Errors
    /// As for [`tiles`](TensorView::tiles).
    pub fn im2col_wide(&self, columns: &Im2colWide) -> Result<TensorMap, Error> {
        let encoding = self.encoding(3)?;
        if self.swizzle.span().is_none_or(|span| span < 64) {
            return Err(TensorMapError::Conflict {
                chosen: "im2col along the width",
                needs: "swizzling of 64 or 128 bytes",
            }
            .into());
        }
        let corners = [
            ("offset of the lower corner", columns.lower),
            ("offset of the upper corner", columns.upper),
        ];
        for (what, offset) in corners {
            range(what, None, offset.into(), -0x8000..=0x7FFF)?;
        }
        check_corners(&encoding, 0, columns.lower, columns.upper)?;
        // `CU_TENSOR_MAP_IM2COL_WIDE_MODE_W` and `_W128`, which has its number of pixels.
        let (mode, pixels) = columns.pixels.map_or((1, 128), |pixels| (0, pixels));
        self.check_columns(columns.channels, pixels)?;
        self.encode(&encoding, |api, map, address| {
            // SAFETY: the arrays have a number for each dimension; writes one map.
            unsafe {
                api.cuTensorMapEncodeIm2colWide(
                    map,
                    self.element as c_uint,
                    encoding.rank as c_uint,
                    address,
                    encoding.sizes.as_ptr(),
                    encoding.strides.as_ptr(),
                    columns.lower,
                    columns.upper,
                    columns.channels,
                    pixels,
                    encoding.element_strides.as_ptr(),
                    self.interleave as c_uint,
                    mode,
                    self.swizzle as c_uint,
                    self.l2_promotion as c_uint,
                    self.is_nan_outside.into(),
                )
            }
        })
    }

    fn encode(
        &self,
        encoding: &Encoding,
        entry: impl FnOnce(&'static Api, *mut api::TensorMap, *mut c_void) -> Result<(), api::Error>,
    ) -> Result<TensorMap, Error> {
        let api = self.allocation.context().bind()?;
        let mut words = api::TensorMap::default();
        // The driver takes the address for a number.
        let address = std::ptr::without_provenance_mut(self.address as usize);
        entry(api, &mut words, address)?;
        Ok(TensorMap {
            words,
            allocation: self.allocation.clone(),
            address: self.address,
            bytes: encoding.bytes,
            align: encoding.align,
            element: self.element,
        })
    }

    /// What all kinds of maps have in common, checked.
    fn encoding(&self, least_rank: usize) -> Result<Encoding, TensorMapError> {
        let is_interleaved = self.interleave != TensorInterleave::None;
        let least = if is_interleaved { 3 } else { least_rank };
        let rank = self.sizes.len();
        if !(least..=RANK).contains(&rank) {
            return Err(TensorMapError::Rank { given: rank, least });
        }
        let align = if self.interleave == TensorInterleave::Bytes32 || self.element.is_spread() {
            32
        } else {
            16
        };
        check_address(self.address, align)?;
        let mut sizes = [1; RANK];
        for (n, &size) in self.sizes.iter().enumerate() {
            let number = i64::try_from(size).unwrap_or(i64::MAX);
            range("elements of the tensor", Some(n), number, 1..=1 << 32)?;
            sizes[n] = size;
        }
        let together = match self.element {
            TensorElement::U4Align8 => 2,
            element if element.is_spread() => 128,
            _ => 1,
        };
        multiple("elements of the tensor", 0, sizes[0], together)?;
        let strides = self.checked_strides(&sizes[..rank], align)?;
        let mut element_strides = [1; RANK];
        if let Some(given) = &self.element_strides {
            count("element strides", rank, given.len())?;
            for (n, &stride) in given.iter().enumerate() {
                range("is the element stride", Some(n), stride.into(), 1..=8)?;
                element_strides[n] = stride;
            }
        }
        self.check_choices()?;
        let bytes = if is_interleaved {
            self.capacity
        } else {
            self.extent(&sizes[..rank], &strides)?
        };
        Ok(Encoding {
            rank,
            sizes,
            strides,
            element_strides,
            bytes,
            align,
        })
    }

    /// Those that were given, or else those of rows without padding.
    fn checked_strides(&self, sizes: &[u64], align: u64) -> Result<[u64; RANK], TensorMapError> {
        let mut strides = [0; RANK];
        if let Some(given) = &self.strides {
            count("strides", sizes.len() - 1, given.len())?;
            strides[..given.len()].copy_from_slice(given);
        } else {
            let mut bytes = self.row_bytes(sizes[0]);
            for (stride, size) in strides.iter_mut().zip(sizes.iter().skip(1)) {
                *stride = bytes;
                bytes = bytes.saturating_mul(*size);
            }
        }
        for (n, &stride) in strides.iter().enumerate().take(sizes.len() - 1) {
            let number = i64::try_from(stride).unwrap_or(i64::MAX);
            range(
                "bytes of the stride",
                Some(n + 1),
                number,
                0..=(1 << 40) - 1,
            )?;
            multiple("bytes of the stride", n + 1, stride, align)?;
        }
        Ok(strides)
    }

    fn check_choices(&self) -> Result<(), TensorMapError> {
        use TensorSwizzle::{Bytes32, Bytes64, Bytes128By32Flip8};
        let conflict = |chosen, needs| Err(TensorMapError::Conflict { chosen, needs });
        if self.interleave == TensorInterleave::Bytes32 && self.swizzle != Bytes32 {
            return conflict("interleaving of 32 bytes", "swizzling of 32 bytes");
        }
        if self.element == TensorElement::U6Align16 && self.interleave != TensorInterleave::None {
            return conflict(
                "a tensor of 6-bit elements",
                "channels that are not interleaved",
            );
        }
        let is_small = matches!(self.swizzle, Bytes32 | Bytes64 | Bytes128By32Flip8);
        if self.element.is_spread() && is_small {
            return conflict(
                "a tensor whose elements are spread to 16 bytes",
                "swizzling of 128 bytes or none",
            );
        }
        if self.is_nan_outside && !self.element.is_float() {
            return conflict("NaN outside of the tensor", "floats as its elements");
        }
        Ok(())
    }

    /// Bytes from the first to the last element, which are in the memory.
    fn extent(&self, sizes: &[u64], strides: &[u64]) -> Result<usize, TensorMapError> {
        let lines = sizes[1..].iter().zip(strides);
        let lines = lines.map(|(size, stride)| u128::from(size - 1) * u128::from(*stride));
        let bytes = lines.sum::<u128>() + u128::from(self.row_bytes(sizes[0]));
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.capacity => Ok(bytes),
            _ => Err(TensorMapError::Extent {
                bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
                capacity: self.capacity,
            }),
        }
    }

    /// Bytes of so many elements, at most 2^32, in a row.
    fn row_bytes(&self, elements: u64) -> u64 {
        (elements * self.element.bits()).div_ceil(8)
    }

    /// Elements of a box, or channels of a pixel, in a row.
    fn check_row(&self, elements: u32, is_box: bool) -> Result<(), TensorMapError> {
        if self.element.is_spread() && elements != 128 {
            let what = "elements of a row that are spread to 16 bytes";
            range(what, Some(0), elements.into(), 128..=128)?;
        }
        if self.interleave != TensorInterleave::None {
            return Ok(());
        }
        let row = if self.element.is_spread() {
            128
        } else {
            self.row_bytes(elements.into())
        };
        if is_box {
            multiple("bytes of a row of the box", 0, row, 16)?;
        }
        match self.swizzle.span() {
            Some(span) if row > span => Err(TensorMapError::Swizzle { row, span }),
            _ => Ok(()),
        }
    }

    fn check_columns(&self, channels: u32, pixels: u32) -> Result<(), TensorMapError> {
        range("channels of a pixel", None, channels.into(), 1..=256)?;
        range("pixels of a column", None, pixels.into(), 1..=1024)?;
        self.check_row(channels, false)
    }
}

/// The corners leave pixels between them along a dimension of the image.
fn check_corners(
    encoding: &Encoding,
    n: usize,
    lower: c_int,
    upper: c_int,
) -> Result<(), TensorMapError> {
    let size = encoding.sizes[n + 1] as i64; // at most 2^32
    let between = size + i64::from(upper) - i64::from(lower);
    range(
        "pixels between the corners",
        Some(n + 1),
        between,
        1..=i64::MAX,
    )
}

fn count(what: &'static str, expected: usize, given: usize) -> Result<(), TensorMapError> {
    if expected == given {
        Ok(())
    } else {
        Err(TensorMapError::Count {
            what,
            expected,
            given,
        })
    }
}

fn range(
    what: &'static str,
    dimension: Option<usize>,
    given: i64,
    possible: std::ops::RangeInclusive<i64>,
) -> Result<(), TensorMapError> {
    if possible.contains(&given) {
        Ok(())
    } else {
        Err(TensorMapError::Range {
            what,
            dimension,
            given,
            least: *possible.start(),
            most: *possible.end(),
        })
    }
}

fn multiple(
    what: &'static str,
    dimension: usize,
    given: u64,
    of: u64,
) -> Result<(), TensorMapError> {
    if given.is_multiple_of(of) {
        Ok(())
    } else {
        Err(TensorMapError::Multiple {
            what,
            dimension: Some(dimension),
            given,
            of,
        })
    }
}
