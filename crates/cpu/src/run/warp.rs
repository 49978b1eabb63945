//! The results of warp-level operations: shuffles, votes, matches and reductions.

use crate::abi::{Request, SyncKind, WARP_SIZE};
use crate::shuffle::source;

/// A set of lanes of a warp, one bit each.
pub(super) type LaneMask = u32;

/// The lanes of a set, in ascending order.
pub(super) fn lanes_of(mut set: LaneMask) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(lane)
    })
}

/// The index of the operand with the member mask, if the operation has one.
pub(super) fn mask_operand(kind: SyncKind) -> Option<usize> {
    use SyncKind::*;
    Some(match kind {
        WarpBarrier | Elect => 0,
        ShflUp | ShflDown | ShflBfly | ShflIdx => 3,
        VoteAll | VoteAny | VoteUni | VoteBallot | MatchAny | MatchAll => 1,
        ReduxAdd | ReduxMinU32 | ReduxMaxU32 | ReduxMinS32 | ReduxMaxS32 | ReduxAnd | ReduxOr
        | ReduxXor | ReduxMinF32 | ReduxMaxF32 => 1,
        Barrier | BarrierArrive | BarrierPopc | BarrierAnd | BarrierOr | ActiveMask | Yield
        | Matrix | ClusterArrive | ClusterWait => {
            return None;
        }
    })
}

/// Computes the results of the lanes of `group`, which are all at an operation of this
/// kind. `requests` are those of the warp.
pub(super) fn resolve(kind: SyncKind, group: LaneMask, requests: &mut [Request]) {
    use SyncKind::*;
    match kind {
        ShflUp | ShflDown | ShflBfly | ShflIdx => shuffle(kind, group, requests),
        VoteAll | VoteAny | VoteUni | VoteBallot => {
            let ballot = ballot(group, requests);
            let result = match kind {
                VoteAll => u32::from(ballot == group),
                VoteAny => u32::from(ballot != 0),
                VoteUni => u32::from(ballot == 0 || ballot == group),
                _ => ballot,
            };
            broadcast(group, requests, [u64::from(result), 0]);
        }
        MatchAny => {
            for lane in lanes_of(group) {
                let value = requests[lane as usize].operands[0];
                let same = lanes_of(group).filter(|&l| requests[l as usize].operands[0] == value);
                requests[lane as usize].results = [same.fold(0, |set, l| set | 1 << l), 0];
            }
        }
        MatchAll => {
            let mut values = lanes_of(group).map(|lane| requests[lane as usize].operands[0]);
            let first = values.next();
            let all = values.all(|value| Some(value) == first);
            broadcast(
                group,
                requests,
                if all { [u64::from(group), 1] } else { [0, 0] },
            );
        }
        ReduxMinF32 | ReduxMaxF32 => {
            let result = reduce_floats(kind, group, requests);
            broadcast(group, requests, [u64::from(result.to_bits()), 0]);
        }
        ReduxAdd | ReduxMinU32 | ReduxMaxU32 | ReduxMinS32 | ReduxMaxS32 | ReduxAnd | ReduxOr
        | ReduxXor => {
            let values = lanes_of(group).map(|lane| requests[lane as usize].operands[0] as u32);
            let result = values.reduce(|a, b| match kind {
                ReduxAdd => a.wrapping_add(b),
                ReduxMinU32 => a.min(b),
                ReduxMaxU32 => a.max(b),
                ReduxMinS32 => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
                ReduxMaxS32 => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
                ReduxAnd => a & b,
                ReduxOr => a | b,
                _ => a ^ b,
            });
            broadcast(group, requests, [u64::from(result.unwrap_or(0)), 0]);
        }
        ActiveMask => broadcast(group, requests, [u64::from(group), 0]),
        Elect => {
            let leader = group.trailing_zeros();
            for lane in lanes_of(group) {
                requests[lane as usize].results = [u64::from(leader), u64::from(lane == leader)];
            }
        }
        WarpBarrier | Barrier | BarrierArrive | BarrierPopc | BarrierAnd | BarrierOr | Yield
        | Matrix | ClusterArrive | ClusterWait => {}
    }
}

fn broadcast(group: LaneMask, requests: &mut [Request], results: [u64; 2]) {
    for lane in lanes_of(group) {
        requests[lane as usize].results = results;
    }
}

fn ballot(group: LaneMask, requests: &[Request]) -> LaneMask {
    lanes_of(group).fold(0, |set, lane| {
        set | u32::from(requests[lane as usize].operands[0] & 1 != 0) << lane
    })
}

/// The value is that of the source lane. If the source is out of range or does not take
/// part, it is the lane's own value.
fn shuffle(kind: SyncKind, group: LaneMask, requests: &mut [Request]) {
    let mut values = [0; WARP_SIZE as usize];
    for (value, request) in values.iter_mut().zip(&*requests) {
        *value = request.operands[0];
    }
    for (lane, request) in (0..WARP_SIZE).zip(requests) {
        if group >> lane & 1 == 0 {
            continue;
        }
        let [_, b, c, _] = request.operands;
        let (source, in_range) = source(kind, lane, b as u32, c as u32);
        let source = if in_range && group >> source & 1 != 0 {
            source
        } else {
            lane
        };
        request.results = [values[source as usize], u64::from(in_range)];
    }
}

/// Without `.NaN`, NaN operands are ignored. -0 is less than +0.
fn reduce_floats(kind: SyncKind, group: LaneMask, requests: &[Request]) -> f32 {
    let flags = requests[group.trailing_zeros() as usize % WARP_SIZE as usize].operands[2];
    let (abs, nan) = (flags & 1 != 0, flags & 2 != 0);
    let values = lanes_of(group).map(|lane| {
        let value = f32::from_bits(requests[lane as usize].operands[0] as u32);
        if abs { value.abs() } else { value }
    });
    let canonical = f32::from_bits(0x7fff_ffff);
    let result = values.reduce(|a, b| {
        if a.is_nan() || b.is_nan() {
            let other = if a.is_nan() { b } else { a };
            return if nan { canonical } else { other };
        }
        let less = a.total_cmp(&b).is_lt();
        if less == (kind == SyncKind::ReduxMinF32) {
            a
        } else {
            b
        }
    });
    match result {
        Some(value) if !value.is_nan() => value,
        _ => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of a full warp whose lane `i` holds `value(i)`.
    fn run(kind: SyncKind, group: LaneMask, operands: impl Fn(u32) -> [u64; 4]) -> Vec<[u64; 2]> {
        let mut requests: Vec<Request> = (0..32)
            .map(|lane| Request {
                operands: operands(lane),
                results: [99, 99],
            })
            .collect();
        resolve(kind, group, &mut requests);
        requests
            .into_iter()
            .map(|request| request.results)
            .collect()
    }

    /// The definition in the PTX ISA, word for word.
    fn shuffle_by_the_book(kind: SyncKind, lane: i32, b: u32, c: u32) -> (i32, bool) {
        let bval = (b & 31) as i32;
        let cval = (c & 31) as i32;
        let segmask = (c >> 8 & 31) as i32;
        let max_lane = (lane & segmask) | (cval & !segmask);
        let min_lane = lane & segmask;
        let (j, pval) = match kind {
            SyncKind::ShflUp => (lane - bval, lane - bval >= max_lane),
            SyncKind::ShflDown => (lane + bval, lane + bval <= max_lane),
            SyncKind::ShflBfly => (lane ^ bval, lane ^ bval <= max_lane),
            _ => {
                let j = min_lane | (bval & !segmask);
                (j, j <= max_lane)
            }
        };
        (if pval { j } else { lane }, pval)
    }

    #[test]
    fn shuffles_follow_the_definition_for_every_operand() {
        for kind in [
            SyncKind::ShflUp,
            SyncKind::ShflDown,
            SyncKind::ShflBfly,
            SyncKind::ShflIdx,
        ] {
            for b in 0..32 {
                for c in
                    (0..32).flat_map(|segment| [0, 7, 15, 31].map(|clamp| segment << 8 | clamp))
                {
                    let results = run(kind, u32::MAX, |lane| [u64::from(lane) + 100, b, c, 0]);
                    for lane in 0..32 {
                        let (source, ok) = shuffle_by_the_book(kind, lane, b as u32, c as u32);
                        let expected = [source as u64 + 100, u64::from(ok)];
                        assert_eq!(
                            results[lane as usize], expected,
                            "{kind:?} lane {lane} b {b} c {c:#x}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn shuffles_as_cuda_uses_them() {
        // __shfl_up_sync(mask, value, 1) and __shfl_down_sync(mask, value, 1, 8)
        let up = run(SyncKind::ShflUp, u32::MAX, |lane| {
            [u64::from(lane), 1, 0, 0]
        });
        assert_eq!([up[0], up[1], up[31]], [[0, 0], [0, 1], [30, 1]]);
        let down = run(SyncKind::ShflDown, u32::MAX, |lane| {
            [u64::from(lane), 1, 0x181f, 0]
        });
        assert_eq!([down[6], down[7], down[8]], [[7, 1], [7, 0], [9, 1]]);
    }

    #[test]
    fn lanes_outside_the_group_give_nothing_and_get_nothing() {
        let results = run(SyncKind::ShflIdx, 0b0111, |lane| {
            [u64::from(lane) + 100, 3, 31, 0]
        });
        assert_eq!(results[0], [100, 1]);
        assert_eq!(results[2], [102, 1]);
        assert_eq!(results[3], [99, 99]);
    }

    #[test]
    fn votes_and_matches() {
        let odd = |lane: u32| [u64::from(lane & 1), 0, 0, 0];
        assert_eq!(run(SyncKind::VoteBallot, 0xff, odd)[0][0], 0xaa);
        assert_eq!(run(SyncKind::VoteAny, 0x55, odd)[0][0], 0);
        assert_eq!(run(SyncKind::VoteAll, 0xaa, odd)[1][0], 1);
        assert_eq!(run(SyncKind::VoteUni, 0x55, odd)[0][0], 1);
        assert_eq!(run(SyncKind::VoteUni, 0x56, odd)[1][0], 0);
        let thirds = |lane: u32| [u64::from(lane % 3) << 40, 0, 0, 0];
        let any = run(SyncKind::MatchAny, 0xfff, thirds);
        assert_eq!(
            [any[0][0], any[4][0]],
            [0b001_001_001_001, 0b010_010_010_010]
        );
        assert_eq!(run(SyncKind::MatchAll, 0b1001, thirds)[3], [0b1001, 1]);
        assert_eq!(run(SyncKind::MatchAll, 0b0011, thirds)[1], [0, 0]);
    }

    #[test]
    fn reductions() {
        let value = |lane: u32| [u64::from((lane.wrapping_sub(2)).wrapping_mul(3)), 0, 0, 0];
        let reduce = |kind, group: LaneMask| {
            run(kind, group, value)[group.trailing_zeros() as usize][0] as u32
        };
        assert_eq!(reduce(SyncKind::ReduxAdd, u32::MAX), 3 * (496 - 64));
        assert_eq!(reduce(SyncKind::ReduxMinS32, u32::MAX) as i32, -6);
        assert_eq!(reduce(SyncKind::ReduxMinU32, u32::MAX), 0);
        assert_eq!(reduce(SyncKind::ReduxMaxS32, u32::MAX), 87);
        assert_eq!(reduce(SyncKind::ReduxMaxU32, u32::MAX) as i32, -3);
        assert_eq!(reduce(SyncKind::ReduxAnd, 0b11000), 3 & 6);
        assert_eq!(reduce(SyncKind::ReduxOr, 0b11000), 3 | 6);
        assert_eq!(reduce(SyncKind::ReduxXor, 0b111000), 3 ^ 6 ^ 9);
    }

    #[test]
    fn float_reductions_treat_nan_and_zero_as_stated() {
        let floats = [1.5_f32, -2.0, f32::NAN, 0.0, -0.0];
        let run = |kind, group: LaneMask, flags| {
            let results = run(kind, group, |lane| {
                [
                    u64::from(floats.get(lane as usize).map_or(0, |f| f.to_bits())),
                    0,
                    flags,
                    0,
                ]
            });
            f32::from_bits(results[group.trailing_zeros() as usize][0] as u32)
        };
        assert_eq!(run(SyncKind::ReduxMinF32, 0b00111, 0), -2.0);
        assert_eq!(run(SyncKind::ReduxMaxF32, 0b00111, 0), 1.5);
        assert_eq!(run(SyncKind::ReduxMaxF32, 0b00111, 1), 2.0);
        assert!(run(SyncKind::ReduxMaxF32, 0b00111, 2).is_nan());
        assert!(run(SyncKind::ReduxMaxF32, 0b00100, 0).is_nan());
        assert!(run(SyncKind::ReduxMinF32, 0b11000, 0).is_sign_negative());
        assert!(run(SyncKind::ReduxMaxF32, 0b11000, 0).is_sign_positive());
    }

    #[test]
    fn the_lowest_lane_is_elected() {
        let results = run(SyncKind::Elect, 0b1100, |_| [0; 4]);
        assert_eq!([results[2], results[3]], [[2, 1], [2, 0]]);
    }
}
