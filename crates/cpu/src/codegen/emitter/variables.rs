//! Cranelift's variables for the registers of a scalar function.
//!
//! A variable takes space for each block of the function, so that one for each register would take
//! quadratic time. Registers that are live in different blocks share one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use cranelift_frontend::{FunctionBuilder, Variable};

use super::type_of;
use crate::program::{BlockId, Liveness, Program, Reg, RegClass, Terminator};

/// The first and the last block in which a register is live or written.
#[derive(Clone, Copy)]
struct Span {
    first: u32,
    last: u32,
}

/// By register: its variable, unless one block alone has it.
pub(in crate::codegen) fn declare(
    program: &Program<'_>,
    liveness: &Liveness,
    local: &[bool],
    b: &mut FunctionBuilder<'_>,
) -> Vec<Option<Variable>> {
    let spans = spans(program, liveness);
    let mut order: Vec<usize> = (0..spans.len()).filter(|&reg| !local[reg]).collect();
    order.sort_by_key(|&reg| spans[reg].first);
    let mut variables = vec![None; spans.len()];
    // By their last block.
    let mut live: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    let mut free: HashMap<RegClass, Vec<Variable>> = HashMap::new();
    for reg in order {
        let (class, span) = (program.registers[reg], spans[reg]);
        while let Some(&Reverse((last, other))) = live.peek()
            && last < span.first
        {
            let free = free.entry(program.registers[other]).or_default();
            free.extend(variables[other]);
            live.pop();
        }
        let known = free.get_mut(&class).and_then(Vec::pop);
        variables[reg] = Some(known.unwrap_or_else(|| b.declare_var(type_of(class))));
        live.push(Reverse((span.last, reg)));
    }
    variables
}

fn spans(program: &Program<'_>, liveness: &Liveness) -> Vec<Span> {
    let nowhere = Span {
        first: u32::MAX,
        last: 0,
    };
    let mut spans = vec![nowhere; program.registers.len()];
    for (number, block) in (0..).zip(&program.blocks) {
        let mut extend = |reg: Reg| {
            let span = &mut spans[reg.index()];
            span.first = span.first.min(number);
            span.last = number;
        };
        liveness
            .live_in(BlockId(number))
            .iter()
            .copied()
            .for_each(&mut extend);
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut extend);
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut extend);
        }
    }
    spans
}
