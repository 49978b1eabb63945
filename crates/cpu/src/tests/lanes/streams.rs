//! Kernels that stream over one dimension.

use super::{ADDRESSES, agree, kernel, run};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

/// A loop over a grid's own size, as long as its kernel has one dimension and does little between
/// its accesses, runs whole warps; the threads of other blocks run alone.
#[test]
fn streams_run_whole_warps() {
    let stride = "mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %r1; bra TEST;";
    let next = "add.u32 %i, %i, %r4; TEST: setp.lt.u32 %p0, %i, %n; @%p0 bra NEXT;";
    let access = "ld.global.u32 %r5, [%x1]; ld.global.u32 %r6, [%x2]; mad.lo.u32 %r6, %r5, 3, %r6; \
                  st.global.u32 [%x2], %r6;";
    let body = format!("{stride} NEXT: {ADDRESSES} {access} {next}");
    let plane = format!("mov.u32 %r7, %tid.y; add.u32 %i, %i, %r7; {body}");
    let work = format!(
        "{stride} NEXT: {ADDRESSES} {access} {} {next}",
        "mul.lo.u32 %r6, %r6, %r5;".repeat(20)
    );
    let options = CompileOptions {
        vectorization: Vectorization::Auto,
    };
    for (body, width) in [(&body, 32), (&plane, 16), (&work, 16)] {
        let image = compile_image(&kernel(body), &options).unwrap();
        let vector = image.kernels[0].vector.as_ref();
        assert_eq!(vector.map(|vector| vector.width), Some(width), "{body}");
    }
    agree(&body);
    // There are 4096 words, of which a lane of either half of its warp is the first to leave.
    for (grid, block, start, n) in [
        (2, [32, 1, 1], 5, 4000),
        (3, [96, 1, 1], 21, 4077),
        (2, [48, 1, 1], 0, 1000),
        (4, [128, 1, 1], 3979, 4400),
        (4, [128, 1, 1], 3995, 4400),
    ] {
        let source = kernel(&format!("add.u32 %i, %i, {start}; {body}"));
        let alone = run(&source, Vectorization::Never, grid, block, n);
        let together = run(&source, Vectorization::Always, grid, block, n);
        assert_eq!(together.is_err(), n > 4096);
        assert_eq!(
            together, alone,
            "{grid} blocks of {block:?}, {start} to {n}"
        );
    }
}
