//! Structures that an attribute changes after `DeviceRepr` has read them.
//@ aux: change
#![forbid(unsafe_code)]
use change::change;
use ptxkit::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[change(u8 bool)]
#[repr(C)]
struct Truth { //~ E0308
    value: u8,
}

#[derive(Clone, Copy, DeviceRepr)]
#[change(u64 &'static u64)]
#[repr(C)]
struct Reference { //~ E0308
    value: u64,
}

#[derive(Clone, Copy)]
struct Smart(bool);

impl std::ops::Deref for Smart {
    type Target = u8;

    fn deref(&self) -> &u8 {
        &7
    }
}

// A reference to it is converted into one to a number.
#[derive(Clone, Copy, DeviceRepr)]
#[change(u8 Smart)]
#[repr(C)]
struct Converted(u8); //~ E0308

#[derive(Clone, Copy, DeviceRepr)]
#[change(u8 u8, ())]
#[repr(C)]
struct Longer(u8); //~ error

#[derive(Clone, Copy, DeviceRepr)]
#[change(C Rust)]
#[repr(C)]
struct Reordered { //~ E0080
    small: u8,
    large: u32,
    rest: [u8; 3],
}

#[derive(Clone, Copy, DeviceRepr)]
#[change(C C, packed)]
#[repr(C)]
struct Packed { //~ E0080 E0793
    small: u32,
    large: u64,
    rest: u32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[change(C C, align(8))]
#[repr(C)]
struct Aligned { //~ E0080
    small: u32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[change(struct union)]
#[repr(C)]
struct Union { //~ error
    value: u32,
}

#[derive(Clone, Copy, DeviceRepr)]
#[change(Generic Generic<T = bool>)]
#[change(u8 T)]
#[repr(C)]
struct Generic { //~ E0308
    value: u8,
}

fn main() {}
