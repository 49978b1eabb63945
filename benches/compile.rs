//! How long the CPU device's compiler takes: PTX text to binary, and the load of a library
//! until its first kernel can be launched.
//!
//! The goal: at most 1 ms for a kernel of about 100 instructions (`heat`, 103).
//! `auto` is the second compilation, for several threads at once, which happens
//! in the background once a kernel is hot.
//!
//! A library of 500 kernels, 3.4 MB, is loaded twice: with its kernels compiled when they
//! are asked for, and all at once (`CUDA_MODULE_LOADING=EAGER`).

#[path = "kernels/service.rs"]
mod service;

use criterion::{Criterion, criterion_group, criterion_main};
use ptxkit::cpu::{CompileOptions, Vectorization, compile, table};
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::null_mut;

fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("cpu compile");
    for (name, ptx) in [
        ("heat, 103 instructions", include_str!("kernels/heat.ptx")),
        (
            "vecadd, 20 instructions",
            include_str!("../ptx-samples/vecadd.ptx"),
        ),
        (
            "matmul_shared",
            include_str!("../ptx-samples/matmul_shared.ptx"),
        ),
        ("reduction", include_str!("../ptx-samples/reduction.ptx")),
    ] {
        for (suffix, lanes) in [
            ("", Vectorization::WhenHot),
            (" (always)", Vectorization::Always),
        ] {
            let mut options = CompileOptions::default();
            options.vectorization = lanes;
            group.bench_function(format!("{name}{suffix}"), |b| {
                b.iter(|| compile(black_box(ptx), &options).expect("it compiles"));
            });
        }
    }
    group.finish();
}

/// `cuLibraryLoadData` and the first `cuLibraryGetKernel`.
fn library(c: &mut Criterion) {
    let mut group = c.benchmark_group("cpu library");
    group.sample_size(10);
    let api = table();
    let entries = (
        api.cuInit,
        api.cuLibraryLoadData,
        api.cuLibraryGetKernel,
        api.cuLibraryUnload,
    );
    let (Some(init), Some(load), Some(get), Some(unload)) = entries else {
        panic!("the device has no libraries")
    };
    // SAFETY: it may be called at any time.
    assert_eq!(unsafe { init(0) }, 0);
    let text = CString::new(service::module(500)).expect("it has no NUL");
    for (name, loading) in [
        ("first of 500 kernels", "LAZY"),
        ("first of 500 kernels, all at once", "EAGER"),
    ] {
        // SAFETY: no other thread reads the environment now.
        unsafe { std::env::set_var("CUDA_MODULE_LOADING", loading) };
        group.bench_function(name, |b| {
            b.iter(|| {
                let (mut library, mut kernel) = (null_mut(), null_mut());
                let (none, no_values) = (null_mut(), null_mut());
                let code = text.as_ptr().cast();
                // SAFETY: text and name end in NUL, and each call writes one handle.
                unsafe {
                    let loaded = load(&mut library, code, none, no_values, 0, none, no_values, 0);
                    assert_eq!(loaded, 0);
                    assert_eq!(get(&mut kernel, library, c"kernel_250".as_ptr()), 0);
                    assert_eq!(unload(library), 0);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, kernels, library);
criterion_main!(benches);
