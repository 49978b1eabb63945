//! A declaration vouches for a kernel, so it is no code without `unsafe`.
#![forbid(unsafe_code)]

ptxkit::kernels! {
    pub mod kernels in "right.ptx";
    unsafe extern {
        pub fn tile(place: u64);
    }
}

fn main() {}
