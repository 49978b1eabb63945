//! PTX with errors, or none at all.

ptxkit::kernels! {
    mod of_file in "wrong.ptx";
    unsafe extern {}
}

ptxkit::kernels! {
    mod of_text = r#"
        .version 8.0
        .target sm_70
        .address_size 64
        .visible .entry k() { .reg .b32 %r; add.s32 %r, %x, 1; ret; }
    "#;
    unsafe extern {}
}

ptxkit::kernels! {
    mod missing in "missing.ptx";
    unsafe extern {}
}

ptxkit::kernels! {
    mod other_text in "forbid.rs";
    unsafe extern {}
}

ptxkit::kernels! {
    mod escaped = ".version 8.0\n.target sm_70";
    unsafe extern {}
}

ptxkit::kernels! {
    mod not_compiled source = "vector.cu";
    unsafe extern {}
}

fn main() {}
