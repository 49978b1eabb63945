//! Tensor maps.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::RangeInclusive;

use super::entry::entries;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::tensor_map::{Along, Columns, MapError, TensorMap as Map};
use api::TensorMap;

/// The first `count` elements of an array; the others are 0.
fn array<T: Copy + Default, const N: usize>(
    pointer: UserPointer<T>,
    count: usize,
) -> Result<[T; N]> {
    let mut values = [T::default(); N];
    for (index, value) in values.iter_mut().enumerate().take(count) {
        *value = pointer.get_at(index)?;
    }
    Ok(values)
}

/// What all maps say of a tensor. Of a rank that such maps do not have nothing is read; it is
/// refused below.
struct Described {
    /// How many elements of arrays are read.
    count: usize,
    map: Map,
}

impl Described {
    fn new(ranks: RangeInclusive<c_uint>, rank: c_uint, address: UserPointer<c_void>) -> Described {
        Described {
            count: if ranks.contains(&rank) {
                rank as usize
            } else {
                0
            },
            map: Map {
                address: address.addr() as u64,
                ..Map::default()
            },
        }
    }

    fn sizes(
        mut self,
        dims: UserPointer<u64>,
        strides: UserPointer<u64>,
        element_strides: UserPointer<c_uint>,
    ) -> Result<Described> {
        self.map.dims = array(dims, self.count)?;
        self.map.strides = array(strides, self.count.saturating_sub(1))?;
        self.map.element_strides = array(element_strides, self.count)?;
        Ok(self)
    }

    fn layout(mut self, interleave: c_uint, swizzle: c_uint, fill: c_uint) -> Described {
        let narrow = |number: c_uint| u8::try_from(number).unwrap_or(u8::MAX);
        self.map.interleave = narrow(interleave);
        self.map.swizzle = narrow(swizzle);
        self.map.fill = narrow(fill);
        self
    }
}

/// Writes a map, unless there is none.
fn put(map: UserPointer<TensorMap>, made: Result<Map, MapError>) -> Result {
    match made {
        Ok(made) => map.put(TensorMap(made.words())),
        Err(MapError::Invalid(why)) => Err(Status::INVALID_VALUE.because(why)),
        Err(MapError::Unsupported(what)) => {
            let text = format!("{what} are not supported on the CPU device");
            Err(Status::NOT_SUPPORTED.because(text))
        }
    }
}

entries! {
    fn cuTensorMapEncodeTiled(
        map: *mut TensorMap,
        data_type: c_uint,
        rank: c_uint,
        address: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        boxes: *const c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    ) {
        let tensor = Described::new(1..=5, rank, address)
            .sizes(dims, strides, element_strides)?
            .layout(interleave, swizzle, fill);
        let described = Map { boxes: array(boxes, tensor.count)?, ..tensor.map };
        put(map, Map::tiled(data_type, described, rank, l2_promotion))
    }

    fn cuTensorMapEncodeIm2col(
        map: *mut TensorMap,
        data_type: c_uint,
        rank: c_uint,
        address: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        lower: *const c_int,
        upper: *const c_int,
        channels: c_uint,
        pixels: c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    ) {
        let tensor = Described::new(3..=5, rank, address)
            .sizes(dims, strides, element_strides)?
            .layout(interleave, swizzle, fill);
        let spatial = tensor.count.saturating_sub(2);
        let [lower, upper]: [[c_int; 3]; 2] = [array(lower, spatial)?, array(upper, spatial)?];
        let columns = Columns {
            along: Along::Image,
            corners: std::array::from_fn(|n| (lower[n], upper[n])),
            channels,
            pixels,
        };
        put(map, Map::columns(data_type, tensor.map, rank, columns, l2_promotion))
    }

    fn cuTensorMapEncodeIm2colWide(
        map: *mut TensorMap,
        data_type: c_uint,
        rank: c_uint,
        address: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        lower: c_int,
        upper: c_int,
        channels: c_uint,
        pixels: c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        mode: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    ) {
        let tensor = Described::new(3..=5, rank, address)
            .sizes(dims, strides, element_strides)?
            .layout(interleave, swizzle, fill);
        let along = match mode {
            // CU_TENSOR_MAP_IM2COL_WIDE_MODE_W and _W128
            0 => Along::Width,
            1 => Along::Width128,
            _ => return Err(Status::INVALID_VALUE
                .because(format!("no mode of im2col along the width has the number {mode}"))),
        };
        let columns = Columns { along, corners: [(lower, upper), (0, 0), (0, 0)], channels, pixels };
        put(map, Map::columns(data_type, tensor.map, rank, columns, l2_promotion))
    }

    fn cuTensorMapReplaceAddress(map: *mut TensorMap, address: *mut c_void) {
        let address = address.addr() as u64;
        let replaced = Map::from_words(map.get()?.0).at(address);
        match replaced {
            Some(made) => map.put(TensorMap(made.words())),
            None => Err(Status::INVALID_VALUE
                .because(format!("address {address:#x} is no multiple of 16"))),
        }
    }
}
