//! Tensor maps.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::entries;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::tensor_map::{Columns, MapError, TensorMap as Map};
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
        // Of another rank, nothing is read; it is refused below.
        let count = if (1..=5).contains(&rank) { rank as usize } else { 0 };
        let narrow = |number: c_uint| u8::try_from(number).unwrap_or(u8::MAX);
        let described = Map {
            address: address.addr() as u64,
            strides: array(strides, count.saturating_sub(1))?,
            dims: array(dims, count)?,
            boxes: array(boxes, count)?,
            element_strides: array(element_strides, count)?,
            interleave: narrow(interleave),
            swizzle: narrow(swizzle),
            fill: narrow(fill),
            ..Map::default()
        };
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
        // Of another rank, nothing is read; it is refused below.
        let count = if (3..=5).contains(&rank) { rank as usize } else { 0 };
        let narrow = |number: c_uint| u8::try_from(number).unwrap_or(u8::MAX);
        let described = Map {
            address: address.addr() as u64,
            strides: array(strides, count.saturating_sub(1))?,
            dims: array(dims, count)?,
            element_strides: array(element_strides, count)?,
            interleave: narrow(interleave),
            swizzle: narrow(swizzle),
            fill: narrow(fill),
            ..Map::default()
        };
        let [lower, upper]: [[c_int; 3]; 2] = [
            array(lower, count.saturating_sub(2))?,
            array(upper, count.saturating_sub(2))?,
        ];
        let columns = Columns {
            corners: std::array::from_fn(|n| (lower[n], upper[n])),
            channels,
            pixels,
        };
        put(map, Map::columns(data_type, described, rank, columns, l2_promotion))
    }

    fn cuTensorMapEncodeIm2colWide(
        _map: *mut TensorMap,
        _data_type: c_uint,
        _rank: c_uint,
        _address: *mut c_void,
        _dims: *const u64,
        _strides: *const u64,
        _lower: c_int,
        _upper: c_int,
        _channels: c_uint,
        _pixels: c_uint,
        _element_strides: *const c_uint,
        _interleave: c_uint,
        _mode: c_uint,
        _swizzle: c_uint,
        _l2_promotion: c_uint,
        _fill: c_uint,
    ) {
        let what = "the CPU device copies no im2col columns along the width alone";
        Err(Status::NOT_SUPPORTED.because(what))
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
