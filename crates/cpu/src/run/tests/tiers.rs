//! Optimized code that comes during a launch.

use std::time::{Duration, Instant};

use super::*;
use crate::CompileOptions;
use crate::source::compile_image;

const PTX: &str = "
.version 6.0 .target sm_50 .address_size 64
.visible .entry k(.param .u64 out) {
    .reg .b32 %t, %i, %x; .reg .b64 %out, %at; .reg .pred %p;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %x, %t;
    mov.u32 %i, 2000;
more:
    mad.lo.u32 %x, %x, 1664525, 1013904223;
    sub.u32 %i, %i, 1;
    setp.ne.u32 %p, %i, 0;
    @%p bra more;
    mul.wide.u32 %at, %t, 4;
    add.u64 %at, %at, %out;
    st.global.u32 [%at], %x;
    ret;
}";

/// Blocks that start once the optimized code is there run that, and nothing is compiled twice.
#[test]
fn blocks_of_a_launch_get_optimized_code() {
    let memory = Arc::new(DeviceMemory::with_size(16 << 20).unwrap());
    let image = compile_image(PTX, &CompileOptions::default()).unwrap();
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let out = memory.allocate(256, 256, Purpose::Device).unwrap();
    let grid = Grid::new(config(2, 64)).unwrap();
    let first = module.code().fastest(0, [64, 1, 1]).unwrap();
    let launched = Tiers::new(&module, 0, first, &grid).unwrap();
    assert!(launched.fastest().code.vector.is_none());

    let engine = Engine::with_workers(memory, 1);
    let words = || {
        engine
            .launch(&module, 0, config(1, 64), &out.to_le_bytes())
            .unwrap();
        // SAFETY: 256 bytes of the allocation made above, which no kernel writes now.
        unsafe { std::slice::from_raw_parts(out as *const u32, 64) }.to_vec()
    };
    let before = words();
    let start = Instant::now();
    while !module.code().is_hot(0, [64, 1, 1]) {
        assert!(start.elapsed() < Duration::from_secs(60), "it never is");
        assert_eq!(words(), before);
    }
    assert!(launched.fastest().code.vector.is_some());
    assert!(std::ptr::eq(launched.fastest(), launched.fastest()));
    assert!(!module.code().may_improve(0, [64, 1, 1]));
    assert_eq!(words(), before);
}
