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

ptxkit::kernels! {
    mod addresses in "right.ptx";
    unsafe extern {
        #[link_name = "_Z6vecsubPfj"]
        safe fn vecsub(a: ptxkit::driver::DevicePointer, n: u32);
        fn tile(p0: u32, p1: u32, p2: u32, p3: u32, p4: u32, p5: u32, p6: u32, p7: u32, p8: u32, p9: u32, p10: u32, p11: u32, p12: u32, p13: u32, p14: u32, p15: u32, p16: u32, p17: u32, p18: u32, p19: u32, p20: u32, p21: u32, p22: u32, p23: u32, p24: u32, p25: u32, p26: u32, p27: u32, p28: u32, p29: u32, p30: u32, p31: u32, p32: u32);
    }
}

fn main() {}
