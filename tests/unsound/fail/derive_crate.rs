//! Another crate under the names that the derive writes into the program.
//@ aux: fake
#![forbid(unsafe_code)]
extern crate fake as core;
extern crate fake as ptxkit;
use ptxkit::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Reference {
    value: &'static u64, //~ E0277
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Padded { //~ E0080
    small: u8,
    large: u32,
}

fn main() {}
