//! Structures of all kinds that `DeviceRepr` takes, also below an attribute that leaves them alone.
//@ aux: change
#![forbid(unsafe_code)]
use ptxkit::DeviceRepr;
use ptxkit::driver::{DeviceField, Pod};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Empty {}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
pub struct Tuple(pub u32, [f32; 3], pub(crate) Bytes);

#[derive(Clone, Copy, DeviceRepr)]
#[repr(transparent)]
pub(crate) struct Bytes {
    r#type: [u8; 16],
}

#[derive(Clone, Copy, DeviceRepr)]
#[change::change(nothing something)]
#[repr(C, align(16))]
struct Nested {
    field: Tuple,
    #[allow(dead_code)]
    structure: [Bytes; 2],
    none: [u64; 0],
}

mod inside {
    #[derive(Clone, Copy, ptxkit::DeviceRepr)]
    #[repr(C)]
    pub struct Private {
        value: u64,
    }
}

fn takes<T: Pod + DeviceField>() {}

fn main() {
    #[derive(Clone, Copy, DeviceRepr)]
    #[repr(C)]
    struct Local {
        value: inside::Private,
    }
    takes::<Empty>();
    takes::<Nested>();
    takes::<Local>();
}
