//! Structures with the layout that device code gives them.

use std::ops::Range;

/// A structure that lies in memory as device code lays it out, so that it can
/// be a kernel's parameter by value. [`device_param!`](crate::device_param)
/// defines them.
///
/// # Safety
/// `PADDING` must be the bytes of the value that belong to no field, in order,
/// and the fields must be [`DeviceField`]s.
pub unsafe trait DeviceParam: Copy + Send + Sync + 'static {
    /// Bytes that belong to no field: where in the value they lie, in order.
    const PADDING: &'static [Range<usize>];
}

/// What a [`DeviceParam`] is made of: a type whose size and alignment on the
/// host are those in device code, and that has no padding of its own.
///
/// # Safety
/// As said.
pub unsafe trait DeviceField: Copy + Send + Sync + 'static {}

macro_rules! fields {
    ($($ty:ty)*) => { $(
        // SAFETY: a number, aligned to its size on every host there is a driver for.
        unsafe impl DeviceField for $ty {}
        const _: () = assert!(align_of::<$ty>() == size_of::<$ty>());
    )* };
}

fields!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64);

// SAFETY: an array has its element's alignment and nothing between its elements.
unsafe impl<T: DeviceField, const N: usize> DeviceField for [T; N] {}

/// Defines structures as kernels take them by value, laid out as device code
/// lays them out: fields of 64 bits at multiples of 8, [`Float4`] of 16,
/// [`Float2`] of 8, and the padding that follows from it.
///
/// Pointers are `u64`: [`DeviceBuffer::address`]. What a structure points to is
/// not kept by a launch or a graph.
///
/// ```
/// use ptxkit::device_param;
/// use ptxkit::driver::{Float4, ParamBuffer};
///
/// device_param! {
///     /// On the device, 12 bytes of padding stand between the two.
///     #[derive(Debug, PartialEq)]
///     pub struct MyStruct {
///         /// At byte 0.
///         pub f: f32,
///         /// At byte 16.
///         pub f4: Float4,
///     }
/// }
///
/// let value = MyStruct { f: 1.0, f4: [2.0, 3.0, 4.0, 5.0].into() };
/// assert_eq!((size_of::<MyStruct>(), align_of::<MyStruct>()), (32, 16));
/// let mut params = ParamBuffer::new();
/// params.push(7_u32).push(value);
/// assert_eq!(params.bytes().len(), 48);
/// ```
///
/// A field of a type whose layout differs between host and device, or is not
/// known, does not compile:
///
/// ```compile_fail
/// ptxkit::device_param! {
///     struct Wrong { name: String }
/// }
/// ```
///
/// [`Float4`]: crate::driver::Float4
/// [`Float2`]: crate::driver::Float2
/// [`DeviceBuffer::address`]: crate::driver::DeviceBuffer::address
#[macro_export]
macro_rules! device_param {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty ),* $(,)? }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $vis struct $name { $( $(#[$field_meta])* $field_vis $field: $ty ),* }

        const _: () = {
            const ENDS: &[(usize, usize)] = &[
                $( {
                    const fn field<T: $crate::driver::DeviceField>() -> usize { ::core::mem::size_of::<T>() }
                    let start = ::core::mem::offset_of!($name, $field);
                    (start, start + field::<$ty>())
                } ),*
            ];
            const GAPS: usize = $crate::driver::padding_count(ENDS, ::core::mem::size_of::<$name>());
            const PADDING: [::core::ops::Range<usize>; GAPS] =
                $crate::driver::padding_of(ENDS, ::core::mem::size_of::<$name>());

            // SAFETY: the bytes between the fields' ends and the next fields' starts; each
            // field was shown to be a `DeviceField`.
            #[allow(unsafe_code)]
            unsafe impl $crate::driver::DeviceParam for $name {
                const PADDING: &'static [::core::ops::Range<usize>] = &PADDING;
            }

            impl $crate::driver::Argument for $name {
                fn arg(&self) -> $crate::driver::Arg<'_> {
                    $crate::driver::Arg::structure(self)
                }
            }
        };
    )* };
}

/// How many gaps there are between fields, given as starts and ends in order.
#[doc(hidden)]
pub const fn padding_count(fields: &[(usize, usize)], size: usize) -> usize {
    let (mut at, mut index, mut count) = (0, 0, 0);
    while index < fields.len() {
        if fields[index].0 > at {
            count += 1;
        }
        at = fields[index].1;
        index += 1;
    }
    count + (size > at) as usize
}

/// The gaps themselves.
#[doc(hidden)]
pub const fn padding_of<const N: usize>(
    fields: &[(usize, usize)],
    size: usize,
) -> [Range<usize>; N] {
    let mut gaps = [const { 0..0 }; N];
    let (mut at, mut index, mut gap) = (0, 0, 0);
    while index < fields.len() {
        if fields[index].0 > at {
            gaps[gap] = at..fields[index].0;
            gap += 1;
        }
        at = fields[index].1;
        index += 1;
    }
    if size > at {
        gaps[gap] = at..size;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_fields_and_at_the_end() {
        const FIELDS: &[(usize, usize)] = &[(0, 4), (16, 32), (32, 33)];
        assert_eq!(padding_count(FIELDS, 48), 2);
        assert_eq!(padding_of::<2>(FIELDS, 48), [4..16, 33..48]);
        assert_eq!(padding_count(&[(0, 8)], 8), 0);
        assert_eq!(padding_count(&[], 0), 0);
    }
}
