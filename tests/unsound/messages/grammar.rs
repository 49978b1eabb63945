//! What is written that no declaration has, each in a macro of its own: the rest of it is not
//! read.

ptxkit::kernels! {
    #[inline]
    mod attribute in "right.ptx";
    unsafe extern {}
}

ptxkit::kernels! {
    mod "name" in "right.ptx";
    unsafe extern {}
}

ptxkit::kernels! {
    mod path in right;
    unsafe extern {}
}

ptxkit::kernels! {
    mod text = 5;
    unsafe extern {}
}

ptxkit::kernels! {
    mod source source "vector.cu";
    unsafe extern {}
}

ptxkit::kernels! {
    mod external in "right.ptx";
    unsafe {}
}

ptxkit::kernels! {
    mod braces in "right.ptx";
    unsafe extern;
}

ptxkit::kernels! {
    mod function in "right.ptx";
    unsafe extern {
        safe tile(place: u64);
    }
}

ptxkit::kernels! {
    mod kernel in "right.ptx";
    unsafe extern {
        fn (place: u64);
    }
}

ptxkit::kernels! {
    mod parameters in "right.ptx";
    unsafe extern {
        fn tile;
    }
}

ptxkit::kernels! {
    mod nameless in "right.ptx";
    unsafe extern {
        fn tile(_: u64);
    }
}

ptxkit::kernels! {
    mod number in "right.ptx";
    unsafe extern {
        fn tile(3: u64);
    }
}

ptxkit::kernels! {
    mod typeless in "right.ptx";
    unsafe extern {
        fn tile(place:);
    }
}

ptxkit::kernels! {
    mod link_name in "right.ptx";
    unsafe extern {
        #[link_name(tile)]
        fn tile(place: u64);
    }
}

ptxkit::kernels! {
    mod link_path in "right.ptx";
    unsafe extern {
        #[link_name = tile]
        fn tile(place: u64);
    }
}

ptxkit::kernels! {
    mod dimensions in "right.ptx";
    unsafe extern {
        #[block(1, 2, 3, 4)]
        fn tile(place: u64);
    }
}

ptxkit::kernels! {
    mod many = ".version 8.0 .target sm_70 .address_size 64 .entry k0() { ret; } .entry k1() { ret; } .entry k2() { ret; } .entry k3() { ret; } .entry k4() { ret; } .entry k5() { ret; } .entry k6() { ret; } .entry k7() { ret; } .entry k8() { ret; } .entry k9() { ret; } .entry k10() { ret; } .entry k11() { ret; } .entry k12() { ret; } .entry k13() { ret; }";
    unsafe extern {
        fn k99();
    }
}

ptxkit::kernels! {
    mod errors = r#"
        .version 8.0 .target sm_70 .address_size 64
        .entry k() {
            .reg .b32 %r;
            add.s32 %r, %x0, 1;
            add.s32 %r, %x1, 1;
            add.s32 %r, %x2, 1;
            add.s32 %r, %x3, 1;
            add.s32 %r, %x4, 1;
            add.s32 %r, %x5, 1;
            add.s32 %r, %x6, 1;
            add.s32 %r, %x7, 1;
            add.s32 %r, %x8, 1;
            add.s32 %r, %x9, 1;
            add.s32 %r, %x10, 1;
            add.s32 %r, %x11, 1;
            ret;
        }"#;
    unsafe extern {}
}

const OF_A_NAME: ptxkit::loader::Source = ptxkit::include_ptx!(PATH);

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
#[repr(C)]
union Either {
    integer: u32,
    float: f32,
}

#[derive(Clone, Copy, ptxkit::DeviceRepr)]
#[repr(C)]
struct Unit;

#[derive(Clone, ptxkit::DeviceRepr)]
#[repr(C)]
struct Moved {
    value: u32,
}

fn main() {}
