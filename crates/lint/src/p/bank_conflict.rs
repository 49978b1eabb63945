//! `ld.shared.f32 a, [tile + 128 * %tid.x]`

use super::warp_addresses::WarpAddresses;
use crate::flow::memory::Access;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;

pub static RULE: Rule = Rule {
    code: Code::new('P', 103),
    name: "bank-conflict",
    summary: "The threads of a warp access different words of the same bank of shared memory.",
    why: "Shared memory has 32 banks of 4 bytes: words with a distance of 128 bytes are in the \
          same bank. A bank serves one word at a time, so a request for several words of a bank \
          is split into as many.",
    instead: "Choose a stride of an odd number of words: a tile with rows of 33 words instead of \
              32 can also be read by column. Or interleave the elements of the threads.",
    bad: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b8 tile[4096];
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 128;
	mov.u64 q, tile;
	add.u64 q, q, o;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b8 tile[4224];
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 132;
	mov.u64 q, tile;
	add.u64 q, q, o;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

const BANKS: i64 = 32;
/// The width of a bank in bytes.
const WORD: i64 = 4;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        if access.space != Some(Space::Shared) || access.bytes > 16 {
            continue;
        }
        let Some(lanes) = WarpAddresses::of(function, access.address) else {
            continue;
        };
        let ways = ways(&lanes, access.bytes as i64);
        if ways < 2 {
            continue;
        }
        let stride = lanes.stride.unsigned_abs();
        // The next odd number of words.
        let words = stride.div_ceil(WORD as u64) | 1;
        findings
            .add(
                access.span,
                format!(
                    "{ways}-way bank conflict: the stride between threads is {stride} bytes, and each \
                     request takes {ways} cycles",
                ),
            )
            .help(format!(
                "a stride of {} bytes avoids the conflict",
                (words * WORD as u64).max(access.bytes.next_multiple_of(WORD as u64)),
            ));
    }
}

/// The maximum number of words of one bank in a request.
fn ways(lanes: &WarpAddresses, bytes: i64) -> usize {
    // Wide accesses are split into parts of 128 bytes.
    let part = match bytes {
        ..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let mut worst = 1;
    for lanes in lanes.offsets.chunks(part) {
        let mut words: Vec<i64> = lanes
            .iter()
            .flat_map(|offset| {
                let last = (offset + bytes - 1).div_euclid(WORD);
                offset.div_euclid(WORD)..=last
            })
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut of_bank = [0; BANKS as usize];
        for word in words {
            let count = &mut of_bank[word.rem_euclid(BANKS) as usize];
            *count += 1;
            worst = worst.max(*count);
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: i64, bytes: i64) -> usize {
        let offsets = (0..32).map(|lane| lane * stride).collect();
        ways(&WarpAddresses { offsets, stride }, bytes)
    }

    #[test]
    fn ways_are_those_of_the_guide() {
        assert_eq!(
            [1, 2, 3, 4, 32, 33].map(|words| strided(words * 4, 4)),
            [1, 2, 1, 4, 32, 1]
        );
        // Accesses to the same word do not conflict.
        assert_eq!([strided(1, 1), strided(0, 4), strided(2, 2)], [1; 3]);
        assert_eq!(
            [strided(8, 8), strided(16, 16), strided(256, 8)],
            [1, 1, 16]
        );
        assert_eq!([strided(32, 16), strided(16, 8)], [2, 2]);
    }
}
