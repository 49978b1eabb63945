//! The choice between integer and floating-point registers for PTX's untyped ones: a
//! move between the host's register files costs more than an addition.

use super::{Arg, Modifiers, Program, RegClass, Step};
use ptx::names::{Modifier, Opcode, Type};

/// Chooses the class of each register by a vote of the instructions that use it.
pub(in crate::program) fn choose(program: &mut Program<'_>) {
    let mut votes = vec![0_i32; program.registers.len()];
    let mut moves = Vec::new();
    for block in &program.blocks {
        for step in &block.steps {
            let Step::Instruction(instruction) = step else {
                continue;
            };
            let args = program.list(instruction.args);
            if instruction.opcode == Opcode::Mov
                && let [Arg::Reg(a), Arg::Reg(b)] = args
            {
                moves.push((*a, *b));
            }
            let of_operands = votes_of(instruction.opcode, &instruction.modifiers);
            for (i, &arg) in args.iter().enumerate() {
                let vote = match arg {
                    // An address is an integer, whatever the type of the access.
                    Arg::Address(..) => -2,
                    _ => of_operands[i.min(2)],
                };
                program.registers_of(arg, &mut |reg| votes[reg.index()] += vote);
            }
        }
    }
    // A register that is only loaded, stored and moved takes the class of the
    // registers that it is moved from or to.
    for _ in 0..2 {
        for &(a, b) in &moves {
            let (va, vb) = (votes[a.index()], votes[b.index()]);
            if va == 0 {
                votes[a.index()] = vb.signum();
            } else if vb == 0 {
                votes[b.index()] = va.signum();
            }
        }
    }
    for (class, vote) in program.registers.iter_mut().zip(votes) {
        *class = match (*class, vote) {
            (RegClass::I32, 1..) => RegClass::F32,
            (RegClass::I64, 1..) => RegClass::F64,
            (RegClass::F32, ..0) => RegClass::I32,
            (RegClass::F64, ..0) => RegClass::I64,
            (class, _) => class,
        };
    }
}

/// By operand, from the third on the same: 1 if the instruction uses it as floating point, -1 as
/// an integer, 0 if it works on both.
fn votes_of(opcode: Opcode, modifiers: &Modifiers) -> [i32; 3] {
    let mut types = modifiers.types();
    let vote = |ty| match ty {
        Some(Type::F32 | Type::F64 | Type::Tf32) => 1,
        _ if modifiers.has(Modifier::Pred) => 0,
        _ => -1,
    };
    match opcode {
        Opcode::Mov | Opcode::Ld | Opcode::St | Opcode::Selp | Opcode::Ldu => [0; 3],
        // Their operands are in slots.
        Opcode::Mma
        | Opcode::Wmma
        | Opcode::Wgmma
        | Opcode::Tcgen05
        | Opcode::Ldmatrix
        | Opcode::Stmatrix
        | Opcode::Movmatrix => [0; 3],
        // Their operands are of several types.
        Opcode::Tex
        | Opcode::Tld4
        | Opcode::Txq
        | Opcode::Suld
        | Opcode::Sust
        | Opcode::Sured
        | Opcode::Suq
        | Opcode::Istypep => [0; 3],
        // The type of the result, then that of the operands.
        Opcode::Cvt | Opcode::Set => {
            let [to, from] = [types.next(), types.next()].map(vote);
            [to, from, from]
        }
        Opcode::Shfl | Opcode::Atom | Opcode::Red => [0, 0, -1],
        _ => [vote(types.next()); 3],
    }
}
