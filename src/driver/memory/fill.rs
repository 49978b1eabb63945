//! What memory is filled with: 1, 2 or 4 bytes, again and again.

use crate::driver::error::Error;
use crate::driver::pod::{Plain, bytes_of};
use crate::driver::stream::Stream;
use api::{Api, CUdeviceptr};

/// A value of one of the widths that the driver's fills have.
#[derive(Clone, Copy)]
pub(crate) enum Element {
    Byte(u8),
    Short(u16),
    Word(u32),
}

impl Element {
    pub fn of<T: Plain>(value: &T) -> Result<Element, Error> {
        match *bytes_of(std::slice::from_ref(value)) {
            [a] => Ok(Element::Byte(a)),
            [a, b] => Ok(Element::Short(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Ok(Element::Word(u32::from_ne_bytes([a, b, c, d]))),
            _ => Err(Error::Length {
                what: "bytes of a value that memory is filled with",
                given: size_of::<T>(),
                room: 4,
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
                (Element::Byte(value), None) => Ok(api.cuMemsetD8_v2(to, value, count)?),
                (Element::Short(value), None) => Ok(api.cuMemsetD16_v2(to, value, count)?),
                (Element::Word(value), None) => Ok(api.cuMemsetD32_v2(to, value, count)?),
                (Element::Byte(value), Some(queue)) => {
                    Ok(api.cuMemsetD8Async(to, value, count, queue)?)
                }
                (Element::Short(value), Some(queue)) => {
                    Ok(api.cuMemsetD16Async(to, value, count, queue)?)
                }
                (Element::Word(value), Some(queue)) => {
                    Ok(api.cuMemsetD32Async(to, value, count, queue)?)
                }
            }
        }
    }

    /// Fills `height` rows of `width` values that lie `pitch` bytes apart.
    ///
    /// # Safety
    /// As [`fill`](Element::fill).
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
                (Element::Byte(value), None) => {
                    Ok(api.cuMemsetD2D8_v2(to, pitch, value, width, height)?)
                }
                (Element::Short(value), None) => {
                    Ok(api.cuMemsetD2D16_v2(to, pitch, value, width, height)?)
                }
                (Element::Word(value), None) => {
                    Ok(api.cuMemsetD2D32_v2(to, pitch, value, width, height)?)
                }
                (Element::Byte(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D8Async(to, pitch, value, width, height, queue)?)
                }
                (Element::Short(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D16Async(to, pitch, value, width, height, queue)?)
                }
                (Element::Word(value), Some(queue)) => {
                    Ok(api.cuMemsetD2D32Async(to, pitch, value, width, height, queue)?)
                }
            }
        }
    }
}
