//! How long the CPU device's compiler takes: PTX text to binary.
//!
//! The goal: at most 1 ms for a kernel of about 100 instructions (`heat`, 103).
//! `auto` is the second compilation, for several threads at once, which happens
//! in the background once a kernel is hot.

use criterion::{Criterion, criterion_group, criterion_main};
use ptxkit::cpu::{CompileOptions, Vectorization, compile};
use std::hint::black_box;

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
            (" (auto)", Vectorization::Auto),
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

criterion_group!(benches, kernels);
criterion_main!(benches);
