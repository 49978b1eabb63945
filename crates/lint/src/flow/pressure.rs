//! Register pressure.

use super::{BlockId, Definition, InstructionId, ValueId};
use crate::FunctionContext;
use ptx::ast::Span;

/// The maximum register pressure of a function: how many registers its live values take.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// The number of live 32-bit registers.
    pub registers: u32,
    /// The instruction with the maximum.
    pub span: Span,
}

/// The limit of analysis steps per instruction.
const STEPS_FOR_EACH: usize = 20;

impl Pressure {
    /// The register pressure of a function, without the functions that it calls; `None` where its
    /// control flow takes too many steps to analyse. For the registers that ptxas allocates it is
    /// an estimate: ptxas reorders instructions, and needs registers for addresses and
    /// intermediate results.
    ///
    /// ```
    /// use ptxkit_lint::{ModuleContext, flow::Pressure};
    ///
    /// let source = ".version 7.8\n.target sm_90\n.address_size 64\n.global .b64 x; .entry k() {
    ///     .reg .b64 a, b; ld.global.b64 a, [x]; ld.global.b64 b, [x + 8]; add.s64 a, a, b;
    ///     st.global.b64 [x], a; ret; }";
    /// let module = ptx::read(source).module;
    /// let context = ModuleContext::new(&module, source, None, None);
    /// let kernel = context.functions().next().unwrap();
    /// // Two values of 64 bits.
    /// assert_eq!(Pressure::of(&kernel).unwrap().registers, 4);
    /// ```
    pub fn of(function: &FunctionContext<'_, '_>) -> Option<Pressure> {
        let flow = function.flow()?;
        let (instructions, graph, values) = (&flow.instructions, &flow.graph, &flow.values);
        let widths = widths(function)?;
        let count = graph.blocks.len();
        let home = |value: ValueId| match values.definition(value) {
            Some(Definition::Written(id)) => graph.block_of(id),
            Some(Definition::Phi(block)) => block,
            _ => BlockId::ENTRY,
        };
        // The live-out values of each block.
        let mut leaving: Vec<Vec<ValueId>> = vec![Vec::new(); count];
        let mut budget = (instructions.steps.len() + count) * STEPS_FOR_EACH + 10_000;
        let mut visited = vec![ValueId::NONE; count];
        // The uses of each value. A phi uses its inputs at the end of the predecessors.
        let mut uses: Vec<(ValueId, BlockId, bool)> = Vec::new();
        for block in &graph.order {
            for id in graph.blocks[block.index()].steps() {
                let step = &instructions.steps[id.index()];
                let read = values.reads(instructions, step).map(|(_, value)| value);
                let preserved = values.writes(instructions, step);
                let preserved = preserved.filter_map(|(_, value)| values.prior(value));
                uses.extend(read.chain(preserved).map(|value| (value, *block, false)));
            }
        }
        for at in 0..values.definitions.len() as u32 {
            let phi = ValueId(at);
            if let Some(Definition::Phi(block)) = values.definition(phi) {
                let parts = values.phi_operands(graph, phi);
                let before = graph.predecessors(block).zip(parts);
                uses.extend(before.map(|(before, part)| (*part, before, true)));
            }
        }
        uses.sort_unstable_by_key(|(value, block, at_end)| (value.0, block.0, *at_end));
        uses.dedup();
        for (value, block, at_end) in uses {
            if widths.get(value.index()).copied().unwrap_or(0) == 0 {
                continue;
            }
            let end = home(value);
            let mut open = Vec::new();
            let mut enter = |block: BlockId, open: &mut Vec<BlockId>| {
                if visited[block.index()] != value {
                    visited[block.index()] = value;
                    leaving[block.index()].push(value);
                    open.push(block);
                }
            };
            match at_end {
                true => enter(block, &mut open),
                false if block != end => {
                    let before: Vec<_> = graph.predecessors(block).collect();
                    before.into_iter().for_each(|at| enter(at, &mut open));
                }
                false => {}
            }
            while let Some(at) = open.pop() {
                budget = budget.checked_sub(1)?;
                if at != end {
                    let before: Vec<_> = graph.predecessors(at).collect();
                    before.into_iter().for_each(|at| enter(at, &mut open));
                }
            }
        }
        let mut most: Option<(u32, InstructionId)> = None;
        let mut alive = vec![false; values.definitions.len()];
        for block in &graph.order {
            let of_block = std::mem::take(&mut leaving[block.index()]);
            let mut marked = of_block.clone();
            let mut sum = 0;
            for value in of_block {
                alive[value.index()] = true;
                sum += u32::from(widths[value.index()]);
            }
            for id in graph.blocks[block.index()].steps().rev() {
                let step = &instructions.steps[id.index()];
                if most.is_none_or(|(known, _)| sum > known) {
                    most = Some((sum, id));
                }
                for (_, value) in values.writes(instructions, step) {
                    if let Some(alive) = alive.get_mut(value.index())
                        && std::mem::replace(alive, false)
                    {
                        sum -= u32::from(widths[value.index()]);
                    }
                }
                let preserved = values.writes(instructions, step);
                let preserved = preserved.filter_map(|(_, value)| values.prior(value));
                let read = values.reads(instructions, step).map(|(_, value)| value);
                for value in read.chain(preserved) {
                    if let Some(alive) = alive.get_mut(value.index())
                        && !std::mem::replace(alive, true)
                    {
                        sum += u32::from(widths[value.index()]);
                        marked.push(value);
                    }
                }
            }
            for value in marked {
                alive[value.index()] = false;
            }
        }
        let (registers, id) = most?;
        let span = instructions.get(id)?.span;
        Some(Pressure { registers, span })
    }
}

/// The number of 32-bit registers of each value; 0 for predicates, which have a separate file.
fn widths(function: &FunctionContext<'_, '_>) -> Option<Vec<u8>> {
    let flow = function.flow()?;
    let mut of_register = vec![0_u8; flow.instructions.registers as usize];
    for (_, step, _) in function.steps() {
        let ty = function.effect(step).types.first().copied().flatten();
        // The first result of a comparison is a predicate.
        let width = match ty.map(|ty| ty.bits()) {
            Some(1) => 0,
            Some(bits) => bits.div_ceil(32) as u8,
            None => 1,
        };
        for slot in flow.instructions.writes(step) {
            if let Some(known) = of_register.get_mut(slot.register.0 as usize) {
                *known = (*known).max(width);
            }
        }
    }
    let widths = flow.values.registers.iter();
    let width = |at: u32| of_register.get(at as usize).copied().unwrap_or(1);
    Some(widths.map(|register| width(register.0)).collect())
}
