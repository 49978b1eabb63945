//! Rules for deprecated or fragile code, which are opt-in.

pub mod before_abi;
pub mod clashing_name;
pub mod dwarf_of_ptx_1;
pub mod maxnctapersm;
pub mod narrow_special;
pub mod newer_version;
pub mod non_ascii;
pub mod one_chip;
pub mod small_addresses;
pub mod texture_reference;
pub mod unsynchronized_warp;
