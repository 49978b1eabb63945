//! How far what a thread computes is from what the same thread of the next block does: the block with
//! the next `%ctaid.x`, which the same worker mostly runs next.

use super::ir::{Arg, Base, Instruction, Program, Reg, Step, Storage, Terminator};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S};

/// A difference of `fixed + per_thread * %ntid.x`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distance {
    pub fixed: i64,
    pub per_thread: i64,
}

impl Distance {
    fn plus(self, other: Distance) -> Distance {
        Distance {
            fixed: self.fixed.wrapping_add(other.fixed),
            per_thread: self.per_thread.wrapping_add(other.per_thread),
        }
    }

    fn times(self, factor: i64) -> Distance {
        Distance {
            fixed: self.fixed.wrapping_mul(factor),
            per_thread: self.per_thread.wrapping_mul(factor),
        }
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    NotYet,
    By(Distance),
    /// It is `%ntid.x`, which all blocks have.
    Threads,
    Unknown,
}

const NONE: Change = Change::By(Distance {
    fixed: 0,
    per_thread: 0,
});

impl Change {
    fn join(self, other: Change) -> Change {
        match (self, other) {
            (Change::NotYet, known) | (known, Change::NotYet) => known,
            (a, b) if a == b => a,
            _ => Change::Unknown,
        }
    }

    fn distance(self) -> Option<Distance> {
        match self {
            Change::By(distance) => Some(distance),
            Change::Threads => Some(Distance::default()),
            Change::NotYet | Change::Unknown => None,
        }
    }
}

/// For each register, the distance if it is known.
pub(crate) fn distances(program: &Program<'_>) -> Vec<Option<Distance>> {
    let mut changes = vec![Change::NotYet; program.registers.len()];
    let unknown = |reg: Reg, changes: &mut [Change]| changes[reg.index()] = Change::Unknown;
    let mut computed = Vec::new();
    for block in &program.blocks {
        for step in &block.steps {
            match step {
                Step::Instruction(i) if is_computed(i) => computed.push(i),
                _ => program.step_effects(step, &mut |_| {}, &mut |reg| unknown(reg, &mut changes)),
            }
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            let mut defined = |reg| unknown(reg, &mut changes);
            program.effects(instruction, &mut |_| {}, &mut defined);
        }
    }
    // A register only goes from one state to the next, so that this ends.
    loop {
        let mut has_changed = false;
        for &i in &computed {
            let found = change(program, &changes, i);
            program.effects(i, &mut |_| {}, &mut |reg| {
                let known = &mut changes[reg.index()];
                let joined = known.join(found);
                has_changed |= joined != *known;
                *known = joined;
            });
        }
        if !has_changed {
            break;
        }
    }
    changes.into_iter().map(Change::distance).collect()
}

/// Whether the results of an instruction are those of its operands alone.
fn is_computed(i: &Instruction) -> bool {
    let is_pure =
        i.meaning.effect == Effect::Pure || i.opcode == O::Ld && i.modifiers.has(M::Param);
    is_pure && !i.meaning.carry_in && !i.meaning.carry_out
}

fn change(program: &Program<'_>, changes: &[Change], i: &Instruction) -> Change {
    let Some((_, from)) = program.list(i.args).split_first() else {
        return Change::Unknown;
    };
    let of = |arg: &Arg| operand(changes, *arg);
    let operands = || from.iter().map(of);
    if operands().any(|operand| operand == Change::NotYet) {
        return Change::NotYet;
    }
    let special = [M::Hi, M::Sat];
    let is_plain = i.modifiers.first_of(&special).is_none();
    let linear = match (i.opcode, from) {
        _ if !is_plain => None,
        (O::Mov | O::Cvta, [a]) => Some(of(a)),
        (O::Cvt, [a]) => of(a).distance().map(Change::By),
        (O::Add, [a, b]) => sum(of(a), of(b)),
        (O::Sub, [a, b]) => difference(of(a), of(b)),
        (O::Mul, [a, b]) => product(of(a), of(b), a, b),
        (O::Mad, [a, b, c]) => product(of(a), of(b), a, b).and_then(|ab| sum(ab, of(c))),
        (O::Shl, [a, Arg::Int(bits @ 0..=31)]) => {
            of(a).distance().map(|a| Change::By(a.times(1 << *bits)))
        }
        _ => None,
    };
    // Whatever is computed from what all blocks have is the same in all of them.
    let is_same = |change: Change| change.distance() == Some(Distance::default());
    match linear {
        Some(linear) => linear,
        None if operands().all(is_same) => NONE,
        None => Change::Unknown,
    }
}

fn operand(changes: &[Change], arg: Arg) -> Change {
    match arg {
        Arg::Int(_) | Arg::Float(_) | Arg::Symbol(..) => NONE,
        Arg::Reg(reg) => changes[reg.index()],
        Arg::Address(Base::Storage(Storage::Param(_) | Storage::Global(_)), _) => NONE,
        Arg::Special(S::CtaidX) => Change::By(Distance {
            fixed: 1,
            per_thread: 0,
        }),
        Arg::Special(S::NtidX) => Change::Threads,
        Arg::Special(
            S::TidX
            | S::TidY
            | S::TidZ
            | S::NtidY
            | S::NtidZ
            | S::CtaidY
            | S::CtaidZ
            | S::NctaidX
            | S::NctaidY
            | S::NctaidZ
            | S::Laneid
            | S::Warpid,
        ) => NONE,
        _ => Change::Unknown,
    }
}

fn sum(a: Change, b: Change) -> Option<Change> {
    Some(Change::By(a.distance()?.plus(b.distance()?)))
}

fn difference(a: Change, b: Change) -> Option<Change> {
    Some(Change::By(a.distance()?.plus(b.distance()?.times(-1))))
}

/// The product's, if a factor is known.
fn product(a: Change, b: Change, first: &Arg, second: &Arg) -> Option<Change> {
    let by = |change: Change, factor: Change, value: &Arg| {
        let distance = change.distance()?;
        match (value, factor) {
            (&Arg::Int(value), _) => Some(distance.times(value.cast_signed())),
            (_, Change::Threads) if distance.per_thread == 0 => Some(Distance {
                fixed: 0,
                per_thread: distance.fixed,
            }),
            _ => None,
        }
    };
    by(a, b, second).or_else(|| by(b, a, first)).map(Change::By)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::test_program::with_program;

    #[test]
    fn distances_of_indices_and_addresses() {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n
        .entry k(.param .u64 a, .param .u32 n) {
            .reg .b64 %x<6>; .reg .b32 %r<17>; .reg .pred %p;
            ld.param.u64 %x0, [a]; ld.param.u32 %r0, [n];
            mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
            mad.lo.u32 %r4, %r1, 256, %r3;
            mad.lo.u32 %r5, %r2, %r1, %r3;
            shl.b32 %r6, %r5, 2;
            sub.u32 %r7, %r3, %r4;
            mul.lo.u32 %r8, %r1, %r0;
            mul.lo.u32 %r9, %r5, %r2;
            and.b32 %r10, %r4, 15; and.b32 %r11, %r3, 15;
            mul.hi.u32 %r12, %r4, 8;
            mov.u32 %r13, %clock;
            setp.eq.u32 %p, %r3, 0; mov.u32 %r14, %r4; @%p mov.u32 %r14, %r5;
            mov.u32 %r15, %r3; @%p mov.u32 %r15, %r0;
            mov.u32 %r16, %r4; @%p ld.shared.u32 %r16, [%r3]; st.shared.u32 [%r16], %r3;
            mul.wide.u32 %x1, %r4, 4; add.u64 %x2, %x0, %x1;
            mad.wide.u32 %x3, %r5, 8, %x0;
            ld.global.u64 %x4, [%x2];
            cvta.to.global.u64 %x5, %x3;
        }";
        let found = with_program(source, distances);
        let by = |fixed, per_thread| Some(Distance { fixed, per_thread });
        // 64-bit registers are declared first.
        let expected = [
            by(0, 0),
            by(1024, 0),
            by(1024, 0),
            by(0, 8),
            None,
            by(0, 8),
            by(0, 0),
            by(1, 0),
            by(0, 0),
            by(0, 0),
            by(256, 0),
            by(0, 1),
            by(0, 4),
            by(-256, 0),
            None,
            None,
            None,
            by(0, 0),
            None,
            None,
            None,
            by(0, 0),
            None,
        ];
        assert_eq!(found[..23], expected);
    }
}
