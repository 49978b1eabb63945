//! Fill values: 1, 2 or 4 bytes, repeated.

use crate::driver::error::Error;
use crate::driver::pod::{Pod, bytes_of};
use crate::driver::stream::Stream;
use api::{Api, CUdeviceptr};

/// A value of a width that the driver's fills support.
#[derive(Clone, Copy)]
pub(crate) enum FillValue {
    Byte(u8),
    Short(u16),
    Word(u32),
}

impl FillValue {
    pub fn of<T: Pod>(value: &T) -> Result<FillValue, Error> {
        match *bytes_of(std::slice::from_ref(value)) {
            [a] => Ok(FillValue::Byte(a)),
            [a, b] => Ok(FillValue::Short(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Ok(FillValue::Word(u32::from_ne_bytes([a, b, c, d]))),
            _ => Err(Error::Length {
                what: "bytes of a value that memory is filled with",
                given: size_of::<T>(),
                capacity: 4,
            }),
        }
    }

    /// Fills `count` values in a row, in stream order or before it returns.
    ///
    /// # Safety
    /// They are device memory that stays until the stream is done.
    pub unsafe fn fill(
        self,
        api: &Api,
        stream: Option<&Stream>,
        to: CUdeviceptr,
        count: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's word.
        unsafe {
            match (self, stream.map(Stream::raw)) {
                (FillValue::Byte(value), None) => Ok(api.cuMemsetD8_v2(to, value, count)?),
                (FillValue::Short(value), None) => Ok(api.cuMemsetD16_v2(to, value, count)?),
                (FillValue::Word(value), None) => Ok(api.cuMemsetD32_v2(to, value, count)?),
                (FillValue::Byte(value), Some(queue)) => {
                    Ok(api.cuMemsetD8Async(to, value, count, queue)?)
                }
                (FillValue::Short(value), Some(queue)) => {
                    Ok(api.cuMemsetD16Async(to, value, count, queue)?)
                }
                (FillValue::Word(value), Some(queue)) => {
                    Ok(api.cuMemsetD32Async(to, value, count, queue)?)
                }
            }
        }
    }

    /// Fills `height` rows of `width` values that lie `pitch` bytes apart.
    ///
    /// # Safety
    /// As [`fill`](FillValue::fill).
    pub unsafe fn fill_rows(
        self,
        api: &Api,
        stream: Option<&Stream>,
        (to, pitch): (CUdeviceptr, usize),
        [width, height]: [usize; 2],
    ) -> Result<(), Error> {
        // SAFETY: the caller's word.
        unsafe {
            match (self, stream.map(Stream::raw)) {
                (FillValue::Byte(value), None) => {
                    Ok(api.cuMemsetD2D8_v2(to, pitch, value, width, height)?)
                }
                (FillValue::Short(value), None) => {
                    Ok(api.cuMemsetD2D16_v2(to, pitch, value, width, height)?)
                }
                (FillValue::Word(value), None) => {
                    Ok(api.cuMemsetD2D32_v2(to, pitch, value, width, height)?)
                }
                (FillValue::Byte(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D8Async(to, pitch, value, width, height, queue)?)
                }
                (FillValue::Short(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D16Async(to, pitch, value, width, height, queue)?)
                }
                (FillValue::Word(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D32Async(to, pitch, value, width, height, queue)?)
                }
            }
        }
    }
}
