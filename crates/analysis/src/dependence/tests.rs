use super::*;
use ptx::ast::Modifiers;
use ptx::names::{Modifier, Opcode, SpecialRegister};

const SYMBOL: u32 = 99;

fn words(text: &str) -> (Opcode, Modifiers) {
    let mut words = text.split('.');
    let opcode = Opcode::from_text(words.next().expect("an opcode")).expect("a known opcode");
    let mut modifiers = Modifiers::NONE;
    for word in words {
        assert!(modifiers.push(Modifier::from_text(word).expect("a known modifier")));
    }
    (opcode, modifiers)
}

fn run(text: &str, operands: &[Dependence]) -> Dependence {
    let (opcode, modifiers) = words(text);
    let result = ptx::isa::meaning(opcode, &modifiers).result;
    transfer(
        result,
        opcode,
        &modifiers,
        operands,
        SYMBOL,
        Wrapping::Ignored,
    )
}

/// The same where unknowns may be anything.
fn run_any(text: &str, operands: &[Dependence]) -> Dependence {
    let (opcode, modifiers) = words(text);
    let result = ptx::isa::meaning(opcode, &modifiers).result;
    let any = Wrapping::Possible;
    transfer(result, opcode, &modifiers, operands, SYMBOL, any)
}

fn tid() -> Dependence {
    special(SpecialRegister::TidX, &Shape::default(), 1)
}

fn number(number: i64) -> Dependence {
    Dependence::number(number)
}

fn parameter(symbol: u32) -> Dependence {
    Dependence::uniform(Sources::NONE, symbol)
}

/// What each thread of a row has.
fn values(dependence: &Dependence) -> Vec<i64> {
    let linear = dependence.linear.expect("a linear value");
    (0..1024).map(|x| linear.at([x, 0, 0])).collect()
}

fn expect(dependence: &Dependence, value: impl Fn(i64) -> i64) {
    assert_eq!(values(dependence), (0..1024).map(value).collect::<Vec<_>>());
}

#[test]
fn integer_arithmetic_keeps_the_value_of_each_thread() {
    let t = tid();
    expect(&run("and.b32", &[t, number(31)]), |t| t & 31);
    expect(&run("and.b32", &[t, number(0xffff_ffe0)]), |t| t & !31);
    expect(&run("and.b32", &[t, number(0x14)]), |t| t & 0x14);
    expect(&run("shr.u32", &[t, number(4)]), |t| t >> 4);
    expect(&run("xor.b32", &[t, number(5)]), |t| t ^ 5);
    expect(&run("xor.b32", &[t, number(-1)]), |t| !t);
    expect(&run("or.b32", &[t, number(48)]), |t| t | 48);
    expect(&run("not.b32", &[t]), |t| !t);
    expect(&run("neg.s32", &[t]), |t| -t);
    expect(&run("bfe.u32", &[t, number(2), number(3)]), |t| t >> 2 & 7);
    expect(&run("div.u32", &[t, number(8)]), |t| t / 8);
    expect(&run("rem.u32", &[t, number(8)]), |t| t % 8);
    expect(&run("mad.lo.s32", &[t, number(-4), number(7)]), |t| {
        7 - 4 * t
    });
    expect(&run("shl.b32", &[t, number(2)]), |t| t * 4);
    expect(&run("cvt.u64.u32", &[t]), |t| t);
    let bits = run("and.b32", &[t, number(3)]);
    let far = run("and.b32", &[t, number(16)]);
    expect(&run("or.b32", &[bits, far]), |t| t & 19);
    let row = run("shl.b32", &[t, number(3)]);
    expect(&run("or.b32", &[row, bits]), |t| t << 3 | t & 3);
}

#[test]
fn what_is_not_linear_is_opaque() {
    let t = tid();
    for (text, operands) in [
        ("mul.lo.u32", vec![t, t]),
        ("rem.u32", vec![t, number(3)]),
        ("add.cc.u32", vec![t, number(3)]),
        ("mul.hi.u32", vec![t, number(3)]),
        ("mul.lo.u32", vec![t, parameter(7)]),
        ("cvt.u8.u32", vec![t]),
        ("add.f32", vec![t, t]),
    ] {
        let result = run(text, &operands);
        assert_eq!(result.linear, None, "{text}");
        assert!(result.sources.any(Sources::LANES), "{text}");
    }
    // 0 - 1 is no small number to who shifts it.
    let before = run("sub.u32", &[t, number(1)]);
    assert_eq!(run("shr.u32", &[before, number(5)]).linear, None);
}

#[test]
fn uniform_in_a_warp_by_arithmetic() {
    let t = tid();
    let lane = run("and.b32", &[t, number(31)]);
    let first = run("sub.s32", &[t, lane]);
    let pairs = run("shr.u32", &[t, number(4)]);
    let even = run("and.b32", &[pairs, number(-2)]);
    for of_warp in [first, even, run("shr.u32", &[t, number(5)])] {
        assert_eq!(of_warp.sources, Sources::WARP);
    }
    expect(&first, |t| t - t % 32);
    expect(&even, |t| t >> 4 & !1);
    let (more, least) = (run("add.s32", &[t, number(31)]), number(62));
    assert_eq!(run("setp.gt.s32", &[more, least]).sources, Sources::WARP);
    let sides = run("setp.gt.s32", &[more, number(61)]);
    assert!(sides.sources.any(Sources::LANES));
}

#[test]
fn comparisons_with_multiples_of_a_warp() {
    let (t, n) = (tid(), parameter(7));
    let up = run("add.s32", &[n, number(31)]);
    let rounded = run("and.b32", &[up, number(-32)]);
    assert_eq!(run("setp.ge.s32", &[t, rounded]).sources, Sources::WARP);
    assert_eq!(run("setp.lt.s32", &[t, rounded]).sources, Sources::WARP);
    assert!(
        run("setp.le.s32", &[t, rounded])
            .sources
            .any(Sources::LANES)
    );
    assert!(run("setp.lt.s32", &[t, n]).sources.any(Sources::LANES));
    // The first thread of each warp, with an offset of whole warps.
    let lane = run("and.b32", &[t, number(31)]);
    let first = run("sub.s32", &[t, lane]);
    let index = run("add.s32", &[first, n]);
    assert!(
        !run("setp.lt.s32", &[index, number(100)])
            .sources
            .any(Sources::LANES)
    );
}

#[test]
fn a_difference_forgets_what_both_sides_have() {
    let (t, n) = (tid(), parameter(7));
    let (one, two) = (run("add.s32", &[t, n]), run("add.s32", &[t, number(4)]));
    assert!(run("setp.lt.s32", &[one, t]).is_uniform());
    assert!(run("setp.lt.s32", &[two, t]).is_uniform());
    assert_eq!(run("sub.s32", &[one, n]).linear, t.linear);
}

#[test]
fn unknowns_keep_their_alignment() {
    let (t, n) = (tid(), parameter(7));
    let block = run("shl.b32", &[n, number(7)]);
    let index = run("add.s32", &[block, t]);
    assert_eq!(run("and.b32", &[index, number(31)]).sources, Sources::LANES);
    expect(&run("and.b32", &[index, number(31)]), |t| t % 32);
    assert_eq!(run("shr.u32", &[index, number(5)]).sources, Sources::WARP);
    // Of any block size nothing is known of the lower bits.
    let size = run("mul.lo.s32", &[n, parameter(8)]);
    let index = run("add.s32", &[size, t]);
    assert_eq!(run("and.b32", &[index, number(31)]).linear, None);
}

#[test]
fn shuffles_votes_and_sums_of_a_warp() {
    let t = tid();
    let whole = number(31);
    let of_first = run("shfl.sync.idx.b32", &[t, number(3), whole, number(-1)]);
    expect(&of_first, |t| t - t % 32 + 3);
    let half = number(0x100f);
    let of_half = run("shfl.sync.idx.b32", &[t, number(0), half, number(-1)]);
    assert!(of_half.sources.any(Sources::LANES));
    let loaded = Dependence::opaque(Sources::LANES | Sources::WARP);
    let ballot = run("vote.sync.ballot.b32", &[loaded, number(-1)]);
    assert_eq!(ballot, Dependence::opaque(Sources::WARP));
    let sum = run("redux.sync.add.s32", &[loaded, number(-1)]);
    assert_eq!(sum.sources, Sources::WARP);
    let each = (0..5).fold(loaded, |value, bit| exchanged(&value, bit, SYMBOL));
    assert_eq!(each.sources, Sources::WARP);
    let some = (0..4).fold(loaded, |value, bit| exchanged(&value, bit, SYMBOL));
    assert_eq!(some.sources, Sources::lane(4) | Sources::WARP);
}

#[test]
fn what_others_do_or_hold_differs_between_threads() {
    let of = |text| run(text, &[number(0)]).sources;
    for text in [
        "tcgen05.ld.sync.aligned.32x32b.x1.b32",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "mbarrier.try_wait.b64",
        "atom.global.add.u32",
    ] {
        assert_eq!(of(text), Sources::THREAD, "{text}");
    }
    assert_eq!(
        of("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"),
        Sources::LANES
    );
    assert_eq!(of("mbarrier.pending_count.b64"), Sources::NONE);
}

#[test]
fn the_shape_of_the_block_is_used() {
    let narrow = Shape::of(16, 16, 1);
    assert!(!narrow.has_whole_rows());
    let x = special(SpecialRegister::TidX, &narrow, 1);
    assert!(run("shr.u32", &[x, number(4)]).as_number() == Some(0));
    assert_eq!(special(SpecialRegister::NtidX, &narrow, 1), number(16));
    let wide = Shape::of(32, 8, 1);
    assert!(wide.has_whole_rows());
    let (x, y) = (
        special(SpecialRegister::TidX, &wide, 1),
        special(SpecialRegister::TidY, &wide, 2),
    );
    let index = run("mad.lo.s32", &[y, number(32), x]);
    assert_eq!(run("and.b32", &[index, number(31)]), x);
    assert_eq!(run("shr.u32", &[index, number(5)]).sources, Sources::ROW);
    assert_eq!(special(SpecialRegister::TidZ, &wide, 3), number(0));
    assert!(!Shape::default().has_whole_rows());
}

#[test]
fn phis_of_one_step_keep_it() {
    let t = tid();
    let next = run("add.s32", &[t, number(128)]);
    let joined = t.join(&next, 5);
    let linear = joined.linear.expect("the step");
    assert_eq!(linear.stride(), Some(1));
    assert_eq!((linear.base.symbol, linear.base.align), (Some(5), 7));
    assert_eq!(t.join(&t, 5), t);
    assert_eq!(t.join(&number(3), 5), Dependence::opaque(t.sources));
}

#[test]
fn what_may_wrap_is_not_extended() {
    let (t, n) = (tid(), parameter(7));
    let index = run("add.s32", &[n, t]);
    let lanes = |found: Dependence| found.sources.any(Sources::LANES);
    for (text, other) in [
        ("cvt.u64.u32", 0),
        ("mul.wide.u32", 4),
        ("mul.wide.s32", 4),
        ("shr.u32", 2),
    ] {
        let operands = [index, number(other)];
        let taken = if other == 0 { 1 } else { 2 };
        assert_eq!(run_any(text, &operands[..taken]).linear, None, "{text}");
        let next_to = run("shl.b32", &[n, number(10)]);
        let beside = run("add.s32", &[next_to, t]);
        let found = run_any(text, &[beside, number(other)][..taken]);
        let expected = run(text, &[beside, number(other)][..taken]);
        assert_eq!(found, expected, "{text}");
        assert!(found.linear.is_some(), "{text}");
    }
    // A sum of both may be less than one of them, and equals it in no thread or in all.
    let more = run("add.s32", &[index, number(5)]);
    assert!(lanes(run_any("setp.lt.s32", &[index, more])));
    assert!(run_any("setp.eq.s32", &[index, more]).is_uniform());
    assert!(run("setp.lt.s32", &[index, more]).is_uniform());
    // Division rounds negative numbers up.
    let aligned = run("shl.b32", &[n, number(10)]);
    let index = run("add.s32", &[aligned, t]);
    assert!(lanes(run_any("div.s32", &[index, number(1024)])));
    assert!(!lanes(run_any("div.u32", &[index, number(1024)])));
    assert!(!lanes(run_any("shr.s32", &[index, number(10)])));
    // 0xFFFFFFFB is much to an unsigned product.
    let product = run_any("mul.wide.u32", &[number(-5), number(4)]);
    assert_eq!(product.as_number(), Some(0xffff_fffb * 4));
}

/// Half warps: threads that differ in the low four bits of `%tid.x`.
#[test]
fn a_group_shares_the_upper_bits() {
    let t = tid().of_group(4, 3);
    let bits = |found: &Dependence| found.linear.map(|linear| linear.bits);
    let lane = Some([1, 2, 4, 8, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bits(&t), lane);
    assert_eq!(bits(&run_any("and.b32", &[t, number(31)])), lane);
    assert_eq!(bits(&run_any("and.b32", &[t, number(15)])), lane);
    let four = run_any("and.b32", &[t, number(-4)]);
    assert_eq!(bits(&four), Some([0, 0, 4, 8, 0, 0, 0, 0, 0, 0]));
    for of_group in [
        run_any("shr.u32", &[t, number(4)]),
        run_any("shr.u32", &[t, number(5)]),
        run_any("and.b32", &[t, number(-16)]),
        run_any("setp.lt.u32", &[t, number(64)]),
        special(SpecialRegister::TidY, &Shape::default(), 1).of_group(4, 3),
    ] {
        assert!(of_group.is_uniform(), "{of_group:?}");
    }
    let cut = run_any("setp.lt.u32", &[t, number(65)]);
    assert!(cut.sources.any(Sources::LANES));
    let next = run_any("add.s32", &[t, number(1)]);
    assert_eq!(run_any("and.b32", &[next, number(31)]).linear, None);
    assert_eq!(run_any("shr.u32", &[next, number(4)]).linear, None);
}
