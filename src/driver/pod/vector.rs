//! The built-in vector types of CUDA C++, with their alignment in device code
//! (CUDA C++ Programming Guide, "Built-in Vector Types").

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;

macro_rules! vectors {
    ($($name:ident: $cuda:literal $element:ty, $align:literal { $($field:ident)+ } = $count:literal;)*) => { $(
        #[doc = concat!("`", $cuda, "`, aligned to ", stringify!($align), " bytes.")]
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C, align($align))]
        pub struct $name { $(pub $field: $element),+ }

        // SAFETY: numbers in a row; the assertion below shows that there is no padding.
        unsafe impl Pod for $name {}
        // SAFETY: as above, and the alignment is the device's.
        unsafe impl DeviceField for $name {}
        const _: () = assert!(size_of::<$name>() == $count * size_of::<$element>());

        impl From<[$element; $count]> for $name {
            fn from([$($field),+]: [$element; $count]) -> $name {
                $name { $($field),+ }
            }
        }

        impl From<$name> for [$element; $count] {
            fn from($name { $($field),+ }: $name) -> [$element; $count] {
                [$($field),+]
            }
        }
    )* };
}

vectors! {
    Char2: "char2" i8, 2 { x y } = 2;
    Char3: "char3" i8, 1 { x y z } = 3;
    Char4: "char4" i8, 4 { x y z w } = 4;
    UChar2: "uchar2" u8, 2 { x y } = 2;
    UChar3: "uchar3" u8, 1 { x y z } = 3;
    UChar4: "uchar4" u8, 4 { x y z w } = 4;
    Short2: "short2" i16, 4 { x y } = 2;
    Short3: "short3" i16, 2 { x y z } = 3;
    Short4: "short4" i16, 8 { x y z w } = 4;
    UShort2: "ushort2" u16, 4 { x y } = 2;
    UShort3: "ushort3" u16, 2 { x y z } = 3;
    UShort4: "ushort4" u16, 8 { x y z w } = 4;
    Int2: "int2" i32, 8 { x y } = 2;
    Int3: "int3" i32, 4 { x y z } = 3;
    Int4: "int4" i32, 16 { x y z w } = 4;
    UInt2: "uint2" u32, 8 { x y } = 2;
    UInt3: "uint3" u32, 4 { x y z } = 3;
    UInt4: "uint4" u32, 16 { x y z w } = 4;
    LongLong2: "longlong2" i64, 16 { x y } = 2;
    LongLong3: "longlong3" i64, 8 { x y z } = 3;
    LongLong4: "longlong4" i64, 16 { x y z w } = 4;
    ULongLong2: "ulonglong2" u64, 16 { x y } = 2;
    ULongLong3: "ulonglong3" u64, 8 { x y z } = 3;
    ULongLong4: "ulonglong4" u64, 16 { x y z w } = 4;
    Float2: "float2" f32, 8 { x y } = 2;
    Float3: "float3" f32, 4 { x y z } = 3;
    Float4: "float4" f32, 16 { x y z w } = 4;
    Double2: "double2" f64, 16 { x y } = 2;
    Double3: "double3" f64, 8 { x y z } = 3;
    Double4: "double4" f64, 16 { x y z w } = 4;
}
