//! Hot kernels are compiled a second time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::CompileOptions;
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, LaunchConfig};
use crate::source::compile_image;

/// Numbers that differ from thread to thread, after a loop that takes a while.
const PTX: &str = "
.version 6.0 .target sm_50 .address_size 64
.visible .entry k(.param .u64 out, .param .u64 out2) {
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

#[test]
fn a_hot_kernel_is_compiled_again_and_computes_the_same() {
    let image = compile_image(PTX, &CompileOptions::default()).unwrap();
    assert!(
        image.kernels[0].vector.is_none(),
        "the first code runs one thread at a time"
    );
    let memory = Arc::new(DeviceMemory::with_size(16 << 20).unwrap());
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let engine = Engine::with_workers(Arc::clone(&memory), 1);
    let out = memory.allocate(256, 256, Purpose::Device).unwrap();
    let config = LaunchConfig {
        grid: [1; 3],
        block: [64, 1, 1],
        shared_bytes: 0,
        cluster: [1; 3],
    };
    let launch = || {
        // SAFETY: 256 bytes of the allocation made above, which no kernel writes now.
        unsafe { std::ptr::write_bytes(out as *mut u8, 0, 256) };
        engine
            .launch(&module, 0, config, &out.to_le_bytes())
            .unwrap();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(out as *const u32, 64) }.to_vec()
    };
    assert!(!module.code().is_hot(0));
    let cold = launch();
    let expected = (0..2000).fold(7_u32, |x, _| {
        x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    });
    assert_eq!(cold[7], expected);
    let start = Instant::now();
    while !module.code().is_hot(0) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it never gets hot"
        );
        assert_eq!(launch(), cold);
    }
    assert_eq!(launch(), cold);
}
