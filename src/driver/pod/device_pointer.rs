//! Addresses of device memory as values.

use std::fmt;

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;
use api::CUdeviceptr;

/// An address that device code uses: a parameter of a kernel that is launched by `unsafe`, or a
/// field of a structure. Nobody checks it, and nothing keeps the memory allocated.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, DevicePointer, Driver};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let values = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0])?;
/// let second = DevicePointer(values.address() + 4);
/// # let _ = second;
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePointer(pub CUdeviceptr);

// SAFETY: a number; any is a value.
unsafe impl Pod for DevicePointer {}
// SAFETY: as above.
unsafe impl DeviceField for DevicePointer {}

impl From<CUdeviceptr> for DevicePointer {
    fn from(address: CUdeviceptr) -> DevicePointer {
        DevicePointer(address)
    }
}

impl fmt::Debug for DevicePointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePointer({:#x})", self.0)
    }
}
