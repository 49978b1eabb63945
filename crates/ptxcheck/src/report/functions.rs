//! What a page says of one kernel or function: control flow, divergent branches, registers,
//! resources.

use std::collections::HashMap;

use serde::Serialize;

use super::registers::{Kinds, Register, registers};
use super::text::Places;
use crate::cfg::{Edge, labels};
use crate::resources::{Resources, resources};
use demangle::demangled;
use lint::flow::{
    BlockId, DivergentBranch, Graph, InstructionId, RegisterOperand, ValueId, Variance,
};
use lint::{Flow, FunctionContext, ModuleContext};
use ptx::ast::{FunctionKind, Instruction, Item, Operand};

/// A kernel or a function with a body.
#[derive(Serialize)]
pub struct Function<'t> {
    name: &'t str,
    demangled: Option<String>,
    kernel: bool,
    first_line: u32,
    last_line: u32,
    /// `None` where it was not analysed.
    flow: Option<Control<'t>>,
    registers: Option<Vec<Register<'t>>>,
    /// Of a kernel.
    resources: Option<Resources>,
    /// It has errors, so that nothing is known of its control flow.
    broken: bool,
}

/// A control-flow graph.
#[derive(Serialize)]
struct Control<'t> {
    block_count: usize,
    /// By number; none if there are too many.
    blocks: Vec<Block<'t>>,
    branches: Vec<Branch<'t>>,
}

#[derive(Serialize)]
struct Block<'t> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<&'t str>,
    first_line: u32,
    last_line: u32,
    /// The number of instructions.
    count: usize,
    /// Offset and length in the text of those to show: all, or the first and the last ones.
    shown: Vec<u32>,
    /// The block, the condition, and whether it is the back edge of a loop.
    edges: Vec<(u32, Option<String>, bool)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreachable: bool,
}

/// A branch that not all threads of a block take.
#[derive(Serialize)]
struct Branch<'t> {
    /// The number of the block that it ends.
    block: u32,
    line: u32,
    /// `thread` where it parts the threads of a warp, `warp` where only those of different warps.
    parts: &'static str,
    /// From what it reads to what makes that differ: a name, and the line that defines it.
    path: Vec<(&'t str, u32)>,
    /// The block where the threads come together again.
    meets: Option<u32>,
}

/// A graph of more blocks is not drawn: there is nothing to be seen in it.
const MAX_BLOCKS: usize = 1500;

/// The first and the last instructions of a block that are shown.
const SHOWN: (usize, usize) = (6, 4);

pub fn functions<'t>(
    context: &ModuleContext<'_, 't>,
    places: &Places<'t>,
    kinds: &mut Kinds,
    file: &str,
) -> Vec<Function<'t>> {
    let resources = resources(context.module, context.source, file).into_iter();
    let mut resources: HashMap<String, Resources> = resources
        .map(|resources| (resources.kernel.clone(), resources))
        .collect();
    let mut contexts = context.functions().peekable();
    let mut found = Vec::new();
    for item in &context.module.items {
        let Item::Function(function) = item else {
            continue;
        };
        if function.body.is_none() {
            continue;
        }
        let name = function.name.text;
        let analysed = contexts.next_if(|context| context.function.span == function.span);
        let broken = analysed.is_none();
        let analysed = analysed.as_ref();
        found.push(Function {
            name,
            demangled: demangled(name),
            kernel: function.kind == FunctionKind::Entry,
            first_line: places.line(function.span.start),
            last_line: places.line(function.span.end.saturating_sub(1)),
            flow: analysed.and_then(|analysed| control(analysed, places)),
            registers: analysed.and_then(|analysed| registers(analysed, places, kinds)),
            resources: resources.remove(name),
            broken,
        });
    }
    found
}

/// The blocks of the page. Those that only follow one another are one: debuggers' labels part
/// them. The empty one of the entry is left out.
struct Chains {
    /// The first and the last of each.
    all: Vec<(BlockId, BlockId)>,
    /// The chain of each block.
    numbers: Vec<u32>,
}

impl Chains {
    fn new(graph: &Graph) -> Chains {
        let mut all: Vec<(BlockId, BlockId)> = Vec::new();
        let mut numbers = vec![0];
        for index in 1..graph.blocks.len() {
            let id = BlockId(index as u32);
            match all.last_mut() {
                Some((_, last)) if follows(graph, *last, id) => *last = id,
                _ => all.push((id, id)),
            }
            numbers.push(all.len() as u32 - 1);
        }
        Chains { all, numbers }
    }

    fn number(&self, block: BlockId) -> u32 {
        self.numbers[block.index()]
    }
}

/// Whether one block leads to another alone, and nothing else leads there.
fn follows(graph: &Graph, before: BlockId, after: BlockId) -> bool {
    graph.successors(before).eq([after])
        && graph.predecessors(after).eq([before])
        && graph.is_reached(after)
}

fn control<'t>(function: &FunctionContext<'_, 't>, places: &Places<'t>) -> Option<Control<'t>> {
    let flow = function.flow()?;
    let chains = Chains::new(&flow.graph);
    let mut branches: Vec<Branch<'t>> = function
        .divergence()?
        .divergent_branches
        .iter()
        .filter_map(|divergent| branch(function, flow, &chains, divergent, places))
        .collect();
    branches.sort_by_key(|branch| branch.block);
    let all = chains.all.iter();
    Some(Control {
        block_count: chains.all.len(),
        blocks: if chains.all.len() <= MAX_BLOCKS {
            all.map(|(first, last)| block(function, flow, &chains, [*first, *last], places))
                .collect()
        } else {
            Vec::new()
        },
        branches,
    })
}

fn block<'t>(
    function: &FunctionContext<'_, 't>,
    flow: &Flow<'_, 't>,
    chains: &Chains,
    [first, last]: [BlockId; 2],
    places: &Places<'t>,
) -> Block<'t> {
    let Flow {
        instructions,
        graph,
        ..
    } = flow;
    let steps = graph.blocks[first.index()].start..graph.blocks[last.index()].end;
    let count = steps.len();
    let (before, after) = SHOWN;
    let left_out = if count <= before + after {
        count..count
    } else {
        before..count - after
    };
    let all = steps.filter_map(|step| instructions.get(InstructionId(step)));
    let spans: Vec<_> = all.map(|instruction| instruction.span).collect();
    let shown = spans.iter().enumerate();
    let shown = shown.filter(|(index, _)| !left_out.contains(index));
    let shown = shown.flat_map(|(_, span)| {
        let start = places.offset(span.start);
        [start, places.offset(span.end) - start]
    });
    let line = |offset: Option<u32>| offset.map_or(0, |offset| places.line(offset));
    let edges = graph.successors(last).map(|to| {
        let edge = Edge::new(instructions, graph, last, to);
        let guard = edge.guard.map(|(negated, predicate)| {
            let not = if negated { "!" } else { "" };
            format!("{not}{predicate}")
        });
        (chains.number(to), guard, edge.back)
    });
    Block {
        labels: labels(function, instructions, graph, first),
        first_line: line(spans.first().map(|span| span.start)),
        last_line: line(spans.last().map(|span| span.end.saturating_sub(1))),
        count,
        shown: shown.collect(),
        edges: edges.collect(),
        unreachable: !graph.is_reached(first),
    }
}

fn branch<'t>(
    function: &FunctionContext<'_, 't>,
    flow: &Flow<'_, 't>,
    chains: &Chains,
    divergent: &DivergentBranch,
    places: &Places<'t>,
) -> Option<Branch<'t>> {
    let Flow {
        instructions,
        graph,
        values,
    } = flow;
    let divergence = function.divergence()?;
    let last = graph.blocks[divergent.block.index()].steps().next_back()?;
    let step = instructions.steps.get(last.index())?;
    let instruction = instructions.get(last)?;
    let reads: Vec<(RegisterOperand, ValueId)> = values.reads(instructions, step).collect();
    let differs =
        |(_, value): &&(RegisterOperand, ValueId)| divergence.of(*value) > Variance::Block;
    let (slot, value) = *reads.iter().find(differs).or(reads.first())?;
    let mut path = Vec::new();
    match function.carrier(value) {
        Some(carrier) => {
            for id in &carrier.path {
                path.extend(result(function, flow, *id, places));
            }
            path.push((carrier.name, places.line(carrier.span(flow).start)));
        }
        None => path.extend(
            register_name(function, instruction, slot)
                .map(|name| (name, places.line(instruction.span.start))),
        ),
    }
    Some(Branch {
        block: chains.number(divergent.block),
        line: places.line(instruction.span.start),
        parts: match divergent.variance {
            Variance::Thread => "thread",
            Variance::Warp | Variance::Block => "warp",
        },
        path,
        meets: divergent.meets.map(|meets| chains.number(meets)),
    })
}

/// The register that an instruction writes, and its line.
fn result<'t>(
    function: &FunctionContext<'_, 't>,
    flow: &Flow<'_, 't>,
    id: InstructionId,
    places: &Places<'t>,
) -> Option<(&'t str, u32)> {
    let instruction = flow.instructions.get(id)?;
    let step = flow.instructions.steps.get(id.index())?;
    let (slot, _) = flow.values.writes(&flow.instructions, step).next()?;
    let name = register_name(function, instruction, slot)?;
    Some((name, places.line(instruction.span.start)))
}

/// The name of a register operand.
pub fn register_name<'t>(
    function: &FunctionContext<'_, 't>,
    instruction: &Instruction,
    slot: RegisterOperand,
) -> Option<&'t str> {
    match slot.operand {
        RegisterOperand::GUARD => Some(function.body.guard(instruction)?.predicate.text),
        operand => {
            let operand = function.body.operands.get(operand as usize)?;
            Operand::name(operand).map(|name| name.text)
        }
    }
}
