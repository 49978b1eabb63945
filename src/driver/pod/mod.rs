//! Values that are nothing but their bytes.

pub(crate) mod boolean;
pub(crate) mod device_pointer;
mod elements;
pub mod layout_check;
pub(crate) mod param;
pub(crate) mod texel;
pub(crate) mod vector;

/// A type that may be copied to a device and back byte by byte.
///
/// Numbers, arrays and [CUDA's vectors](crate::driver::Float4) are, and structures with
/// [`DeviceRepr`](crate::DeviceRepr). For `bool` there is [`Bool`](crate::driver::Bool). Features
/// add types of other crates: `half` its `f16` and `bf16`, `float8` its `F8E4M3` and `F8E5M2`,
/// `num-complex` its `Complex<T>`, `glam` its vectors, quaternions and matrices of 32-bit numbers
/// and vectors of `f64`, but for those with padding (`Vec3A`).
///
/// # Safety
/// Every pattern of bits must be a value of the type, and it must have no
/// padding, no pointers into host memory that anybody follows, and no
/// destructor.
///
/// ```
/// use ptxkit::driver::Pod;
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
/// // SAFETY: four floats without padding.
/// unsafe impl Pod for Particle {}
/// ```
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pod {
    ($($ty:ty)*) => { $(
        // SAFETY: a number without padding; any bits are a value.
        unsafe impl Pod for $ty {}
    )* };
}

pod!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64);

// SAFETY: an array has its element's bytes in a row and nothing between.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// The bytes of values.
pub(crate) fn bytes_of<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: `Pod` has no padding, so every byte is initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of values, to write.
pub(crate) fn bytes_of_mut<T: Pod>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as `bytes_of`, and any bytes written are values.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Values of zero bits.
pub(crate) fn zeroed<T: Pod>(len: usize) -> Vec<T> {
    // SAFETY: zero bits are a value of a `Pod` type.
    vec![unsafe { std::mem::zeroed() }; len]
}
