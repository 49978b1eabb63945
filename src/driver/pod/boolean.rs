//! Truth values in device memory.

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;

/// A byte that device code uses as a `bool`. Rust's `bool` is 0 or 1 and nothing else, while a
/// kernel may write any byte: so what is read is checked.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Bool, Context, DeviceBuffer, Driver, Error};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let mut flags = DeviceBuffer::from_slice(&context, Bool::slice_of(&[true, false]))?;
/// assert_eq!(flags.to_bools()?, [true, false]);
/// flags.fill_bytes(2)?;
/// assert!(matches!(flags.to_bools(), Err(Error::Bool { index: 0, byte: 2 })));
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bool(pub u8);

// SAFETY: a byte; any is a value.
unsafe impl Pod for Bool {}
// SAFETY: as above.
unsafe impl DeviceField for Bool {}

impl Bool {
    /// Whether it is true; `None` for a byte other than 0 and 1.
    pub const fn get(self) -> Option<bool> {
        match self.0 {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// The same values, to be copied to a device.
    pub const fn slice_of(values: &[bool]) -> &[Bool] {
        // SAFETY: a `bool` is one byte, 0 or 1, and this is a transparent structure of a byte.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Bool {
        Bool(value.into())
    }
}
