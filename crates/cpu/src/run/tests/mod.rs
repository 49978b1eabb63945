//! Tests of the scheduler with kernels written in Rust that follow the ABI of compiled code.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "kernels that are declared beside their launches"
)]

use std::cell::Cell;

use super::launch::Kernel;
use super::schedule::CompiledKernel;
use super::*;
use crate::abi::{
    Access, BlockContext, EXITED, KernelFn, Request, SLOT_BYTES, SyncKind, SyncPoint, WARP_SIZE,
};
use crate::lines::{Line, Lines};
use crate::memory::Purpose;

fn engine(workers: u32) -> Engine {
    Engine::with_workers(
        Arc::new(DeviceMemory::with_size(16 << 20).unwrap()),
        workers,
    )
}

/// Code of no module: messages name its own lines.
struct OwnLines;

impl Lines for OwnLines {
    fn line(&self, compiled: u32) -> Line {
        Line {
            ptx: compiled,
            source: None,
        }
    }
}

fn kernel<'a>(scalar: KernelFn, points: &'a [SyncPoint]) -> Kernel<'a> {
    Kernel {
        name: "test",
        code: CompiledKernel {
            scalar,
            vector: None,
            stateless: points.is_empty(),
            points,
            lines: &OwnLines,
            matrices: &[],
        },
        shared_bytes: 4096,
        local_bytes: 0,
        slots: 4,
        packed_bytes: 0,
        globals: &[],
    }
}

impl Versions for Kernel<'_> {
    fn fastest(&self) -> &Kernel<'_> {
        self
    }
}

fn points<const N: usize>(kinds: [SyncKind; N]) -> [SyncPoint; N] {
    let mut line = 9;
    kinds.map(|kind| {
        line += 1;
        SyncPoint {
            kind,
            line,
            barrier: None,
            matrix: None,
            then: None,
        }
    })
}

fn config(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
        cluster: [1; 3],
    }
}

/// A thread of a block.
struct Thread {
    context: *mut BlockContext,
    index: u32,
}

/// The code of a thread: from its state to its next state.
type Body = fn(&mut Thread, u32) -> u32;

/// Runs the body for each thread, as a compiled kernel does.
///
/// SAFETY of all tests: the scheduler passes a valid context, and the bodies stay within the
/// arrays.
unsafe fn each(
    context: *mut BlockContext,
    first: u32,
    last: u32,
    stateful: bool,
    body: Body,
) -> u32 {
    for index in first..last {
        let mut thread = Thread { context, index };
        if stateful {
            let state = unsafe { *(*context).states.add(index as usize) };
            assert_ne!(state, EXITED, "an exited thread was run");
            let next = body(&mut thread, state);
            unsafe { *(*context).states.add(index as usize) = next };
        } else {
            body(&mut thread, 0);
        }
        if unsafe { (*context).fault.kind } != 0 {
            return 1;
        }
    }
    0
}

macro_rules! body {
    ($name:ident, $stateful:expr, $body:expr) => {
        unsafe extern "C" fn $name(context: *mut BlockContext, first: u32, last: u32) -> u32 {
            let body: Body = $body;
            unsafe { each(context, first, last, $stateful, body) }
        }
    };
}

mod faults;
mod sync;
mod tiers;
mod waiting;

impl Thread {
    fn context(&self) -> &BlockContext {
        unsafe { &*self.context }
    }
    fn request(&mut self) -> &mut Request {
        unsafe { &mut *(*self.context).requests.add(self.index as usize) }
    }
    fn ask(&mut self, operands: [u64; 4]) {
        self.request().operands = operands;
    }
    fn slot(&mut self, slot: u64) -> &mut u64 {
        let context = self.context();
        let (warp, lane) = (self.index / WARP_SIZE, self.index % WARP_SIZE);
        let at = u64::from(warp) * context.slot_stride
            + slot * u64::from(SLOT_BYTES)
            + u64::from(lane) * 8;
        unsafe { &mut *context.slots.add(at as usize).cast::<u64>() }
    }
    fn shared(&self, index: u32) -> &Cell<u32> {
        unsafe { &*((self.context().shared as *const Cell<u32>).add(index as usize)) }
    }
    /// The word of the output that belongs to this thread.
    fn out(&self, index: u32) -> &AtomicU64 {
        unsafe { &*(*self.context().params.cast::<*const AtomicU64>()).add(index as usize) }
    }
    fn global(&self) -> u32 {
        self.context().block[0] * self.context().threads + self.index
    }
}

/// Launches a kernel, and returns the first `words` words of the output.
fn launch(
    engine: &Engine,
    kernel: &Kernel<'_>,
    config: LaunchConfig,
    words: usize,
) -> Result<Vec<u64>, Box<Fault>> {
    let bytes = (words.max(1) * 8) as u64;
    let out = engine
        .memory()
        .allocate(bytes, 256, Purpose::Device)
        .unwrap();
    let slice = unsafe { std::slice::from_raw_parts_mut(out as *mut u64, words) };
    slice.fill(0);
    let result = engine.run(
        0,
        kernel,
        &Grid::new(config).unwrap(),
        &ParamBlock::new(&out.to_le_bytes(), 8),
    );
    let words = slice.to_vec();
    engine.memory().free(out).unwrap();
    result.map(|()| words)
}

body!(write_index, false, |t, _| {
    t.out(t.global())
        .store(u64::from(t.global()) + 1, Ordering::Relaxed);
    0
});

#[test]
fn every_thread_of_every_block_runs_once() {
    for workers in [1, 3] {
        let engine = engine(workers);
        for (grid, block) in [(1, 1), (1, 32), (7, 33), (5000, 64)] {
            let words = launch(
                &engine,
                &kernel(write_index, &[]),
                config(grid, block),
                (grid * block) as usize,
            );
            let expected: Vec<u64> = (1..=u64::from(grid * block)).collect();
            assert_eq!(words.unwrap(), expected);
        }
    }
}

body!(write_position, false, |t, _| {
    let [x, y, z] = t.context().block;
    t.out(x + 3 * (y + 4 * z))
        .fetch_add(u64::from(100 * x + 10 * y + z + 1), Ordering::Relaxed);
    0
});

#[test]
fn blocks_know_their_place_in_the_grid() {
    let config = LaunchConfig {
        grid: [3, 4, 5],
        block: [1, 1, 1],
        shared_bytes: 0,
        cluster: [1; 3],
    };
    let words = launch(&engine(2), &kernel(write_position, &[]), config, 60).unwrap();
    assert_eq!(words[0], 1);
    assert_eq!(words[2 + 3 * (1 + 4 * 3)], 214);
    assert_eq!(words[59], 235);
}
