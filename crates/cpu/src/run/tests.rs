//! The scheduler under kernels written here by hand as compiled code would be.

use std::cell::Cell;

use super::schedule::Code;
use super::*;
use crate::block::{Access, BlockContext, EXITED, KernelFn, Request, SyncKind, SyncPoint};
use crate::memory::Purpose;

fn engine(workers: u32) -> Engine {
    Engine::with_workers(
        Arc::new(DeviceMemory::with_size(16 << 20).unwrap()),
        workers,
    )
}

fn kernel<'a>(scalar: KernelFn, points: &'a [SyncPoint]) -> Kernel<'a> {
    Kernel {
        name: "test",
        code: Code {
            scalar,
            lanes: None,
            stateless: points.is_empty(),
            points,
        },
        shared_bytes: 4096,
        local_bytes: 0,
        slots: 4,
        globals: &[],
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
        }
    })
}

fn shape(grid: u32, block: u32) -> LaunchShape {
    LaunchShape {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
    }
}

/// A thread of a block, as a kernel sees it.
struct Thread {
    context: *mut BlockContext,
    index: u32,
}

/// What a thread does when it is called: the state where it stops next.
type Body = fn(&mut Thread, u32) -> u32;

/// Runs the body for each thread, as a compiled kernel does.
///
/// SAFETY of all that follows: the scheduler hands over a valid context, and the
/// bodies stay within the arrays.
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
        let at = slot * context.slot_stride + u64::from(self.index) * 8;
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

/// Launches and gives the first `words` of the output.
fn launch(
    engine: &Engine,
    kernel: &Kernel<'_>,
    shape: LaunchShape,
    words: usize,
) -> Result<Vec<u64>, Fault> {
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
        &Grid::new(shape).unwrap(),
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
                shape(grid, block),
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
    let shape = LaunchShape {
        grid: [3, 4, 5],
        block: [1, 1, 1],
        shared_bytes: 0,
    };
    let words = launch(&engine(2), &kernel(write_position, &[]), shape, 60).unwrap();
    assert_eq!(words[0], 1);
    assert_eq!(words[2 + 3 * (1 + 4 * 3)], 214);
    assert_eq!(words[59], 235);
}

// Reverses a block through shared memory.
body!(reverse, true, |t, state| {
    let n = t.context().threads;
    match state {
        0 => {
            t.shared(t.index).set(t.index * 3);
            *t.slot(3) = u64::from(t.global());
            t.ask([0, 0, 0, 0]);
            1
        }
        _ => {
            let at = *t.slot(3) as u32;
            t.out(at).store(
                u64::from(t.shared(n - 1 - t.index).get()),
                Ordering::Relaxed,
            );
            EXITED
        }
    }
});

#[test]
fn a_barrier_holds_all_threads() {
    let points = points([SyncKind::Barrier]);
    for block in [1, 31, 32, 100, 1024] {
        let words = launch(
            &engine(2),
            &kernel(reverse, &points),
            shape(40, block),
            40 * block as usize,
        )
        .unwrap();
        for (i, word) in words.into_iter().enumerate() {
            assert_eq!(word, u64::from(3 * (block - 1 - i as u32 % block)));
        }
    }
}

// Half of the threads leave; the others meet at different lines, twice.
body!(divergent, true, |t, state| {
    match state {
        0 if t.index % 2 == 0 => EXITED,
        0 => {
            t.ask([3, 0, 0, 0]);
            t.shared(t.index).set(t.index);
            if t.index < 40 { 1 } else { 2 }
        }
        1 | 2 => {
            let other = t.context().threads - t.index;
            t.out(t.index)
                .store(u64::from(t.shared(other).get()), Ordering::Relaxed);
            3
        }
        _ => {
            t.out(t.index).fetch_add(1000, Ordering::Relaxed);
            EXITED
        }
    }
});

#[test]
fn exited_threads_are_not_waited_for() {
    let points = points([SyncKind::Barrier, SyncKind::Barrier, SyncKind::Barrier]);
    let words = launch(&engine(1), &kernel(divergent, &points), shape(1, 80), 80).unwrap();
    for (i, &word) in words.iter().enumerate() {
        let expected = if i % 2 == 0 { 0 } else { 1000 + 80 - i as u64 };
        assert_eq!(word, expected, "thread {i}");
    }
}

// Warp 0 makes, warp 1 takes, three times, with a barrier each way.
body!(produce_and_consume, true, |t, state| {
    let round = if state == 0 { 0 } else { *t.slot(0) };
    let producer = t.index < 32;
    match (producer, state) {
        // Producer: wait for "empty" (barrier 1), fill, arrive at "full" (barrier 2).
        (true, 0 | 2) if round == 3 => EXITED,
        (true, 0 | 2) => {
            *t.slot(0) = round;
            t.ask([1, 64, 0, 0]);
            1
        }
        (true, _) => {
            t.shared(t.index).set((round as u32 + 1) * 100 + t.index);
            *t.slot(0) = round + 1;
            t.ask([2, 64, 0, 0]);
            2
        }
        // Consumer: arrive at "empty", wait for "full", take.
        (false, 0) => {
            *t.slot(0) = 0;
            t.ask([1, 64, 0, 0]);
            2
        }
        (false, 2) => {
            t.ask([2, 64, 0, 0]);
            1
        }
        (false, _) => {
            t.out(t.index - 32)
                .fetch_add(u64::from(t.shared(t.index - 32).get()), Ordering::Relaxed);
            *t.slot(0) = round + 1;
            t.ask([1, 64, 0, 0]);
            if round == 2 { EXITED } else { 2 }
        }
    }
});

#[test]
fn counted_barriers_let_warps_hand_over() {
    let points = points([SyncKind::Barrier, SyncKind::BarrierArrive]);
    let words = launch(
        &engine(1),
        &kernel(produce_and_consume, &points),
        shape(1, 64),
        32,
    )
    .unwrap();
    let expected: Vec<u64> = (0..32).map(|i| 600 + 3 * i).collect();
    assert_eq!(words, expected);
}

body!(reductions, true, |t, state| {
    let operand = u64::from(t.index % 3 == 0);
    let result = t.request().results[0];
    match state {
        0 => t.ask([0, 0, operand, 0]),
        s => {
            t.out((s - 1) * 100 + t.index)
                .store(result, Ordering::Relaxed);
        }
    }
    if state == 3 { EXITED } else { state + 1 }
});

#[test]
fn barriers_reduce_predicates() {
    let points = points([
        SyncKind::BarrierPopc,
        SyncKind::BarrierAnd,
        SyncKind::BarrierOr,
    ]);
    let words = launch(&engine(1), &kernel(reductions, &points), shape(1, 100), 300).unwrap();
    assert!(words[..100].iter().all(|&w| w == 34));
    assert!(words[100..200].iter().all(|&w| w == 0));
    assert!(words[200..].iter().all(|&w| w == 1));
}

// A butterfly sum over each warp, then only lane 0 goes on to a barrier.
body!(butterfly, true, |t, state| {
    let lane = t.index % 32;
    if state == 6 {
        let sum = *t.slot(0);
        t.out(t.index / 32).store(sum, Ordering::Relaxed);
        return EXITED;
    }
    let sum = if state == 0 {
        u64::from(t.index)
    } else {
        *t.slot(0) + t.request().results[0]
    };
    *t.slot(0) = sum;
    if state == 5 {
        t.ask([0, 0, 0, 0]);
        return if lane == 0 { 6 } else { EXITED };
    }
    t.ask([sum, 16 >> state, 31, u64::from(u32::MAX)]);
    state + 1
});

#[test]
fn shuffles_sum_over_warps() {
    use SyncKind::{Barrier, ShflBfly};
    let points = points([ShflBfly, ShflBfly, ShflBfly, ShflBfly, ShflBfly, Barrier]);
    let words = launch(&engine(1), &kernel(butterfly, &points), shape(1, 128), 4).unwrap();
    assert_eq!(words, [496, 496 + 1024, 496 + 2048, 496 + 3072]);
}

// Even and odd lanes vote apart, at different places, then all together.
body!(masked_votes, true, |t, state| {
    let even = t.index % 2 == 0;
    match state {
        0 => {
            t.ask([
                u64::from(t.index < 10),
                if even { 0x5555_5555 } else { 0xaaaa_aaaa },
                0,
                0,
            ]);
            if even { 1 } else { 2 }
        }
        1 | 2 => {
            *t.slot(0) = t.request().results[0];
            t.ask([1, u64::from(u32::MAX), 0, 0]);
            3
        }
        _ => {
            let both = *t.slot(0) << 32 | t.request().results[0];
            t.out(t.index).store(both, Ordering::Relaxed);
            EXITED
        }
    }
});

#[test]
fn groups_of_lanes_vote_apart() {
    let points = points([
        SyncKind::VoteBallot,
        SyncKind::VoteBallot,
        SyncKind::VoteBallot,
    ]);
    // The second warp has four lanes only.
    let words = launch(&engine(1), &kernel(masked_votes, &points), shape(1, 36), 36).unwrap();
    assert_eq!(words[0], 0x155 << 32 | 0xffff_ffff);
    assert_eq!(words[31], 0x2aa << 32 | 0xffff_ffff);
    assert_eq!(words[33], 0xf);
}

body!(who_is_here, true, |t, state| {
    match (state, t.index % 4) {
        (0, 0) => 1,
        (0, 1) => EXITED,
        (0, _) => 2,
        _ => {
            let mask = t.request().results[0];
            t.out(t.index).store(mask, Ordering::Relaxed);
            EXITED
        }
    }
});

#[test]
fn activemask_names_the_lanes_that_came_together() {
    let points = points([SyncKind::ActiveMask, SyncKind::ActiveMask]);
    let words = launch(&engine(1), &kernel(who_is_here, &points), shape(1, 32), 32).unwrap();
    assert_eq!(words[..4], [0x1111_1111, 0, 0xcccc_cccc, 0xcccc_cccc]);
}

// Thread 0 waits for the flag that the last thread sets after a yield of its own.
body!(spin_in_a_block, true, |t, state| {
    let last = t.context().threads - 1;
    match state {
        0 if t.index == last => 1,
        0 | 1 if t.index == 0 => {
            if t.out(0).load(Ordering::Relaxed) == 7 {
                EXITED
            } else {
                1
            }
        }
        1 if t.index == last => {
            t.out(0).store(7, Ordering::Relaxed);
            EXITED
        }
        _ => EXITED,
    }
});

#[test]
fn a_thread_may_wait_for_another() {
    let points = points([SyncKind::Yield]);
    for block in [2, 32, 40] {
        let words = launch(
            &engine(1),
            &kernel(spin_in_a_block, &points),
            shape(1, block),
            1,
        )
        .unwrap();
        assert_eq!(words, [7]);
    }
}

// Every block waits until all blocks have come: a barrier of the grid.
body!(grid_barrier, true, |t, state| {
    if state == 0 {
        t.out(0).fetch_add(1, Ordering::SeqCst);
    }
    let all = u64::from(t.context().grid_dim[0] * t.context().threads);
    if t.out(0).load(Ordering::SeqCst) < all {
        return 1;
    }
    t.out(1 + t.global()).store(1, Ordering::Relaxed);
    EXITED
});

#[test]
fn blocks_may_wait_for_all_other_blocks() {
    let points = points([SyncKind::Yield]);
    for workers in [1, 2, 4] {
        let words = launch(
            &engine(workers),
            &kernel(grid_barrier, &points),
            shape(50, 40),
            2001,
        )
        .unwrap();
        assert_eq!(words[0], 2000);
        assert!(words[1..].iter().all(|&word| word == 1));
    }
}

#[test]
fn waiting_blocks_keep_their_memory() {
    let engine = Engine::with_workers(Arc::new(DeviceMemory::with_size(128 << 10).unwrap()), 2);
    let points = points([SyncKind::Yield]);
    // A block takes 4 KiB of shared memory: ten find room at once.
    let words = launch(&engine, &kernel(grid_barrier, &points), shape(10, 4), 41).unwrap();
    assert!(words[1..].iter().all(|&word| word == 1));
}

body!(half_waits, true, |t, state| {
    match state {
        0 => {
            t.ask(if t.index < 32 {
                [0, 0, 0, 0]
            } else {
                [1, 0, 0, 0]
            });
            if t.index < 32 { 1 } else { 2 }
        }
        _ => EXITED,
    }
});

#[test]
fn a_deadlock_is_a_fault_that_names_the_lines() {
    let points = points([SyncKind::Barrier, SyncKind::Barrier]);
    let fault = launch(&engine(2), &kernel(half_waits, &points), shape(8, 64), 1).unwrap_err();
    assert_eq!(
        (fault.kind, fault.block, fault.line),
        (FaultKind::Deadlock, [0; 3], Some(10))
    );
    assert_eq!(
        fault.message,
        "kernel test, block (0,0,0), thread (0,0,0): deadlock: 32 threads wait at barrier 0 in line 10, \
         32 threads wait at barrier 1 in line 11; PTX line 10"
    );
}

body!(barrier_99, true, |t, _| {
    t.ask([99, 0, 0, 0]);
    1
});

#[test]
fn a_barrier_that_does_not_exist_is_a_fault() {
    let points = points([SyncKind::Barrier]);
    let fault = launch(&engine(1), &kernel(barrier_99, &points), shape(1, 4), 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
    assert!(fault.message.contains("barrier 99"), "{fault}");
}

// Block 3, thread 17 reads four bytes past the end of the output.
body!(out_of_bounds, false, |t, _| {
    if t.context().block == [3, 0, 0] && t.index == 17 {
        let address = std::ptr::from_ref(t.out(0)) as u64 + 1028;
        let fault = crate::block::FaultRecord {
            kind: FaultKind::OutOfBounds as u32,
            line: 27,
            thread: 17,
            access: 4,
            address,
        };
        unsafe { (*t.context).fault = fault };
    }
    0
});

#[test]
fn a_fault_says_kernel_block_thread_address_and_line() {
    let engine = engine(2);
    let mut kernel = kernel(out_of_bounds, &[]);
    kernel.name = "vecadd";
    let fault = launch(&engine, &kernel, shape(6, 32), 128).unwrap_err();
    let address = fault.address.unwrap();
    assert_eq!(
        fault.message,
        format!(
            "kernel vecadd, block (3,0,0), thread (17,0,0): out-of-bounds read of 4 bytes at {address:#x}, \
             4 bytes past the end of the 1024-byte allocation at {:#x}; PTX line 27",
            address - 1028
        )
    );
    assert_eq!(
        (fault.block, fault.thread, fault.line),
        ([3, 0, 0], [17, 0, 0], Some(27))
    );
    // The engine works on.
    assert!(launch(&engine, &self::kernel(write_index, &[]), shape(1, 1), 1).is_ok());
}

#[test]
fn a_fault_in_shared_memory_gives_the_offset() {
    let context_fault = |access| {
        let engine = engine(1);
        unsafe extern "C" fn fault(context: *mut BlockContext, _: u32, _: u32) -> u32 {
            unsafe {
                let access = (*context).params.cast::<u64>().read() as u32;
                (*context).fault = crate::block::FaultRecord {
                    kind: 1,
                    line: 5,
                    thread: 0,
                    access,
                    address: 4096,
                };
            }
            1
        }
        engine
            .run(
                0,
                &kernel(fault, &[]),
                &Grid::new(shape(1, 1)).unwrap(),
                &ParamBlock::new(&u64::from(access).to_le_bytes(), 8),
            )
            .unwrap_err()
            .message
    };
    assert!(context_fault(4 | Access::WRITE | Access::SHARED).contains(
        "out-of-bounds write of 4 bytes at shared address 0x1000, the block has 4096 bytes"
    ));
}

#[test]
fn launches_from_several_threads_share_the_engine() {
    let engine = engine(2);
    let points = points([SyncKind::Barrier]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let words =
                        launch(&engine, &kernel(reverse, &points), shape(30, 64), 1920).unwrap();
                    assert_eq!(words[64], 3 * 63);
                }
            });
        }
    });
    assert_eq!(engine.memory().allocations(), []);
}
