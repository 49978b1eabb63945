//! Declarations that are not those of the PTX.

ptxkit::kernels! {
    mod names in "right.ptx";
    unsafe extern {
        safe fn vecad(a: u64);
        safe fn vecsub(a: u64);
        #[link_name = "fil"]
        safe fn fill(a: u64);
        safe fn prepare();
    }
}

ptxkit::kernels! {
    mod none = ".version 8.0 .target sm_70 .address_size 64 .func f() { ret; }";
    unsafe extern {
        safe fn f();
    }
}

ptxkit::kernels! {
    mod parameters in "right.ptx";
    unsafe extern {
        safe fn vecadd(a: &DeviceSlice<f32>, b: &DeviceSlice<f32>, n: Count<u32>);
        #[link_name = "vecadd"]
        safe fn slices(a: &[f32], b: &mut [f32], n: u32);
        safe fn fill(to: u64, value: u32, step: Step);
        #[link_name = "fill"]
        fn raw(to: u64, value: i32, step: Step);
        safe fn tile(place: &DeviceSlice<f32>);
        #[link_name = "_Z6vecsubPfj"]
        safe fn vecsub(a: *mut f32, n: f32);
    }
}

ptxkit::kernels! {
    mod blocks in "right.ptx";
    unsafe extern {
        #[block(256)]
        fn tile(place: u64);
        #[block(8, 8, 2)]
        fn fill(to: u64, value: f32, step: Step);
        #[block(1, 1, 128)]
        fn vecadd(a: u64, b: u64, sum: u64, n: u32);
        #[block(0)]
        #[link_name = "_Z6vecsubPfj"]
        fn vecsub(a: u64, n: u32);
    }
}

ptxkit::kernels! {
    mod reference in "right.ptx";
    unsafe extern {
        fn tile(place: &u32);
    }
}

ptxkit::kernels! {
    mod attribute in "right.ptx";
    unsafe extern {
        #[inline]
        fn tile(place: u64);
    }
}

ptxkit::kernels! {
    mod threads in "right.ptx";
    unsafe extern {
        #[block(16, x)]
        fn tile(place: u64);
    }
}

ptxkit::kernels! {
    mod grammar of "right.ptx";
    unsafe extern {}
}

ptxkit::kernels! {
    mod vouched in "right.ptx";
    extern {}
}

ptxkit::kernels! {
    mod semicolon in "right.ptx";
    unsafe extern {
        fn tile(place: u64)
    }
}

ptxkit::kernels! {}

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
struct Reordered {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
#[repr(C, packed)]
struct Packed {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
#[repr(C)]
struct Generic<T> {
    value: T,
}

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
#[repr(u8)]
enum Choice {
    One,
}

fn main() {}
