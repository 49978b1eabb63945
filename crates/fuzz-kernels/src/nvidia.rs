//! Kernels that NVIDIA's compiler is known to compile wrongly.

use crate::kernel::{Class, Guard, Kernel, Operand, Register, Stmt};

/// Whether NVIDIA's compiler may take a predicate for known where a loop changes it.
///
/// Inside a branch by `%p`, that compiler (13.0 and 13.5) replaces reads of `%p` by the value that
/// the branch implies. It does so too where a loop inside the branch writes `%p`, and the read is
/// of an earlier iteration's value: in
///
/// ```text
///     @!%p bra END;
/// LOOP:
///     @%p ld.global.f64 %d, [%a];     // executed in each iteration
///     setp.ge.s32 %p, -1, 0;          // false
///     …
///     @%q bra LOOP;
/// ```
///
/// the load loses its guard.
pub fn miscompiles(kernel: &Kernel) -> bool {
    let functions = kernel.functions.iter().map(|function| &function.body);
    functions.chain([&kernel.body]).any(|body| in_list(body))
}

fn in_list(list: &[Stmt]) -> bool {
    list.iter().enumerate().any(|(at, stmt)| {
        let known = match stmt {
            Stmt::If {
                condition,
                then,
                otherwise,
                ..
            } => loop_writes(then, *condition) || loop_writes(otherwise, *condition),
            Stmt::Return(condition) => loop_writes(&list[at + 1..], *condition),
            _ => false,
        };
        known || stmt.children().into_iter().any(|list| in_list(list))
    })
}

/// Whether a loop in these statements writes the predicate of a condition.
fn loop_writes(list: &[Stmt], condition: Guard) -> bool {
    list.iter().any(|stmt| match stmt {
        Stmt::Loop(..) | Stmt::Irreducible { .. } => stmt
            .children()
            .into_iter()
            .any(|body| writes(body, condition)),
        _ => stmt
            .children()
            .into_iter()
            .any(|body| loop_writes(body, condition)),
    })
}

fn writes(list: &[Stmt], condition: Guard) -> bool {
    let predicate = Operand::Register(Register {
        class: Class::Predicate,
        number: condition.predicate,
    });
    list.iter().any(|stmt| match stmt {
        // An operand that is only read is taken for one that is written.
        Stmt::Op(op) => op.operands.contains(&predicate),
        _ => stmt
            .children()
            .into_iter()
            .any(|body| writes(body, condition)),
    })
}
