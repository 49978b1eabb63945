//! Threads and blocks that wait for memory.

use std::time::Duration;

use super::*;

// Thread 0 waits for a flag that the last thread sets after it has yielded.
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
            config(1, block),
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
            config(50, 40),
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
    // A block uses 4 KiB of shared memory, so that ten fit at once.
    let words = launch(&engine, &kernel(grid_barrier, &points), config(10, 4), 41).unwrap();
    assert!(words[1..].iter().all(|&word| word == 1));
}

body!(write_slowly, true, |t, state| {
    if state == 0 {
        t.out(0).fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(20));
        return 1;
    }
    t.out(1 + t.global()).store(1, Ordering::Relaxed);
    EXITED
});

#[test]
fn a_worker_waits_for_the_memory_of_another() {
    let points = points([SyncKind::Barrier]);
    let mut kernel = kernel(write_slowly, &points);
    // The blocks of one worker take all memory, or there is memory for one block alone.
    for (shared_bytes, blocks) in [(4 << 10, 200), (40 << 10, 20)] {
        kernel.shared_bytes = shared_bytes;
        for workers in [1, 2, 4] {
            let memory = Arc::new(DeviceMemory::with_size(64 << 10).unwrap());
            let engine = Engine::with_workers(memory, workers);
            let threads = blocks * 4;
            let words = launch(&engine, &kernel, config(blocks, 4), 1 + threads as usize).unwrap();
            assert_eq!(words[0], u64::from(threads));
            assert!(words[1..].iter().all(|&word| word == 1));
        }
    }
}

// Two blocks wait for all others, which take their time and wait once.
body!(first_are_last, true, |t, state| {
    let is_first = t.global() < 8;
    if !is_first && state == 0 {
        std::thread::sleep(Duration::from_micros(30));
        return 1;
    }
    if is_first && t.out(0).load(Ordering::SeqCst) < 72 {
        return 1;
    }
    t.out(1 + t.global()).store(1, Ordering::Relaxed);
    t.out(0).fetch_add(1, Ordering::SeqCst);
    EXITED
});

#[test]
fn a_block_that_is_done_leaves_its_memory_to_the_next() {
    let points = points([SyncKind::Yield]);
    let mut kernel = kernel(first_are_last, &points);
    // Memory for three or four blocks, of which two are done last.
    for shared_bytes in [14 << 10, 18 << 10] {
        kernel.shared_bytes = shared_bytes;
        for workers in 1..4 {
            let memory = Arc::new(DeviceMemory::with_size(64 << 10).unwrap());
            let engine = Engine::with_workers(memory, workers);
            let words = launch(&engine, &kernel, config(20, 4), 81).unwrap();
            assert!(words[1..].iter().all(|&word| word == 1));
        }
    }
}

// Items are done from the last one to the first, in a loop of votes: nothing yields.
body!(chain_by_vote, true, |t, state| {
    let context = t.context();
    let (items, item) = (context.grid_dim[0] * 64, context.block[0] * 64 + t.index);
    if state == 1 && t.request().results[0] == 0 {
        return EXITED;
    }
    let is_done = |item: u32| item >= items || t.out(item).load(Ordering::Relaxed) != 0;
    // The third warp of each block has no items.
    let waits = t.index < 64 && !is_done(item + 1);
    if t.index < 64 && !waits {
        t.out(item).store(1, Ordering::Relaxed);
    }
    t.ask([u64::from(waits), u32::MAX.into(), 0, 0]);
    1
});

#[test]
fn warps_and_blocks_that_wait_without_yielding_let_others_run() {
    let points = points([SyncKind::VoteAny]);
    for (workers, blocks, threads) in [(1, 1, 96), (2, 2, 96), (1, 2, 64)] {
        let words = launch(
            &engine(workers),
            &kernel(chain_by_vote, &points),
            config(blocks, threads),
            blocks as usize * 64,
        );
        assert_eq!(words.unwrap(), vec![1; blocks as usize * 64]);
    }
}

// Lane 0 meets others at the first point until lane 1 has come past the second.
body!(lane_behind_waits, true, |t, state| match (t.index, state) {
    (0, _) if t.out(0).load(Ordering::Relaxed) == 0 => 1,
    (1, 0) => 2,
    (1, _) => {
        t.out(0).store(1, Ordering::Relaxed);
        EXITED
    }
    _ => EXITED,
});

#[test]
fn lanes_that_are_behind_do_not_hold_others_for_ever() {
    let points = points([SyncKind::ActiveMask, SyncKind::ActiveMask]);
    let words = launch(
        &engine(1),
        &kernel(lane_behind_waits, &points),
        config(1, 40),
        1,
    );
    assert_eq!(words.unwrap(), [1]);
}
