//! Types with other sizes or alignments than the PTX has, and padding without a name.
use ptxkit::DeviceRepr;
use ptxkit::driver::{Count, DeviceSlice, Double2};

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
pub struct Padded {
    pub small: u8,
    pub large: u32,
    pub last: u16,
}

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
pub struct Step {
    pub count: u32,
    pub widths: [f32; 2],
}

pub type Values = &'static [f32];

ptxkit::kernels! {
    pub mod kernels in "right.ptx";
    unsafe extern {
        pub safe fn vecadd(
            a: &DeviceSlice<f32>,
            b: &DeviceSlice<f32>,
            sum: &mut DeviceSlice<f32>,
            n: Count<u64>,
        );
        pub fn fill(to: u64, value: f32, step: Step);
        #[link_name = "fill"]
        pub fn aligned(to: u64, value: f32, step: Double2);
        #[link_name = "_Z6vecsubPfj"]
        pub fn vecsub(a: Values, n: u32);
        // The same mistakes once more: each is named at its place.
        #[link_name = "vecadd"]
        pub safe fn vecadd_again(
            a: &DeviceSlice<f32>,
            b: u32,
            sum: u32,
            n: Count<u64>,
        );
        #[link_name = "fill"]
        pub fn fill_again(to: u64, value: f32, step: Step);
    }
}

fn main() {}
