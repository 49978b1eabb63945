//! Structures with the layout that device code gives them.

/// A structure that lies in memory as device code lays it out, so that it can
/// be a kernel's parameter by value. [`device_param!`](crate::device_param)
/// defines them.
pub trait DeviceParam: Send + Sync + 'static {
    /// Hands over each field, with the byte of the structure at which it begins.
    fn fields(&self, fields: &mut Fields<'_>);
}

/// The bytes of a structure, into which [`DeviceParam::fields`] writes; padding
/// stays zero.
#[derive(Debug)]
pub struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    /// Writes the field that begins at byte `offset`. What would lie outside of
    /// the structure is left out.
    pub fn put<T: DeviceField>(&mut self, offset: usize, field: &T) {
        let end = offset.saturating_add(size_of::<T>());
        if let Some(bytes) = self.0.get_mut(offset..end) {
            // SAFETY: a field has no padding, so that all its bytes are initialised.
            let field = unsafe {
                std::slice::from_raw_parts(std::ptr::from_ref(field).cast::<u8>(), size_of::<T>())
            };
            bytes.copy_from_slice(field);
        }
    }
}

/// Writes a structure into as many bytes as it has, all zero.
pub(crate) fn write(structure: &dyn DeviceParam, bytes: &mut [u8]) {
    structure.fields(&mut Fields(bytes));
}

impl std::fmt::Debug for dyn DeviceParam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceParam")
    }
}

/// What a [`DeviceParam`] is made of: a type whose size and alignment on the
/// host are those in device code, and that has no padding of its own.
/// [`DeviceRepr`](crate::DeviceRepr) derives it for structures.
///
/// # Safety
/// As said.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no layout that is known to be the same on the device",
    note = "fields are numbers, arrays of them, `Float4` and its like, or structures with \
            `#[derive(DeviceRepr)]`"
)]
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

        impl $crate::driver::DeviceParam for $name {
            fn fields(&self, fields: &mut $crate::driver::Fields<'_>) {
                $( fields.put(::core::mem::offset_of!($name, $field), &self.$field); )*
            }
        }

        impl $crate::driver::Argument for $name {
            fn arg(&self) -> $crate::driver::Arg<'_> {
                $crate::driver::Arg::structure(self)
            }
        }

        impl $crate::driver::ByValue for $name {}
    )* };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_outside_of_the_structure_are_left_out() {
        let mut bytes = [0; 8];
        let mut fields = Fields(&mut bytes);
        fields.put(0, &1_u8);
        fields.put(4, &0x0403_0201_u32);
        fields.put(5, &u32::MAX);
        fields.put(usize::MAX, &u64::MAX);
        assert_eq!(bytes, [1, 0, 0, 0, 1, 2, 3, 4]);
    }
}
