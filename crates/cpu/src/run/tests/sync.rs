//! Barriers and warp operations.

use super::*;

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
            config(40, block),
            40 * block as usize,
        )
        .unwrap();
        for (i, word) in words.into_iter().enumerate() {
            assert_eq!(word, u64::from(3 * (block - 1 - i as u32 % block)));
        }
    }
}

// Half of the threads exit. The others meet twice, at barriers of different lines.
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
    let words = launch(&engine(1), &kernel(divergent, &points), config(1, 80), 80).unwrap();
    for (i, &word) in words.iter().enumerate() {
        let expected = if i % 2 == 0 { 0 } else { 1000 + 80 - i as u64 };
        assert_eq!(word, expected, "thread {i}");
    }
}

// Warp 0 produces and warp 1 consumes three times, with a barrier in each direction.
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
        config(1, 64),
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
    let words = launch(
        &engine(1),
        &kernel(reductions, &points),
        config(1, 100),
        300,
    )
    .unwrap();
    assert!(words[..100].iter().all(|&w| w == 34));
    assert!(words[100..200].iter().all(|&w| w == 0));
    assert!(words[200..].iter().all(|&w| w == 1));
}

// A butterfly sum over each warp, then only lane 0 continues to a barrier.
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
    let words = launch(&engine(1), &kernel(butterfly, &points), config(1, 128), 4).unwrap();
    assert_eq!(words, [496, 496 + 1024, 496 + 2048, 496 + 3072]);
}

// Even and odd lanes vote separately at different instructions, then all together.
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
    let words = launch(
        &engine(1),
        &kernel(masked_votes, &points),
        config(1, 36),
        36,
    )
    .unwrap();
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
    let words = launch(&engine(1), &kernel(who_is_here, &points), config(1, 32), 32).unwrap();
    assert_eq!(words[..4], [0x1111_1111, 0, 0xcccc_cccc, 0xcccc_cccc]);
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
                        launch(&engine, &kernel(reverse, &points), config(30, 64), 1920).unwrap();
                    assert_eq!(words[64], 3 * 63);
                }
            });
        }
    });
    assert_eq!(engine.memory().allocations(), []);
}
