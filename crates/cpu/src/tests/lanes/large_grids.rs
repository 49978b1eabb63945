//! Grids with more elements than caches hold.

use std::sync::Arc;

use super::columns::columns;
use super::{ADDRESSES, kernel};
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, LaunchConfig};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

const ALWAYS: CompileOptions = CompileOptions {
    vectorization: Vectorization::Always,
};

/// The threads of a grid that is large enough, and the words of the arrays.
const THREADS: usize = 4 << 20;
const WORDS: usize = 8 << 20;

/// Launches a kernel with so many threads for both arrays, which start at an offset in bytes, and
/// returns them.
fn run_large(source: &str, block: u32, offset: u64, n: usize) -> [Vec<u32>; 2] {
    let image = compile_image(source, &ALWAYS).unwrap();
    let memory = Arc::new(DeviceMemory::with_size(128 << 20).unwrap());
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let engine = Engine::with_workers(Arc::clone(&memory), 2);
    let [from, to] = [(); 2].map(|()| {
        let bytes = 4 * WORDS as u64;
        memory.allocate(bytes, 256, Purpose::Device).unwrap() + offset
    });
    // SAFETY: allocations of more words, which no kernel uses.
    let [from, to] =
        [from, to].map(|at| unsafe { std::slice::from_raw_parts_mut(at as *mut u32, THREADS) });
    for (i, value) in from.iter_mut().enumerate() {
        *value = ((i % 1000) as f32).to_bits();
    }
    to.fill(7);
    let addresses = [from.as_ptr(), to.as_ptr()].map(|at| at.addr() as u64);
    let mut params: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
    params.extend((n as u32).to_le_bytes());
    let config = LaunchConfig {
        grid: [THREADS as u32 / block, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
        cluster: [1; 3],
    };
    engine.launch(&module, 0, config, &params).unwrap();
    [from.to_vec(), to.to_vec()]
}

#[test]
fn elements() {
    let source = kernel(
        "setp.ge.u32 %p0, %i, %n; @%p0 bra END; mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; \
         add.u64 %x2, %out, %x0; ld.global.f32 %f0, [%x1]; mov.f32 %f1, 0f3F800000; \
         add.f32 %f0, %f0, %f1; st.global.f32 [%x2], %f0;\nEND:",
    );
    for (offset, n) in [
        (0, THREADS),
        (8, THREADS),
        (32, THREADS),
        (64, THREADS - 1000),
    ] {
        let [from, to] = run_large(&source, 256, offset, n);
        let value = |i: usize| ((i % 1000) as f32).to_bits();
        let expected = |i: usize| {
            if i < n {
                (((i % 1000) as f32 + 1.0).to_bits(), value(i))
            } else {
                (7, value(i))
            }
        };
        let wrong = (0..THREADS).find(|&i| (to[i], from[i]) != expected(i));
        assert_eq!(wrong, None, "at {offset}, of {n}");
    }
}

/// Columns of tiles that become rows, also those that are used once more.
#[test]
fn columns_of_tiles() {
    let stored = "ld.shared.u32 %r9, [%r4]; st.global.u32 [%x2], %r9;";
    let used = "ld.shared.u32 %r9, [%r4]; st.global.u32 [%x2], %r9; not.b32 %r9, %r9; \
                st.global.u32 [%x1], %r9;";
    for (body, stride, at, is_alone) in [
        (stored, 44, 128, true),
        (stored, -44, 2772, true),
        (used, 20, 4, false),
    ] {
        let source = kernel(&format!("{} {body}", columns(stride, at)));
        for offset in [0, 16] {
            let [from, to] = run_large(&source, 64, offset, 0);
            // What the tile has where the threads of a block read.
            let word = |i: usize| {
                let place = i as i32 % 64 * stride + at;
                place.cast_unsigned().wrapping_mul(2_654_435_761)
            };
            let expected = |i: usize| {
                if is_alone {
                    (((i % 1000) as f32).to_bits(), word(i))
                } else {
                    (!word(i), word(i))
                }
            };
            let wrong = (0..THREADS).find(|&i| (from[i], to[i]) != expected(i));
            assert_eq!(wrong, None, "{body} at {offset}");
        }
    }
}

/// Vectors behind a barrier, of words and of double words, which are used once more.
#[test]
fn vectors() {
    let words = "ld.global.u32 %r3, [%x1]; add.u32 %r4, %r3, %r2; bar.sync 0; \
                 st.global.u32 [%x2], %r4; bar.sync 0; sub.u32 %r3, %r4, %r3; \
                 st.global.u32 [%x1], %r3;";
    // Each of half of the threads has two words.
    let double_words = "shr.u32 %r5, %n, 1; setp.ge.u32 %p0, %i, %r5; @%p0 bra END; \
                        add.u64 %x1, %x1, %x0; add.u64 %x2, %x2, %x0; ld.global.u64 %x3, [%x1]; \
                        cvt.u64.u32 %x4, %i; add.u64 %x5, %x3, %x4; \
                        st.global.u64 [%x2], %x5; sub.u64 %x5, %x5, %x3; st.global.u64 [%x1], %x5;\nEND:";
    for (body, is_wide) in [(words, false), (double_words, true)] {
        let source = kernel(&format!("{ADDRESSES} {body}"));
        for offset in [0, 8] {
            let [from, to] = run_large(&source, 128, offset, THREADS);
            let value = |i: usize| ((i % 1000) as f32).to_bits();
            let expected = |i: usize| match is_wide {
                false => ((i % 128) as u32, value(i) + (i % 128) as u32),
                true if i.is_multiple_of(2) => ((i / 2) as u32, value(i) + (i / 2) as u32),
                true => (0, value(i)),
            };
            let wrong = (0..THREADS).find(|&i| (from[i], to[i]) != expected(i));
            assert_eq!(wrong, None, "{body} at {offset}");
        }
    }
}
