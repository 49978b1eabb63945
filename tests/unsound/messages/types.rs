//! Types that no kernel takes.
use ptxkit::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
pub struct Text {
    pub text: &'static str,
}

pub struct DeviceSlice<T>(T);

ptxkit::kernels! {
    pub mod kernels in "right.ptx";
    unsafe extern {
        #[link_name = "_Z6vecsubPfj"]
        pub safe fn vecsub(a: &mut DeviceSlice<f32>, n: String);
    }
}

fn main() {}
